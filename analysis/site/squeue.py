"""Read the queue of now: squeue as text or JSON, or sacct's running and waiting jobs."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.job_table.schema import UNREADABLE
from gpuplan.analysis.reading.source import Head, Source, SourceStream, read_unpacked
from gpuplan.analysis.reading.times import check_zone
from gpuplan.analysis.site.log import SITE_COLUMNS, SiteLog, read_site_log
from gpuplan.analysis.site.notation import gpus_of, minutes_limit
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
AT_WORK = ("RUNNING", "R", "COMPLETING", "CG", "SUSPENDED", "S", "STOPPED", "ST", "SIGNALING")
NEVER = ("", "N/A", "Unknown", "None", "(null)", "NONE")


def is_squeue(path: Path) -> bool:
    """Return whether a file begins like squeue's text or JSON. Raises `InputError`."""
    existing_file(path)
    try:
        with closing(SourceStream(Source(path, path, path.stat().st_size))) as stream:
            head = Head(path, stream.head)
    except UNREADABLE:
        return False
    if head.is_parquet:
        return False
    if head.is_json:
        return b'"submit_time"' in head.data and b'"job_state"' in head.data
    return _heading(head.line or "") is not None


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
            if not is_squeue(path):
                return read_site_log(path, zone)
            rows = _table(path)
            return _log(_objects(path) if rows is None else rows, path, zone)
    except UNREADABLE as error:
        raise InputError(
            path, f"cannot be read ({str(error).partition(chr(10))[0][:120]})", expected=COMMAND
        ) from error


def _table(path: Path) -> list[dict[str, str | None]] | None:
    """Return the rows of squeue's text by the columns of sacct; None for another file."""
    lines = read_unpacked(path).decode("utf-8", "replace").splitlines()
    heading = _heading(lines[0]) if lines else None
    if heading is None:
        return None
    names = {HEADINGS.get(name) for name in heading}
    if missing := [name for name in NEEDED if HEADINGS[name] not in names]:
        raise InputError(
            path, f"no column {', '.join(missing)}; found {', '.join(heading)}", row=1,
            expected="the columns of the command below", hint=COMMAND,
        )  # fmt: skip
    rows: list[dict[str, str | None]] = []
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        values = [value.strip() for value in line.split("|")]
        if len(values) != len(heading):
            raise InputError(
                path, f"{len(values)} fields where the heading has {len(heading)}", row=number,
                expected="fields separated by |", hint=COMMAND,
            )  # fmt: skip
        rows.append(
            {HEADINGS[name]: value for name, value in zip(heading, values, strict=True)
             if name in HEADINGS}
        )  # fmt: skip
    return rows


def _log(rows: list[dict[str, str | None]], path: Path, zone: str) -> SiteLog:
    """Return the GPU jobs of the queue in the columns of a log."""
    jobs: list[dict[str, Any]] = []
    left_out: dict[str, int] = {}
    for row in rows:
        job = _job({name: None if cell in NEVER else cell for name, cell in row.items()}, zone)
        if isinstance(job, str):
            left_out[job] = left_out.get(job, 0) + 1
        else:
            jobs.append(job)
    table = pl.DataFrame(jobs, schema=SITE_COLUMNS).sort("submit", maintain_order=True)
    running = table.filter(pl.col("start").is_not_null())
    missing = () if table["eligible"].count() else ("eligible",)
    return SiteLog(
        running, path, sha256_of(path), "squeue", left_out, missing,
        waiting=table.filter(pl.col("start").is_null()),
    )  # fmt: skip


def _job(cells: dict[str, str | None], zone: str) -> dict[str, Any] | str:
    """Return a job of the queue as a row of a log, or why it is none.

    A job that does not run has no start: squeue may show when it is expected to.
    """
    submit, nodes = _second(cells["submit"], zone), int(cells["nnodes"] or 1)
    gres = gpus_of(cells.get("reqgres") or "")
    counted = gpus_of(cells.get("reqtres") or "") or (gres and (gres[0] * nodes, gres[1]))
    if not counted or not counted[0]:
        return "without GPUs (CPU jobs)"
    if submit is None:
        return "without a submission"
    if counted[0] % nodes:
        return "whose GPUs are not a multiple of their nodes"
    is_on = (cells["state"] or "").upper() in AT_WORK
    start = _second(cells["start"], zone) if is_on else None
    names = ("user", "account", "qos", "reason")
    return dict.fromkeys(SITE_COLUMNS) | {name: cells.get(name) for name in names} | {
        "job_id": cells["jobid"], "state": "waiting" if start is None else "running",
        "partition": (cells["partition"] or "").partition(",")[0] or None,
        "submit": submit, "start": start, "eligible": _second(cells.get("eligible"), zone),
        "run_s": None if start is None else _span(cells.get("elapsed")) or 0,
        "limit_s": _span(cells["timelimit"]), "nodes": nodes, "gpus": counted[0],
        "gpu_type": counted[1] or None,
        "node_list": None if start is None else cells.get("nodelist"),
    }  # fmt: skip


def _second(text: str | None, zone: str) -> int | None:
    """Return the second after 1970 of a local time, or of such a second; None where it is none."""
    if text is None or text.isdigit():
        return None if text is None else int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int((time if time.tzinfo else time.replace(tzinfo=ZoneInfo(zone))).timestamp())


def _span(text: str | None) -> int | None:
    """Return the seconds of a time in Slurm's notation; None for none, or no limit."""
    try:
        return None if text is None else minutes_limit(text)
    except ValueError:
        return None


def _objects(path: Path) -> list[dict[str, str | None]]:
    """Return the rows of ``squeue --json`` by the columns of sacct."""
    try:
        document = json.loads(read_unpacked(path))
    except ValueError as error:
        raise InputError(
            path, f"is not JSON ({error})", expected="the output of squeue --json"
        ) from error
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise InputError(path, "has no list of jobs", expected="the output of squeue --json")
    now = _number(document.get("last_update"))
    return [_cells(job, path, now) for job in jobs]


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
    return int(value) if isinstance(value, int | float) else None


def _clock(start: int | None, now: int | None) -> str:
    """Return the time since a start as squeue's text writes it; 0 where it is not known."""
    seconds = max(now - start, 0) if start and now else 0
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _moment(value: Any) -> str | None:
    seconds = _number(value)
    return None if seconds in (None, 0) else str(seconds)


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)
