"""How well replayed waits fit recorded ones, and what the pattern of their errors suggests."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gpuplan.analysis.base.time_units import HOUR_S
from gpuplan.analysis.base.words import counted, listed
from gpuplan.planner.twin.workload import SiteWorkload
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray

CLOSE_S = 300.0
CLOSE_SHARE = 0.2
LEAST_GROUP = 20
FAR_OFF = 0.5  # of the mean recorded wait
LEAST_HELD = 0.01  # of the wait from submission
UNITS = (
    (120.0, 1.0, "s"), (7200.0, 60.0, "min"), (172800.0, 3600.0, "h"), (float("inf"), 86400.0, "d")
)  # fmt: skip
"""Below how many seconds, seconds of a unit, the unit."""
RULE_FILES = {
    "qos": "sacctmgr show qos -P", "account": "sacctmgr show assoc -P",
    "event": "sacctmgr show events -P",
}  # fmt: skip
"""Table of settings -> the command whose output has it."""
MOST_REASONS = 4


@dataclass(frozen=True, slots=True)
class WaitScore:
    """Errors of the replayed waits, in seconds; error = replayed - recorded.

    Attributes:
        name: what is scored: a level or a group.
        jobs: scored jobs.
        within: share of jobs with an error of at most 5 minutes or 20% of the recorded wait.
        rank_corr: rank correlation (Spearman) of the waits; None where either is constant.
        mae_s, median_s, p95_s: mean, median and 95th percentile of the absolute error.
        bias_s: mean error.
        mean_rel, p95_rel: relative error of the mean and of the P95 wait; None where it is 0.
        recorded_mean_s, replayed_mean_s: mean waits from eligible to start.
        held_mean_s: mean time from submission to eligible, which no rule changes.
        gpu_use: null for a group.
        by: empty for a group.
    """

    name: str
    jobs: int
    within: float
    rank_corr: float | None
    mae_s: float
    median_s: float
    p95_s: float
    bias_s: float
    mean_rel: float | None
    p95_rel: float | None
    recorded_mean_s: float
    replayed_mean_s: float
    held_mean_s: float = 0.0
    gpu_use: float | None = None
    by: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LevelScore(WaitScore):
    """The score of a set of rules.

    Attributes:
        gpu_use: GPUs in use on average in the replay, over those recorded.
        by: the same scores by group: kind -> scores.
    """

    by: dict[str, list[WaitScore]] = field(default_factory=dict)


def score_waits(
    name: str, recorded: IntArray, replayed: IntArray, held: IntArray | None = None
) -> WaitScore:
    """Return the score of waits in seconds; arrays of one shape (n,), n >= 1.

    Args:
        name: what is scored.
        recorded, replayed: waits from eligible to start.
        held: time from submission to eligible; None for none.
    """
    real, model = recorded.astype(np.float64), replayed.astype(np.float64)
    error = model - real
    size = np.abs(error)
    close = size <= np.maximum(CLOSE_S, CLOSE_SHARE * real)
    p95_real, p95_model = (float(np.percentile(waits, 95)) for waits in (real, model))
    return WaitScore(
        name, int(real.size), float(close.mean()), rank_correlation(real, model),
        float(size.mean()), float(np.median(size)), float(np.percentile(size, 95)),
        float(error.mean()), _relative(float(model.mean()), float(real.mean())),
        _relative(p95_model, p95_real), float(real.mean()), float(model.mean()),
        0.0 if held is None else float(held.mean()),
    )  # fmt: skip


def _relative(replayed: float, recorded: float) -> float | None:
    return (replayed - recorded) / recorded if recorded > 0 else None


def rank_correlation(a: FloatArray, b: FloatArray) -> float | None:
    """Return Spearman's correlation with mean ranks of ties; None where one is constant."""
    x, y = mean_ranks(a), mean_ranks(b)
    x, y = x - x.mean(), y - y.mean()
    norm = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum() / norm) if norm > 0 else None


def mean_ranks(values: FloatArray) -> FloatArray:
    """Return the rank of each value, equal ones sharing their mean rank."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: FloatArray = (last - (counts - 1) / 2)[which.reshape(-1)]
    return ranks


class StartedRun(Protocol):
    """A replay by when jobs start, in their order; shape (n,)."""

    @property
    def start(self) -> IntArray:
        """Second of the start; -1 where it never started."""

    @property
    def wait(self) -> IntArray:
        """Seconds from eligible to start."""


def scored_mask(work: SiteWorkload, run: StartedRun) -> BoolArray:
    """Return the scored jobs that the replay started too."""
    mask: BoolArray = work.scored & (run.start >= 0)
    return mask


def score_run(
    name: str, work: SiteWorkload, run: StartedRun, *, groups: bool = True
) -> LevelScore | None:
    """Return the score of a replay with its groups; None where no scored job started."""
    mask = scored_mask(work, run)
    if not mask.any():
        return None
    recorded, replayed, held = work.recorded_wait, run.wait, work.held
    all_scores = score_waits(name, recorded[mask], replayed[mask], held[mask])
    by: dict[str, list[WaitScore]] = {}
    for kind in work.GROUPS if groups else ():
        names = work.names(kind)
        scores = []
        for group in sorted(set(names[mask])):
            of = mask & (names == group)
            if of.sum() >= LEAST_GROUP:
                scores.append(score_waits(str(group), recorded[of], replayed[of], held[of]))
        by[kind] = scores
    return LevelScore(**asdict(all_scores) | {"gpu_use": gpu_use(work, run), "by": by})


def gpu_use(work: SiteWorkload, run: StartedRun) -> float | None:
    """Return GPU-seconds until the last recorded start, replayed over recorded."""
    jobs, started = work.jobs, work.recorded_start >= 0
    if not started.any():
        return None
    until = int(work.recorded_start.max())
    gpus = jobs.total_gpus

    def used(start: IntArray) -> float:
        ran = np.clip(np.minimum(start + jobs.runtime, until) - start, 0, None)
        return float((ran * gpus)[start >= 0].sum())

    recorded = used(work.recorded_start)
    return used(run.start) / recorded if recorded > 0 else None


def wait_note(work: SiteWorkload) -> str | None:
    """Return how replayed waits relate to waits from submission; None where they are the same."""
    held, waited = work.held[work.scored], work.recorded_wait[work.scored]
    if not held.size or held.mean() < LEAST_HELD * (held + waited).mean():
        return None
    both, of_it = shown_in_one_unit(float((held + waited).mean()), float(waited.mean()))
    return (
        f"from submission the {held.size:,} scored jobs waited {both} on average, {of_it} of it "
        "after they were eligible: only this part is replayed, not dependencies or begin times"
    )


def shown_in_one_unit(*seconds: float) -> tuple[str, ...]:
    """Return durations with the unit that suits the longest of them."""
    most = max(map(abs, seconds))
    size, unit = next((s, u) for limit, s, u in UNITS if most < limit)
    return tuple(f"{round(value / size, 2):.3g} {unit}" for value in seconds)


def advice(
    work: SiteWorkload, run: StartedRun, file_keys: Collection[str] = (), noise_s: float = 0.0
) -> list[str]:
    """Return what to look at next, a sentence per pattern found, the most general first.

    Args:
        file_keys: settings that a file gave, as dotted keys; nobody is sent to look at those.
        noise_s: mean error that ties alone make; a pattern below it is none.
    """
    mask = scored_mask(work, run)
    if mask.sum() < LEAST_GROUP:
        return []
    recorded = work.recorded_wait.astype(np.float64)
    error = run.wait - recorded
    mean = max(float(recorded[mask].mean()), 60.0)
    tables = {key.partition(".")[0] for key in file_keys}
    files = [name for table, name in RULE_FILES.items() if table not in tables]
    missing = f" Give {', '.join(files)}." if files else ""
    said: list[str] = []
    bias = float(error[mask].mean())
    if bias < -max(FAR_OFF * mean, noise_s):
        said.append(
            "Replayed waits are too short overall: a limit or a hold is missing from the settings."
            + missing
        )
    if bias > max(FAR_OFF * mean, noise_s):
        said.append(
            "Replayed waits are too long overall: a limit in the settings did not hold then, or "
            "backfill was better."
            if "node" in tables
            else "Replayed waits are too long overall: the site has more nodes or better backfill."
        )
    for name, off in _off(work.names("partition"), mask, error, mean, noise_s):
        said.append(_partition_advice(name, off, "node" in tables, missing))
    long = mask & (work.jobs.limit > np.percentile(work.jobs.limit[mask], 90))
    if long.sum() >= LEAST_GROUP and abs(float(error[long].mean())) > 2 * max(
        abs(float(error[mask & ~long].mean())), 60.0, noise_s
    ):
        look = "reservations for maintenance" if "backfill.bf_window" in file_keys else "bf_window"
        said.append(f"Jobs with long limits are off more than others: check {look}.")
    for name, off in _off(work.names("user"), mask, error, mean, noise_s)[:3]:
        if off < 0:
            look = "limits or holds that no file shows" if "account" in tables else "MaxJobs"
            early = shown_in_one_unit(-off)[0]
            said.append(f"Jobs of user {name} start {early} early in the replay: check {look}.")
    late = mask & (recorded > HOUR_S)
    if late.sum() >= LEAST_GROUP:
        rest = recorded[late] % HOUR_S
        near = (np.minimum(rest, HOUR_S - rest) < 60).mean()
        if near > 0.2:
            said.append(
                f"{near:.0%} of the waits over an hour are whole hours: look for a reservation "
                "or a day and night rule."
            )
    return said


def _partition_advice(name: str, off_s: float, has_nodes: bool, missing: str) -> str:
    """Return what to look at where the waits in a partition are off by a mean of some seconds."""
    how = f"{shown_in_one_unit(abs(off_s))[0]} too {'long' if off_s > 0 else 'short'}"
    begin = f"Replayed waits in partition {name} are {how}"
    if not has_nodes:
        return f"{begin}: check its nodes, which are inferred."
    if off_s > 0:
        return f"{begin}: look for a limit on its jobs in the settings that did not hold then."
    return f"{begin}: look for a limit, a reservation or drained nodes of its own.{missing}"


def _off(
    groups: NDArray[np.object_], mask: BoolArray, error: FloatArray, mean: float, noise_s: float
) -> list[tuple[str, float]]:
    """Return the groups whose mean error is far from that of the rest, the worst first."""
    kinds = sorted(set(groups[mask]))
    far: list[tuple[str, float]] = []
    for name in kinds if len(kinds) > 1 else []:
        of = mask & (groups == name)
        if of.sum() < LEAST_GROUP or of.sum() == mask.sum():
            continue
        here, rest = float(error[of].mean()), float(error[mask & ~of].mean())
        if abs(here) > max(mean, noise_s, 3 * abs(rest)):
            far.append((str(name), here))
    return sorted(far, key=lambda item: -abs(item[1]))


def first_started(work: SiteWorkload) -> BoolArray:
    """Return the first runs of the jobs that started; shape (n,)."""
    first = np.zeros(work.recorded_start.size, np.bool_)
    first[np.unique(np.array(work.job_ids, object).astype(str), return_index=True)[1]] = True
    started: BoolArray = first & (work.recorded_start >= 0)
    return started


def left_out_notes(work: SiteWorkload, shown: BoolArray | None = None) -> tuple[str, ...]:
    """Return which waits a study of a site shows, and what those of all jobs were.

    Args:
        shown: the jobs whose waits are shown; None for the scored ones.

    Returns:
        A sentence; none where waits are of all jobs that started, from submission.
    """
    shown = work.scored if shown is None else shown
    every = first_started(work)
    rest = every & ~shown
    if not shown.any() or not (rest.any() or work.held[shown].any()):
        return ()
    in_warmup = int((rest & (work.jobs.submit < work.warmup_until)).sum())
    other = int(rest.sum()) - in_warmup
    reasons = [f"{in_warmup:,} that warm the replay up"] if in_warmup else []
    reasons += [f"{other:,} that its rules do not explain"] if other else []
    waited = work.recorded_wait + work.held
    here, all_jobs = shown_in_one_unit(
        float(np.percentile(work.recorded_wait[shown], 95)), float(np.percentile(waited[every], 95))
    )
    without = f", without {listed(reasons, MOST_REASONS)}" if reasons else ""
    return (
        f"waits here are from when a job is eligible, of {counted(int(shown.sum()), 'job')}"
        f"{without}: P95 {here} in the log; from submission, of all {int(every.sum()):,} jobs that "
        f"started, {all_jobs} (gpuplan waits)",
    )
