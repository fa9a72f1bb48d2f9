"""Invariants that hold after any run."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fuzz.cases import Case
from fuzz.file_integrity import problem_of
from fuzz.in_process import Outcome
from fuzz.workspace import Seen

CODES = (0, 1, 2, 3, 4)
DONE = (0, 1)
NOISE = re.compile(r"Traceback \(most recent call last\)|panicked at|Exception ignored|SystemError")
WARNING = re.compile(r"^\S+\.py:\d+: (\w*Warning): ", re.M)
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
PARTIAL = re.compile(r"(^|/)\.gpuplan\.[^/]*\.partial")
INTERNAL = re.compile(r"internal error \((.*?)\)?\s*$", re.M)

CACHE = re.compile(r"cache|^(studies|traces)(/|$)")

Failure = tuple[str, str]
"""Which rule is broken, and how."""


def failures(
    case: Case, outcome: Outcome, before: Seen, after: Seen, folder: Path
) -> list[Failure]:
    """Return the rules that a run broke."""
    found = [
        *said(case, outcome),
        *left(case, outcome.code in DONE, outcome.err, before, after, folder),
    ]
    if outcome.code in DONE and case.account and not found:
        found += account(case, folder)
    return found


def said(case: Case, outcome: Outcome, codes: tuple[int, ...] = CODES) -> Iterator[Failure]:
    """Yield the problems of the exit code and of the printed text."""
    out, err = outcome.out.decode(errors="replace"), outcome.err.decode(errors="replace")
    if outcome.code not in codes:
        match = INTERNAL.search(err)
        yield f"exit code {outcome.code}", match[1][:300] if match else err[-300:]
    elif (noise := NOISE.search(err)) is not None:
        yield "noise on stderr", err[noise.start() : noise.start() + 300]
    elif (warning := WARNING.search(err)) is not None:
        yield "warning of a library", err[warning.start() : warning.start() + 300]
    if outcome.code in (2, 3, 4) and "error: " not in err:
        yield "failure without a message", err[:300]
    if "out of memory" in err:
        yield "out of memory", err[-300:]
    for name, text in (("stdout", out), ("stderr", err)):
        if (control := CONTROL.search(text)) is not None:
            around = text[max(0, control.start() - 30) : control.start() + 10]
            yield f"control character on {name}", repr(around)
    if outcome.code in DONE and _as_json(case.arguments) and case.disk_kib is None:
        try:
            json.loads(out, parse_constant=_no_constant)
        except ValueError as error:
            yield "stdout is not JSON", f"{error}: {out[:100]!r}"


def left(
    case: Case, done: bool, err: bytes, before: Seen, after: Seen, folder: Path
) -> Iterator[Failure]:
    """Yield the problems of the files: changed inputs, partial outputs, files left behind."""
    written = {os.path.normpath(name) for name in case.written}
    inputs = set(case.files) | set(case.links) | set(case.fifos)
    for name in before.gone(after):
        if not _below(name, written) or name in inputs:
            yield "a file is gone", name
    for name in before.new(after):
        if PARTIAL.search(name):
            yield "a partial file is left", name
        elif name in before.entries and name in inputs:
            yield "an input is changed", name
        elif not _below(name, written):
            yield "a file nobody asked for", name
        elif not done and not _may_stay(name, err):
            yield "an output after a failure", name
        elif (problem := problem_of(folder / name)) is not None:
            yield "an output is not whole", f"{name}: {problem}"
    if not done and not _is_written(err):
        for name, data in case.old.items():
            path = folder / name
            if name in before.entries and (not path.is_file() or path.read_bytes() != data):
                yield "an older output is changed after a failure", name


def account(case: Case, folder: Path) -> Iterator[Failure]:
    """Yield the problems of the row counts of ingest or prices."""
    import polars as pl

    output = _output(case.arguments)
    if output is None or not (folder / output).is_file():
        return
    path = folder / output
    metadata = pl.read_parquet_metadata(path)
    document = json.loads(next(text for key, text in metadata.items() if key.startswith("gpuplan")))
    rejected = sum((document.get("rows_rejected") or {}).values())
    skipped = sum((document.get("rows_skipped") or {}).values())
    read, kept = document["rows_read"], document["rows_kept"]
    if read != kept + rejected + skipped:
        yield (
            "rows do not add up",
            f"{read} read, {kept} kept, {rejected} rejected, {skipped} skipped",
        )
    height = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
    if height != kept:
        yield "rows of the output", f"{height} in the file, {kept} kept"
    aside = path.with_name(path.name.removesuffix(".parquet") + ".rejects.parquet")
    found = pl.read_parquet(aside, glob=False).height if rejected and aside.is_file() else 0
    if found != rejected:
        yield "rows are lost", f"{rejected} rejected, {found} in the file of rejects"
    if case.rows is not None and read != case.rows:
        yield "rows are not counted", f"{case.rows} in the source, {read} read"


def has_rows(arguments: list[str], folder: Path) -> bool:
    """Return whether a run that succeeded wrote rows; an answer of no jobs is a trace of none."""
    import polars as pl

    output = _output(arguments)
    if output is None or not output.endswith(".parquet"):
        return True
    return bool(pl.scan_parquet(folder / output, glob=False).select(pl.len()).collect().item())


def read_back(line: list[str], outcome: Outcome) -> Iterator[Failure]:
    """Yield the problems of a command that reads the output of ingest or prices."""
    codes = (0,) if line[0] in ("characterize", "ingest") and "--prices" not in line else CODES
    for rule, how in said(Case("", "", line), outcome, codes):
        yield f"{line[0]} on what was ingested: {rule}", how


def _as_json(arguments: list[str]) -> bool:
    """Return whether the last word on the form of standard output is JSON."""
    form = ""
    for i, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name == "--output-format":
            form = value if equals else "".join(arguments[i + 1 : i + 2])
    return form == "json" and "--" not in arguments and not {"-h", "--help"} & set(arguments)


def _output(arguments: list[str]) -> str | None:
    found = None
    for i, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name in ("-o", "--output"):
            found = value if equals else "".join(arguments[i + 1 : i + 2])
    return found


def _below(name: str, written: set[str]) -> bool:
    """Return whether a name may be written, is in such a folder, or is a folder of one."""
    return any(
        one in (".", name) or name.startswith(f"{one}/") or one.startswith(f"{name}/")
        for one in written
    )


def _may_stay(name: str, err: bytes) -> bool:
    """Return whether a file may be there after a failure, as rejected rows that the error names."""
    if _is_written(err):
        return True
    return (name.endswith(".rejects.parquet") and b".rejects.parquet" in err) or CACHE.search(
        name
    ) is not None


def _is_written(err: bytes) -> bool:
    """Return whether all outputs were made: a gate that names no field fails after them."""
    return b"the result itself has been written" in err or b"the documents have been" in err


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
