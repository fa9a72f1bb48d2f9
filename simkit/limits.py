"""Limits of what a simulator takes."""

MOST_GPUS = 1 << 24
"""GPUs of a run: their state takes about 1 GB."""
DEFAULT_MAX_WIDTH = 64
"""GPUs of a job at most, where neither its table nor an option says."""
