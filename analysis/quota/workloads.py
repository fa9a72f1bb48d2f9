"""The Workloads of Kueue in a dump of kubectl, with what their pods request and when they ran.

Other than the reader of traces, this one keeps the pod sets: what flavors they may run on, and how
few pods they take. Nothing else of a pod is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.far_times import FAR, IMPOSSIBLE, OtherTimes
from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.job_table.reject_limit import DEFAULT_LIMIT
from gpuplan.analysis.kubernetes.collection import located
from gpuplan.analysis.kubernetes.heads import head_of, is_of_kueue
from gpuplan.analysis.kubernetes.jobs import shown_time
from gpuplan.analysis.kubernetes.objects import (
    DELETED,
    UNREADABLE,
    KubeObject,
    in_order,
    read_objects,
    versions,
)
from gpuplan.analysis.kubernetes.times import TRUE, StatusCondition, StreamTimes
from gpuplan.analysis.kubernetes.times import seconds as exact_seconds
from gpuplan.analysis.kubernetes.workload_objects import (
    FINISHED_STATES,
    PREVIOUSLY,
    WorkloadStatus,
)
from gpuplan.analysis.quota.kueue_site import KUEUE, QuotaDocument, site_or_none
from gpuplan.analysis.quota.objects import COMMAND, SiteObject, newest_setting
from gpuplan.analysis.quota.pod_sets import (
    ContradictoryWorkload,
    PodSetShape,
    assigned_gpus,
    pod_group,
)
from gpuplan.analysis.quota.workload_texts import WorkloadText
from gpuplan.analysis.reading.source import opened_file

WORKLOAD = "Workload"
MOST_PRIORITY = 1 << 31
"""Kubernetes has priorities of 32 bits."""
UNKNOWN = StatusCondition()
CANNOT_BE_USED = "times or amounts cannot be used"
COLUMNS: dict[str, pl.DataType] = {
    "job_id": pl.String(), "namespace": pl.String(), "local_queue": pl.String(),
    "cluster_queue": pl.String(), "priority": pl.Int64(), "priority_class": pl.String(),
    "submit": pl.Int64(), "start": pl.Int64(), "admitted": pl.Int64(), "end": pl.Int64(),
    "run_s": pl.Int64(), "gpus": pl.Float64(), "flavor": pl.String(), "state": pl.String(),
    "attempts": pl.Int64(), "preemptions": pl.Int64(), "reason": pl.String(),
    "is_first": pl.Boolean(), "shape": pl.Int64(), "waits_since": pl.Int64(),
}  # fmt: skip
"""Times are seconds after 1970. ``start`` is when quota was first reserved, as far as the dump
tells (``is_first``: it was the first time); ``end`` is null while it runs. ``waits_since`` is the
creation or the last eviction of one that waits."""


@dataclass(frozen=True, slots=True)
class KueueLog:
    """A dump of Workloads as the twin reads it.

    Attributes:
        jobs: one row per workload with GPUs that was admitted, the columns of `COLUMNS`, sorted by
            creation.
        shapes: the different pod sets; ``shape`` of a job is a position here.
        path, sha256: the file.
        site: the queues in the same file; None without any.
        left_out: workloads that are not replayed, by reason.
        end: the last instant that the dump tells of, seconds after 1970.
        notes, warnings: what the user should know, one sentence each.
        sources: hashes of logs that it was made of; none.
        waiting: workloads that still wait.
    """

    jobs: pl.DataFrame
    shapes: tuple[tuple[PodSetShape, ...], ...]
    path: Path
    sha256: str
    site: QuotaDocument | None
    left_out: dict[str, int]
    end: int
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    waiting: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=COLUMNS))

    @property
    def end_us(self) -> int:
        """The last instant, microseconds since 1970."""
        return self.end * MICROS


def is_kueue_dump(path: Path) -> bool:
    """Return whether a file is JSON with objects of Kueue, by its beginning.

    A label of Kueue, as on pods that it admitted, makes no dump. Raises `InputError` where the file
    cannot be read.
    """
    if not path.is_file():
        return False
    return is_of_kueue(head_of(path))


def read_kueue_log(path: Path) -> KueueLog:
    """Read the Workloads and queues of a dump, plain or compressed.

    Raises:
        InputError: it cannot be read, or has no Workload with GPUs that was admitted.
    """
    with opened_file(path) as stream:
        file = read_objects(stream)
        sha256 = stream.sha256()
    for refused in file.refused[:1]:
        raise InputError(path, refused.found or "", row=refused.row, expected=refused.expected)
    decoder = msgspec.json.Decoder(WorkloadText)
    reader = _Workloads(path, StreamTimes([file.objects]))
    site_objects: list[SiteObject] = []
    for kept in versions(file.objects):
        if kept[-1].kind == WORKLOAD and kept[-1].api_group in (KUEUE, ""):
            reader.add(kept, decoder)
        elif kept[-1].kind != WORKLOAD:
            site_objects.append(SiteObject.kept(path, newest_setting(path, kept)))
    return reader.log(sha256, site_or_none(path, site_objects))


def seconds(moment: datetime | None) -> int | None:
    """Return an instant as whole seconds after 1970; None where there is none."""
    at = exact_seconds(moment)
    return None if at is None else int(at) or None


class _Workloads:
    """Collects workloads into rows."""

    def __init__(self, path: Path, times: StreamTimes) -> None:
        self.path, self.times = path, times
        self.rows: list[dict[str, Any]] = []
        self.waiting: list[dict[str, Any]] = []
        self.shapes: dict[tuple[PodSetShape, ...], int] = {}
        self.left_out: dict[str, int] = {}
        self.names: dict[str, int] = {}
        self.spans: dict[str, tuple[int, int]] = {}
        self.held = 0
        self.rejected: list[str] = []

    def leave_out(self, why: str, span: tuple[int, int] | None = None) -> None:
        self.left_out[why] = self.left_out.get(why, 0) + 1
        if span is not None:
            self.spans[f"{len(self.spans)}"] = span

    def add(self, kept: list[KubeObject], decoder: msgspec.json.Decoder[WorkloadText]) -> None:
        """Add a workload from all its versions, or set it aside as `ingest` does."""
        last, item = in_order(kept)[-1], kept[0]
        read: list[WorkloadText] = []
        try:
            for item in in_order(kept):
                read.append(item.read(decoder))
            self._add(last, read)
        except (*UNREADABLE, msgspec.ValidationError) as error:
            name = f"Workload {last.namespace}/{last.name}"
            self.rejected.append(f"{name}: {located(item, error)}")

    def _add(self, item: KubeObject, read: list[WorkloadText]) -> None:
        work, spec = read[-1], read[-1].spec
        status = work.status or WorkloadStatus()
        conditions = {condition.type: condition for condition in status.conditions or ()}
        submit = seconds(work.metadata.created)
        if submit is None:
            raise ValueError("has no creationTimestamp")
        at = {name: seconds(condition.at) for name, condition in conditions.items()}
        instants = [submit, *(time for time in at.values() if time is not None)]
        span = min(instants), max(instants)
        if abs(spec.priority or 0) > MOST_PRIORITY:
            raise ValueError(f"found the priority {spec.priority}, expected 32 bits")
        groups = tuple(pod_group(pods) for pods in spec.pod_sets or ())
        gpus, flavor = assigned_gpus(status.admission, groups)
        if not gpus:
            self.leave_out("without GPUs", span)
            return
        starts = _reservations(read)
        end = at.get("Finished") if _is_true(conditions, "Finished") else None
        is_deleted = item.event == DELETED and end is None
        if is_deleted and starts:
            gone = seconds(work.metadata.deleted) or self.times.until(item)
            end = max(int(gone or starts[-1]), starts[-1])
        if end is not None and starts and end < starts[-1]:
            raise ContradictoryWorkload("finished before it was admitted")
        if starts and starts[0] < submit:
            self.leave_out("admitted before they were created (no wait recorded)", span)
            return
        evicted = _is_true(conditions, "Evicted")
        counts = (status.stats.evictions if status.stats else None) or []
        attempts = 1 + sum(eviction.count for eviction in counts)
        admissions = len(starts)
        said = conditions.get("Evicted", UNKNOWN).message or ""
        if status.stats is None and (evicted or said.startswith(PREVIOUSLY)):
            attempts = max(2, admissions)
        attempts = max(attempts, admissions)
        name = self._named(f"{item.namespace}/{item.name}")
        self.spans[name] = span
        row = {
            "job_id": name,
            "namespace": item.namespace,
            "local_queue": spec.queue or "",
            "cluster_queue": (status.admission.cluster_queue or "") if status.admission else None,
            "priority": spec.priority or 0,
            "priority_class": spec.priority_ref.name if spec.priority_ref else spec.priority_class,
            "submit": submit,
            "gpus": float(gpus),
            "flavor": flavor,
            "attempts": attempts,
            "preemptions": sum(e.count for e in counts if e.reason == "Preempted"),
            "reason": conditions.get("QuotaReserved", UNKNOWN).reason or None,
            "is_first": attempts <= max(admissions, 1),
            "shape": self.shapes.setdefault(groups, len(self.shapes)),
        }
        if not starts:
            why = "never admitted" if end is not None or is_deleted else "still waiting"
            self.leave_out(why if spec.active is not False or end is not None else "deactivated")
            if end is None and spec.active is not False and not is_deleted:
                since = at.get("Evicted") if evicted else None
                self.waiting.append(row | {"waits_since": max(since or submit, submit)})
            return
        if evicted and end is None:
            self.held += 1
            self.leave_out("evicted, and neither admitted again nor finished")
            return
        finish = conditions.get("Finished", UNKNOWN).reason or ""
        self.rows.append(
            row
            | {
                "start": starts[0],
                "admitted": at.get("Admitted") if _is_true(conditions, "Admitted") else None,
                "end": end,
                "run_s": None if end is None else max(end - starts[-1], 0),
                "state": "running" if end is None else FINISHED_STATES.get(finish, "cancelled"),
            }
        )

    def _named(self, name: str) -> str:
        """Return a name that no other job has."""
        count = self.names[name] = self.names.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"

    def _far(self) -> list[str]:
        """Set workloads of impossible times aside; return a warning on others that are far off."""
        other_times = OtherTimes.of(self.spans.values())
        far = [name for name, span in self.spans.items() if other_times.is_far(span)]
        admitted = {row["job_id"] for row in self.rows}
        suspicious = []
        for name in far:
            span = self.spans[name]
            when = f"{name}: {shown_time(other_times.outer(span))}"
            if not other_times.is_impossible(span):
                suspicious.append(when)
                continue
            del self.spans[name]
            if name in admitted:
                self.rejected.append(f"Workload {when}, expected {IMPOSSIBLE}")
        self.rows = [row for row in self.rows if row["job_id"] in self.spans]
        self.waiting = [row for row in self.waiting if row["job_id"] in self.spans]
        if not suspicious:
            return []
        have = "has times" if len(suspicious) == 1 else "have times"
        return [
            f"{counted(len(suspicious), 'workload')} {have} {FAR} "
            f"(the first: {suspicious[0]}): the answer covers all of that time; take them out of "
            "the dump if a clock was wrong"
        ]

    def _check_rejected(self) -> None:
        """Refuse a dump of which more cannot be used than ingest takes. Raises `InputError`."""
        read = len(self.rows) + sum(self.left_out.values()) + len(self.rejected)
        if not DEFAULT_LIMIT.allows(len(self.rejected), read):
            raise InputError(
                self.path,
                self.rejected[0],
                expected=f"a Workload of Kueue; {len(self.rejected):,} of "
                f"{counted(read, 'workload')} cannot be used, more than {DEFAULT_LIMIT.text}",
                hint=COMMAND,
            )

    def log(self, sha256: str, site: QuotaDocument | None) -> KueueLog:
        """Return all workloads.

        Raises `InputError` where none was admitted, or too many cannot be used.
        """
        far = self._far()
        self._check_rejected()
        if not self.rows:
            reasons = "; ".join(f"{count:,} {why}" for why, count in self.left_out.items())
            raise InputError(
                self.path, f"has no Workload that was admitted ({reasons or 'no Workloads'})",
                expected="Workloads of Kueue with GPUs", hint=COMMAND,
            )  # fmt: skip
        if self.rejected:
            self.left_out[CANNOT_BE_USED] = len(self.rejected)
        end = max(last for _, last in self.spans.values())
        jobs = pl.DataFrame(self.rows, schema=COLUMNS).sort("submit", "job_id")
        jobs = jobs.with_columns(pl.coalesce("run_s", (end - pl.col("start")).clip(lower_bound=0)))
        running = int((jobs["state"] == "running").sum())
        ended = jobs.filter(pl.col("state") != "running")
        notes = []
        if ended.height:
            seconds_of_ends = ended["end"].to_numpy()
            first, last = (
                shown_time(second).rpartition(":")[0]
                for second in (seconds_of_ends.min(), seconds_of_ends.max())
            )
            notes.append(
                f"finished workloads are from {first} to {last}: "
                "Kueue keeps them until their job is deleted"
            )
        if running:
            notes.append(f"{counted(running, 'workload')} still running, replayed to the last "
                         "instant of the dump")  # fmt: skip
        if self.held:
            notes.append(
                f"{counted(self.held, 'workload')} evicted without an end: the quota may still be "
                "held (Kueue issue 14811)"
            )
        warnings = [
            f"{counted(len(self.rejected), 'workload')} cannot be used and left out; the first: "
            f"{first}"
            for first in self.rejected[:1]
        ] + far
        return KueueLog(
            jobs, tuple(self.shapes), self.path, sha256, site, self.left_out, end,
            tuple(notes), tuple(warnings), waiting=pl.DataFrame(self.waiting, schema=COLUMNS),
        )  # fmt: skip


def _is_true(conditions: dict[str, StatusCondition], name: str) -> bool:
    return name in conditions and conditions[name].status == TRUE


def _reservations(read: list[WorkloadText]) -> list[int]:
    """Return the times at which quota was reserved, as far as the versions tell, ascending."""
    times: set[int] = set()
    for work in read:
        for condition in (work.status.conditions if work.status else None) or ():
            named = condition.type in ("QuotaReserved", "Admitted")
            if not named or condition.status != TRUE:
                continue
            time = seconds(condition.at)
            if time is not None and condition.type == "QuotaReserved":
                times.add(time)
        if not times and work.status:
            for condition in work.status.conditions or ():
                if condition.type == "Admitted" and condition.status == TRUE:
                    time = seconds(condition.at)
                    times |= {time} if time is not None else set()
    return sorted(times)
