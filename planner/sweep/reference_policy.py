"""The reference of a sweep: one replay of any policy, such as today's scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.base.plain import Hidden, Inlined
from gpuplan.analysis.statistics.bootstrap import Blocks, interval
from gpuplan.planner.compare import PolicyIdentity, PolicySpec
from gpuplan.planner.runs.simulation import PolicyResults
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.sweep.scenario import Judged, SweepPoint
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.time import HOUR_S

COMMON = tuple(member.name for member in fields(PolicyResults))
"""What every policy measures."""


@dataclass(frozen=True, slots=True)
class ReferenceRun(Judged):
    """The replay of the jobs of a sweep under another policy, that of ``--against``.

    Attributes:
        identity: of the `PolicySpec`.
        results: those of `gpuplan compare`.
        settings: the effective value of every setting.
        resampled: bills (US dollars) and mean completion times (seconds) over resamples of the
            trace, each of shape (resamples,); None if not requested.
        warnings: caveats for the reader.
        timeline: of `gpuplan.planner.runs.simulation.Simulation`; None if not requested.
    """

    identity: Inlined[PolicyIdentity]
    results: Inlined[PolicyResults]
    settings: Hidden[Mapping[str, Any]]
    resampled: Hidden[tuple[FloatArray, FloatArray] | None]
    warnings: Hidden[tuple[str, ...]]
    timeline: Hidden[pl.DataFrame | None] = field(default=None, compare=False)

    @property
    def label(self) -> str:
        """What tables call it."""
        return self.identity.label

    @property
    def policy(self) -> str:
        """The name of its policy."""
        return self.identity.policy


def replay_reference(
    spec: PolicySpec,
    jobs: TraceJobs,
    rng: np.random.Generator,
    blocks: Blocks | None,
    timelines: bool = False,
) -> ReferenceRun:
    """Replay jobs under a policy and sum up cost and time of each resample.

    Random numbers come from a copy of ``rng``, which does not change.

    Raises:
        UsageError: settings that no run can have, or a job that the policy cannot run.
    """
    run = spec.run(jobs, deepcopy(rng))
    resampled = None
    if blocks is not None:
        frame = run.frame
        usd, jct_s = (frame[name].to_numpy() for name in ("cost_usd", "jct_s"))
        resampled = blocks.sums(usd), blocks.sums(jct_s) / blocks.size
    return ReferenceRun(
        identity=PolicyIdentity(name=spec.label, label=spec.label, policy=spec.policy),
        results=PolicyResults(**{name: run.results[name] for name in COMMON}),
        settings=run.settings,
        resampled=resampled,
        warnings=tuple(f"{spec.label}: {warning}" for warning in run.warnings),
        timeline=run.timeline() if timelines else None,
    )


@dataclass(frozen=True, slots=True)
class AgainstConfidence:
    """Confidence intervals of the savings vs. the reference; null where there are too few jobs.

    Attributes:
        level_percent: confidence.
        saving_usd, saving_share, mean_jct_change_s: low and high end.
    """

    level_percent: float
    saving_usd: tuple[float, float] | None
    saving_share: tuple[float, float] | None
    mean_jct_change_s: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Against:
    """A choice vs. the reference.

    Attributes:
        saving_usd: the savings.
        saving_share: over the cost of the reference; null if that is 0.
        mean_jct_change_s: mean completion time less that of the reference; negative if faster.
        net_saving_usd: the saving less the value of that change; null without a value of time.
        confidence: null without resamples.
    """

    saving_usd: float
    saving_share: float | None
    mean_jct_change_s: float
    net_saving_usd: float | None
    confidence: AgainstConfidence | None = None


def set_against(
    point: SweepPoint,
    reference_run: ReferenceRun,
    value_of_time: float | None,
    level: float | None,
    blocks: int = 0,
) -> Against:
    """Return the savings of a point vs. the reference, and their confidence.

    Args:
        point: the recommended point.
        reference_run: replayed with the same resamples.
        value_of_time: US dollars per hour of one job; None for none.
        level: percent of the intervals; None for none.
        blocks: in a resample.
    """
    saving = reference_run.cost_usd - point.cost_usd
    change_s = point.mean_jct_s - reference_run.mean_jct_s
    net = None
    if value_of_time is not None:
        net = saving - value_of_time * reference_run.results.jobs * change_s / HOUR_S
    share = saving / reference_run.cost_usd if reference_run.cost_usd else None
    if level is None or point.resampled is None or reference_run.resampled is None:
        return Against(saving, share, change_s, net)
    reference_usd, jct_s = reference_run.resampled
    less = reference_usd - point.resampled.cost_usd
    shares = np.divide(
        less, reference_usd, out=np.full(reference_usd.size, np.nan), where=reference_usd > 0
    )
    confidence = AgainstConfidence(
        level_percent=level,
        saving_usd=interval(less, level, blocks),
        saving_share=interval(shares, level, blocks),
        mean_jct_change_s=interval(point.resampled.mean_jct_s - jct_s, level, blocks),
    )
    return Against(saving, share, change_s, net, confidence)
