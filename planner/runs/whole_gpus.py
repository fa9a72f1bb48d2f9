"""Whole GPUs in replays for jobs that hold parts of one: what that adds to the load."""

from __future__ import annotations

import numpy as np

from gpuplan.analysis.base.words import counted
from gpuplan.simkit.workload import Workload

MATTERS_TIMES = 1.1
"""Whole GPUs for parts are worth a word from so many times the GPU-hours on."""


def times_rounded(workload: Workload) -> float:
    """Return the GPU time of jobs on whole GPUs over that on the parts that they hold; >= 1."""
    held_us = float((workload.billed_gpus * workload.service_us).sum())
    whole_us = float(workload.gpus.astype(np.float64) @ workload.service_us)
    return whole_us / held_us if held_us else 1.0


def whole_gpus_note(workload: Workload) -> tuple[str, ...]:
    """Return that jobs hold parts of GPUs and whole ones are replayed, where it matters."""
    times = times_rounded(workload)
    if times < MATTERS_TIMES:
        return ()
    count = int(np.count_nonzero(workload.billed_gpus < workload.gpus))
    hold, them = ("holds", "it") if count == 1 else ("hold", "them")
    return (
        f"{counted(count, 'job')} {hold} parts of GPUs, and replays give {them} whole ones: "
        f"{times:.2g} times the GPU-hours (only policies that lend GPUs, such as gfs and fgd, "
        "place parts)",
    )
