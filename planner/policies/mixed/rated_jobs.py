"""Jobs with a rate on each GPU type, and the cluster that they share in rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.planner.runs.settings import SettingError
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.cluster_shape import ClusterShape
from gpuplan.simkit.rounds.simulator import RoundsJobs
from gpuplan.simkit.time import MICROS, to_micros


@dataclass(frozen=True, slots=True)
class RatedJobs:
    """Gangs that run on one GPU type at a time; arrays of shape (n,), by submission.

    Attributes:
        submit_s: submission, seconds, ascending.
        gpus: GPUs of each gang.
        work: work of each; its unit is that of ``rate`` x a round.
        rate: work per round on each type, 0 where a job cannot run; shape (n, T).
        state_gb: what a move copies, GB.
        is_pipeline: whether the gang is parallel in a pipeline, which loses nothing across hosts.
        estimate: work that policies see over the true work; None for 1.
        dataset_gb: what a job fetches before its first start, GB; None for nothing.
        cross_host: factor on the rate of a gang on more hosts than it needs, NaN for that of the
            cluster; shape (n, T). None for that of the cluster everywhere.
    """

    submit_s: FloatArray
    gpus: IntArray
    work: FloatArray
    rate: FloatArray
    state_gb: FloatArray
    is_pipeline: BoolArray
    estimate: FloatArray | None = None
    dataset_gb: FloatArray | None = None
    cross_host: FloatArray | None = None

    @property
    def seen_work(self) -> FloatArray:
        """Work of each job as policies see it."""
        return self.work if self.estimate is None else self.work * self.estimate

    def rounds_jobs(self, round_s: float) -> RoundsJobs:
        """Return the jobs for the simulator; work is in rounds at rate 1.

        Jobs of one width and the same rates are a class.
        """
        kinds = np.column_stack((self.gpus, self.rate))
        kinds, group = np.unique(kinds, axis=0, return_inverse=True)
        width, classes = kinds[:, 0].astype(np.int64), np.arange(kinds.shape[0])
        speedup = np.zeros((self.rate.shape[1], classes.size, int(width.max()) + 1))
        speedup[:, classes, width] = kinds[:, 1:].T
        return RoundsJobs(
            submit_us=to_micros(self.submit_s),
            group=group.reshape(-1),
            work_us=self.work * to_micros(round_s),
            first_epoch=np.arange(classes.size + 1),
            work_share=np.ones(classes.size),
            speedup=speedup,
            rescale_us=np.zeros(classes.size, np.int64),
        )


@dataclass(frozen=True, slots=True)
class MixedCluster:
    """GPUs of several types, shared in rounds.

    Attributes:
        gpus: of each type.
        gpus_per_host: of each type; 0 where hosts do not matter.
        round_s: length of a round.
        gbps: rate at which the state of a job moves, Gb/s.
        restart_s: pause of any start but the first, on top of the move.
        cross_host: factor on the rate of a gang on more hosts than it needs: data or tensor
            parallel, and in a pipeline.
    """

    gpus: tuple[int, ...]
    gpus_per_host: tuple[int, ...] = ()
    round_s: float = 300.0
    gbps: float = 10.0
    restart_s: float = 30.0
    cross_host: tuple[float, float] = field(default=(0.9, 1.0))


def rated_jobs(
    jobs: TraceJobs,
    shape: ClusterShape,
    cluster: MixedCluster,
    values: Mapping[str, Any],
    typed: Mapping[str, Any],
    rng: np.random.Generator,
) -> RatedJobs:
    """Return the jobs with work in rounds on the fastest type of the cluster.

    What moves take comes from the settings of the user, else from the table of rates.

    Args:
        jobs: of the trace.
        shape, cluster: where they run.
        values: of every setting.
        typed: settings of the user.
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
        measured_size = None if name in typed else measured_gb.get(name)
        return (
            usual
            if measured_size is None
            else np.where(np.isnan(measured_size), usual, measured_size)
        )

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
        if rates is None or "cross_host" in typed
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
