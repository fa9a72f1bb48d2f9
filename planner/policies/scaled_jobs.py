"""Policies that choose the width of each job: what they share in ``simulate`` and ``compare``.

The work of a job is its recorded run time x the speedup at its recorded GPUs, as in
``gpuplan pareto``, whose baselines are these policies on the same simulators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.elastic.candidates import within_cluster
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.elastic.job_classes import classes_of_jobs
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.money.renting_settings import OF_CLUSTER
from gpuplan.planner.policies.cluster_replay import (
    ClusterReplay,
    ReplaySettings,
    replay_settings,
    replayed,
    size_note,
    size_shown,
)
from gpuplan.planner.policies.cluster_settings import SHARED
from gpuplan.planner.policies.policy import Baseline, Policy
from gpuplan.planner.runs.cluster_setting import SIZES, enough_for, pool_of
from gpuplan.planner.runs.settings import (
    FEWER_JOBS,
    Setting,
    SettingError,
    check_widest,
    defaults_of,
)
from gpuplan.planner.runs.simulation import Simulation
from gpuplan.planner.speedup.registry import LAWS, law_of, load_speedup
from gpuplan.simkit.run import Run
from gpuplan.simkit.time import MICROS, TimeOverflow

if TYPE_CHECKING:
    from gpuplan.planner.elastic.job_classes import ClassWorkload
    from gpuplan.planner.elastic.renting import RentedCluster
    from gpuplan.planner.runs.trace_jobs import TraceJobs
    from gpuplan.planner.speedup.model import SpeedupModel

RENTS: dict[str, Setting] = {
    "cluster": Setting(
        "cluster",
        "most GPUs rented at once, or nodes x GPUs per node (--cluster); none: no limit; x8: as "
        "many nodes of 8 as it takes",
        unlimited=True,
    ),
    "gpus": SHARED["gpus"],
    "provision_s": Setting(
        "duration", "time from the request for a node until it is ready", default=90.0
    ),
}
"""Settings of a policy that rents GPUs as it needs them."""
SCALES: dict[str, Setting] = {
    "speedup": Setting(
        "text", "speedup of jobs, as gpuplan pareto --speedup has it", default="power:0.8"
    ),
    "max_width": Setting(
        "count",
        "most GPUs of a job; none: 64, or all that was measured",
        unlimited=True,
        at_least=1,
    ),
    "rescale_s": Setting(
        "duration",
        "pause of a start or a change of width; none: as measured, else 0",
        optional=True,
    ),
}
RELEASE = {
    "release_s": Setting(
        "duration", "time a node must have been idle before it is returned", default=30.0
    )
}
"""The setting of policies that return a node once it has been idle for some time."""


@dataclass(frozen=True, slots=True)
class ScaledJobs:
    """What a policy runs.

    Attributes:
        workload: the jobs by class, with their speedups.
        gpus: GPUs of the cluster, or the most that may be rented; None for no limit.
        cluster: how GPUs are rented.
        values: the value of every setting.
    """

    workload: ClassWorkload
    gpus: int | None
    cluster: RentedCluster
    values: Mapping[str, Any]

    @property
    def size_setting(self) -> str:
        """The setting that gave the size of the cluster."""
        return "gpus" if self.values["cluster"] is None else "cluster"

    def check_fits(self, widest: int) -> None:
        """Raise `SettingError` where a job needs more GPUs than there may be."""
        each = self.cluster.node_gpus
        needed = -(-widest // each) * each
        check_widest(widest, self.gpus, self.size_setting, "would never start", needed)

    def size_shown(self) -> dict[str, Any]:
        """Return the size as settings: its text form, GPUs, and GPUs of a node."""
        pool = pool_of(self.values, "")
        return size_shown(
            self.gpus, *((pool.gpus_per_node, pool.gpu_type) if pool else (None, None))
        )

    @property
    def standing_gpus(self) -> int:
        """GPUs of a cluster of fixed size. Raises ValueError where there is none."""
        if self.gpus is None:
            raise ValueError("this policy rents GPUs as it needs them")
        return self.gpus


def scaled_policy(
    name: str,
    about: str,
    source: str,
    *,
    run: Callable[[ScaledJobs], Run],
    baseline: Baseline,
    own: Mapping[str, Setting] | None = None,
    is_scaled: bool = True,
) -> Policy:
    """Return a policy that chooses widths; ``run`` runs the jobs on a simulator.

    Args:
        is_scaled: whether jobs may get other GPUs than recorded, so that speedups matter.
    """
    standing = baseline.is_standing
    size = {key: SHARED[key] for key in SIZES} if standing else RENTS
    scales = SCALES if is_scaled else {"rescale_s": SCALES["rescale_s"]}
    settings = {**size, **scales, **(own or {}), **OF_CLUSTER}

    usual = defaults_of(RENTS | SCALES | settings)

    def simulate(jobs: TraceJobs, typed: Mapping[str, Any], _: np.random.Generator) -> Simulation:
        return _simulate(jobs, replay_settings(name, settings, typed, usual), policy, run)

    policy = Policy(name, about, source, settings, simulate, baseline)
    return policy


def _simulate(
    jobs: TraceJobs, settings: ReplaySettings, policy: Policy, run: Callable[[ScaledJobs], Run]
) -> Simulation:
    """Run a policy under complete settings.

    Raises:
        UsageError: settings that no run can have, or a job that no cluster of this size can run.
    """
    model = _speedup(settings.values)
    scaled, notes = _scaled(jobs, model, settings.values, policy)
    try:
        played = run(scaled)
    except TimeOverflow as error:
        raise UsageError(f"this replay cannot be made: {error}\n  next: {FEWER_JOBS}") from error
    return replayed(
        jobs,
        settings,
        ClusterReplay(
            run=played,
            size=scaled.size_shown(),
            is_standing=policy.baseline is not None and policy.baseline.is_standing,
            is_rescaled=True,
            notes=(*notes, *model.notes, *_assumed(model, policy, settings.typed)),
        ),
    )


def _assumed(model: SpeedupModel, policy: Policy, typed: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the assumptions that the results rest on."""
    if "speedup" in typed or "speedup" not in policy.settings:
        return ()
    return (f"jobs are assumed to scale as {model.name}; set speedup to what you measured",)


def _speedup(values: Mapping[str, Any]) -> SpeedupModel:
    """Return the speedups. Raises `SettingError` where there are none of that name."""
    text = values["speedup"]
    if law_of(text) in LAWS:
        text = text.replace("/", ",")  # a comma parts the settings of a policy
    try:
        model = load_speedup(text)
    except UsageError as error:
        raise SettingError(["speedup"], str(error).removeprefix(f"--speedup {text!r}: ")) from error
    if model.ends is not None:
        raise SettingError(
            ["speedup"], f"a replay has one speedup, not the range {text}", f"set {model.name}"
        )
    return model


def _scaled(
    jobs: TraceJobs, model: SpeedupModel, values: Mapping[str, Any], policy: Policy
) -> tuple[ScaledJobs, tuple[str, ...]]:
    """Return what the policy runs, and notes on its size."""
    pool = pool_of(values, policy.name)
    each = (pool.gpus_per_node if pool else None) or 1
    gpus = pool.gpus if pool else None
    options = ClassOptions(
        max_width=values["max_width"], rescale_s=values["rescale_s"], unmeasured_rescale_s=0.0
    )
    standing = policy.baseline is not None and policy.baseline.is_standing
    notes: tuple[str, ...] = ()
    if standing and gpus is None:
        gpus = -(-enough_for(jobs.workload) // each) * each
        recorded = "as many as the jobs use at once if none waits on its recorded GPUs"
        notes = (size_note(gpus, recorded),)
    cluster = RentedCluster(
        node_gpus=each,
        provision_s=values.get("provision_s", 0.0),
        release_s=values.get("release_s", 0.0),
        max_gpus=gpus,
    )
    if not standing:
        options = within_cluster(options, model, cluster)
    scaled = ScaledJobs(_workload(jobs, model, options), gpus, cluster, values)
    least = max(int(np.ceil(c.widths.min())) for c in scaled.workload.classes)
    scaled.check_fits(least)
    return scaled, notes


def _workload(jobs: TraceJobs, model: SpeedupModel, options: Any) -> ClassWorkload:
    """Return the jobs by class. Raises `SettingError` where a class has no known speedup."""
    work = jobs.workload
    labels = jobs.job_class
    if model.law is not None or labels is None:
        labels = pl.repeat("jobs", work.size, eager=True)
    if model.law is None and jobs.job_class is None:
        raise SettingError(["speedup"], f"{model.name} is by job class, and these jobs have none")
    for label in labels.unique(maintain_order=True):
        if model.of(label) is None:
            raise SettingError(
                ["speedup"],
                f"{model.name} has no job class {label!r}; it has {', '.join(model.classes)}",
                "leave such jobs out with --where, or set a law such as speedup=power:0.8",
            )
    return classes_of_jobs(
        submit_s=work.submit_us / MICROS,
        duration_s=work.service_us / MICROS,
        gpus=work.billed_gpus,
        label=labels,
        speedup=model,
        choices=options,
    )
