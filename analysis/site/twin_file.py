"""``twin.toml``: a site's settings, the source of every value, and how well they fit its log."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.reading.source import read_unpacked
from gpuplan.analysis.reading.times import check_zone
from gpuplan.analysis.site.document import TABLES, SiteDocument, dotted
from gpuplan.analysis.site.schema import CalibrationTable, leaves, read_settings

BARE = re.compile(r"[A-Za-z0-9_-]+")
CALIBRATION = "calibration"


def read_twin(path: Path) -> tuple[SiteDocument, CalibrationTable]:
    """Return the settings of a file and its calibration table.

    Raises:
        InputError: it cannot be read, is not TOML, or has a key or value that cannot be used.
    """
    try:
        tables = tomllib.loads(read_unpacked(path).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(
            path, f"is not TOML: {error}", expected="a file written by gpuplan calibrate"
        ) from error
    try:
        calibration = read_settings(tables).calibration
        if calibration.time_zone != "UTC":
            check_zone(calibration.time_zone)
    except (ValueError, UsageError) as error:
        raise InputError(path, str(error)) from error
    tables.pop(CALIBRATION, None)
    document = SiteDocument(tables, dict(calibration.sources))
    for keys, _ in leaves(tables):
        document.sources.setdefault(dotted(*keys), "given")
    return document, calibration


def twin_text(document: SiteDocument, calibration: Mapping[str, Any]) -> str:
    """Return the text of the file; assumed values carry their source as a comment."""
    sources = {key: source for key, source in document.sources.items() if source != "given"}
    lines = [
        "# Written by gpuplan calibrate; keys are Slurm's names. A number of a time is minutes."
    ]
    for name in TABLES:
        lines += _table({name: document.tables.get(name, {})}, (), sources)
    for event in document.tables.get("event", []):
        lines += ["", "[[event]]"]
        lines += [f"{_key(k)} = {_value(v)}" for k, v in event.items() if v is not None]
    facts = {**calibration, "sources": {key: sources[key] for key in sorted(sources)}}
    lines += _table({CALIBRATION: facts}, (), {})
    return "\n".join(lines) + "\n"


def _table(
    table: Mapping[str, Any], above: tuple[str, ...], sources: Mapping[str, str]
) -> list[str]:
    plain = {k: v for k, v in table.items() if not isinstance(v, Mapping) and v is not None}
    lines = []
    if plain and above:
        lines += ["", f"[{'.'.join(map(_key, above))}]"]
        for key, value in plain.items():
            source = sources.get(dotted(*above, key))
            remark = f"  # {source}" if source else ""
            lines.append(f"{_key(key)} = {_value(value)}{remark}")
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += _table(value, (*above, key), sources)
    return lines


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return _text(str(value))


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return (
        '"' + "".join(c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}" for c in escaped) + '"'
    )
