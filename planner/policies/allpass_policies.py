"""Allpass, and policies that are Allpass with something taken away, as the registry lists them.

A variant has one tier, one threshold or another scaler. All run in one simulator, so prices,
offers, start-up times and billing are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuplan.planner.policies.allpass_settings import HPA, SETTINGS, parameters_from
from gpuplan.planner.policies.policy import Policy
from gpuplan.planner.runs.settings import Setting, SettingError, check_widest, with_defaults
from gpuplan.planner.runs.simulation import Simulation
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.simkit.allpass.parameters import Allpass
from gpuplan.simkit.time import MICROS

CONTAINERS = frozenset(name for name in SETTINGS if name.startswith("serverless"))
MOVES = frozenset(
    {"threshold_rule", "min_threshold_s", "max_threshold_s"}
    | {"gain_up_s", "limit_up_s", "gain_down_s", "limit_down_s"}
)
"""What Algorithm 1 alone uses."""
LEAVING = MOVES | {"controller", "threshold_s", "checkpoint_s", "restore_s"}
"""What moving a job from one tier to the other uses."""
DEMAND = frozenset({"scale_out", "scaling", "window_s", "max_pressure"})
"""What Algorithm 2 alone uses."""

WITHOUT_CONTAINERS = {
    "controller": "fixed",
    "threshold_s": 0.0,
    "checkpoint_s": 0.0,
    "restore_s": 0.0,
    "serverless_startup_s": 0.0,
    "serverless_startup_sd_s": 0.0,
}
OF_CONTAINERS = (
    "cost_if_serverless_usd",
    "cost_serverless_usd",
    "finished_serverless_share",
    "mean_container_queue_s",
    "mean_demotion_s",
    "mean_startup_s",
    "mean_threshold_s",
    "never_demotable_jobs",
)
OF_WORKERS = (
    "cost_conventional_usd",
    "cost_if_serverless_usd",
    "cost_marketplace_usd",
    "mean_demotion_s",
    "mean_marketplace_usd_per_gpu_h",
    "mean_threshold_s",
    "never_demotable_jobs",
    "reclaimed_workers",
    "worker_busy_share",
    "workers_mean",
    "workers_peak",
)


@dataclass(frozen=True, slots=True)
class AllpassVariant:
    """One policy.

    Attributes:
        about: what it does, one sentence.
        source: where it comes from.
        fixed: the settings of Allpass that make it, by name; they cannot be set.
        unused: settings of Allpass that would change nothing.
        added: settings that Allpass does not offer.
        usual: defaults other than those of Allpass.
        hidden: results that say nothing of it.
    """

    about: str
    source: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    unused: frozenset[str] = frozenset()
    added: Mapping[str, Setting] = field(default_factory=dict)
    usual: Mapping[str, Any] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()

    @property
    def settings(self) -> dict[str, Setting]:
        """What may be set, by name."""
        kept = {k: v for k, v in SETTINGS.items() if k not in self.unused}
        return with_defaults(kept | dict(self.added), self.usual)

    @property
    def has_containers(self) -> bool:
        """Whether jobs start on serverless GPUs."""
        return not self.unused >= CONTAINERS


VARIANTS: dict[str, AllpassVariant] = {
    "allpass": AllpassVariant(
        "starts every job on serverless GPUs and moves long ones to rented workers",
        "Allpass, Algorithms 1 and 2; docs/allpass.md",
    ),
    "fixed-threshold": AllpassVariant(
        "Allpass with a threshold that does not move",
        "Allpass, section 5 (Fixed-F); docs/compare.md",
        fixed={"controller": "fixed"},
        unused=MOVES | {"controller"},
    ),
    "serverless-only": AllpassVariant(
        "runs every job on serverless GPUs to its end",
        "Allpass, section 5 (Modal); docs/compare.md",
        fixed={"controller": "fixed", "threshold_s": np.inf},
        unused=frozenset(SETTINGS) - CONTAINERS - {"gpu"},
        hidden=OF_WORKERS,
    ),
    "serverful-only": AllpassVariant(
        "runs every job on rented workers, as many as Allpass would rent",
        "Allpass, section 3.3; docs/compare.md",
        fixed=WITHOUT_CONTAINERS,
        unused=LEAVING | CONTAINERS,
        hidden=OF_CONTAINERS,
    ),
    "hpa": AllpassVariant(
        "runs every job on rented workers, as many as keep 70% of them busy",
        "Kubernetes' horizontal pod autoscaler; docs/compare.md",
        # It looks at no deadline, so a short window saves the time to look ahead.
        fixed=WITHOUT_CONTAINERS
        | {"scaling": "utilization", "scale_out": "queue", "window_s": 60.0},
        unused=LEAVING | CONTAINERS | DEMAND,
        added=HPA,
        usual={"tick_s": 15.0, "queue_order": "submission"},
        hidden=OF_CONTAINERS,
    ),
}


def simulate(
    jobs: TraceJobs, settings: Mapping[str, Any], rng: np.random.Generator, policy: str
) -> Simulation:
    """Run one of `VARIANTS` under settings; see `AllpassVariant.settings`.

    Raises:
        UsageError: settings that no run can have, or a job wider than the capacity of a policy
            that has nowhere else to put it.
    """
    from gpuplan.planner.policies import allpass

    variant = VARIANTS[policy]
    settings = {**variant.usual, **settings}
    parameters = parameters_from(settings, variant.fixed)
    if not variant.has_containers:  # no job leaves one, so nothing is saved and loaded
        plain = replace(jobs.workload, checkpoint_us=None, restore_us=None)
        jobs = replace(jobs, workload=plain)
        _check_capacity(jobs, parameters)
    simulation = allpass.simulate(jobs, settings, rng, policy, variant.fixed)

    def columns() -> Mapping[str, Any]:
        times = simulation.columns()
        if variant.has_containers:
            return times
        return {**times, "start_s": jobs.workload.submit_us / MICROS + times["queue_s"]}

    shown = simulation.settings | {name: getattr(parameters, name) for name in variant.added}
    measured = simulation.measured.items()
    return replace(
        simulation,
        settings={name: value for name, value in shown.items() if name not in variant.unused},
        measured={name: value for name, value in measured if name not in variant.hidden},
        columns=columns,
    )


def _check_capacity(jobs: TraceJobs, parameters: Allpass) -> None:
    """Raise `SettingError` where a job, or the policy, needs more workers than may be rented."""
    capacity = parameters.capacity
    check_widest(int(jobs.workload.gpus.max()), capacity, "capacity", "would never start")
    kept = parameters.min_workers if parameters.scaling == "utilization" else 0
    if capacity is not None and kept > capacity:
        raise SettingError(
            ["min_workers", "capacity"],
            f"{kept} workers are always kept, and at most {capacity} may be",
            f"set min_workers={capacity} or less, or a larger capacity",
        )


def _variant(name: str) -> Policy:
    variant = VARIANTS[name]

    def run(jobs: TraceJobs, settings: Mapping[str, Any], rng: np.random.Generator) -> Simulation:
        return simulate(jobs, settings, rng, name)

    return Policy(
        *(name, variant.about, variant.source, variant.settings, run),
        decides_by_deadlines=name in ("allpass", "fixed-threshold", "serverful-only"),
    )


POLICIES = tuple(map(_variant, VARIANTS))
