"""Whether a model may speak: a replay of today beside the waits that the log recorded.

A study that recommends a size, a policy or a plan first replays the same jobs on today's cluster.
Where the mean or the P95 wait is far from the log's, something else than GPUs and this policy makes
jobs wait, and what the model says about other sizes or policies would be wrong with confidence.

Waits are from submission to the first start, as in all answers, of the jobs that the study replays:
jobs that never started have no recorded wait, and jobs still running are replayed where the study
replays them.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.job_table.schema import SYNTHETIC, Provenance
from gpuplan.analysis.trace.selection import Selection
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.runs.recorded_waits import (
    FEWEST_JOBS,
    FEWEST_OF_A_PART,
    LEAST_GAP_S,
    MOST_TIMES,
    WaitMatch,
    WaitPairs,
    are_close,
    paired_waits,
)
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.runs.whole_gpus import MATTERS_TIMES, times_rounded
from gpuplan.planner.sized_policy import sized_policy
from gpuplan.simkit.time import MICROS
from gpuplan.simkit.workload import Workload

AGREES, CONTRADICTS, UNKNOWN = ("agrees", "contradicts", "unknown")
TWIN = "twin"
"""The policy that replays the rules of a Slurm site."""
SITE_RULES = "the site's rules"
MOST_LIMITED = 0.2
"""Share of the wait that a log may put down to limits where a model has none."""
NO_WAITS = "the log records no waits"
LIMITS = "limits, partitions or another order of the queue make jobs wait"
BESIDE_RULES = "dependencies, begin times or rules that the settings lack make jobs wait"
QUOTAS = "quotas, limits or another order of the queue make jobs wait"
NOT_REPLAYED = "nothing was replayed"
TOO_FEW = f"fewer than {FEWEST_JOBS} jobs have a recorded wait"

SETTLED_ONLY = " once the replay, which begins with an empty cluster, has warmed up"


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How a replay of today compares with the log.

    Attributes:
        verdict: ``agrees``; ``contradicts``: nothing is recommended; ``unknown``: not checked.
        why: the reason, in words.
        policy: that was replayed, or the rules of the site; null where nothing was.
        cluster_gpus: of today's cluster as replayed; null where nothing was.
        jobs: whose waits count; 0 where nothing was replayed.
        replayed_mean_wait_s, recorded_mean_wait_s: mean waits of these jobs, in seconds.
        replayed_p95_wait_s, recorded_p95_wait_s: 95th percentiles.
        gpu_type: whose jobs these are, where they are not all.
    """

    verdict: str
    why: str
    policy: str | None = None
    cluster_gpus: int | None = None
    jobs: int = 0
    replayed_mean_wait_s: float | None = None
    recorded_mean_wait_s: float | None = None
    replayed_p95_wait_s: float | None = None
    recorded_p95_wait_s: float | None = None
    gpu_type: Hidden[str] = ""

    @property
    def cause(self) -> str:
        """The reason without whose jobs it is of."""
        return self.why.removesuffix(_jobs_on(self.gpu_type))

    @property
    def may_speak(self) -> bool:
        """Whether a study may recommend: nothing contradicts it."""
        return self.verdict != CONTRADICTS


@dataclass(frozen=True, slots=True)
class TodayReplay:
    """A replay of today.

    Attributes:
        policy: that was replayed, or the rules of the site.
        cluster_gpus: of the cluster.
        match: its waits and the log's; None for too few jobs.
        peak_gpus: most GPUs that the log shows held at once; None where unknown.
        is_part: whether the log has jobs on this cluster that are not replayed.
    """

    policy: str
    cluster_gpus: int
    match: WaitMatch | None
    peak_gpus: float | None = None
    is_part: bool = False


def unknown(why: str) -> Fidelity:
    """Return that nothing was replayed, and why."""
    return Fidelity(UNKNOWN, why)


def replay_today(
    jobs: TraceJobs,
    policy: PolicySpec,
    gpus: int,
    gpus_per_node: int | None,
    rng: np.random.Generator,
) -> WaitPairs:
    """Replay jobs on today's cluster; nothing is replayed where too few have recorded waits.

    Args:
        jobs: of the log, none of them wider than the cluster.
        policy: with its settings, but for its size.
        gpus: of today's cluster.
        gpus_per_node: of a node; None where nodes do not matter.
        rng: random values come from a copy.

    Raises:
        UsageError: settings that no run can have, or a job that the policy cannot run.
    """
    counted = paired_waits(jobs, np.zeros(jobs.workload.size))
    if counted.summary() is None:
        return counted
    return replayed_waits(jobs, policy, gpus, gpus_per_node, rng)


def replayed_waits(
    jobs: TraceJobs,
    policy: PolicySpec,
    gpus: int,
    gpus_per_node: int | None,
    rng: np.random.Generator,
) -> WaitPairs:
    """Replay jobs on today's cluster, however few; as `replay_today`."""
    run = sized_policy(policy, gpus, gpus_per_node, "--cluster").run(
        jobs, deepcopy(rng), is_alone=True
    )
    return paired_waits(jobs, run.run.waited_us / MICROS)


def fidelity_of(today: TodayReplay) -> Fidelity:
    """Return what a replay of today says about the model; each GPU type has to stand alone."""
    match = today.match
    if match is None:
        return unknown(TOO_FEW)
    of_all_jobs = _judged(today, match)
    return least_faithful(of_all_jobs, [(name, _judged(today, part)) for name, part in match.types])


def without_limits(fidelity: Fidelity, limit_share: float | None) -> Fidelity:
    """Return the fidelity of a model without limits, where the log itself names limits.

    A replay whose waits are the log's by chance still has the wrong jobs wait, and for GPUs.

    Args:
        fidelity: by the waits.
        limit_share: share of the wait whose recorded reason is a limit; None where unknown.
    """
    if fidelity.verdict != AGREES or limit_share is None or limit_share <= MOST_LIMITED:
        return fidelity
    why = (
        f"your log names limits of users, accounts or QOS for {limit_share:.0%} of the wait, and "
        f"{fidelity.policy} has none"
    )
    return replace(fidelity, verdict=CONTRADICTS, why=why)


def of_whole_gpus(fidelity: Fidelity, workload: Workload) -> Fidelity:
    """Return the fidelity of a replay that waits longer because it gives whole GPUs for parts.

    Args:
        fidelity: by the waits.
        workload: the jobs that were replayed.
    """
    is_longer = (fidelity.replayed_mean_wait_s or 0.0) > (fidelity.recorded_mean_wait_s or 0.0)
    times = times_rounded(workload)
    if fidelity.may_speak or not is_longer or times < MATTERS_TIMES:
        return fidelity
    why = (
        "many of its jobs hold parts of GPUs, and the replay gives each job whole ones, "
        f"{times:.2g} times the GPU-hours"
    )
    return replace(fidelity, why=why)


def named_for(fidelity: Fidelity, *, has_partitions: bool) -> Fidelity:
    """Return the fidelity with what makes jobs wait as the scheduler of a log calls it.

    Args:
        fidelity: in the words of Slurm.
        has_partitions: whether it has them; Kubernetes has quotas instead.
    """
    if has_partitions:
        return fidelity
    return replace(fidelity, why=fidelity.why.replace(LIMITS, QUOTAS))


def _judged(today: TodayReplay, match: WaitMatch) -> Fidelity:
    return Fidelity(
        verdict=AGREES if match.agrees else CONTRADICTS,
        why=_reason(today, match),
        policy=today.policy,
        cluster_gpus=today.cluster_gpus,
        jobs=match.jobs,
        replayed_mean_wait_s=match.replayed_mean_wait_s,
        recorded_mean_wait_s=match.recorded_mean_wait_s,
        replayed_p95_wait_s=match.replayed_p95_wait_s,
        recorded_p95_wait_s=match.recorded_p95_wait_s,
    )


def _reason(today: TodayReplay, match: WaitMatch) -> str:
    """Return why a replay agrees, or what may be behind the difference."""
    if match.agrees:
        is_late = not (are_close(*match.mean) and are_close(*match.p95))
        return (
            f"mean and P95 wait are within {MOST_TIMES:g} times or {LEAST_GAP_S / 60:g} minutes of "
            f"the log{SETTLED_ONLY if is_late else ''}"
        )
    replayed_s, recorded_s = match.mean if are_close(*match.p95) else match.p95
    if replayed_s < recorded_s:
        left_out = ", or the jobs that --where leaves out" if today.is_part else ""
        cause = BESIDE_RULES if today.policy == TWIN else f"{LIMITS}, not only GPUs"
        return f"{cause}{left_out}"
    if today.peak_gpus is not None and today.peak_gpus > today.cluster_gpus:
        return f"the log shows {today.peak_gpus:,.0f} GPUs held at once, more than this cluster has"
    return f"the site starts jobs sooner than {today.policy} does"


def least_faithful(of_all_jobs: Fidelity, parts: Sequence[tuple[str, Fidelity]]) -> Fidelity:
    """Return the fidelity of all jobs, or that of the first GPU type that contradicts it.

    Errors of two types can cancel. Types with few jobs do not count.

    Args:
        of_all_jobs: of all jobs.
        parts: name and fidelity of each GPU type.
    """
    if of_all_jobs.verdict != AGREES:
        return of_all_jobs
    for name, part in parts:
        if not part.may_speak and part.jobs >= FEWEST_OF_A_PART:
            return replace(part, why=f"{part.why}{_jobs_on(name)}", gpu_type=name)
    return of_all_jobs


def _jobs_on(gpu_type: str) -> str:
    return f" (jobs on {gpu_type})" if gpu_type else ""


def why_not_today(selection: Selection, provenance: Provenance) -> str:
    """Return why a log cannot be replayed as it was; empty where it can.

    Args:
        selection: which of its jobs are used, and how they are scaled.
    """
    if provenance.source_format == SYNTHETIC:
        return "it is synthetic, its waits are sampled, and no scheduler made them"
    options = {
        "--sample": selection.sample is not None,
        "--scale-duration": selection.scale_duration != 1,
        "--scale-interarrival": selection.scale_interarrival != 1,
    }
    changed = [option for option, is_set in options.items() if is_set]
    return f"{' and '.join(changed)} changed the jobs" if changed else ""
