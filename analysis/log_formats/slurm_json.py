"""Turn the objects of ``sacct --json`` into the columns of ``sacct --parsable2``."""

from __future__ import annotations

import re
from typing import Any

from gpuplan.analysis.log_formats.slurm_steps import usage_of_json
from gpuplan.analysis.reading.records import Cell
from gpuplan.analysis.reading.records import text as text_cell

JSON_COLUMNS = (
    "jobid", "user", "account", "partition", "qos", "state", "submit", "eligible", "start", "end",
    "elapsedraw", "timelimit", "reqnodes", "nnodes", "reqtres", "alloctres", "priority", "reason",
    "flags", "reservation", "nodelist", "admincomment", "tresusageinave",
    "submitline", "cluster",
)  # fmt: skip
NODES_OF_TRES = re.compile(r"(?:^|,)node=([0-9]+)(?:,|$)")
NO_VALUE, INFINITE = 4294967294, 4294967295
"""Slurm's numbers for none and for no limit, where older versions write plain numbers."""


def flatten(job: dict[str, Any]) -> dict[str, Cell]:
    """Return the cells of a job, with the usage of the steps in it. Raises `ValueError`."""
    time, tres, state = _object(job, "time"), _object(job, "tres"), job.get("state")
    names = ("user", "account", "partition", "qos", "cluster")
    owner = job.get("association")
    owner = owner if isinstance(owner, dict) else {}
    reason = state.get("reason") if isinstance(state, dict) else job.get("state_reason")
    comment = job.get("comment")
    comment = comment.get("administrator") if isinstance(comment, dict) else None
    reservation = job.get("reservation")
    if isinstance(reservation, dict):
        reservation = reservation.get("name")
    requested = _tres(tres.get("requested"))
    nodes = None if requested is None else NODES_OF_TRES.search(requested)
    return {
        "jobid": _job_id(job),
        **{name: text_cell(job.get(name) or owner.get(name)) for name in names},
        "state": _state(state),
        "submit": _moment(time.get("submission")),
        "eligible": _moment(time.get("eligible")),
        "start": _moment(time.get("start")),
        "end": _moment(time.get("end")),
        "elapsedraw": _number(time.get("elapsed")),
        "timelimit": _limit(time.get("limit")),
        "reqnodes": None if nodes is None else nodes[1],
        "nnodes": _number(job.get("allocation_nodes")),
        "reqtres": requested,
        "alloctres": _tres(tres.get("allocated")),
        "priority": _number(job.get("priority")),
        "reason": _word(reason),
        "flags": _words(job.get("flags")),
        "reservation": _word(reservation),
        "nodelist": _word(job.get("nodes")),
        "admincomment": _word(comment or job.get("admin_comment")),
        "tresusageinave": usage_of_json(job.get("steps")),
        "submitline": _word(job.get("submit_line")),
    }


def _word(value: Any) -> Cell:
    return value if isinstance(value, str) and value else None


def _words(value: Any) -> Cell:
    """Return several words as one cell, as in the column Flags."""
    if isinstance(value, list):
        return ",".join(word for word in value if isinstance(word, str)) or None
    return _word(value)


def _limit(value: Any) -> Cell:
    """Return a time limit as the table writes it: minutes, or UNLIMITED; None where it has none."""
    number = value
    if isinstance(value, dict):
        if value.get("infinite"):
            return "UNLIMITED"
        number = value.get("number") if value.get("set", True) else None
    if number in (INFINITE, str(INFINITE)):
        return "UNLIMITED"
    return None if number in (NO_VALUE, str(NO_VALUE)) else text_cell(number)


def _object(parent: dict[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{key} that is not an object")
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
        raise ValueError("resources that are not a list of objects")
    recorded = []
    for entry in entries:
        kind, name, count = entry.get("type"), entry.get("name"), entry.get("count")
        if not isinstance(kind, str) or not isinstance(count, int):
            raise ValueError("a resource without type and count")
        recorded.append(f"{kind}/{name}={count}" if name else f"{kind}={count}")
    return ",".join(recorded) or None
