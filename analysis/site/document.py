"""A site's settings as nested tables with Slurm's names, the content of ``twin.toml``.

Tables: ``node``, ``partition``, ``qos``, ``account``, ``priority``, ``backfill``, and the list
``event``. Times and limits keep Slurm's notation (``1-00:00:00``, ``gpu = 8``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuplan.analysis.site.schema import SiteSettings, nested, read_settings

TABLES = ("node", "partition", "qos", "account", "priority", "backfill")


@dataclass(slots=True)
class SiteDocument:
    """Settings read from one or more files.

    Attributes:
        tables: the settings; see the module.
        sources: dotted key -> ``given``, ``inferred`` or ``default``.
        unknown: settings that the model does not use, in order, each once.
        notes: what the user should know, one sentence each.
    """

    tables: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def put(self, value: Any, *keys: str, source: str = "given") -> None:
        """Set one value by its path. Raises `UsageError` where the schema refuses it."""
        typed: Any = read_settings(nested(keys, value))
        for key in keys:
            typed = typed.get(key) if isinstance(typed, dict) else getattr(typed, key, None)
        table = self.tables
        for key in keys[:-1]:
            if not isinstance(table.get(key), dict):
                table[key] = {}
            table = table[key]
        table[keys[-1]] = typed if type(typed) in (int, float) else value
        self.sources[dotted(*keys)] = source

    @property
    def settings(self) -> SiteSettings:
        """The settings with types. Raises `UsageError`."""
        return read_settings(self.tables)

    def get(self, *keys: str) -> Any:
        """Return the value at a path; None where there is none."""
        value: Any = self.tables
        for key in keys:
            if not isinstance(value, Mapping) or key not in value:
                return None
            value = value[key]
        return value

    def merge(self, other: SiteDocument) -> None:
        """Take over everything of another document; where both set a value its counts."""
        _merge(self.tables, other.tables)
        self.sources.update(other.sources)
        for mine, theirs in ((self.unknown, other.unknown), (self.notes, other.notes)):
            mine += [text for text in theirs if text not in mine]

    def unknown_key(self, key: str) -> None:
        """Note a setting that the model does not use."""
        if key not in self.unknown:
            self.unknown.append(key)


def dotted(*keys: str) -> str:
    """Return a path as text."""
    return ".".join(keys)


def _merge(into: dict[str, Any], other: Mapping[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, Mapping):
            table = into.setdefault(key, {})
            if isinstance(table, dict):
                _merge(table, value)
                continue
        into[key] = list(into.get(key, [])) + value if isinstance(value, list) else value
