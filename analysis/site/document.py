"""A site's settings as nested tables with Slurm's names, the content of ``twin.toml``.

Tables: ``node``, ``partition``, ``qos``, ``account``, ``priority``, ``backfill``, and the list
``event``. Times and limits keep Slurm's notation (``1-00:00:00``, ``gpu = 8``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.typed_tables import leaves, nested
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.job_table.notation import hosts_of, split_hosts
from gpuplan.analysis.reading.source import read_unpacked
from gpuplan.analysis.reading.times import check_zone
from gpuplan.analysis.site.schema import CalibrationTable, SiteSettings, read_settings
from gpuplan.analysis.storage.toml_source import lines, parse_toml
from gpuplan.analysis.storage.toml_text import toml_key, toml_value

TABLES = ("node", "partition", "qos", "account", "priority", "backfill")
CALIBRATION = "calibration"
OBJECTS = {".json", ".yaml", ".yml"}
"""Suffixes of what kubectl prints."""
A_TWIN = "a file written by gpuplan calibrate"
CALIBRATE = "write it again: gpuplan calibrate LOG --slurm-conf FILE -o twin.toml"
NODE_KEYS = ("gpus", "type", "weight")


@dataclass(slots=True)
class SiteDocument:
    """Settings read from one or more files.

    Attributes:
        tables: the settings; see the module.
        sources: dotted key -> ``given``, ``inferred`` or ``default``.
        unknown: settings that the model does not use, in order, each once.
        notes: what the user should know, one sentence each.
        plain: names of nodes without GPUs, which are left out.
        capacities: CPUs and megabytes of nodes with GPUs, by name; 0 where a file does not tell.
    """

    tables: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    plain: set[str] = field(default_factory=set)
    capacities: dict[str, tuple[float, float]] = field(default_factory=dict)

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

    def put_nodes(self, name: str, gpus: Any, gpu_type: str, weight: Any, count: Any = 1) -> None:
        """Set a group of equal nodes; ``name`` is a host list. Raises as `put`."""
        values = {"count": count, "gpus": gpus, "type": gpu_type, "weight": weight}
        for key, value in values.items():
            self.put(value, "node", name, key)

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
        for texts, other_texts in ((self.unknown, other.unknown), (self.notes, other.notes)):
            texts += [text for text in other_texts if text not in texts]
        self.plain |= other.plain
        self.capacities |= other.capacities

    def settle(self) -> None:
        """Make one description of what several files describe, once all are merged.

        A node that several files describe is of its group, or alone where the descriptions differ;
        then the last one counts. Nodes and partitions without GPUs are left out, with a note.
        """
        nodes = self.tables.get("node", {})
        if nodes:
            self._settle_nodes(nodes)
            self._settle_partitions(nodes)

    def _settle_nodes(self, nodes: dict[str, Any]) -> None:
        groups = {name: _hosts(name) for name in nodes}
        of_host: dict[str, list[str]] = {}
        for name, hosts in groups.items():
            for host in hosts:
                of_host.setdefault(host, []).append(name)
        split: set[str] = set()
        for names in of_host.values():
            if len(names) == 1:
                continue
            kinds = {tuple(nodes[name].get(key) for key in NODE_KEYS) for name in names}
            if len(kinds) == 1:
                names[1:] = []
            else:
                split.update(name for name in names[:-1] if len(groups[name]) > 1)
                names[:-1] = []
        entries = {name: dict(nodes[name]) for name in nodes}
        nodes.clear()
        for host, (name,) in of_host.items():
            alone = name in split or len(groups[name]) == 1
            nodes[host if alone else name] = entries[name] | ({"count": 1} if alone else {})

    def _settle_partitions(self, nodes: Mapping[str, Any]) -> None:
        partitions, empty = self.tables.get("partition", {}), []
        for name, settings in list(partitions.items()):
            parts = split_hosts(str(settings.get("Nodes", "ALL")).replace("(null)", ""))
            if not self.plain.intersection(host for part in parts for host in _hosts(part)):
                if parts:
                    continue
            hosts = [part if part in nodes else host for part in parts for host in _hosts(part)]
            kept = [host for host in dict.fromkeys(hosts) if host not in self.plain]
            if kept:
                settings["Nodes"] = ",".join(kept)
            else:
                empty.append(name)
                del partitions[name]
        self.note_left_out(empty)

    def note_left_out(self, partitions: Sequence[str]) -> None:
        """Note once which nodes, and which of these partitions, are left out without GPUs."""
        if self.plain and not any("without GPUs" in note for note in self.notes):
            nodes = counted(len(self.plain), "node")
            self.notes.append(f"{nodes} without GPUs left out of the model")
        left_out = f"partitions without GPU nodes are left out: {', '.join(partitions)}"
        if partitions and left_out not in self.notes:
            self.notes.append(left_out)

    def unknown_key(self, key: str) -> None:
        """Note a setting that the model does not use."""
        if key not in self.unknown:
            self.unknown.append(key)


def _hosts(text: str) -> list[str]:
    """Return the names of a host list; of what is none the text itself."""
    return hosts_of(text) or [text]


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


def read_twin(path: Path) -> tuple[SiteDocument, CalibrationTable]:
    """Return the settings of a file and its calibration table.

    Raises:
        InputError: it cannot be read, is not TOML, has no nodes or partitions, or has a key or
            value that cannot be used; with its line.
    """
    text, tables = parse_toml(path, read_unpacked(path), expected=A_TWIN, hint=CALIBRATE)
    if "clusterqueue" in tables or "kaiqueue" in tables:
        raise InputError(
            path,
            "is of a site of Kueue, whose rules gpuplan whatif and eta replay",
            expected="the settings of a Slurm site",
            hint="gpuplan whatif LOG --twin FILE",
        )
    try:
        calibration = read_settings(tables).calibration
        if calibration.time_zone != "UTC":
            check_zone(calibration.time_zone)
    except (ValueError, UsageError) as error:
        rows = {dotted(*keys): row for keys, row in lines(text)}
        row = rows.get(str(error).partition(": ")[0])
        raise InputError(path, str(error), row=row) from error
    for name, nouns in (("node", "nodes"), ("partition", "partitions")):
        if not tables.get(name):
            raise InputError(path, f"has no {nouns}", expected=A_TWIN, hint=CALIBRATE)
    tables.pop(CALIBRATION, None)
    document = SiteDocument(tables, dict(calibration.sources))
    for keys, _ in leaves(tables):
        document.sources.setdefault(dotted(*keys), "given")
    return document, calibration


def is_of_slurm(path: Path) -> bool:
    """Return whether a file is the settings of a Slurm site, and not the objects of another."""
    if path.is_dir() or OBJECTS & {suffix.lower() for suffix in path.suffixes}:
        return False
    try:
        _, tables = parse_toml(path, read_unpacked(path), expected=A_TWIN, hint=CALIBRATE)
    except InputError:
        return False
    return "partition" in tables


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
        lines += [f"{toml_key(k)} = {toml_value(v)}" for k, v in event.items() if v is not None]
    facts = {**calibration, "sources": {key: sources[key] for key in sorted(sources)}}
    lines += _table({CALIBRATION: facts}, (), {})
    return "\n".join(lines) + "\n"


def _table(
    table: Mapping[str, Any], above: tuple[str, ...], sources: Mapping[str, str]
) -> list[str]:
    plain = {k: v for k, v in table.items() if not isinstance(v, Mapping) and v is not None}
    lines = []
    if plain and above:
        lines += ["", f"[{'.'.join(map(toml_key, above))}]"]
        for key, value in plain.items():
            source = sources.get(dotted(*above, key))
            remark = f"  # {source}" if source else ""
            lines.append(f"{toml_key(key)} = {toml_value(value)}{remark}")
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += _table(value, (*above, key), sources)
    return lines
