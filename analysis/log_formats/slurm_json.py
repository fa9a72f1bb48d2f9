"""``sacct --json``: a job as an object, brought into the columns of ``sacct --parsable2``."""

from __future__ import annotations

from typing import Any

from gpuplan.analysis.reading.records import Cell
from gpuplan.analysis.reading.records import text as text_cell

COLUMNS = (
    "jobid", "user", "account", "partition", "state", "submit", "start", "end", "elapsedraw",
    "nnodes", "alloctres", "reqtres", "cluster",
)  # fmt: skip


def flatten(job: dict[str, Any]) -> dict[str, Cell]:
    """Return the cells of a job; its steps lie in it and are not read. Raises `ValueError`."""
    time, tres = _object(job, "time"), _object(job, "tres")
    return {
        "jobid": _job_id(job),
        **{name: text_cell(job.get(name)) for name in ("user", "account", "partition", "cluster")},
        "state": _state(job.get("state")),
        "submit": _moment(time.get("submission")),
        "start": _moment(time.get("start")),
        "end": _moment(time.get("end")),
        "elapsedraw": _number(time.get("elapsed")),
        "nnodes": _number(job.get("allocation_nodes")),
        "alloctres": _tres(tres.get("allocated")),
        "reqtres": _tres(tres.get("requested")),
    }


def _object(parent: dict[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{key} that is no object")
    return value


def _job_id(job: dict[str, Any]) -> Cell:
    """Return the id as the table writes it: ``12``, ``12_3``, ``12_[4-9]``, ``12+1``."""
    array, het = _object(job, "array"), _object(job, "het")
    parent, task = _number(array.get("job_id")), _number(array.get("task_id"))
    leader, place = _number(het.get("job_id")), _number(het.get("job_offset"))
    if leader not in (None, "0") and place is not None:
        return f"{leader}+{place}"
    if parent not in (None, "0"):
        waiting = array.get("task")
        if task is not None:
            return f"{parent}_{task}"
        if isinstance(waiting, str) and waiting:
            return f"{parent}_[{waiting}]"
    return _number(job.get("job_id"))


def _number(value: Any) -> Cell:
    """Return a number as a cell; newer versions wrap one: ``{"set": true, "number": 4}``."""
    if isinstance(value, dict):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    return text_cell(value)


def _moment(value: Any) -> Cell:
    seconds = _number(value)
    return None if seconds == "0" else seconds


def _state(value: Any) -> Cell:
    """Return the state; of several flags the first."""
    if isinstance(value, dict):
        value = value.get("current")
    if isinstance(value, list):
        value = value[0] if value else None
    return text_cell(value)


def _tres(entries: Any) -> Cell:
    """Return resources as the table writes them: ``cpu=8,gres/gpu=4,gres/gpu:a100=4``."""
    if entries is None:
        return None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("resources that are no list of objects")
    told = []
    for entry in entries:
        kind, name, count = entry.get("type"), entry.get("name"), entry.get("count")
        if not isinstance(kind, str) or not isinstance(count, int):
            raise ValueError("a resource without type and count")
        told.append(f"{kind}/{name}={count}" if name else f"{kind}={count}")
    return ",".join(told) or None
