"""Limits of what a simulator takes."""

MOST_GPUS = 1 << 24
"""GPUs of a run: their state takes about 1 GB."""
