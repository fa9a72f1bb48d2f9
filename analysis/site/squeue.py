"""Read the queue of now: squeue as text or JSON, or sacct's running and waiting jobs."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.time_units import CENTURY_S
from gpuplan.analysis.base.time_zones import epoch_second
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.job_table.notation import A_TIME, WHOLE, gpus_of, minutes_limit
from gpuplan.analysis.job_table.schema import MAX_GPUS, UNREADABLE
from gpuplan.analysis.log_formats.slurm import SLURM_FORMAT
from gpuplan.analysis.log_formats.swf import SWF
from gpuplan.analysis.reading.records import plain
from gpuplan.analysis.reading.source import Head, Source, SourceStream, read_unpacked
from gpuplan.analysis.reading.times import check_zone
from gpuplan.analysis.site.log import LAST_SECOND, SITE_COLUMNS, SiteLog, read_site_log
from gpuplan.analysis.storage.files import existing_file, sha256_of
from gpuplan.analysis.storage.standard_error import silent_on

COMMAND = "squeue -a -o '%i|%u|%a|%P|%q|%T|%V|%S|%M|%l|%D|%b|%Q|%r|%N'"
"""What to run; columns may come in another order, and others beside them."""
HEADINGS = {
    "JOBID": "jobid", "USER": "user", "ACCOUNT": "account", "PARTITION": "partition",
    "QOS": "qos", "STATE": "state", "ST": "state", "SUBMIT_TIME": "submit",
    "START_TIME": "start", "TIME": "elapsed", "TIME_LIMIT": "timelimit", "TIMELIMIT": "timelimit",
    "NODES": "nnodes", "TRES_PER_NODE": "reqgres", "GRES": "reqgres", "PRIORITY": "priority",
    "REASON": "reason", "NODELIST": "nodelist",
}  # fmt: skip
NEEDED = ("JOBID", "PARTITION", "STATE", "SUBMIT_TIME", "START_TIME", "TIME_LIMIT", "NODES",
          "TRES_PER_NODE")  # fmt: skip
AT_WORK = ("RUNNING", "R", "COMPLETING", "CG", "SUSPENDED", "S", "STOPPED", "ST", "SIGNALING", "SI")
TO_COME = (
    "PENDING", "PD", "CONFIGURING", "CF", "REQUEUED", "RQ", "REQUEUE_FED", "RF", "REQUEUE_HOLD",
    "RH", "RESV_DEL_HOLD", "RD", "SPECIAL_EXIT", "SE", "RESIZING", "RS", "POWER_UP_NODE",
    "EXPEDITING", "STAGE_OUT", "SO", "PREEMPTED", "PR", "RECONFIG_FAIL", "LAUNCH_FAILED",
)  # fmt: skip
ENDED = (
    "COMPLETED", "CD", "CANCELLED", "CA", "FAILED", "F", "TIMEOUT", "TO", "NODE_FAIL", "NF",
    "BOOT_FAIL", "BF", "DEADLINE", "DL", "OUT_OF_MEMORY", "OOM", "REVOKED", "RV",
)  # fmt: skip
"""States of Slurm, in full and as squeue shortens them."""
NEVER = ("", "N/A", "Unknown", "None", "(null)", "NONE")
NO_LIMIT = ("NOT_SET", "PARTITION_LIMIT", "INVALID")
"""Time limits and run times that Slurm shows where it has none yet."""
A_GPU = re.compile(r"(?:^|,)(?:gres/)?gpu(?::[a-z][\w.-]*)?(?:\([^)]*\))?(?=,|$)", re.IGNORECASE)
"""A GPU without a count: one."""
MOST_NUMBER = 1 << 63
"""Numbers of Slurm have 64 bits."""
A_QUEUE = "the output of squeue, or of sacct with running and waiting jobs"

Row = tuple[int | None, dict[str, str | None]]
"""The line of a job, where the file has lines, and its cells by the columns of sacct."""


def is_squeue(path: Path) -> bool:
    """Return whether a file begins like squeue's text or JSON. Raises `InputError`."""
    existing_file(path)
    try:
        head = _head_of(path)
    except UNREADABLE:
        return False
    return _is_text(head) or head.mentions("submit_time", "job_state")


def _head_of(path: Path) -> Head:
    with closing(SourceStream(Source(path, path, path.stat().st_size))) as stream:
        return Head(path, stream.head)


def _is_text(head: Head) -> bool:
    return not head.is_parquet and _heading(head.line or "") is not None


def _heading(line: str) -> list[str] | None:
    """Return the headings of squeue's text; None for another table."""
    names = [name.strip().upper() for name in line.split("|")]
    names = ["NODELIST" if name.startswith("NODELIST") else name for name in names]
    is_queue = "JOBID" in names and {"ST", "STATE"} & set(names) and "END" not in names
    return names if is_queue and {"SUBMIT_TIME", "TIME_LIMIT"} & set(names) else None


def read_queue(path: Path, zone: str = "UTC") -> SiteLog:
    """Return the jobs that run and wait now.

    Args:
        path: output of squeue (`COMMAND`, or ``--json``), or of sacct; plain or compressed.
        zone: zone of times that are written without an offset.

    Raises:
        InputError: it cannot be read or is neither.
        UsageError: there is no such zone.
    """
    existing_file(path)
    check_zone(zone)
    try:
        with silent_on(*UNREADABLE):
            kind = _kind_of(path)
            if kind == "log":
                return read_site_log(path, zone)
            return _log(_objects(path) if kind == "json" else _table(path), path, zone)
    except UNREADABLE as error:
        raise InputError(
            path, f"cannot be read ({str(error).partition(chr(10))[0][:120]})", expected=COMMAND
        ) from error


def _kind_of(path: Path) -> str:
    """Return ``json``, ``text`` or, for sacct, SWF and traces, ``log``. Raises `InputError`."""
    head = _head_of(path)
    if _is_text(head):
        return "text"
    if head.mentions("submit_time", "job_state"):
        return "json"
    if head.is_parquet or any(log.recognizes(head) is not None for log in (SLURM_FORMAT, SWF)):
        return "log"
    if head.is_json:
        return "json"
    names = (head.line or "").upper().split()
    if "JOBID" in names and "|" not in (head.line or ""):
        problem = "has not the columns that a forecast needs: squeue without -o does not show them"
    else:
        problem = f"is not a listing of the queue: it starts with {head.shown()}"
    raise InputError(path, problem, expected=A_QUEUE, hint=f"{COMMAND} > queue.txt")


def _table(path: Path) -> list[Row]:
    """Return the rows of squeue's text."""
    lines = [_line(path, *line) for line in enumerate(read_unpacked(path).split(b"\n"), 1)]
    first = next(number for number, line in enumerate(lines) if line.strip())
    heading = _heading(lines[first]) or []
    names = {HEADINGS.get(name) for name in heading}
    if missing := [name for name in NEEDED if HEADINGS[name] not in names]:
        raise InputError(
            path, f"no column {', '.join(missing)}; found {', '.join(heading)}", row=first + 1,
            expected="the columns of the command below", hint=COMMAND,
        )  # fmt: skip
    rows: list[Row] = []
    for number, line in enumerate(lines[first + 1 :], first + 2):
        if not line.strip():
            continue
        values = [value.strip() for value in line.split("|")]
        if len(values) != len(heading):
            raise InputError(
                path, f"{len(values)} fields where the heading has {len(heading)}", row=number,
                expected="fields separated by |", hint=COMMAND,
            )  # fmt: skip
        cells: dict[str, str | None] = {
            HEADINGS[name]: value for name, value in zip(heading, values, strict=True)
            if name in HEADINGS
        }  # fmt: skip
        rows.append((number, cells))
    return rows


def _line(path: Path, number: int, line: bytes) -> str:
    """Return a line of text. Raises `InputError` with its row and field where it is not UTF-8."""
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        begin = line.rfind(b"|", 0, error.start) + 1
        cell = line[begin:].partition(b"|")[0].decode("utf-8", "backslashreplace")
        raise InputError(
            path, f"found '{cell}', which is not UTF-8", row=number, expected="UTF-8 text",
            hint=f"iconv -f LATIN1 -t UTF-8 {path} > queue-utf8.txt",
        ) from error  # fmt: skip


def _log(rows: list[Row], path: Path, zone: str) -> SiteLog:
    """Return the GPU jobs of the queue in the columns of a log."""
    jobs: dict[str, dict[str, Any]] = {}
    left_out: dict[str, int] = {}
    repeated: list[str] = []
    for number, row in rows:
        cells = {name: None if cell in NEVER else cell for name, cell in row.items()}
        try:
            job = _job(cells, zone)
        except _Unreadable as error:
            column, text, expected = error.args
            ident = cells["jobid"]
            raise InputError(
                path, f"found {text!r}" + (f" (job {ident})" if number is None else ""),
                row=number, column=_heading_of(column), expected=expected,
            ) from None  # fmt: skip
        if isinstance(job, str):
            left_out[job] = left_out.get(job, 0) + 1
        elif job["job_id"] in jobs:
            repeated.append(job["job_id"])
        else:
            jobs[job["job_id"]] = job
    table = pl.DataFrame(list(jobs.values()), schema=SITE_COLUMNS)
    table = table.sort("submit", maintain_order=True)
    running = table.filter(pl.col("start").is_not_null())
    missing = () if table["eligible"].count() else ("eligible",)
    return SiteLog(
        running, path, sha256_of(path), "squeue", left_out, missing,
        warnings=(_on_repeated(path, repeated),) if repeated else (),
        waiting=table.filter(pl.col("start").is_null()),
    )  # fmt: skip


def _on_repeated(path: Path, repeated: list[str]) -> str:
    few = ", ".join(dict.fromkeys(repeated[:3])) + (", ..." if len(repeated) > 3 else "")
    return (
        f"{path}: {counted(len(repeated), 'row')} of jobs that are listed before ({few}): the "
        "first row of a job counts"
    )


def _heading_of(column: str) -> str:
    """Return squeue's name of a column of sacct."""
    return next(heading for heading, name in HEADINGS.items() if name == column)


class _Unreadable(Exception):
    """A cell that cannot be read: its column of sacct, what it has, what was expected."""


def _job(cells: dict[str, str | None], zone: str) -> dict[str, Any] | str:
    """Return a job of the queue as a row of a log, or why it is none.

    A job that does not run has no start: squeue may show when it is expected to.

    Raises:
        _Unreadable: a cell is not what its column says.
    """
    if cells["jobid"] is None:
        raise _Unreadable("jobid", "", "the id of a job")
    state = (cells["state"] or "").upper()
    if state in ENDED:
        return "of jobs that have ended"
    if state not in AT_WORK + TO_COME:
        raise _Unreadable("state", cells["state"] or "", "a state such as RUNNING or PENDING")
    number = cells["nnodes"] or "1"
    if not WHOLE.fullmatch(number) or not 1 <= int(number) <= MAX_GPUS:
        raise _Unreadable("nnodes", number, f"a whole number from 1 to {MAX_GPUS:,.0f}")
    nodes = int(number)
    total, limit_s = gpus_of(cells.get("reqtres") or ""), _span(cells, "timelimit")
    per_node = None if total else _per_node(cells.get("reqgres") or "")
    submit, planned = _second(cells, "submit", zone), _second(cells, "start", zone)
    elapsed, eligible = _span(cells, "elapsed"), _second(cells, "eligible", zone)
    counted_gpus = total or (per_node and (per_node[0] * nodes, per_node[1]))
    if not counted_gpus or not counted_gpus[0]:
        return "without GPUs (CPU jobs)"
    if counted_gpus[0] > MAX_GPUS:
        raise _Unreadable("reqgres", f"{counted_gpus[0]} GPUs", f"at most {MAX_GPUS:,.0f}")
    if submit is None:
        return "without a submission"
    if counted_gpus[0] % nodes:
        return "whose GPUs are not a multiple of their nodes"
    start = planned if state in AT_WORK else None
    if state in AT_WORK and start is None:
        raise _Unreadable("start", "", "the time when the job started, since it runs")
    names = ("user", "account", "qos", "reason")
    return dict.fromkeys(SITE_COLUMNS) | {name: cells.get(name) for name in names} | {
        "job_id": cells["jobid"], "state": "waiting" if start is None else "running",
        "partition": (cells["partition"] or "").partition(",")[0] or None,
        "submit": submit, "start": start, "eligible": eligible,
        "run_s": None if start is None else elapsed or 0,
        "limit_s": limit_s, "nodes": nodes, "gpus": counted_gpus[0],
        "gpu_type": counted_gpus[1] or None,
        "node_list": None if start is None else cells.get("nodelist"),
    }  # fmt: skip


def _per_node(text: str) -> tuple[int, str] | None:
    """Return the GPUs of a node and their type. Raises `_Unreadable`."""
    text = text.replace("gres:", "gres/")
    gpus = gpus_of(text)
    if gpus is None and "gpu" in text.lower():
        single = A_GPU.search(text)
        if single is None:
            raise _Unreadable("reqgres", text, "GPUs of a node, such as gres/gpu:h100:8")
        return 1, single[0].partition("(")[0].lower().partition("gpu")[2].lstrip(":")
    return gpus


def _second(cells: dict[str, str | None], column: str, zone: str) -> int | None:
    """Return the second after 1970 of a local time, or of such a second; None for no time.

    Raises:
        _Unreadable: it is no time.
    """
    text = cells.get(column)
    if text is None:
        return None
    try:
        second = int(text) if WHOLE.fullmatch(text) else epoch_second(text, zone)
    except ValueError:
        second = -1
    if not 0 <= second <= LAST_SECOND:
        raise _Unreadable(column, text, "a time such as 2026-03-19T08:30:00, from 1970 to 2200")
    return second


def _span(cells: dict[str, str | None], column: str) -> int | None:
    """Return the seconds of a time in Slurm's notation; None for none, or no limit.

    Raises:
        _Unreadable: it is not in that notation.
    """
    text = cells.get(column)
    if text is None or text.upper() in NO_LIMIT:
        return None
    try:
        seconds = minutes_limit(text)
    except ValueError:
        raise _Unreadable(column, text, f"{A_TIME}, or UNLIMITED") from None
    if seconds is not None and seconds > CENTURY_S:
        raise _Unreadable(column, text, "a time of at most a century, or UNLIMITED")
    return seconds


def _objects(path: Path) -> list[Row]:
    """Return the rows of ``squeue --json``."""
    try:
        document = json.loads(read_unpacked(path))
    except (ValueError, RecursionError) as error:
        raise InputError(
            path, f"is not JSON ({error})", expected="the output of squeue --json",
            hint="squeue -a --json > queue.json",
        ) from error  # fmt: skip
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise InputError(
            path, "has no list of jobs", expected="the output of squeue --json",
            hint="squeue -a --json > queue.json",
        )  # fmt: skip
    now = _number(document.get("last_update"))
    return [(None, _cells(job, path, now)) for job in jobs]


def _cells(job: dict[str, Any], path: Path, now: int | None) -> dict[str, str | None]:
    """Return the cells of one object; times are seconds after 1970, limits minutes."""
    array, task = _number(job.get("array_job_id")), _number(job.get("array_task_id"))
    waiting = job.get("array_task_string")
    number = _number(job.get("job_id"))
    if number is None:
        raise InputError(path, "a job has no job_id", expected="the output of squeue --json")
    ident = str(number)
    if array:
        most = _number(job.get("array_max_tasks"))
        limit = f"%{most}" if most and "%" not in str(waiting) else ""
        packed = f"{array}_[{waiting}{limit}]" if waiting else f"{array}"
        ident = packed if task is None else f"{array}_{task}"
    start, state = _number(job.get("start_time")), job.get("job_state")
    first = state[0] if isinstance(state, list) and state else state
    minutes = job.get("time_limit")
    forever = isinstance(minutes, dict) and minutes.get("infinite")
    gpus = job.get("tres_alloc_str") or job.get("tres_req_str")
    return {
        "jobid": ident, "user": _text(job.get("user_name")),
        "account": _text(job.get("account")), "partition": _text(job.get("partition")),
        "qos": _text(job.get("qos")), "state": _text(first),
        "submit": _moment(job.get("submit_time")), "eligible": _moment(job.get("eligible_time")),
        "start": _text(start or None), "elapsed": _clock(start, now),
        "timelimit": "UNLIMITED" if forever else _text(_number(minutes)),
        "nnodes": _text(_number(job.get("node_count"))), "reqtres": _text(gpus),
        "priority": _text(_number(job.get("priority"))), "reason": _text(job.get("state_reason")),
        "nodelist": _text(job.get("nodes")),
    }  # fmt: skip


def _number(value: Any) -> int | None:
    """Return a number; newer versions wrap one: ``{"set": true, "number": 4}``."""
    if isinstance(value, dict):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    is_number = isinstance(value, int | float) and -MOST_NUMBER < value < MOST_NUMBER
    return int(value) if is_number else None


def _clock(start: int | None, now: int | None) -> str:
    """Return the time since a start as squeue's text writes it; 0 where it is not known."""
    seconds = max(now - start, 0) if start and now else 0
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _moment(value: Any) -> str | None:
    seconds = _number(value)
    return None if seconds in (None, 0) else str(seconds)


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else plain(str(value))
