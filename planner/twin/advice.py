"""What the pattern of a replay's errors suggests; one sentence per pattern that is found."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuplan.planner.twin.score import LEAST_GROUP, scored_mask
from gpuplan.planner.twin.workload import SiteWorkload
from gpuplan.simkit.arrays import BoolArray, FloatArray
from gpuplan.simkit.twin.simulator import SiteRun

FAR_OFF = 0.5  # of the mean recorded wait
HOUR_S = 3600.0


def advice(work: SiteWorkload, run: SiteRun) -> list[str]:
    """Return what to look at next, the most general first."""
    mask = scored_mask(work, run)
    if mask.sum() < LEAST_GROUP:
        return []
    recorded = work.recorded_wait.astype(np.float64)
    error = run.wait - recorded
    mean = max(float(recorded[mask].mean()), 60.0)
    found = []
    if error[mask].mean() < -FAR_OFF * mean:
        found.append(
            "Replayed waits are too short overall: a limit or a hold is missing from the settings."
        )
    if error[mask].mean() > FAR_OFF * mean:
        found.append(
            "Replayed waits are too long overall: the site has more nodes or better backfill."
        )
    for name, off in _off(work.names("partition"), mask, error, mean):
        found.append(f"Partition {name} is off by {off / 60:+,.0f} min: check its nodes.")
    long = mask & (work.jobs.limit > np.percentile(work.jobs.limit[mask], 90))
    if long.sum() >= LEAST_GROUP and abs(float(error[long].mean())) > 2 * max(
        abs(float(error[mask & ~long].mean())), 60.0
    ):
        found.append("Jobs with long limits are off more than others: check bf_window.")
    for name, off in _off(work.names("user"), mask, error, mean)[:3]:
        if off < 0:
            found.append(f"Jobs of user {name} start {-off / 60:,.0f} min early: check MaxJobs.")
    late = mask & (recorded > HOUR_S)
    if late.sum() >= LEAST_GROUP:
        rest = recorded[late] % HOUR_S
        near = (np.minimum(rest, HOUR_S - rest) < 60).mean()
        if near > 0.2:
            found.append(
                f"{near:.0%} of the waits over an hour are whole hours: look for a reservation "
                "or a day and night rule."
            )
    return found


def _off(
    groups: NDArray[np.object_], mask: BoolArray, error: FloatArray, mean: float
) -> list[tuple[str, float]]:
    """Return the groups whose mean error is far from that of the rest, the worst first."""
    kinds = sorted(set(groups[mask]))
    found = []
    for name in kinds if len(kinds) > 1 else []:
        of = mask & (groups == name)
        if of.sum() < LEAST_GROUP or of.sum() == mask.sum():
            continue
        here, rest = float(error[of].mean()), float(error[mask & ~of].mean())
        if abs(here) > mean and abs(here) > 3 * abs(rest):
            found.append((str(name), here))
    return sorted(found, key=lambda item: -abs(item[1]))
