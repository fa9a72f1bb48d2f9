"""The text of ``twin.toml`` of a site with quotas: objects under Kueue's own names, as TOML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuplan.analysis.quota.kueue_site import TABLES, QuotaDocument
from gpuplan.analysis.site.document import CALIBRATION
from gpuplan.analysis.storage.toml_text import toml_key, toml_value

HEAD = (
    "# Written by gpuplan calibrate; keys are those of Kueue's objects (kubectl get -o json). A\n"
    "# nominalQuota is of a flavor and a resource, as in Kueue."
)


def quota_twin_text(document: QuotaDocument, calibration: Mapping[str, Any]) -> str:
    """Return the text that `read_quota_twin` reads."""
    lines = [HEAD]
    for name in TABLES:
        table = document.tables.get(name) or {}
        objects = {"": table} if name == "controller" else table
        for key, spec in objects.items():
            if name == "controller" and not spec:
                continue
            path = toml_key(name) + (f".{toml_key(key)}" if key else "")
            lines += ["", f"[{path}]"]
            lines += [f"{toml_key(word)} = {inline(value)}" for word, value in spec.items()]
    lines += _facts({CALIBRATION: calibration}, ())
    return "\n".join(lines) + "\n"


def _facts(table: Mapping[str, Any], above: tuple[str, ...]) -> list[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    lines = []
    if plain and above:
        lines += ["", f"[{'.'.join(map(toml_key, above))}]"]
        lines += [f"{toml_key(key)} = {inline(value)}" for key, value in plain.items()]
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += _facts(value, (*above, key))
    return lines


def inline(value: Any, indent: int = 0) -> str:
    """Return a value as TOML on one line, but for lists of tables: one of them a line."""
    if isinstance(value, Mapping):
        parts = (f"{toml_key(key)} = {inline(part, indent)}" for key, part in value.items())
        return f"{{ {', '.join(parts)} }}" if value else "{}"
    if isinstance(value, list | tuple) and any(isinstance(part, Mapping) for part in value):
        inner = " " * (indent + 2)
        rows = (f"{inner}{inline(part, indent + 2)}," for part in value)
        return "\n".join(["[", *rows, f"{' ' * indent}]"])
    return toml_value(value)
