"""Uncertainty of a frontier: bootstrap bands, wrong speedups, bursts, other laws."""
