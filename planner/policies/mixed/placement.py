"""Hosts of gangs of one GPU type: gangs stay where they are, and come together when GPUs are freed.

Gangs that paused get their old hosts where these are free, then the rest is placed. In both steps
data and tensor parallel gangs come before pipelines, wide ones first, then by id.

Source: FFT (Fast and Fair Training), placement.
"""

from __future__ import annotations

import numpy as np

from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.rounds.hosts import put_on_hosts


def place(
    width: IntArray,
    before: IntArray,
    stays: BoolArray,
    was_here: BoolArray,
    *,
    each: int,
    is_pipeline: BoolArray,
    state_gb: FloatArray,
    consolidates: bool,
) -> IntArray:
    """Return GPUs on each host of the jobs that run on one type, in the order of their ids.

    Args:
        width: GPUs of each job; shape (m,).
        before: GPUs on each host of the type when it last ran; shape (m, H).
        stays: whether it ran on this type in the last round.
        was_here: whether it last ran on this type.
        each: GPUs of a host.
        is_pipeline, state_gb: of `RatedJobs`.
        consolidates: whether spread gangs move to fewer hosts where they can.
    """
    widest = np.lexsort((np.arange(width.size), -width, is_pipeline))
    lightest = np.argsort(state_gb, kind="stable")
    found: IntArray = put_on_hosts(
        width, before, stays, was_here, widest, lightest, ~is_pipeline & consolidates, each
    )
    return found
