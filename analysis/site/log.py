"""Read a log with the fields of its scheduler: sacct, SWF, or a trace that kept them.

Every other reader of logs brings them into the canonical schema; this one keeps what a replay under
the site's rules needs. A missing field is reported with the rule that it switches off.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.job_table.schema import METADATA_KEY, UNREADABLE, Provenance
from gpuplan.analysis.log_formats.format import LogFormat
from gpuplan.analysis.log_formats.sacct_command import refuse_missing
from gpuplan.analysis.log_formats.slurm import SLURM_FORMAT, has_local_times
from gpuplan.analysis.log_formats.swf import STATUS, SWF
from gpuplan.analysis.reading.batch import CUT_OFF, cut_warnings
from gpuplan.analysis.reading.source import Head, Source, SourceStream
from gpuplan.analysis.reading.times import LOCAL_TIMES, check_zone
from gpuplan.analysis.site.sacct import (
    FOREVER_S,
    NEEDED,
    SITE_COLUMNS,
    accelerator_notes,
    in_seconds,
    sacct_jobs,
)
from gpuplan.analysis.storage.files import existing_file, sha256_of
from gpuplan.analysis.storage.standard_error import silent_on

SWITCHED_OFF = {
    "eligible": ("Eligible", "waits count from the submission, holds and dependencies included"),
    "limit_s": ("Timelimit", "backfill plans with twice the run time of every job"),
    "user": ("User", "limits per user and fair share are off"),
    "account": ("Account", "limits and shares of accounts are off"),
    "partition": ("Partition", "all jobs run in one partition"),
    "qos": ("QOS", "limits and priorities of QOS are off"),
    "nodes": ("NNodes", "a job takes as few nodes as can hold it"),
    "reason": ("Reason", "jobs that a dependency, a hold or a license kept waiting are scored"),
    "node_list": ("NodeList", "nodes that partitions share are not known"),
    "submit_line": ("SubmitLine", "jobs that requested named nodes are not pinned"),
    "reservation": ("Reservation", "jobs in reservations are not pinned"),
    "billing": ("billing", "usage counts GPUs"),
}
"""Field -> its name in sacct, and the rule that is off without it."""
PARTIAL = ("2", "3", "4")
TIMES = ("submit", "eligible", "start", "end")
LAST_SECOND = 7_258_118_400  # 2200
LONGEST_S = 20 * FOREVER_S
MOST_GPUS = 1_000_000
MOST_BILLING = 1e12


@dataclass(frozen=True, slots=True)
class SiteLog:
    """A log as the twin reads it.

    Attributes:
        jobs: one row per run of a GPU job, the columns of `SITE_COLUMNS`, sorted by submission.
        path: the file.
        sha256: hash of the file.
        kind: ``slurm``, ``swf`` or ``trace``.
        left_out: rows that are not usable GPU jobs, by reason.
        missing: fields that the log lacks.
        warnings: what makes the log doubtful, one sentence each.
        notes: what the user should know, one sentence each.
        sources: hashes of the logs that a trace was made of.
        cpu_jobs: jobs without GPUs that ran in partitions of GPU jobs.
    """

    jobs: pl.DataFrame
    path: Path
    sha256: str
    kind: str
    left_out: dict[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    cpu_jobs: int = 0

    def switched_off(self) -> list[str]:
        """Return what each missing field means, one sentence each."""
        return [f"no {SWITCHED_OFF[name][0]}: {SWITCHED_OFF[name][1]}" for name in self.missing]


def read_site_log(path: Path, zone: str | None = None) -> SiteLog:
    """Read a log, plain or compressed.

    Args:
        path: the file.
        zone: zone of times that are written without an offset; None for UTC, with a note.

    Raises:
        InputError: it cannot be read, is not such a log, or has no GPU job.
        UsageError: there is no such zone.
    """
    existing_file(path)
    if zone is not None:
        check_zone(zone)
    try:
        with silent_on(*UNREADABLE):
            return _read(path, zone)
    except UNREADABLE as error:
        raise InputError(
            path,
            f"cannot be read ({str(error).partition(chr(10))[0][:120]})",
            expected="a log of sacct, a SWF file, or a trace of gpuplan ingest --twin",
        ) from error


def _read(path: Path, zone: str | None) -> SiteLog:
    source = Source(path, path, path.stat().st_size)
    with closing(SourceStream(source)) as stream:
        head = Head(path, stream.head)
        if head.is_parquet:
            return _checked(_from_trace(path))
        kind, log_format = _format_of(head)
        rows = log_format.open(stream)
        has = frozenset(rows.columns)
        if kind == "slurm":
            refuse_missing(path, rows.columns, NEEDED)
        batches = [task() for task in rows.batches(rows.columns)]
        refused = Counter(row.reason for batch in batches for row in batch.refused)
        if not batches:
            raise InputError(path, "has a header but no rows", expected="at least one GPU job")
        cells = pl.concat([batch.cells for batch in batches])
        digest = stream.sha256()
    begins = 0
    if kind == "swf":
        starts = [part for part in head.data.decode("utf-8", "replace").splitlines()[:400]
                if "UnixStartTime:" in part]  # fmt: skip
        time = re.search(r"UnixStartTime:\s*(\d{1,12})", starts[0]) if starts else None
        begins = int(time[1]) if time else 0
    is_slurm = kind == "slurm"
    read, present = sacct_jobs(cells, has, zone or "UTC") if is_slurm else _swf(cells, begins)
    is_local = is_slurm and zone is None and has_local_times(rows.sample, "submit")
    notes = [LOCAL_TIMES] if is_local else []
    if is_slurm:
        notes += accelerator_notes(cells, has)
    jobs, left_out = _usable(read)
    if rows_cut := refused.pop(CUT_OFF, 0):
        left_out["that the end of the log cuts"] = rows_cut
    warnings = cut_warnings(rows_cut, any(batch.may_be_cut for batch in batches))
    if unread := refused.total():
        left_out["that cannot be read"] = unread
    absent = tuple(name for name in SWITCHED_OFF if name not in present)
    cpu_jobs = _cpu_jobs(read, jobs)
    said = (tuple(warnings), tuple(notes))
    return _checked(SiteLog(jobs, path, digest, kind, left_out, absent, *said, cpu_jobs=cpu_jobs))


def _checked(log: SiteLog) -> SiteLog:
    started = log.jobs.filter(pl.col("start").is_not_null()).height if log.jobs.height else 0
    if not started:
        reasons = "; ".join(f"{count} {why}" for why, count in log.left_out.items())
        raise InputError(
            log.path,
            f"has no GPU job that started ({reasons or 'no rows'})",
            expected="jobs with Submit, Start, End and GPUs",
        )
    return log


def _format_of(head: Head) -> tuple[str, LogFormat]:
    for log_format in (SLURM_FORMAT, SWF):
        if log_format.recognizes(head) is not None:
            return log_format.name, log_format
    raise InputError(
        head.path,
        f"is neither sacct output nor an SWF log nor a trace: {head.shown()}",
        expected="sacct output, an SWF log or a trace of gpuplan ingest --twin",
    )


def _swf(cells: pl.DataFrame, begins: int) -> tuple[pl.DataFrame, set[str]]:
    cells = cells.filter(~pl.col("status").is_in(PARTIAL).fill_null(False))

    def number(name: str) -> pl.Expr:
        value = pl.col(name).cast(pl.Float64, strict=False)
        return pl.when(value >= 0).then(value.round()).cast(pl.Int64)

    def present(name: str) -> pl.Expr:
        return pl.when(~pl.col(name).is_in(["-1", "-1.0"])).then(pl.col(name))

    submit, wait, run = number("submit_time") + begins, number("wait_time"), number("run_time")
    gpus = pl.coalesce(
        pl.when(number(name) > 0).then(number(name))
        for name in ("allocated_processors", "requested_processors")
    )
    word = pl.col("status").replace_strict(STATUS, default="unknown", return_dtype=pl.String)
    limit = number("requested_time")
    never = run.is_null() | ((run == 0) & (word == "cancelled"))
    none = pl.lit(None, pl.String)
    read = cells.select(
        job_id=pl.col("job_number"), user=present("user_id"), account=present("group_id"),
        partition=present("partition"), qos=none, submit=submit, eligible=pl.lit(None, pl.Int64),
        start=pl.when(~never).then(submit + wait),
        end=submit + wait + run.fill_null(0), run_s=pl.when(~never).then(run),
        limit_s=pl.when(limit > 0).then(limit),
        nodes=pl.lit(None, pl.Int64), gpus=gpus, gpu_type=none, state=word,
        priority=pl.lit(None, pl.Int64), reason=none, flags=none, reservation=none,
        node_list=none, submit_line=none, billing=pl.lit(None, pl.Float64),
        cpus=pl.lit(None, pl.Float64), memory_mb=pl.lit(None, pl.Float64),
    )  # fmt: skip
    recorded = {name for name in ("user", "account", "partition", "limit_s") if read[name].count()}
    return read, recorded | {"job_id", "submit", "start", "end", "run_s", "gpus", "state"}


def _from_trace(path: Path) -> SiteLog:
    """Return the log that a trace of ``ingest --twin`` kept; a plain trace lacks most fields."""
    table = pl.read_parquet(path)
    has = set(table.columns)
    if not {"submit_time", "duration_s", "num_gpus"} <= has:
        raise InputError(path, "is not a trace", expected="a trace written by gpuplan ingest")

    def column(name: str, kind: pl.DataType) -> pl.Expr:
        return pl.col(name).cast(kind) if name in has else pl.lit(None, kind)

    text, whole = pl.String(), pl.Int64()
    submit = in_seconds(pl.col("submit_time"))
    start = submit + column("queue_s", pl.Float64()).round().cast(whole)
    run = column("duration_s", pl.Float64()).round().cast(whole)
    cancel = in_seconds(pl.col("cancel_time")) if "cancel_time" in has else pl.lit(None, whole)
    read = table.select(
        job_id=column("job_id", text), user=column("user", text),
        account=pl.coalesce(column("account", text), column("group", text)),
        partition=column("partition", text), qos=column("qos", text), submit=submit,
        eligible=in_seconds(pl.col("eligible_time")) if "eligible_time" in has
        else pl.lit(None, whole),
        start=start, end=pl.coalesce(start + run, cancel), run_s=run,
        limit_s=column("limit_s", pl.Float64()).cast(whole),
        nodes=column("req_nodes", whole), gpus=pl.col("num_gpus").ceil().cast(whole),
        gpu_type=column("gpu_type", text),
        state=column("state", text).fill_null("unknown"),
        priority=column("recorded_priority", whole), reason=column("reason", text),
        flags=pl.lit(None, text), reservation=pl.lit(None, text), node_list=pl.lit(None, text),
        submit_line=pl.lit(None, text), billing=column("billing", pl.Float64()),
        cpus=column("cpus", pl.Float64()), memory_mb=column("memory_mb", pl.Float64()),
    )  # fmt: skip
    jobs, left_out = _usable(read)
    absent = tuple(name for name in SWITCHED_OFF if not jobs[name].count())
    return SiteLog(jobs, path, sha256_of(path), "trace", left_out, absent, sources=_made_of(path),
                   cpu_jobs=_cpu_jobs(read, jobs))  # fmt: skip


def _cpu_jobs(read: pl.DataFrame, jobs: pl.DataFrame) -> int:
    """Return how many jobs without GPUs ran in the partitions of the GPU jobs."""
    ran = read.filter((pl.col("gpus").fill_null(0) < 1) & pl.col("start").is_not_null())
    return ran.filter(pl.col("partition").is_in(jobs["partition"].unique().implode())).height


def _made_of(trace: Path) -> tuple[str, ...]:
    """Return the hashes of the logs that a trace was made of, where it says so."""
    stored = pl.read_parquet_metadata(trace).get(METADATA_KEY)
    try:
        sources = Provenance.from_json(stored).sources if stored else ()
    except (ValueError, TypeError):
        return ()
    return tuple(source.sha256 for source in sources)


def _usable(read: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
    """Return the GPU jobs that can be replayed or cancelled, and counts of the other rows."""
    ran = pl.coalesce("run_s", pl.col("end") - pl.col("start"))
    never = pl.col("start").is_null() | ((pl.col("state") == "cancelled") & (ran.fill_null(0) == 0))
    read = read.with_columns(start=pl.when(~never).then("start"), run_s=pl.when(~never).then(ran))
    counts: dict[str, int] = {}
    for why, broken in (
        ("without a job id", pl.col("job_id").is_null()),
        ("without a submission", pl.col("submit").is_null()),
        ("without GPUs (CPU jobs)", pl.col("gpus").fill_null(0) < 1),
        ("still waiting or unfinished at the end of the log",
         pl.col("end").is_null() & pl.col("run_s").is_null()),
        ("with an end before the start", pl.col("run_s") < 0),
        ("with a time before 1970 or after 2200",
         ~pl.min_horizontal(*TIMES).is_between(0, LAST_SECOND)
         | ~pl.max_horizontal(*TIMES).is_between(0, LAST_SECOND)),
        ("of a run over 20 years", pl.col("run_s") > LONGEST_S),
        ("of more than a million GPUs", pl.max_horizontal("gpus", "nodes") > MOST_GPUS),
        ("with a start before the submission", pl.col("start") < pl.col("submit")),
        ("whose GPUs are not a multiple of their nodes",
         pl.col("gpus") % pl.col("nodes").fill_null(1).clip(1) != 0),
    ):  # fmt: skip
        is_broken = broken.fill_null(False)
        bad = read.filter(is_broken).height
        if bad:
            counts[why] = bad
            read = read.filter(~is_broken)
    read = read.with_columns(
        limit_s=pl.col("limit_s").clip(upper_bound=LONGEST_S),
        billing=pl.when(pl.col("billing") < MOST_BILLING).then("billing"),
    )
    jobs = read.select(pl.col(name).cast(kind) for name, kind in SITE_COLUMNS.items()).sort(
        "submit", maintain_order=True
    )
    return jobs, counts


def left_out_notes(log: SiteLog) -> list[str]:
    """Return a sentence per kind of row that was left out."""
    return [f"{counted(count, 'row')} {why} left out" for why, count in log.left_out.items()]
