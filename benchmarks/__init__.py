"""Benchmarks of the speed bars; every ratio is taken in one run (``make bench``)."""
