"""The jobs of a site as arrays, one value per job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.twin.site import SiteJob

NEVER = -1
"""Stands for no cancellation and no pinned start."""

NUMBERS = ("id", "submit", "ready", "nodes", "gpus", "limit", "runtime", "cancel", "pinned", "nice")
CODES = ("user", "account", "partition", "qos", "gpu_type")


@dataclass(frozen=True, slots=True)
class SiteJobs:
    """Arrays of shape (n,) in ascending ``id``; see `SiteJob` for what each means.

    ``cancel`` and ``pinned`` are `NEVER` where there is none. ``user`` to ``gpu_type`` are indices
    into the tuples of names; the name of a job that runs on any type is empty.
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
        return self.changed(
            **{name: getattr(self, name)[mask] for name in (*NUMBERS, "billing", *CODES)}
        )

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
