"""The jobs of a site as arrays, one value per job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.twin.site import SiteJob

NEVER = -1
"""Stands for no cancellation and no pinned start."""

OPTIONAL = ("rest", "rest_limit", "patience")
"""Arrays that may be missing: then no job has any."""
NUMBERS = ("id", "submit", "ready", "nodes", "gpus", "limit", "runtime", "cancel", "pinned", "nice")
CODES = ("user", "account", "partition", "qos", "gpu_type")


@dataclass(frozen=True, slots=True)
class SiteJobs:
    """Arrays of shape (n,) in ascending ``id``; see `SiteJob` for what each means.

    ``cancel`` and ``pinned`` are `NEVER` where there is none. ``user`` to ``gpu_type`` are indices
    into the tuples of names; the name of a job that runs on any type is empty.

    ``rest`` are seconds of work left after ``runtime``: when the job ends, another one like it
    comes at once and runs for as long, or for what is left, and so on; ``rest_limit`` is what these
    ask for together, each for as much as the job at most. ``patience`` are seconds after ``ready``
    at which a job that still waits moves to GPUs elsewhere and starts there at once; `NEVER` where
    it does not. A job that is cancelled before never moves, nor does a cancelled one without a run
    time: how long it would run is unknown.
    """

    id: IntArray
    submit: IntArray
    ready: IntArray
    nodes: IntArray
    gpus: IntArray
    limit: IntArray
    runtime: IntArray
    cancel: IntArray
    pinned: IntArray
    nice: IntArray
    billing: FloatArray
    user: IntArray
    account: IntArray
    partition: IntArray
    qos: IntArray
    gpu_type: IntArray
    users: tuple[str, ...]
    accounts: tuple[str, ...]
    partitions: tuple[str, ...]
    qoses: tuple[str, ...]
    gpu_types: tuple[str, ...]
    rest: IntArray | None = None
    rest_limit: IntArray | None = None
    patience: IntArray | None = None

    def __post_init__(self) -> None:
        if self.id.size and (np.diff(self.id) <= 0).any():
            raise ValueError("job ids must ascend and differ")
        for name, least in (("nodes", 1), ("gpus", 1), ("limit", 1), ("runtime", 0)):
            values = getattr(self, name)
            if values.size and values.min() < least:
                raise ValueError(f"{name} must be at least {least}, got {values.min()}")

    @property
    def total_gpus(self) -> IntArray:
        """GPUs of each job on all its nodes."""
        total: IntArray = self.nodes * self.gpus
        return total

    def kept(self, mask: BoolArray) -> SiteJobs:
        """Return the jobs where ``mask`` is true."""
        names = (*NUMBERS, "billing", *CODES, *OPTIONAL)
        arrays = {name: getattr(self, name) for name in names}
        return self.changed(
            **{name: None if array is None else array[mask] for name, array in arrays.items()}
        )

    @property
    def moves(self) -> BoolArray:
        """Where a job moves to GPUs elsewhere if it waits too long."""
        if self.patience is None:
            return np.zeros(self.id.size, np.bool_)
        later = self.cancel >= self.ready + self.patience
        waits = (self.cancel < 0) | (later & (self.runtime > 0))
        moving: BoolArray = (self.patience >= 0) & (self.pinned < 0) & waits
        return moving

    @property
    def later_parts(self) -> IntArray:
        """How many jobs go on with the ``rest`` of each."""
        if self.rest is None:
            return np.zeros(self.id.size, np.int64)
        count: IntArray = -(-self.rest // np.maximum(self.runtime, 1))
        return count

    def parts(self) -> tuple[SiteJobs, IntArray]:
        """Return these jobs and after them those that go on with their ``rest``.

        Also returns, for each of all these, the job that goes on with it, -1 for none.
        """
        n = self.id.size
        follower = np.full(n, -1, np.int64)
        if self.rest is None or not (self.rest > 0).any():
            return self, follower
        each, count = np.maximum(self.runtime, 1), self.later_parts
        first = n + np.cumsum(count) - count
        of = np.concatenate([np.arange(n), np.repeat(np.arange(n), count)])
        before = np.arange(n, of.size) - first[of[n:]]  # parts of the same job
        follower = np.concatenate([np.where(count > 0, first, -1), np.arange(n, of.size) + 1])
        follower[n:][before + 1 == count[of[n:]]] = -1
        arrays = {name: getattr(self, name)[of] for name in (*NUMBERS, "billing", *CODES)}
        arrays["id"][n:] = self.id.max() + 1 + np.arange(of.size - n)
        left = self.rest[of[n:]] - before * each[of[n:]]
        arrays["runtime"][n:] = np.minimum(each[of[n:]], left)
        if self.rest_limit is not None:
            limit = self.rest_limit[of[n:]] - before * self.limit[of[n:]]
            arrays["limit"][n:] = np.clip(limit, 1, self.limit[of[n:]])
        arrays["pinned"][n:] = arrays["cancel"][n:] = NEVER
        return self.changed(**arrays, rest=None, rest_limit=None, patience=None), follower

    def changed(self, **values: object) -> SiteJobs:
        """Return the jobs with some arrays exchanged."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return SiteJobs(**(fields | values))

    @classmethod
    def of(cls, jobs: Iterable[SiteJob]) -> SiteJobs:
        """Return the arrays of single jobs."""
        rows = sorted(jobs, key=lambda job: job.id)
        numbers: dict[str, IntArray] = {}
        for name in NUMBERS:
            cells = [getattr(job, name) for job in rows]
            numbers[name] = np.array([NEVER if c is None else c for c in cells], np.int64)
        codes, names = {}, []
        for name in CODES:
            code_of: dict[str, int] = {}
            cells = [code_of.setdefault(getattr(job, name), len(code_of)) for job in rows]
            codes[name] = np.array(cells, np.int64)
            names.append(tuple(code_of))
        billing = np.array([job.cost for job in rows], np.float64)
        users, accounts, partitions, qoses, gpu_types = names
        return cls(
            **numbers, billing=billing, **codes, users=users, accounts=accounts,
            partitions=partitions, qoses=qoses, gpu_types=gpu_types,
        )  # fmt: skip
