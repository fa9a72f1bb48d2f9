"""The reference of a sweep: one replay of any policy, such as today's scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.statistics.bootstrap import Blocks, interval
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.runs.simulation import PolicyResults
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.sweep.result_types import AgainstConfidence, AgainstResults
from gpuplan.planner.sweep.scenario import Judged, SweepPoint
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.time import HOUR_S


@dataclass(frozen=True, slots=True)
class ReferenceRun(Judged):
    """The replay of the jobs of a sweep under another policy.

    Attributes:
        label, policy: of the `PolicySpec`.
        settings: the effective value of every setting.
        results: the results of `gpuplan compare`, in the same form.
        resampled: bills (US dollars) and mean completion times (seconds) over resamples of the
            trace, each of shape (resamples,); None if not requested.
        warnings: caveats for the reader.
        timeline: of `gpuplan.planner.runs.simulation.Simulation`; None if not requested.
    """

    label: str
    policy: str
    settings: Mapping[str, Any]
    results: Mapping[str, Any]
    resampled: tuple[FloatArray, FloatArray] | None
    warnings: tuple[str, ...]
    timeline: pl.DataFrame | None = field(default=None, compare=False)


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
        label=spec.label,
        policy=spec.policy,
        settings=run.settings,
        results={one.name: run.results[one.name] for one in fields(PolicyResults)},
        resampled=resampled,
        warnings=tuple(f"{spec.label}: {warning}" for warning in run.warnings),
        timeline=run.timeline() if timelines else None,
    )


@dataclass(frozen=True, slots=True)
class Against:
    """The recommended point vs. the reference.

    Attributes:
        saving_usd: the savings.
        saving_share: the same over the cost of the reference; None if that is 0.
        mean_jct_change_s: its mean completion time minus the reference's; negative if faster.
        net_saving_usd: the saving minus the value of that change; None without a value of time.
        level: confidence of the intervals, percent; None if not requested.
        usd, share, change_s: intervals of the first three; None without resamples.
    """

    saving_usd: float
    saving_share: float | None
    mean_jct_change_s: float
    net_saving_usd: float | None
    level: float | None = None
    usd: tuple[float, float] | None = None
    share: tuple[float, float] | None = None
    change_s: tuple[float, float] | None = None

    def results(self) -> AgainstResults:
        """Return the numbers as JSON has them."""
        confidence = None
        if self.level is not None:
            confidence = AgainstConfidence(self.level, self.usd, self.share, self.change_s)
        return AgainstResults(
            saving_usd=self.saving_usd,
            saving_share=self.saving_share,
            mean_jct_change_s=self.mean_jct_change_s,
            net_saving_usd=self.net_saving_usd,
            confidence=confidence,
        )


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
        net = saving - value_of_time * reference_run.results["jobs"] * change_s / HOUR_S
    share = saving / reference_run.cost_usd if reference_run.cost_usd else None
    if level is None or point.resampled is None or reference_run.resampled is None:
        return Against(saving, share, change_s, net)
    whole, jct_s = reference_run.resampled
    less = whole - point.resampled.cost_usd
    shares = np.divide(less, whole, out=np.full(whole.size, np.nan), where=whole > 0)
    return Against(
        *(saving, share, change_s, net, level),
        usd=interval(less, level, blocks),
        share=interval(shares, level, blocks),
        change_s=interval(point.resampled.mean_jct_s - jct_s, level, blocks),
    )
