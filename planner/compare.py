"""Several policies on one trace: the same jobs, deadlines, start-up times and prices for all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import plain
from gpuplan.planner.engine import THREADS, Engine
from gpuplan.planner.parallel import run_all
from gpuplan.planner.policies.quota_settings import has_quotas
from gpuplan.planner.policies.spot.settings import lends
from gpuplan.planner.policy_results import MeasuredResults, policy_results
from gpuplan.planner.registry import find_policy
from gpuplan.planner.runs.panels import TimeLines, stacked
from gpuplan.planner.runs.recorded_waits import WaitMatch, paired_waits
from gpuplan.planner.runs.settings import SettingError
from gpuplan.planner.runs.simulation import Simulation, results_as
from gpuplan.planner.runs.ties import by_cost, fastest_of, non_dominated, same_cost, same_times
from gpuplan.planner.runs.trace_jobs import TraceJobs, replay_bytes
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.cluster_shape import ClusterShape
from gpuplan.simkit.time import MICROS

LOG = logging.getLogger("gpuplan")


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """A policy with settings.

    Attributes:
        label: its name in the comparison; no other has it.
        policy: name in `gpuplan.planner.registry.POLICIES`.
        settings: what is set of the policy's settings; a cluster may be a text such as ``50x8``.
        option_of: setting -> the option that set it, for messages about errors.
        name: what was typed; empty for the label.
    """

    label: str
    policy: str
    settings: Mapping[str, Any]
    option_of: Mapping[str, str] = field(default_factory=dict, compare=False)
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        shape = self.settings.get("cluster")
        if isinstance(shape, str):
            try:
                read = ClusterShape.parse(shape)
            except ValueError as error:
                raise UsageError(f"cluster {shape!r}: {error}") from error
            object.__setattr__(self, "settings", {**self.settings, "cluster": read})

    @property
    def gpu_type(self) -> str | None:
        """The only GPU type of its cluster; None where none is named, or several are."""
        shape = self.settings.get("cluster")
        types: Sequence[str] = () if shape is None else shape.gpu_types
        return types[0] if len(types) == 1 else None

    def effective(self) -> dict[str, Any]:
        """Return the value of every setting, as set or as it is by default."""
        return {**find_policy(self.policy).defaults(), **self.settings}

    def run(
        self, jobs: TraceJobs, rng: np.random.Generator, *, is_alone: bool = False
    ) -> Simulation:
        """Replay jobs; random values come from ``rng``.

        Raises:
            UsageError: settings that no run can have, or a job that the policy cannot run; see
                `blamed`.
        """
        with self.blamed(is_alone=is_alone):
            return find_policy(self.policy).run(jobs, self.settings, rng)

    @contextmanager
    def blamed(self, *, is_alone: bool) -> Iterator[None]:
        """Name the options behind errors of settings, and the label if there are several."""
        try:
            yield
        except SettingError as error:
            raise error.given_as(self.option_of, "" if is_alone else self.label) from error


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """What one policy made of the trace.

    Attributes:
        label, name, policy: of the `PolicySpec`; settings: the effective value of every setting.
        results: the headline numbers.
        jct_s: job completion times, ascending; shape (n,).
        warnings: what a reader must know, of the simulation.
        timeline: of `gpuplan.planner.runs.simulation.Simulation`; None where not requested.
        lines: what its picture shows over time, of a policy that lends GPUs; None of others.
        ftf: finish-time fairness of the jobs, ascending; None where the policy does not measure it.
        simulation: the replay itself, where it is kept.
        match: its waits and those of the log; None where the log has too few.
        loop, gpus_by_type, site_gpus: as `gpuplan.planner.runs.simulation.Simulation` has them.
    """

    label: str
    policy: str
    settings: Mapping[str, Any]
    results: MeasuredResults
    jct_s: FloatArray
    warnings: tuple[str, ...]
    timeline: pl.DataFrame | None = field(default=None, compare=False)
    name: str = ""
    lines: TimeLines | None = field(default=None, compare=False)
    ftf: FloatArray | None = field(default=None, compare=False)
    simulation: Simulation | None = field(default=None, compare=False)
    match: WaitMatch | None = field(default=None, compare=False)
    loop: str = ""
    gpus_by_type: Mapping[str, int] = field(default_factory=dict)
    site_gpus: int | None = None


@dataclass(frozen=True, kw_only=True)
class PolicyIdentity:
    """Which policy it is.

    Attributes:
        name: as typed.
        label: with its size where there are several; no other row has it.
        policy: its name in ``gpuplan list policies``.
    """

    name: str
    label: str
    policy: str


@dataclass(frozen=True, kw_only=True)
class ComparedPolicy(MeasuredResults, PolicyIdentity):  # in JSON the identity comes first
    """One row of a comparison.

    Attributes:
        cost_over_first: cost over that of the first policy; null where that is 0.
        mean_jct_over_first: mean JCT over that of the first policy; null where that is 0.
        non_dominated: no other is at least as good in cost and mean JCT and better in one; false
            where it is not ranked, and of all where some pay for GPUs owned or committed to and
            others leave them out.
        is_ranked: whether it may be the fastest: false where jobs evict each other in a loop, and
            of all where some keep GPU types apart that others pool, or where a policy runs on the
            GPUs of its site that are others than asked for.
    """

    cost_over_first: float | None
    mean_jct_over_first: float | None
    non_dominated: bool
    is_ranked: bool


@dataclass(frozen=True, slots=True)
class PolicyTies:
    """Whether policies differ too little to name a winner.

    Attributes:
        cost: whether all costs are within 2%.
        times: whether mean JCTs are within 2% and P95 waits within 5%.
    """

    cost: bool
    times: bool


@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """What all policies made of the same jobs.

    Attributes:
        outcomes: in the order of the policies; the first is what ratios refer to.
        span_s: seconds from the first submission to the last.
        sizes: as typed -> GPUs, of the clusters asked for; empty where none was.
        beside_pools: labels of the outcomes whose cost leaves out the GPUs owned or committed to;
            empty where none are.
    """

    outcomes: tuple[PolicyOutcome, ...]
    span_s: float
    sizes: Mapping[str, int] = field(default_factory=dict)
    beside_pools: tuple[str, ...] = ()

    @property
    def of_site_size(self) -> tuple[PolicyOutcome, ...]:
        """Outcomes on the GPUs of a site that are others than asked for, beside other policies."""
        quotas = [run for run in self.outcomes if has_quotas(run.settings)]
        if not self.sizes or len(quotas) == len(self.outcomes):
            return ()
        return tuple(run for run in quotas if run.results.gpus not in self.sizes.values())

    @property
    def pooled(self) -> tuple[PolicyOutcome, ...]:
        """Outcomes on one pool of GPUs, beside others that keep GPU types apart.

        Where all jobs are of one type, those that have the GPUs of the other types too.
        """
        kept = next((run for run in self.outcomes if run.gpus_by_type), None)
        if kept is None:
            return ()
        is_all = len(kept.gpus_by_type) > 1
        site = None if sum(kept.gpus_by_type.values()) == kept.site_gpus else kept.site_gpus
        return tuple(
            run
            for run in self.outcomes
            if not run.gpus_by_type and (is_all or run.results.gpus == site)
        )

    @property
    def ranked(self) -> tuple[PolicyOutcome, ...]:
        """Outcomes of which one may be the fastest: none where they run on other GPUs."""
        if self.pooled or self.of_site_size:
            return ()
        return tuple(run for run in self.outcomes if not run.loop)

    @property
    def pays_alike(self) -> bool:
        """Whether costs compare: all leave out the GPUs owned and committed to, or none does."""
        return len(self.beside_pools) in (0, len(self.outcomes))

    @property
    def cheapest(self) -> tuple[PolicyOutcome, ...]:
        """The ranked outcome of least cost, then of least mean JCT, and all that tie with it."""
        if not self.pays_alike:
            return ()
        rows = self._rows(self.ranked)
        places = sorted(range(len(rows)), key=lambda i: (rows[i]["cost_usd"], _mean_jct(rows[i])))
        return self._led_by(places[:1], by_cost(rows)[:1])

    @property
    def fastest(self) -> tuple[PolicyOutcome, ...]:
        """The ranked outcome of least mean JCT, then of least cost, and all that tie with it."""
        rows = self._rows(self.ranked)
        places = sorted(range(len(rows)), key=lambda i: (_mean_jct(rows[i]), rows[i]["cost_usd"]))
        return self._led_by(places[:1], [fastest_of(rows)] if rows else [])

    @property
    def ties(self) -> PolicyTies:
        """Whether all outcomes tie."""
        rows = self._rows(self.outcomes)
        return PolicyTies(cost=same_cost(rows), times=same_times(rows))

    def rows(self) -> tuple[ComparedPolicy, ...]:
        """Return one row per outcome, compared with the first."""
        first = self.outcomes[0].results
        ranked = [run.label for run in self.ranked]
        rows = self._rows(self.ranked)
        front = non_dominated(_column(rows, "cost_usd"), _column(rows, "mean_jct_s"))
        best = [ranked[place] for place in front] if self.pays_alike else []
        return tuple(
            results_as(
                ComparedPolicy,
                {
                    **vars(outcome.results),
                    "name": outcome.name,
                    "label": outcome.label,
                    "policy": outcome.policy,
                    "cost_over_first": _ratio(outcome.results.cost_usd, first.cost_usd),
                    "mean_jct_over_first": _ratio(outcome.results.mean_jct_s, first.mean_jct_s),
                    "non_dominated": outcome.label in best,
                    "is_ranked": outcome.label in ranked,
                },
            )
            for outcome in self.outcomes
        )

    def to_frame(self) -> pl.DataFrame:
        """Return one row per outcome, without groups; what a policy does not measure is null."""
        rows = pl.DataFrame(plain(self.rows()), infer_schema_length=None)
        return rows.drop("groups", strict=False)

    def timeline(self) -> pl.DataFrame:
        """Return the time lines of all outcomes, where they were kept."""
        return stacked(
            [({"label": run.label, "policy": run.policy}, run.timeline) for run in self.outcomes]
        )

    def _led_by(
        self, first: Sequence[int], groups: Sequence[Sequence[int]]
    ) -> tuple[PolicyOutcome, ...]:
        places = (*first, *(place for group in groups for place in group))
        return tuple(self.ranked[place] for place in dict.fromkeys(places))

    def _rows(self, outcomes: Sequence[PolicyOutcome]) -> list[dict[str, Any]]:
        return [vars(outcome.results) for outcome in outcomes]


def compare(
    jobs: TraceJobs,
    specs: Sequence[PolicySpec],
    rng: np.random.Generator,
    *,
    timelines: bool = False,
    keeps: bool = False,
    engine: Engine = THREADS,
    progress: Callable[[float], None] | None = None,
) -> PolicyComparison:
    """Replay jobs under each policy, in parallel.

    Args:
        jobs: the jobs.
        specs: the policies; at least one, with labels of their own.
        rng: random values come from a copy for each, so that equal draws are equal, and each
            outcome is that of the policy alone with the same generator.
        timelines: whether to keep the time line of each.
        keeps: whether to keep each replay, for its rows; only where ``engine`` is `THREADS`.
        engine: where the replays run; the result does not depend on it.
        progress: called with the share done.

    Raises:
        ValueError: no policy, or two with one label.
        UsageError: settings that no run can have, or a job that a policy cannot run.
    """
    if not specs or len({spec.label for spec in specs}) < len(specs):
        raise ValueError(f"expected policies with different labels, got {specs}")
    shared = (jobs, rng, timelines, keeps, len(specs) == 1)
    outcomes: list[PolicyOutcome] = []
    try:
        run_all(
            *(_replayed, specs),
            shared=shared,
            engine=engine,
            progress=progress,
            results=outcomes,
            bytes_each=replay_bytes(jobs),
        )
    except KeyboardInterrupt:
        for run in outcomes:
            cost, mean = f"${run.results.cost_usd:,.0f}", f"{run.results.mean_jct_s:,.0f} s"
            LOG.warning("done before the interrupt: %s: %s, mean JCT %s", run.label, cost, mean)
        raise
    return PolicyComparison(tuple(outcomes), jobs.span_s)


def _replayed(
    spec: PolicySpec,
    jobs: TraceJobs,
    rng: np.random.Generator,
    timelines: bool,
    keeps: bool,
    is_alone: bool,
) -> PolicyOutcome:
    run = spec.run(jobs, deepcopy(rng), is_alone=is_alone)
    frame, waited_s = run.frame, run.run.waited_us / MICROS
    return PolicyOutcome(
        label=spec.label,
        policy=spec.policy,
        settings=run.settings,
        results=policy_results(run, frame),
        jct_s=np.sort(frame["jct_s"].to_numpy()),
        warnings=run.warnings,
        timeline=run.timeline() if timelines else None,
        name=spec.name or spec.label,
        lines=run.lines() if lends(run.settings) else None,
        ftf=np.sort(frame["ftf"].to_numpy()) if "ftf" in frame.columns else None,
        simulation=run if keeps else None,
        match=paired_waits(jobs, waited_s).summary(),
        loop=run.loop,
        gpus_by_type=run.gpus_by_type,
        site_gpus=run.site_gpus,
    )


def _mean_jct(row: Mapping[str, Any]) -> float:
    return float(row["mean_jct_s"])


def _column(rows: Sequence[Mapping[str, Any]], key: str) -> FloatArray:
    return np.array([row[key] for row in rows], np.float64)


def _ratio(value: float, first: float) -> float | None:
    return value / first if first else None
