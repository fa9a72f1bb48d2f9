"""Read instances that share GPUs: Dilu's event files, CSV tables and TOML files."""

from __future__ import annotations

import ast
import csv
import io
import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from gpuplan.analysis.base.errors import InputError, shortened
from gpuplan.analysis.reading.source import read_unpacked
from gpuplan.analysis.storage.toml_source import parse_toml

INFERENCE, LLM, TRAINING = "inference", "llm-inference", "training"
KINDS = (INFERENCE, LLM, TRAINING)
NEEDED = ("name", "request")
COLUMNS = ("name", "type", "gpus", "request", "limit", "memory_gb", "start_s", "end_s", "function")
MOST_LINE = 1 << 16
MOST_WORKERS = 1024
MOST_S = 1e12
"""The latest time of an instance, seconds: room for times since 1970."""
CSV_HINT = "name,type,gpus,request,limit,memory_gb,start_s,end_s"
EVENT = "{'Time': ..., 'Action': 'start' or 'delete', 'Instance': {'service_name': ...}}"


@dataclass(frozen=True, slots=True)
class SharedInstance:
    """An instance that holds parts of GPUs for some time.

    Attributes:
        name: its name.
        kind: one of `KINDS`.
        gpus: GPUs it takes at once; above 1 a gang in one node.
        request, limit: share of the SMs of each GPU; 0 < request <= limit <= 1.
        memory_gb: memory on each GPU.
        start_s: when it starts, seconds after the first start.
        end_s: when it ends; None if it never does.
        function: what it is an instance of.
        start_row, end_row: rows of a file of events; 0 where there are none.
    """

    name: str
    kind: str
    gpus: int
    request: float
    limit: float
    memory_gb: float
    start_s: float
    end_s: float | None
    function: str
    start_row: int = 0
    end_row: int = 0


def has_events(path: Path) -> bool:
    """Return whether a file looks like Dilu's events. Raises `InputError` for a missing file."""
    first = read_unpacked(path)[:400].decode("utf-8-sig", "replace").lstrip()
    return first.startswith("{") and "'Action'" in first


def is_table(path: Path, names: Mapping[str, str] | None = None) -> bool:
    """Return whether a file is a table of instances: TOML, or a CSV with their columns.

    ``names`` are those of `read_instances`.
    """
    if path.suffix.lower() == ".toml":
        return True
    first = read_unpacked(path).split(b"\n", 1)[0].decode("utf-8-sig", "replace")
    wanted = {(names or {}).get(name, name) for name in NEEDED}
    return wanted <= {cell.strip().strip('"') for cell in first.split(",")}


def read_instances(path: Path, names: Mapping[str, str] | None = None) -> list[SharedInstance]:
    """Read instances, sorted as they stand in the file.

    A ``.toml`` file has a table ``[[instances]]`` per instance, a CSV file a row; the columns of
    both are name, type, gpus, request, limit, memory_gb, start_s, end_s and, where several are
    instances of one function, function. Any other file has Dilu's events, one per line. In a CSV
    file ``names`` says which header stands for a column of ours.

    Raises:
        InputError: no such file, or what cannot be used, with its row.
    """
    text = read_unpacked(path).decode("utf-8-sig", "replace")
    if path.suffix.lower() == ".toml":
        instances = list(_from_toml(path, text))
    elif has_events(path):
        instances = _from_events(path, text)
    else:
        instances = list(_from_csv(path, text, names or {}))
    if not instances:
        raise InputError(path, "has no instances", expected="at least one instance", hint=CSV_HINT)
    return instances


def _from_events(path: Path, text: str) -> list[SharedInstance]:
    instances: list[SharedInstance] = []
    places: dict[str, int] = {}
    first: datetime | None = None
    for row, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        event = _literal(path, row, line)
        instance = event.get("Instance") if isinstance(event, dict) else None
        if not isinstance(instance, dict) or event.get("Action") not in ("start", "delete"):
            raise InputError(path, "is not an event of an instance", row=row, expected=EVENT)
        name = str(instance.get("service_name") or "")
        time = _time(path, row, event.get("Time"))
        first = first or time
        at_s = (time - first).total_seconds()
        if event["Action"] == "start":
            if name in places:
                raise InputError(path, f"{name!r} starts twice", row=row, column="service_name")
            memory = instance.get("memory")
            values = {
                "name": name,
                "type": instance.get("type"),
                "gpus": instance.get("gpu_num"),
                "request": instance.get("sm_requests"),
                "limit": instance.get("sm_limits"),
                "memory_gb": memory[0] if isinstance(memory, list) and memory else memory,
                "start_s": at_s,
            }
            places[name] = len(instances)
            instances.append(replace(_instance(path, row, values), start_row=row))
        else:
            at = places.pop(name, None)
            if at is None:
                raise InputError(path, f"{name!r} ends but never started", row=row)
            instances[at] = replace(instances[at], end_s=at_s, end_row=row)
    return instances


def _literal(path: Path, row: int, line: str) -> Any:
    if len(line) > MOST_LINE:
        raise InputError(path, "is longer than 64 KB", row=row, expected=EVENT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in a text
            value = ast.literal_eval(line.strip())
            repr(value)  # a number too long to be written is none
            return value
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
        raise InputError(path, "is not a Python literal", row=row, expected=EVENT) from None


def _time(path: Path, row: int, value: Any) -> datetime:
    try:
        return datetime.strptime(str(value), "%Y-%m-%d %H:%M:%S")
    except ValueError:
        problem = f"found {shortened(str(value), 40)!r}"
        expected = "a time like 2026-01-01 00:00:05"
        raise InputError(path, problem, row=row, column="Time", expected=expected) from None


def _from_csv(path: Path, text: str, names: Mapping[str, str]) -> Iterable[SharedInstance]:
    rows = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True)
    try:
        yield from _from_rows(path, rows, names)
    except csv.Error as error:
        wrong, row = f"is not CSV ({error})", rows.reader.line_num
        raise InputError(path, wrong, row=row, hint=f"columns are {CSV_HINT}") from None


def _from_rows(
    path: Path, rows: csv.DictReader[str], names: Mapping[str, str]
) -> Iterable[SharedInstance]:
    wanted = (*(names.get(name, name) for name in NEEDED), *names.values())
    missing = [name for name in dict.fromkeys(wanted) if name not in (rows.fieldnames or ())]
    if missing:
        raise InputError(
            path,
            f"no column {', '.join(missing)}; found {', '.join(map(str, rows.fieldnames or ()))}",
            row=1,
            expected="instances",
            hint=f"columns are {CSV_HINT}",
        )
    column_of = {theirs: name for name, theirs in names.items()}
    for row, cells in enumerate(rows, 2):
        named_cells = {column_of.get(key, key): cell for key, cell in cells.items() if cell}
        yield _instance(path, row, named_cells)


def _from_toml(path: Path, text: str) -> Iterable[SharedInstance]:
    tables = parse_toml(path, text.encode())[1].get("instances", [])
    if not isinstance(tables, list) or not all(isinstance(entry, dict) for entry in tables):
        raise InputError(path, "instances must be tables", expected="[[instances]] for each")
    for at, table in enumerate(tables, 1):
        yield _instance(path, at, table)


def _instance(path: Path, row: int, values: Mapping[str, Any]) -> SharedInstance:
    def number(key: str, default: float | None, low: float, most: float, text: str) -> float:
        value = values.get(key, default)
        try:
            amount = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            amount = math.nan
        if not (low <= amount <= most or amount == default):
            shown = "nothing" if value is None else repr(shortened(str(value), 40))
            raise InputError(path, f"found {shown}", row=row, column=key, expected=text)
        return amount

    name = str(values.get("name") or f"row {row}")
    kind = str(values.get("type") or INFERENCE)
    kind = LLM if kind == "llm" else kind
    if kind not in KINDS:
        problem = f"found {shortened(kind, 40)!r}"
        raise InputError(path, problem, row=row, column="type", expected=", ".join(KINDS))
    gpus = number("gpus", 1, 1, MOST_WORKERS, f"GPUs, a whole number from 1 to {MOST_WORKERS}")
    share = "a share of a GPU, above 0 and at most 1"
    request = number("request", None, 1e-9, 1, share)
    limit = number("limit", request, request, 1, "a share of a GPU, from the request to 1")
    start_s = number("start_s", 0, 0, MOST_S, f"seconds from 0 to {MOST_S:g}")
    end_s = number("end_s", math.inf, start_s, MOST_S, f"seconds from start_s to {MOST_S:g}")
    return SharedInstance(
        name=name,
        kind=kind,
        gpus=int(gpus),
        request=request,
        limit=limit,
        memory_gb=number("memory_gb", 0, 0, 1e6, "gigabytes, at least 0"),
        start_s=start_s,
        end_s=None if end_s == math.inf else end_s,
        function=str(values.get("function") or name),
    )
