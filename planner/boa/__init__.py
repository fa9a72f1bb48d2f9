"""Budget-optimal allocation: the exact frontier of GPU budget against mean completion time.

Source: "Budget-Optimal Allocation" (BOA), the problem of renting GPUs for a stream of training
jobs with sublinear speedup; docs/boa.md states the program and how it is solved here.
"""
