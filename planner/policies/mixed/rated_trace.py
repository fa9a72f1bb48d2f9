"""From the jobs of a trace to gangs with a rate on each GPU type of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.planner.policies.mixed.rated_jobs import MixedCluster, RatedJobs
from gpuplan.planner.runs.settings import SettingError
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.cluster_shape import ClusterShape
from gpuplan.simkit.time import MICROS


def rated_jobs(
    jobs: TraceJobs,
    shape: ClusterShape,
    cluster: MixedCluster,
    values: Mapping[str, Any],
    given: Mapping[str, Any],
    rng: np.random.Generator,
) -> RatedJobs:
    """Return the jobs with work in rounds on the fastest type of the cluster.

    What moves take comes from the settings of the user, else from the table of rates.

    Args:
        jobs: of the trace.
        shape, cluster: where they run.
        values: of every setting.
        given: settings of the user.
        rng: draws the errors of estimates.

    Raises:
        SettingError: several types, and no rates.
    """
    work, rates = jobs.workload, jobs.rates
    n = work.size
    if rates is None and len(shape.pools) > 1:
        raise SettingError(
            ["cluster"],
            f"rates on {', '.join(shape.gpu_types)} are needed, and there are none here",
            "replay with gpuplan simulate or compare, --throughputs or --gpu-speed",
        )
    rate, rounds = np.ones((n, 1)), np.maximum(work.service_us, 1) / MICROS / cluster.round_s
    if rates is not None:
        measured = rates.on(shape.gpu_types)
        fastest = measured.max(axis=1)
        rate = measured / fastest[:, None]
        rounds = np.maximum(rates.work / fastest, 1 / MICROS) / cluster.round_s
        if values.get("work_unit") == "given":
            unit = fastest * cluster.round_s
            rate, rounds = rate * unit[:, None], rounds * unit
    error = values["estimate_error"]
    details = None if rates is None else rates.details

    measured_gb = (
        {} if details is None else {"state_gb": details.state_gb, "dataset_gb": details.dataset_gb}
    )

    def gb(name: str) -> FloatArray:
        usual = np.full(n, float(values[name]))
        known = None if name in given else measured_gb.get(name)
        return usual if known is None else np.where(np.isnan(known), usual, known)

    dataset_gb = gb("dataset_gb")
    return RatedJobs(
        submit_s=work.submit_us / MICROS,
        gpus=work.gpus,
        work=rounds,
        rate=rate,
        state_gb=gb("state_gb"),
        is_pipeline=np.zeros(n, bool) if details is None else details.is_pipeline,
        estimate=1 + rng.uniform(-error, error, n) if error else None,
        dataset_gb=dataset_gb if dataset_gb.any() else None,
        cross_host=None
        if rates is None or "cross_host" in given
        else rates.cross_host_on(shape.gpu_types),
    )


def check_fits(
    jobs: TraceJobs, rated: RatedJobs, gpu_types: tuple[str, ...], shape: ClusterShape
) -> None:
    """Raise `InfeasibleError` where a gang fits on no type of the cluster."""
    gpus = np.array([pool.gpus for pool in shape.pools])
    fits = ((rated.rate > 0) & (rated.gpus[:, None] <= gpus)).any(axis=1)
    if fits.all():
        return
    j = int(np.flatnonzero(~fits)[0])
    able = [name for name, rate in zip(gpu_types, rated.rate[j], strict=True) if rate > 0]
    many = int((~fits).sum())
    more = f", and {many - 1:,} other jobs do not fit either" if many > 1 else ""
    on = f" on {' or '.join(able)}" if shape.gpu_types else ""
    raise InfeasibleError(
        f"job {jobs.job_id[j]} needs {rated.gpus[j]} GPUs of one type{on}, and the cluster is "
        f"{shape}{more}\n  next: a larger --cluster, or leave wide jobs out with --where "
        f"'num_gpus <= {int(gpus.max())}'"
    )
