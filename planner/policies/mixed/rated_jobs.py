"""Jobs with a rate on each GPU type, and the cluster that they share in rounds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.rounds.simulator import RoundsJobs
from gpuplan.simkit.time import to_micros


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
