"""Read and write the file of functions that share GPUs: services and training jobs, in TOML."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuplan.analysis.base.errors import InputError, shortened
from gpuplan.analysis.reading.source import read_unpacked
from gpuplan.analysis.storage.toml_source import parse_toml

INFERENCE, LLM, TRAINING = "inference", "llm", "training"
SHARE = "a share of a GPU, above 0 and at most 1"
POSITIVE, NOT_NEGATIVE = "a number above 0", "a number, at least 0"
LEAST, MOST = 1e-9, 1e12
FIELDS: dict[str, tuple[float, float, str]] = {  # least, most, what it must be
    "batch": (1, 1_000_000, "a whole number from 1"),
    "request": (LEAST, 1, SHARE),
    "limit": (LEAST, 1, SHARE),
    "slo_s": (LEAST, MOST, POSITIVE),
    "memory_gb": (0, 1e6, NOT_NEGATIVE),
    "work": (LEAST, 1e9, POSITIVE),
    "capacity_rps": (LEAST, MOST, POSITIVE),
    "cold_start_s": (0, 1e9, NOT_NEGATIVE),
    "workers": (1, 1024, "a whole number from 1 to 1024"),
    "start_s": (0, MOST, NOT_NEGATIVE),
    "work_s": (LEAST, MOST, POSITIVE),
}
TEXTS = ("name", "kind", "profile", "load")
KNOWN = (*TEXTS, *FIELDS)


@dataclass(frozen=True, slots=True)
class SharedFunction:
    """A function as the file describes it.

    Attributes:
        name: its name.
        kind: ``inference``, ``llm`` or ``training``.
        profile: the table of its execution times.
        request, limit: share of the SMs.
        batch: largest batch; of a service.
        slo_s: latency that a request should keep; of a service.
        memory_gb: memory of an instance or worker.
        work: iterations per request, for an LLM tokens.
        capacity_rps: requests per second that one instance is registered to serve; None for
            its throughput at its request.
        cold_start_s: None for the option of the command.
        load: requests of the service, as for ``--load``; None for the option.
        workers, start_s, work_s: of a training job; it never ends where ``work_s`` is None.
    """

    name: str
    kind: str
    profile: Path
    request: float
    limit: float
    batch: int = 1
    slo_s: float = 1.0
    memory_gb: float = 0.0
    work: float = 1.0
    capacity_rps: float | None = None
    cold_start_s: float | None = None
    load: str | None = None
    workers: int = 1
    start_s: float = 0.0
    work_s: float | None = None


def read_functions(path: Path) -> list[SharedFunction]:
    """Read ``[[functions]]`` of a TOML file; profiles are found from its folder.

    Raises:
        InputError: no such file, no TOML, a key that is not known or missing, a value out of range.
    """
    hint = "gpuplan profile TABLE --slo 100ms -o functions.toml writes one"
    tables = parse_toml(path, read_unpacked(path), hint=hint)[1].get("functions")
    if not isinstance(tables, list) or not tables:
        raise InputError(path, "has no functions", expected="[[functions]] for each", hint=hint)
    functions = [_function(path, at, table) for at, table in enumerate(tables, 1)]
    names = [function.name for function in functions]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(path, f"function {twice!r} is given twice", expected="different names")
    return functions


def services_of(functions: Iterable[SharedFunction]) -> list[SharedFunction]:
    """Return the functions that serve requests, by name."""
    services = (function for function in functions if function.kind != TRAINING)
    return sorted(services, key=lambda service: service.name)


def _function(path: Path, at: int, table: Any) -> SharedFunction:
    if not isinstance(table, dict):
        raise InputError(path, "functions must be tables", expected="[[functions]] for each")
    name = str(table.get("name") or "")
    where = f"function {name or at}"
    unknown = next((key for key in table if key not in KNOWN), None)
    if unknown is not None:
        raise InputError(
            path, f"{where}: no key {unknown!r}", expected=f"one of {', '.join(KNOWN)}"
        )
    kind = table.get("kind", INFERENCE)
    if kind not in (INFERENCE, LLM, TRAINING):
        wrong = f"{where}: kind is {shortened(str(kind), 40)!r}"
        raise InputError(path, wrong, expected="inference, llm or training")
    needed = ["name", "profile", "request"] + (["batch", "slo_s"] if kind != TRAINING else [])
    missing = next((key for key in needed if key not in table), None)
    if missing is not None:
        raise InputError(path, f"{where}: no {missing}", expected=f"{', '.join(needed)}")
    values: dict[str, Any] = {}
    for key, (least, most, expected) in FIELDS.items():
        if key not in table:
            continue
        value = table[key]
        is_count = key in ("batch", "workers")
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not least <= value <= most
            or (is_count and value % 1)
        ):
            raise InputError(path, f"{where}: {key} is {value!r}", expected=expected)
        values[key] = int(value) if is_count else float(value)
    values.setdefault("limit", min(1.0, 2 * values["request"]))
    if values["limit"] < values["request"]:
        raise InputError(path, f"{where}: limit is below the request", expected="at least that")
    load = table.get("load")
    return SharedFunction(
        name=name,
        kind=kind,
        profile=path.parent / str(table["profile"]),
        load=None if load is None else str(load),
        **values,
    )


def functions_text(functions: Iterable[SharedFunction], folder: Path, note: str) -> str:
    """Return the file of functions as TOML, with profiles named from ``folder``."""
    lines = [f"# {note}"]
    for function in functions:
        profile = os.path.relpath(function.profile.resolve(), folder.resolve())
        lines += [
            "",
            "[[functions]]",
            f"name = {_quoted(function.name)}",
            f'kind = "{function.kind}"',
        ]
        lines += [f"profile = {_quoted(profile)}"]
        lines += [f"request = {function.request:g}", f"limit = {function.limit:g}"]
        if function.kind == TRAINING:
            lines += [f"workers = {function.workers}", f"start_s = {function.start_s:g}"]
        else:
            lines += [f"batch = {function.batch}", f"slo_s = {function.slo_s:g}"]
        if function.memory_gb:
            lines.append(f"memory_gb = {function.memory_gb:g}")
        if function.work != 1:
            lines.append(f"work = {function.work:g}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a text as TOML has it: as in JSON, but no surrogates and no bare DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
