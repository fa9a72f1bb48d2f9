"""Read dumps of Slurm's tools: ``scontrol show node|partition -o``, ``sacctmgr show
assoc|qos|events -P`` and ``sshare -alP``. The first line says what a file holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.time_zones import epoch_second
from gpuplan.analysis.job_table.notation import UNLIMITED, WHOLE, capacity, gpu_limit, gpus_of
from gpuplan.analysis.reading.source import read_unpacked
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.schema import read_settings
from gpuplan.analysis.site.slurm_conf import PARTITION_KEYS, read_scontrol_config

KEY = re.compile(r"[A-Za-z][\w:/]*")
EXPECTED = (
    "output of scontrol show node|partition|config, sacctmgr show assoc|qos|events -P or "
    "sshare -alP"
)
RECORDS = ("NodeName=", "PartitionName=")
CONFIG = "Configuration data"
"""How the output of ``scontrol show config`` begins."""
Row = dict[str, str]

QOS_COLUMNS = {
    "grptres": ("GrpTRES", "gpu"), "grpjobs": ("GrpJobs", ""), "maxtrespu": ("MaxTRESPU", "gpu"),
    "maxtresperuser": ("MaxTRESPU", "gpu"), "maxjobspu": ("MaxJobsPU", ""),
    "maxjobsperuser": ("MaxJobsPU", ""), "maxtres": ("MaxTRESPerJob", "gpu"),
    "maxtresperjob": ("MaxTRESPerJob", "gpu"),
}  # fmt: skip


def read_dump(path: Path, zone: str = "UTC") -> SiteDocument:
    """Read one dump.

    Args:
        zone: zone of the times of node events.

    Raises:
        InputError: it cannot be read or is none of the dumps.
    """
    text = read_unpacked(path).decode("utf-8", "replace")
    lines = [line.rstrip("\r") for line in text.splitlines() if line.strip()]
    if not lines:
        raise InputError(path, "is empty", expected=EXPECTED)
    document = SiteDocument()
    if lines[0].startswith(CONFIG):
        return read_scontrol_config(path, lines)
    if lines[0].startswith(RECORDS):
        for number, record in _records(text.splitlines()):
            _located(path, number, _scontrol, document, _pairs(record))
        return document
    names = [name.strip().lower().replace(" ", "") for name in lines[0].split("|")]
    take = _reader(set(names), zone)
    if take is None:
        raise InputError(path, f"found {lines[0][:80]!r}", row=1, expected=EXPECTED)
    for number, line in enumerate(lines[1:], 2):
        cells = [cell.strip() for cell in line.split("|")]
        _located(path, number, take, document, dict(zip(names, cells, strict=False)))
    return document


def _records(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the records of scontrol as one line each, with the number of their first line.

    Without ``-o`` a record goes on in the indented lines after its first.
    """
    record, begin = "", 1
    for number, line in enumerate(lines, 1):
        if line.startswith(RECORDS):
            if record:
                yield begin, record
            record, begin = line.strip(), number
        elif line.strip():
            record += f" {line.strip()}"
    if record:
        yield begin, record


def _pairs(record: str) -> Row:
    """Return keys and values of a record: words up to the next word that begins with a key."""
    words: dict[str, list[str]] = {}
    value: list[str] = []
    for word in record.split():
        key, equals, first = word.partition("=")
        if equals and KEY.fullmatch(key):
            value = words[key] = [first]
        else:
            value.append(word)
    return {key: " ".join(value) for key, value in words.items()}


def _located(
    path: Path, number: int, take: Callable[[SiteDocument, Row], None], to: SiteDocument, row: Row
) -> None:
    try:
        take(to, row)
    except UsageError as error:
        raise InputError(path, str(error), row=number) from error
    except (ValueError, KeyError) as error:
        raise InputError(path, str(error), row=number, expected=EXPECTED) from error


def _reader(names: set[str], zone: str) -> Callable[[SiteDocument, Row], None] | None:
    if {"account", "user"} <= names and names & {"rawusage", "effectvusage"}:
        return _share
    if {"account", "user"} <= names and names & {"share", "fairshare", "grptres", "maxjobs"}:
        return _association
    if "nodename" in names or {"node", "state"} <= names:
        return partial(_event, zone=zone)
    if "name" in names and "priority" in names:
        return _qos
    return None


def _scontrol(document: SiteDocument, cells: Row) -> None:
    """Take a record of ``scontrol show node`` or ``scontrol show partition``."""
    if "NodeName" in cells:
        name = cells["NodeName"]
        gpus = gpus_of(cells.get("Gres", "")) or gpus_of(cells.get("CfgTRES", ""))
        if not gpus or not gpus[0]:
            document.plain.add(name)
            return
        document.capacities[name] = capacity({key.lower(): cells[key] for key in cells})
        document.put_nodes(name, gpus[0], gpus[1] or "gpu", cells.get("Weight", 1))
        return
    name = cells["PartitionName"]
    by_key = {key.lower(): value for key, value in cells.items()}
    for key, shown in PARTITION_KEYS.items():
        text = by_key.get(key)
        if text is None or (key != "nodes" and text.lower() in UNLIMITED):
            continue
        document.put(text, "partition", name, shown)


def _association(document: SiteDocument, row: Row) -> None:
    """Take a row of ``sacctmgr show assoc``; rows of one partition only are left out."""
    account, user = row["account"], row.get("user", "")
    if not account or (account == "root" and not user) or row.get("partition"):
        return
    where = ("account", account) if not user else ("account", account, "user", user)
    shares = row.get("share") or row.get("fairshare") or "1"
    if shares.lower() != "parent":
        document.put(shares, *where, "Fairshare")
    if not user and row.get("parentname"):
        document.put(row["parentname"], *where, "Parent")
    if (gpus := gpu_limit(row.get("grptres", ""))) is not None:
        document.put(gpus, *where, "GrpTRES", "gpu")
    _put_limit(document, row.get("maxjobs", ""), *where, "MaxJobs")


def _share(document: SiteDocument, row: Row) -> None:
    """Take a row of ``sshare -alP``: raw usage of users, in billing-seconds."""
    account, user = row["account"].strip(), row.get("user", "").strip()
    if user and row.get("rawusage"):
        document.put(row["rawusage"], "account", account, "user", user, "RawUsage")
        if (shares := row.get("rawshares", "")).isdigit():
            document.put(shares, "account", account, "user", user, "Fairshare")
    elif account and account != "root" and row.get("rawshares", "").isdigit():
        document.put(row["rawshares"], "account", account, "Fairshare")


def _qos(document: SiteDocument, row: Row) -> None:
    name = row["name"]
    document.put(row.get("priority") or 0, "qos", name, "Priority")
    for column, (key, resource) in QOS_COLUMNS.items():
        cell = row.get(column, "")
        if not resource:
            _put_limit(document, cell, "qos", name, key)
        elif (gpus := gpu_limit(cell)) is not None:
            document.put(gpus, "qos", name, key, resource)
    _put_limit(document, row.get("maxwall", ""), "qos", name, "MaxWall")


def _put_limit(document: SiteDocument, cell: str, *keys: str) -> None:
    if cell.lower() not in UNLIMITED:
        document.put(cell, *keys)


def _event(document: SiteDocument, row: Row, zone: str) -> None:
    """Take a row of ``sacctmgr show events``: a node that was drained or down."""
    node = row.get("nodename") or row.get("node") or ""
    state = row.get("state", "").upper()
    start, end = (row.get(name, "") for name in ("timestart", "timeend"))
    start, end = start or row.get("start", ""), end or row.get("end", "")
    if not node or not any(word in state for word in ("DOWN", "DRAIN", "FAIL", "MAINT")):
        return
    begin = _second(start, zone)
    if begin is None:
        return
    until = _second(end, zone)
    # In the hour that a clock repeats, an end may read as earlier than its start: then it is short.
    last = 1 << 40 if until is None else max(until, begin)
    event = {"node": node, "start": begin, "end": last}
    read_settings({"event": [event]})
    document.tables.setdefault("event", []).append(event)
    document.sources["event"] = "given"


def _second(text: str, zone: str) -> int | None:
    """Return seconds after 1970 of a local time or a number; None for ``Unknown``."""
    text = text.strip()
    if WHOLE.fullmatch(text):
        return int(text)
    try:
        return epoch_second(text, zone)
    except (ValueError, OverflowError):
        return None
