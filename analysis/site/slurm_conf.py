"""Read ``slurm.conf``: nodes, partitions, priorities and backfill.

Keys are in any case, ``\\`` continues a line, ``#`` begins a comment, ``Include`` is followed, and
``DEFAULT`` entries hold for what comes after them. Other keys are listed, never refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpuplan.analysis.base.errors import InputError, UsageError, shortened
from gpuplan.analysis.job_table.notation import (
    MOST_HOSTS,
    capacity,
    expand_hosts,
    gpus_of,
    split_hosts,
)
from gpuplan.analysis.reading.source import read_unpacked
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.schema import Backfill, Partition, Priority

MOST_INCLUDES = 100
PAIR = re.compile(r"""(?<![\w/])([\w/]+)\s*\+?=\s*("[^"]*"|'[^']*'|\S+)""")
COMMENT = re.compile(r"(?<!\\)#.*")

PARTITION_KEYS = {name.lower(): name for name in Partition.__struct_fields__}
PRIORITY_KEYS = {name.lower(): name for name in Priority.__struct_fields__}
BACKFILL_KEYS = {name.lower(): name for name in Backfill.__struct_fields__ if name[0].isupper()}
SETTINGS = {*PRIORITY_KEYS, *BACKFILL_KEYS, "schedulerparameters"}
UNSET = ("", "(null)", "none", "n/a")
PARAMETERS = tuple(name for name in Backfill.__struct_fields__ if name[0].islower())


def read_slurm_conf(path: Path) -> SiteDocument:
    """Read a slurm.conf and what it includes.

    Raises:
        InputError: a file cannot be read, no line is a setting, or a node or partition line cannot
            be understood.
    """
    document = SiteDocument()
    reader = _Conf(document)
    lines = list(_lines(path, []))
    for file, number, line in lines:
        reader.take(file, number, line)
    if lines and not reader.has_settings:
        file, number, line = lines[0]
        problem = f"found {shortened(line)!r}"
        raise InputError(file, problem, row=number, expected="Key=Value, as in a slurm.conf")
    reader.finish()
    return document


def read_scontrol_config(path: Path, lines: Iterable[str]) -> SiteDocument:
    """Return the settings in the output of ``scontrol show config``; it has no nodes.

    It names every setting of Slurm, so that those which the model does not use are not listed.

    Raises:
        InputError: a value cannot be used.
    """
    document = SiteDocument()
    reader = _Conf(document)
    for number, line in enumerate(lines, 1):
        key, equals, value = (part.strip() for part in line.partition("="))
        if equals and value.lower() not in UNSET and key.lower() in SETTINGS:
            reader.take(path, number, f'{key}="{value}"')
    document.unknown.clear()
    return document


def included_files(path: Path) -> list[Path]:
    """Return a slurm.conf and the files it includes that have lines. Raises `InputError`."""
    return list(dict.fromkeys([path, *(file for file, _, _ in _lines(path, []))]))


def _lines(
    path: Path, above: list[Path], opened: list[Path] | None = None
) -> Iterator[tuple[Path, int, str]]:
    """Yield the lines of a file and of those it includes, without comments and continuations."""
    if path in above:
        raise InputError(path, "includes itself", hint="take the Include line out")
    opened = [] if opened is None else opened
    opened.append(path)
    if len(opened) > MOST_INCLUDES:
        raise InputError(path, f"is one of more than {MOST_INCLUDES} Include lines")
    text = read_unpacked(path).decode("utf-8", "replace")
    logical_line, first = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = COMMENT.sub("", raw).rstrip()
        if logical_line.endswith(","):
            line = line.lstrip()
        first = first or number
        if line.endswith("\\"):
            logical_line += line[:-1]
            continue
        logical_line, line = "", (logical_line + line).strip()
        begin, first = first, 0
        if not line:
            continue
        included = re.match(r"(?i)include\s+(\S+)$", line)
        if included:
            yield from _lines(path.parent / included[1], [*above, path], opened)
        else:
            yield path, begin, line


class _Conf:
    """What the lines read so far say."""

    def __init__(self, document: SiteDocument) -> None:
        self.document = document
        self.defaults: dict[str, dict[str, str]] = {"nodename": {}, "partitionname": {}}
        self.sets: dict[str, list[str]] = {}
        self.hosts: dict[str, str] = {}  # host -> its group
        self.partitions: dict[str, tuple[Path, int]] = {}
        self.has_settings = False

    def take(self, path: Path, number: int, line: str) -> None:
        pairs = [(key.lower(), value.strip("\"'")) for key, value in PAIR.findall(line)]
        if not pairs:
            self.document.unknown_key(line.split()[0])
            return
        self.has_settings = True
        kind, name = pairs[0]
        try:
            if kind in self.defaults:
                self._entry(kind, name, dict(pairs[1:]), path, number)
            elif kind == "nodeset":
                settings = dict(pairs[1:])
                self.sets[name] = expand_hosts(settings.get("nodes", ""))
            else:
                for key, value in pairs:
                    self._setting(key, value)
        except (ValueError, UsageError) as error:
            raise InputError(path, str(error), row=number) from error

    def _entry(
        self, kind: str, name: str, settings: dict[str, str], path: Path, number: int
    ) -> None:
        if name.upper() == "DEFAULT":
            self.defaults[kind] |= settings
            return
        settings = self.defaults[kind] | settings
        if kind == "nodename":
            self._node(name, settings)
        else:
            self._partition(name, settings)
            self.partitions[name] = (path, number)

    def _node(self, name: str, settings: dict[str, str]) -> None:
        hosts = expand_hosts(name)
        if len(self.document.plain) + len(self.hosts) + len(hosts) > MOST_HOSTS:
            raise ValueError(f"names more than {MOST_HOSTS:,} nodes in all")
        gpus = gpus_of(settings.pop("gres", ""))
        weight, size = settings.pop("weight", 1), capacity(settings)
        self._unused("Node", settings)
        if not gpus or not gpus[0]:
            self.document.plain.update(hosts)
            return
        self.hosts |= dict.fromkeys(hosts, name)
        self.document.capacities |= dict.fromkeys(hosts, size)
        self.document.put_nodes(name, gpus[0], gpus[1] or "gpu", weight, len(hosts))

    def _partition(self, name: str, settings: dict[str, str]) -> None:
        if "priority" in settings:
            settings.setdefault("prioritytier", settings["priority"])
            settings.setdefault("priorityjobfactor", settings["priority"])
            settings.pop("priority")
        for key, shown in PARTITION_KEYS.items():
            if key in settings:
                self.document.put(settings.pop(key), "partition", name, shown)
        self._unused("Partition", settings)

    def _setting(self, key: str, value: str) -> None:
        if key in PRIORITY_KEYS:
            self.document.put(value, "priority", PRIORITY_KEYS[key])
        elif key in BACKFILL_KEYS:
            self.document.put(value, "backfill", BACKFILL_KEYS[key])
        elif key == "schedulerparameters":
            for part in value.split(","):
                name, _, settings = part.partition("=")
                if name.strip() in PARAMETERS:
                    self.document.put(settings, "backfill", name.strip())
                elif name.strip():
                    self.document.unknown_key(f"SchedulerParameters {name.strip()}")
        else:
            self.document.unknown_key(key)

    def _unused(self, kind: str, settings: dict[str, str]) -> None:
        for key in settings:
            self.document.unknown_key(f"{kind} {key}")

    def finish(self) -> None:
        """Resolve node sets and ALL, and leave out nodes and partitions without GPUs."""
        empty = []
        for name, settings in list(self.document.tables.get("partition", {}).items()):
            file, row = self.partitions[name]
            hosts: dict[str, None] = {}
            for part in split_hosts(str(settings.get("Nodes", ""))):
                if part.upper() == "ALL":
                    hosts |= dict.fromkeys(self.hosts)
                    continue
                try:
                    members = self.sets.get(part) or expand_hosts(part)
                except ValueError as error:
                    raise InputError(file, str(error), row=row) from error
                hosts |= dict.fromkeys(host for host in members if host in self.hosts)
            if not hosts:
                empty.append(name)
                del self.document.tables["partition"][name]
                continue
            settings["Nodes"] = folded(list(hosts), self.hosts)
        self.document.note_left_out(empty)


def folded(hosts: list[str], groups: dict[str, str]) -> str:
    """Return a host list that names a group of nodes by its own name where it is whole."""
    within = set(hosts)
    members: dict[str, list[str]] = {}
    for host, group in groups.items():
        members.setdefault(group, []).append(host)
    parts: dict[str, None] = {}
    for host in hosts:
        group = groups[host]
        parts[group if within.issuperset(members[group]) else host] = None
    return ",".join(parts)
