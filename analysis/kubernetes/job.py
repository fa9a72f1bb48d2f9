"""A job as every Kubernetes format gives it."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from gpuplan.analysis.kubernetes.quantities import Amount


class Attempt(Struct, frozen=True, gc=False):
    """One interval in which a job held GPUs.

    Attributes:
        start, end: seconds after 1970; an end of None is still to come.
        gpus: held, at most at one time.
        workers: pods, at most at one time.
        state: how it ended, or ``running``.
        source_state: the same as the log has it.
        nodes: where it ran.
    """

    start: float
    end: float | None
    gpus: Amount
    workers: int
    state: str
    source_state: str = ""
    nodes: tuple[str, ...] = ()


class KubeJob(Struct, gc=False):
    """A job of a Kubernetes format.

    Attributes:
        number, source: its place in a file, and the position of that file.
        name: its id, ``namespace/name``; a reused one gets ``#2`` in `numbered`.
        group: its namespace.
        owner: name of what made it or its pods, in the same namespace; empty for none.
        submit: seconds after 1970.
        attempts: its intervals, in order; empty where it never started.
        attempt_count: attempts that the log tells of, also those without an interval.
        gpus, workers: requested or held.
        state, source_state: how it ended.
        past_s: seconds of earlier attempts, where nothing else is known of them.
        starts_over: whether its duration is that of the last attempt, which did all its work.
        last_known: until when a running job is known to run; None where the log does not say:
            `rows_of_sources` takes the last instant of the log.
        told: the last time that its object tells of, beside those of its attempts.
        price: $ per hour of one instance, where the log says; ``cost`` what it cost.
        notes: what to count of it.
        left_out: why it is no job; empty for one.
        fault: reason, column, what was found and what was expected, where it is refused.
    """

    number: int
    source: int
    name: str
    group: str
    submit: float | None
    attempts: list[Attempt] = []
    attempt_count: int = 1
    gpus: Amount = 0
    workers: int = 1
    gpu_type: str | None = None
    state: str = "unknown"
    source_state: str = ""
    job_class: str | None = None
    user: str | None = None
    priority: int | None = None
    preemptible: bool | None = None
    queue: str | None = None
    cluster_queue: str | None = None
    preemptions: int | None = None
    reserved: float | None = None
    reason: str | None = None
    wait_includes_attempts: bool | None = None
    past_s: float = 0.0
    starts_over: bool = False
    last_known: float | None = None
    told: float | None = None
    price: float | None = None
    cost: float | None = None
    owner: str = ""
    notes: frozenset[str] = frozenset()
    left_out: str = ""
    fault: tuple[str, str, str, str] | None = None

    def shown(self) -> str:
        """Return what is kept of it where it is refused: nothing but its name and its times."""
        return msgspec.json.encode({"job_id": self.name, "submit": self.submit}).decode()
