"""Several policies on one trace: the same jobs, deadlines, start-up times and prices for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.bill import GpuPrices
from gpuplan.analysis.errors import UsageError
from gpuplan.analysis.prices.book import PriceBook
from gpuplan.planner.engine import THREADS, Engine, run_all
from gpuplan.planner.policies.spot.settings import lends
from gpuplan.planner.registry import find_policy
from gpuplan.planner.runs.dominance import non_dominated
from gpuplan.planner.runs.panels import TimeLines
from gpuplan.planner.runs.settings import SettingError
from gpuplan.planner.runs.simulation import SOON_S, Simulation
from gpuplan.planner.runs.ties import same_cost, same_times
from gpuplan.planner.runs.timelines import together
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.runs.window import window_results
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.metrics import distribution
from gpuplan.simkit.time import MICROS


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """A policy with settings.

    Attributes:
        label: its name in the comparison; no other has it.
        policy: name in `gpuplan.planner.registry.POLICIES`.
        settings: what is set of the policy's settings.
        given: setting -> the option that set it, for messages about errors.
        name: what was typed; empty for the label.
    """

    label: str
    policy: str
    settings: Mapping[str, Any]
    given: Mapping[str, str] = field(default_factory=dict, compare=False)
    name: str = field(default="", compare=False)

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
            raise error.given_as(self.given, "" if is_alone else self.label) from error


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """What one policy made of the trace.

    Attributes:
        label, name, policy: of the `PolicySpec`.
        settings: the effective value of every setting.
        results: the headline numbers of its `Simulation`, and those that all policies have.
        jct_s: job completion times, ascending; shape (n,).
        warnings: what a reader must know, of the simulation.
        timeline: of `gpuplan.planner.runs.simulation.Simulation`; None where nobody asked.
        lines: what its picture shows over time, of a policy that lends GPUs; None of others.
        ftf: finish-time fairness of the jobs, ascending; None where the policy does not measure it.
    """

    label: str
    policy: str
    settings: Mapping[str, Any]
    results: Mapping[str, Any]
    jct_s: FloatArray
    warnings: tuple[str, ...]
    timeline: pl.DataFrame | None = field(default=None, compare=False)
    name: str = ""
    lines: TimeLines | None = field(default=None, compare=False)
    ftf: FloatArray | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """What all policies made of the same jobs.

    Attributes:
        outcomes: in the order of the policies; the first is what ratios refer to.
        span_s: seconds from the first submission to the last.
    """

    outcomes: tuple[PolicyOutcome, ...]
    span_s: float

    @property
    def cheapest(self) -> int:
        """The outcome of least cost; of equal ones the one of least mean JCT."""
        return int(np.lexsort((self._values("mean_jct_s"), self._values("cost_usd")))[0])

    @property
    def fastest(self) -> int:
        """The outcome of least mean JCT; of equal ones the one of least cost."""
        return int(np.lexsort((self._values("cost_usd"), self._values("mean_jct_s")))[0])

    def summary(self) -> dict[str, Any]:
        """Return the comparison as plain values; keys are stable and carry their unit."""
        results = [one.results for one in self.outcomes]
        first = results[0]
        front = non_dominated(self._values("cost_usd"), self._values("mean_jct_s"))
        return {
            "jobs": first["jobs"],
            "span_s": self.span_s,
            "first": self.outcomes[0].label,
            "cheapest": self.outcomes[self.cheapest].label,
            "fastest": self.outcomes[self.fastest].label,
            "ties": {"cost": same_cost(results), "times": same_times(results)},
            "policies": [
                {"name": one.name, "label": one.label, "policy": one.policy}
                | dict(one.results)
                | {
                    "cost_over_first": _ratio(one.results["cost_usd"], first["cost_usd"]),
                    "mean_jct_over_first": _ratio(one.results["mean_jct_s"], first["mean_jct_s"]),
                    "non_dominated": index in front,
                }
                for index, one in enumerate(self.outcomes)
            ],
        }

    def to_frame(self) -> pl.DataFrame:
        """Return one row per outcome; what a policy does not measure is null."""
        return pl.DataFrame(self.summary()["policies"], infer_schema_length=None)

    def timeline(self) -> pl.DataFrame:
        """Return the time lines of all outcomes, where they were kept."""
        return together(
            [({"label": one.label, "policy": one.policy}, one.timeline) for one in self.outcomes]
        )

    def _values(self, key: str) -> FloatArray:
        return np.array([one.results[key] for one in self.outcomes], np.float64)


def price(
    specs: Sequence[PolicySpec],
    book: PriceBook | None,
    first_submit_us: int | None,
    *,
    beside: tuple[str, str] | None = None,
) -> tuple[list[PolicySpec], tuple[str, ...]]:
    """Return specs with the prices of one book, each as it pays, and where those come from.

    Arguments are those of `gpuplan.planner.pricing.price_settings.with_prices`; ``beside`` is the
    GPU of what else they are compared with, and its label.

    Raises:
        UsageError: as there, or the prices would be of several GPUs.
    """
    from gpuplan.planner.pricing.price_selection import option_of
    from gpuplan.planner.pricing.price_settings import with_prices

    found: list[PolicySpec] = []
    gpus = {} if beside is None else dict([beside])
    labels_of: dict[str, list[str]] = {}
    for one in specs:
        known = find_policy(one.policy).settings
        with one.blamed(is_alone=len(specs) == 1):
            priced = with_prices(one.settings, book, first_submit_us, known)
        found.append(replace(one, settings=priced.settings))
        if priced.gpu:
            gpus.setdefault(priced.gpu, one.label)
        for note in priced.notes:
            labels_of.setdefault(note, []).append(one.label)
    if len(gpus) > 1:
        each = " and ".join(f"{gpu} ({label})" for gpu, label in gpus.items())
        raise UsageError(
            f"{option_of(book)}: the policies would pay for different GPUs, {each}\n"
            "  next: --set gpu=NAME alone, one for all"
        )
    notes = (
        note if len(labels) == len(found) else f"{', '.join(labels)}: {note}"
        for note, labels in labels_of.items()
    )
    return found, tuple(notes)


def own_price(
    specs: Sequence[PolicySpec], prices: GpuPrices, gpu_h: Mapping[str | None, float]
) -> list[PolicySpec]:
    """Return specs whose GPUs have one price, where their settings give none.

    The price is that of the GPU types of the cluster. Where it names none, it is the mean of the
    prices of the log's types by GPU-hours.

    Args:
        specs: the policies; those that only rent keep the prices of their settings.
        prices: of a GPU-hour.
        gpu_h: GPU-hours of the log by type.

    Raises:
        UsageError: no policy has GPUs of one price, or a type has no price.
    """
    found: list[PolicySpec] = []
    for one in specs:
        if not has_own_price(one):
            found.append(one)
            continue
        shape = one.settings.get("cluster")
        pools = {} if shape is None else {p.gpu_type: float(p.gpus or 1) for p in shape.pools}
        hours = gpu_h if shape is None or None in pools else pools
        usd = prices.mean(hours)
        if usd is None:
            missing = [name for name in hours if prices.of(name) is None]
            named = ", ".join(name or "jobs without a GPU type" for name in missing)
            next_one = next((name for name in missing if name), "")
            raise UsageError(
                f"--price: no price of {named}\n  next: --price "
                + (f"{next_one}=USD" if next_one else "USD for every GPU")
            )
        given = {**one.given, "usd_per_gpu_h": "--price"}
        found.append(replace(one, settings={**one.settings, "usd_per_gpu_h": usd}, given=given))
    return found


def has_own_price(spec: PolicySpec) -> bool:
    """Return whether ``--price`` is for this policy: its GPUs may have one, and none is set."""
    return (
        "usd_per_gpu_h" in find_policy(spec.policy).settings
        and spec.settings.get("usd_per_gpu_h") is None
    )


def compare(
    jobs: TraceJobs,
    specs: Sequence[PolicySpec],
    rng: np.random.Generator,
    *,
    timelines: bool = False,
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
        engine: where the replays run; the result does not depend on it.
        progress: called with the share done.

    Raises:
        ValueError: no policy, or two with one label.
        UsageError: settings that no run can have, or a job that a policy cannot run.
    """
    if not specs or len({one.label for one in specs}) < len(specs):
        raise ValueError(f"expected policies with different labels, got {specs}")
    shared = (jobs, rng, timelines, len(specs) == 1)
    found = run_all(_replayed, specs, shared=shared, engine=engine, progress=progress)
    return PolicyComparison(tuple(found), jobs.span_s)


def _replayed(
    spec: PolicySpec, jobs: TraceJobs, rng: np.random.Generator, timelines: bool, is_alone: bool
) -> PolicyOutcome:
    run = spec.run(jobs, deepcopy(rng), is_alone=is_alone)
    frame = run.frame
    return PolicyOutcome(
        label=spec.label,
        policy=spec.policy,
        settings=run.settings,
        results=common_results(jobs, run, frame) | run.results,
        jct_s=np.sort(frame["jct_s"].to_numpy()),
        warnings=run.warnings,
        timeline=run.timeline() if timelines else None,
        name=spec.name or spec.label,
        lines=run.lines() if lends(run.settings) else None,
        ftf=np.sort(frame["ftf"].to_numpy()) if "ftf" in frame.columns else None,
    )


def common_results(jobs: TraceJobs, run: Simulation, frame: pl.DataFrame) -> dict[str, Any]:
    """Return the numbers that follow from ``frame``, the rows of any policy.

    ``mean_wait_s`` and ``p95_wait_s`` are of JCT less run time: queues, start-ups, checkpoints and
    restores. ``paid_gpu_h`` is the GPU time paid for, where the policy has a utilization. What the
    bill covers is described in `window_results`.
    """
    jct_s, work = frame["jct_s"].to_numpy(), jobs.workload
    finish_us = np.rint(frame["finish_s"].to_numpy() * MICROS)
    used, gpu_h = run.results.get("utilization"), float(frame["gpu_s"].sum() / 3600)
    cost_usd = float(frame["cost_usd"].sum())
    wait_s = jct_s - work.service_us / MICROS
    # The sum over jobs rounds; equal clusters have equal bills.
    billed_usd = run.results.get("cost_usd", cost_usd)
    return {
        "jobs": work.size,
        **distribution(jct_s, "jct", "s"),
        "mean_wait_s": float(wait_s.mean()),
        "p95_wait_s": float(np.percentile(wait_s, 95)),
        "deadline_miss_share": float((finish_us > work.deadline_us).mean()),
        "finished_within_10min_share": float((jct_s <= SOON_S).mean()),
        "cost_usd": cost_usd,
        "gpu_h": gpu_h,
        "paid_gpu_h": gpu_h / used if used else None,
        **window_results(run.run, jobs.window_us, billed_usd, run.results.get("gpus")),
    }


def _ratio(value: float, first: float) -> float | None:
    return value / first if first else None
