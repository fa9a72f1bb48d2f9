"""Candidate widths of a class: requested, in steps of a node, or suggested by its curve."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.speedup.model import ClassProfile, SpeedupModel
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.limits import DEFAULT_MAX_WIDTH

MOST_WIDTHS = 10_000  # more take long, and a wider law or curve is more likely a slip


def within_cluster(
    choices: ClassOptions, speedup: SpeedupModel, cluster: RentedCluster | None
) -> ClassOptions:
    """Return choices in which no job gets more GPUs than can be rented."""
    if cluster is None or cluster.max_gpus is None:
        return choices
    room = cluster.max_gpus // cluster.node_gpus * cluster.node_gpus
    usual = DEFAULT_MAX_WIDTH if speedup.law is not None else room
    return replace(
        choices,
        max_width=min(choices.max_width or usual, room),
        limits={name: min(gpus, room) for name, gpus in choices.limits.items()},
    )


def candidate_widths(profile: ClassProfile, choices: ClassOptions, job_class: str) -> FloatArray:
    """Return the candidate widths of a class: those requested, or those its epochs suggest.

    All are at least the least measured width of every epoch: the job may not fit on fewer GPUs.

    Raises:
        UsageError: no width is left, or there are more than `MOST_WIDTHS`.
    """
    most = choices.most_gpus(job_class)
    if choices.widths is None:
        widest = max(min(epoch.widest, most or epoch.widest) for epoch in profile.epochs)
        if np.isfinite(widest) and widest > MOST_WIDTHS:
            option, limit_hint = "--max-width", f"--max-width {MOST_WIDTHS}"
            if job_class in choices.limits:
                option, limit_hint = (
                    f"--limit {job_class}={most}",
                    f"--limit {job_class}={MOST_WIDTHS}",
                )
            raise UsageError(
                f"{option}: every width up to {widest:,.0f} GPUs is too many to try\n"
                f"  next: {limit_hint} at most, or --widths with those that may be had"
            )
        each = [epoch.candidates(most) for epoch in profile.epochs]
        widths = _measured(np.unique(np.concatenate(each)), profile, choices, job_class)
        if choices.width_step is None:
            return widths
        return _multiples(widths, choices.width_step, profile, most, job_class)
    widths = np.unique(np.array(choices.widths, dtype=np.float64))
    widths = widths[widths <= (most or float("inf"))]
    if not widths.size:
        raise UsageError(f"--widths: none is left for {job_class!r} within its {most} GPUs at most")
    return _measured(widths, profile, choices, job_class)


def _measured(
    widths: FloatArray, profile: ClassProfile, choices: ClassOptions, job_class: str
) -> FloatArray:
    """Return the widths that are not below the least measured one. Raises if none is left."""
    left = widths[widths >= profile.narrowest]
    if left.size:
        return left
    needs = f"the speedup of {job_class!r} was measured from {profile.narrowest:g} GPUs up"
    if choices.widths is not None:
        requested = ",".join(map(str, choices.widths))
        raise UsageError(
            f"--widths {requested}: {needs}, and fewer are not planned\n"
            f"  next: add a width of {profile.narrowest:g} GPUs or more, or measure it on fewer"
        )
    raise UsageError(
        f"a job of {job_class!r} may get {choices.most_gpus(job_class):g} GPUs at most, but "
        f"{needs}, and fewer are not planned\n  next: allow it {profile.narrowest:g} GPUs or more "
        "(--max-width, --limit, --max-gpus), or measure it on fewer"
    )


def _multiples(
    widths: FloatArray, step: int, profile: ClassProfile, most: int | None, job_class: str
) -> FloatArray:
    """Return the multiples of ``step`` among some widths, and the first that covers them all.

    The last may be wider than the measurements, where the speedup is flat; laws have no such end.
    """
    top = most or (float("inf") if np.isfinite(profile.widest) else float(widths[-1]))
    multiples: FloatArray = np.arange(step, widths[-1] + step, step, dtype=np.float64)
    multiples = multiples[(multiples >= widths[0]) & (multiples <= top)]
    if not multiples.size:
        raise UsageError(
            f"--width-step {step}: a job of {job_class!r} may get {top:g} GPUs at most\n"
            "  next: a smaller step, or a larger --limit or --max-width"
        )
    return multiples


def bounded(
    job_class: JobClass, profile: ClassProfile, gpus: FloatArray, slower: float
) -> JobClass:
    """Return the class with a bound on its run times over those on these GPUs."""
    held = np.unique(gpus)
    fastest = np.array([epoch.at(held).max() for epoch in profile.epochs])
    return replace(job_class, recorded_speedup=fastest, slower=slower)
