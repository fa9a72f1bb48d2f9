"""The runs of a log with the fields of its scheduler: sacct, SWF, or a trace that kept them.

A log is read by way of its trace, so that both give the same answers. A missing field is reported
with the rule that it switches off.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.far_times import IMPOSSIBLE_S, OtherTimes
from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.ingest.kept_logs import always_shown_notes, opened_log
from gpuplan.analysis.job_table.log_options import LogOptions
from gpuplan.analysis.job_table.reject_limit import DEFAULT_LIMIT
from gpuplan.analysis.job_table.run_cells import as_runs, is_runs
from gpuplan.analysis.job_table.schema import (
    METADATA_KEY,
    RUN_COLUMNS,
    RUN_FIELDS,
    RUNS,
    SCHEDULER_COLUMNS,
    UNREADABLE,
    Provenance,
)
from gpuplan.analysis.kubernetes.heads import is_of_kueue, refuse_without_workloads
from gpuplan.analysis.kubernetes.refusals import COMMANDS, not_kubernetes_json
from gpuplan.analysis.log_formats.canonical import CANONICAL_FORMAT
from gpuplan.analysis.log_formats.format import LogFormat
from gpuplan.analysis.log_formats.sacct_command import RESOURCES, Needed, refuse_missing
from gpuplan.analysis.log_formats.slurm import SLURM_FORMAT
from gpuplan.analysis.log_formats.slurm_cells import FOREVER_S
from gpuplan.analysis.log_formats.swf import SWF
from gpuplan.analysis.reading.batch import CUT_OFF
from gpuplan.analysis.reading.source import Head, Source, SourceStream
from gpuplan.analysis.reading.times import check_zone
from gpuplan.analysis.storage.files import STANDARD_INPUT, existing_file, sha256_of
from gpuplan.analysis.storage.parquet_pages import check_pages
from gpuplan.analysis.storage.standard_error import silent_on

TEXT, WHOLE = pl.String(), pl.Int64()
SITE_COLUMNS: dict[str, pl.DataType] = {
    "job_id": TEXT, "user": TEXT, "account": TEXT, "partition": TEXT, "qos": TEXT,
    "submit": WHOLE, "eligible": WHOLE, "start": WHOLE, "end": WHOLE, "run_s": WHOLE,
    "limit_s": WHOLE, "nodes": WHOLE, "gpus": WHOLE, "gpu_type": TEXT, "state": TEXT,
    "priority": WHOLE, "reason": TEXT, "reservation": TEXT, "node_list": TEXT,
    "submit_line": TEXT, "billing": pl.Float64(),
    "cpus": pl.Float64(), "memory_mb": pl.Float64(),
}  # fmt: skip
"""Times are seconds after 1970; ``start`` is null for a job that never started."""

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
OFTEN_EMPTY = {"limit_s", "reason", "reservation", "node_list", "submit_line", "billing"}
"""Fields that a trace has where its log has them, even if no job has a value."""
OF_RUN = {name: kind for name, kind in RUN_FIELDS.items() if name in SCHEDULER_COLUMNS}
"""Fields of the scheduler that each run of a job has."""
TIMES = ("submit", "eligible", "start", "end")
LAST_SECOND = 7_258_118_400  # 2200
LONGEST_S = 20 * FOREVER_S
FORMATS = (SLURM_FORMAT, SWF, CANONICAL_FORMAT)
"""Of logs that are read, besides traces."""
MOST_GPUS = 1_000_000
MOST_BILLING = 1e12
UNFINISHED = "still waiting or unfinished at the end of the log"
NEEDED: tuple[Needed, ...] = (
    ("job ids", (("jobid",),)),
    ("submissions", (("submit",),)),
    ("starts", (("start",),)),
    ("ends", (("end",),)),
    ("GPUs", tuple((name,) for name in RESOURCES)),
)
"""What a replay needs of sacct."""


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
        waiting: jobs that still wait at the end of the log, in the same columns.
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
    waiting: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SITE_COLUMNS))
    cpu_jobs: int = 0

    @property
    def end_us(self) -> int:
        """The last submission or end of a job, microseconds since 1970."""
        times = pl.concat([self.jobs["submit"], self.jobs["end"]]).drop_nulls().to_numpy()
        return int(times.max(initial=0)) * MICROS

    def switched_off(self) -> list[str]:
        """Return what each missing field means, one sentence each."""
        return [f"no {SWITCHED_OFF[name][0]}: {SWITCHED_OFF[name][1]}" for name in self.missing]


def has_local_times(path: Path) -> bool:
    """Return whether a log may have times without an offset; a trace and an SWF log have none.

    Raises `InputError` where it cannot be read.
    """
    if path == STANDARD_INPUT or path.is_dir():
        return True
    existing_file(path)
    with closing(SourceStream(Source(path, path, path.stat().st_size))) as stream:
        head = Head(path, stream.head)
    return not head.is_parquet and SWF.recognizes(head) is None


def read_site_log(path: Path, zone: str | None = None) -> SiteLog:
    """Read a log, plain or compressed.

    Args:
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
            expected="a log of sacct, a SWF file, or a trace of gpuplan ingest",
        ) from error


def _read(path: Path, zone: str | None) -> SiteLog:
    source = Source(path, path, path.stat().st_size)
    with closing(SourceStream(source)) as stream:
        head = Head(path, stream.head)
        if head.is_parquet:
            check_pages(path)
            return _checked(_of_trace(path, path, sha256_of(path)))
        log_format = _format_of(head)
        if log_format is SLURM_FORMAT:
            refuse_missing(path, log_format.open(stream).columns, NEEDED)
    chosen = zone if log_format.takes_zone else None
    options = LogOptions(time_zone=chosen, max_rejects=DEFAULT_LIMIT)
    with opened_log(path, options, is_quiet=True) as ingested:
        log = _of_trace(ingested.trace, path, ingested.sha256)
    return _checked(replace(log, kind=log_format.name, sources=(), warnings=ingested.warnings))


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


def _format_of(head: Head) -> LogFormat:
    for log_format in FORMATS:
        if log_format.recognizes(head) is not None:
            return log_format
    if (refusal := not_kubernetes_json(head.path, head.data)) is not None:
        raise refusal
    if is_of_kueue(head):
        raise InputError(
            head.path,
            "is a dump of Kueue",
            expected="a log of the Slurm site that the settings are of",
            hint=f"settings of Kueue: gpuplan calibrate {head.path} -o twin.toml, for gpuplan "
            "whatif, waits and eta",
        )
    refuse_without_workloads(head)
    if head.is_json:
        raise InputError(
            head.path,
            f"is JSON without Workloads of Kueue: {head.shown()}",
            expected="sacct output, an SWF log, a trace of gpuplan ingest or a dump of Kueue",
            hint=COMMANDS,
        )
    raise InputError(
        head.path,
        f"is neither sacct output nor an SWF log nor a trace: {head.shown()}",
        expected="sacct output, an SWF log or a trace of gpuplan ingest",
        hint="docs/twin.md has the command of sacct, docs/kueue.md that of Kueue",
    )


def _seconds(time: pl.Expr) -> pl.Expr:
    return (time.dt.epoch("us") // 1_000_000).cast(pl.Int64)


def refuse_trace_of_dump(path: Path, provenance: Provenance) -> None:
    """Refuse a trace that ``gpuplan ingest`` made of a dump of Kueue. Raises `InputError`."""
    if provenance.source_format != "kueue":
        return
    dump = ", ".join(source.name for source in provenance.sources)
    raise InputError(
        path,
        "is a trace that gpuplan ingest made of a dump of Kueue, without its queues and pod sets",
        expected="the dump itself",
        hint=f"give {dump or 'the file of kubectl'} in place of {path}",
    )


def _of_trace(trace: Path, named: Path, sha256: str) -> SiteLog:
    """Return what a trace kept of its log; one without its scheduler's fields lacks most."""
    table = pl.read_parquet(trace)
    has = set(table.columns)
    if not {"submit_time", "duration_s", "num_gpus"} <= has:
        raise InputError(named, "is not a trace", expected="a trace written by gpuplan ingest")
    provenance = trace_provenance(trace)
    refuse_trace_of_dump(named, provenance)
    read = _runs(table, has)
    jobs, left_out = _usable(read)
    rejected = Counter(provenance.rows_rejected or {})
    if rows_cut := rejected.pop(CUT_OFF, 0):
        left_out["that the end of the log cuts"] = rows_cut
    if rejected.total():
        left_out["that cannot be read"] = rejected.total()
    recorded = set() if provenance.source_format == SWF.name else has & OFTEN_EMPTY
    absent = tuple(n for n in SWITCHED_OFF if n not in recorded and not jobs[n].count())
    sources = tuple(source.sha256 for source in provenance.sources)
    return SiteLog(
        jobs,
        named,
        sha256,
        "trace",
        left_out,
        absent,
        notes=always_shown_notes(provenance),
        sources=sources,
        waiting=_waiting(read),
        cpu_jobs=_cpu_jobs(read, jobs),
    )


def _cpu_jobs(read: pl.DataFrame, jobs: pl.DataFrame) -> int:
    """Return how many jobs without GPUs ran in the partitions of the GPU jobs."""
    ran = read.filter((pl.col("gpus").fill_null(0) < 1) & pl.col("start").is_not_null())
    return ran.filter(pl.col("partition").is_in(jobs["partition"].unique().implode())).height


def _runs(table: pl.DataFrame, has: set[str]) -> pl.DataFrame:
    """Return the runs of the jobs of a trace in `SITE_COLUMNS`, in the order of the jobs."""

    def column(name: str, kind: pl.DataType) -> pl.Expr:
        return pl.col(name).cast(kind) if name in has else pl.lit(None, kind)

    text, integer = pl.String(), pl.Int64()
    rows = table.select(
        job_id=column("job_id", text), user=column("user", text),
        account=column("account" if has & SCHEDULER_COLUMNS.keys() else "group", text),
        submit_time="submit_time", start_us=_micros(pl.col("submit_time"))
        + (column("queue_s", pl.Float64()) * MICROS).round().cast(integer),
        run_s=column("duration_s", pl.Float64()),
        gpus=column("num_gpus", pl.Float64()), state=column("state", text).fill_null("unknown"),
        gpu_type=column("gpu_type", text), reservation=column("reservation", text),
        submit_line=column("submit_line", text),
        cpus=column("cpus", pl.Float64()), memory_mb=column("memory_mb", pl.Float64()),
        **{name: column(name, kind) for name, kind in OF_RUN.items()},
        runs=as_runs(table.schema[RUNS]) if is_runs(table.schema.get(RUNS))
        else pl.lit(None, RUN_COLUMNS[RUNS]),
    ).with_row_index("place")  # fmt: skip
    several = rows.filter(pl.col("runs").is_not_null())
    run = pl.col("runs").struct
    each = several.explode("runs").with_columns(
        submit_time=pl.coalesce(run.field("submit_time"), "submit_time"),
        start_us=_micros(run.field("start")),
        run_s=(_micros(run.field("end")) - _micros(run.field("start"))) / MICROS,
        gpus=run.field("gpus"), state=run.field("state").cast(text),
        **{name: run.field(name).cast(kind) for name, kind in OF_RUN.items()},
    )  # fmt: skip
    if several.height:
        plain = rows.filter(pl.col("runs").is_null())
        rows = pl.concat([plain.drop("runs"), each.drop("runs")]).sort("place", maintain_order=True)
    start = pl.col("start_us").floordiv(int(MICROS))
    run_s = pl.col("run_s").round().cast(integer)
    return rows.select(
        "job_id", "user", "account", "partition", "qos", "state", "reason", "reservation",
        "node_list", "submit_line", "billing", "cpus", "memory_mb",
        submit=_seconds(pl.col("submit_time")), eligible=_seconds(pl.col("eligible_time")),
        start=start, end=pl.coalesce(start + run_s, _seconds(pl.col("cancel_time"))), run_s=run_s,
        limit_s=pl.col("limit_s").cast(integer), nodes=pl.col("req_nodes").cast(integer),
        gpus=pl.col("gpus").ceil().cast(integer),
        gpu_type=pl.coalesce("gres_type", "gpu_type"), priority="recorded_priority",
    )  # fmt: skip


def _micros(time: pl.Expr) -> pl.Expr:
    return time.dt.epoch("us")


def trace_provenance(trace: Path) -> Provenance:
    """Return where a trace comes from, where it says so."""
    stored = pl.read_parquet_metadata(trace).get(METADATA_KEY)
    try:
        return Provenance.from_json(stored) if stored else Provenance("")
    except (ValueError, TypeError):
        return Provenance("")


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
        ("with a start before the submission, or none", pl.col("start").is_null()
         & pl.col("run_s").is_not_null() & (pl.col("state") != "not_started")),
        (UNFINISHED,
         pl.col("end").is_null() & pl.col("run_s").is_null()),
        ("with an end before the start", pl.col("run_s") < 0),
        ("with a time before 1970 or after 2200",
         ~pl.min_horizontal(*TIMES).is_between(0, LAST_SECOND)
         | ~pl.max_horizontal(*TIMES).is_between(0, LAST_SECOND)),
        ("of a run over 20 years", pl.col("run_s") > LONGEST_S),
        ("of more than a million GPUs", pl.max_horizontal("gpus", "nodes") > MOST_GPUS),
        ("whose GPUs are not a multiple of their nodes",
         pl.col("gpus") % pl.col("nodes").fill_null(1).clip(1) != 0),
    ):  # fmt: skip
        is_broken = broken.fill_null(False)
        bad = read.filter(is_broken).height
        if bad:
            counts[why] = bad
            read = read.filter(~is_broken)
    near, others = read, OtherTimes.of_seconds(read["submit"])
    if others.begin is not None and others.end is not None:
        begin, end = others.begin - IMPOSSIBLE_S, others.end + IMPOSSIBLE_S
        near = read.filter(pl.col("submit").is_between(begin, end))
    if near.height < read.height:
        counts["submitted over 10 years from the others"] = read.height - near.height
    read = near.with_columns(
        limit_s=pl.col("limit_s").clip(upper_bound=LONGEST_S),
        billing=pl.when(pl.col("billing") < MOST_BILLING).then("billing"),
    )
    jobs = read.select(pl.col(name).cast(kind) for name, kind in SITE_COLUMNS.items()).sort(
        "submit", maintain_order=True
    )
    return jobs, counts


def _waiting(read: pl.DataFrame) -> pl.DataFrame:
    """Return the GPU jobs that still wait at the end of the log."""
    rows = read.filter(pl.col("start").is_null() & pl.col("end").is_null())
    return _usable(rows.with_columns(end="submit"))[0].with_columns(end=None, run_s=None)


def left_out_notes(log: SiteLog) -> list[str]:
    """Return a sentence per kind of row that was left out."""
    return [f"{counted(count, 'row')} {why} left out" for why, count in log.left_out.items()]
