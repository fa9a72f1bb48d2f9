"""Policies that choose the width of each job: what they share in ``simulate`` and ``compare``.

The work of a job is its recorded run time x the speedup at its recorded GPUs, as in
``gpuplan pareto``, whose baselines are these policies on the same simulators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.words import counted
from gpuplan.planner.money.renting_settings import (
    OF_CLUSTER,
    OF_PRICES,
    RENTED,
    idle_of_market,
    priced_values,
)
from gpuplan.planner.policies.cluster_bill import ClusterBill, bill_of, terms_of
from gpuplan.planner.policies.cluster_settings import SHARED
from gpuplan.planner.policies.policy import Baseline, Policy
from gpuplan.planner.runs.cluster_setting import SIZES, enough_for, pool_of
from gpuplan.planner.runs.panels import usage_lines
from gpuplan.planner.runs.settings import (
    FEWER_JOBS,
    Setting,
    SettingError,
    check_values,
    check_widest,
    defaults_of,
)
from gpuplan.planner.runs.simulation import SOON_S, Simulation
from gpuplan.planner.runs.timelines import usage_frame
from gpuplan.planner.runs.window import share_within
from gpuplan.simkit.cluster_shape import GpuPool
from gpuplan.simkit.metrics import distribution, percentile
from gpuplan.simkit.run import Run
from gpuplan.simkit.steps import time_average
from gpuplan.simkit.time import MICROS, MICROS_PER_HOUR, TimeOverflow

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

    def described(self) -> dict[str, Any]:
        """Return the size as settings: its text form, GPUs, and GPUs of a node."""
        pool = pool_of(self.values, "")
        each = None if pool is None else pool.gpus_per_node
        shape = None
        if self.gpus is not None or each is not None:
            shape = str(GpuPool(self.gpus, each, pool.gpu_type if pool else None))
        return {"cluster": shape, "gpus": self.gpus, "gpus_per_node": each}

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
    """Return a policy that chooses widths.

    Args:
        name, about, source, baseline: of `Policy`.
        run: runs the jobs on a simulator.
        own: settings that others do not have.
        is_scaled: whether jobs may get other GPUs than recorded, so that speedups matter.
    """
    standing = baseline.is_standing
    size = {key: SHARED[key] for key in SIZES} if standing else RENTS
    scales = SCALES if is_scaled else {"rescale_s": SCALES["rescale_s"]}
    settings = {**size, **scales, **(own or {}), **OF_CLUSTER}

    usual = defaults_of(RENTS | SCALES | settings)

    def simulate(jobs: TraceJobs, given: Mapping[str, Any], _: np.random.Generator) -> Simulation:
        return _simulate(jobs, priced_values(usual, given), given, policy, run)

    policy = Policy(name, about, source, settings, simulate, baseline)
    return policy


def needs_classes(values: Mapping[str, Any]) -> bool:
    """Return whether settings ask for speedups by job class, so that jobs must have theirs."""
    from gpuplan.planner.speedup.registry import LAWS

    return "speedup" in values and _law_of(values["speedup"]) not in LAWS


def _law_of(text: str) -> str:
    return text.strip().partition(":")[0]


def _simulate(
    jobs: TraceJobs,
    values: Mapping[str, Any],
    given: Mapping[str, Any],
    policy: Policy,
    run: Callable[[ScaledJobs], Run],
) -> Simulation:
    """Run a policy under complete settings.

    Raises:
        UsageError: settings that no run can have, or a job that no cluster of this size can run.
    """
    check_values(policy.settings, given)
    terms = terms_of(values)
    model = _speedup(values)
    scaled, notes = _scaled(jobs, model, values, policy)
    try:
        found = run(scaled)
    except TimeOverflow as error:
        raise UsageError(f"this replay cannot be made: {error}\n  next: {FEWER_JOBS}") from error
    standing = policy.baseline is not None and policy.baseline.is_standing
    bill = bill_of(found, terms, jobs.window_us, scaled.gpus if standing else None)
    own = policy.settings.keys() - OF_PRICES.keys() - RENTED.keys()
    plain = {key: value for key, value in values.items() if key in own}
    offered = [key for key in RENTED if key in given]
    return Simulation(
        policy=policy.name,
        settings=plain | scaled.described() | terms.effective(),
        results=measure(jobs, found, bill, scaled.gpus if standing else None),
        rows=partial(job_frame, jobs, found, bill),
        warnings=(
            *notes,
            *model.notes,
            *_assumed(model, policy, given),
            *(
                [f"usd_per_gpu_h is the whole price, so {', '.join(offered)} changes nothing"]
                if offered and terms.usd_per_gpu_h is not None
                else []
            ),
            *(idle_of_market(terms.rented) if terms.usd_per_gpu_h is None else ()),
        ),
        timeline=partial(usage_frame, found),
        run=found,
        lines=partial(usage_lines, found),
    )


def _assumed(model: SpeedupModel, policy: Policy, given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the assumptions that the results rest on."""
    if "speedup" in given or "speedup" not in policy.settings:
        return ()
    return (f"jobs are assumed to scale as {model.name}; set speedup to what you measured",)


def _speedup(values: Mapping[str, Any]) -> SpeedupModel:
    """Return the speedups. Raises `SettingError` where there are none of that name."""
    from gpuplan.planner.speedup.registry import LAWS, load_speedup

    text = values["speedup"]
    if _law_of(text) in LAWS:
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
    from gpuplan.planner.elastic.class_options import ClassOptions
    from gpuplan.planner.elastic.renting import RentedCluster, within_cluster

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
        notes = (
            f"the cluster has {counted(gpus, 'GPU')}, as many as the jobs use at once if none "
            "waits on its recorded GPUs; set cluster for another size",
        )
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
    from gpuplan.planner.elastic.job_classes import classes_of_jobs

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
                f"{model.name} knows no job class {label!r}; it has {', '.join(model.classes)}",
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


def measure(
    jobs: TraceJobs, run: Run, bill: ClusterBill, standing_gpus: int | None = None
) -> dict[str, Any]:
    """Return the headline numbers of a run and its bill.

    Service is the time that a job holds GPUs, pauses of starts and changes of width included, and
    JCT = service + queue. ``gpu_h`` is the GPU time held, and ``utilization`` the part of it within
    the window over the GPU time paid for. ``gpus`` are those of a standing cluster, or the most
    rented at once.
    """
    work = jobs.workload
    jct_s, jqt_s = (run.finish_us - run.submit_us) / MICROS, run.waited_us / MICROS
    held, paid = float(run.held_gpu_us.sum()), bill.gpu_us
    within = held * share_within(run, jobs.window_us)
    usage = run.usage
    time_s = (usage.time_us - usage.time_us[0]) / MICROS
    makespan_s = float(run.finish_us.max() - run.submit_us[0]) / MICROS
    return {
        "jobs": work.size,
        "gpus": _peak_rented(run) if standing_gpus is None else standing_gpus,
        **distribution(jct_s, "jct", "s"),
        "mean_service_s": float((jct_s - jqt_s).mean()),
        "mean_wait_s": float(jqt_s.mean()),
        "p95_wait_s": percentile(jqt_s, 95),
        **distribution(jqt_s, "jqt", "s"),
        "mean_queue_s": float(jqt_s.mean()),
        **bill.summary(),
        "finished_within_10min_share": float((jct_s <= SOON_S).mean()),
        "deadline_miss_share": float((run.finish_us > work.deadline_us).mean()),
        "preemptions": int(run.stops.sum()),
        "preempted_jobs": int((run.stops > 0).sum()),
        "gpu_h": held / MICROS_PER_HOUR,
        "utilization": within / paid if paid else None,
        "paid_gpu_h": paid / MICROS_PER_HOUR,
        "waiting_mean": time_average(time_s, usage.waiting.astype(np.float64), makespan_s),
        "waiting_peak": int(usage.waiting.max()),
        "makespan_s": makespan_s,
    }


def _peak_rented(run: Run) -> int:
    """Return the most GPUs rented at once."""
    leases = run.rented
    time = np.concatenate((leases.end_us, leases.begin_us))
    step = np.concatenate((-leases.gpus, leases.gpus))
    order = np.lexsort((step, time))  # what goes back makes room for what is rented
    return int(np.cumsum(step[order]).max(initial=0))


def job_frame(jobs: TraceJobs, run: Run, bill: ClusterBill) -> pl.DataFrame:
    """Return one row per job; ``cost_usd`` adds up to the whole bill."""
    return pl.DataFrame(
        {
            "job_id": jobs.job_id,
            "submit_s": run.submit_us / MICROS,
            "start_s": run.start_us / MICROS,
            "finish_s": run.finish_us / MICROS,
            "jct_s": (run.finish_us - run.submit_us) / MICROS,
            "jqt_s": run.waited_us / MICROS,
            "gpu_s": run.held_gpu_us / MICROS,
            "cost_usd": bill.shares(run, jobs.workload.gpus),
            "preemptions": run.stops,
        }
    )
