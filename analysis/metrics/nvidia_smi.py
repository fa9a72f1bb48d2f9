"""Read ``nvidia-smi --query-gpu=... --format=csv``, one file per node.

Cells may carry their unit (``92 %``); the header may be repeated before each sample, or missing
where the units tell the columns. Times are local and have no zone. The file does not tell its node:
its name does, or a column ``hostname``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.metrics.samples import (
    MEMORY_FREE_MIB,
    MEMORY_MIB,
    POWER_W,
    UTILIZATION,
    GpuKey,
    GpuSamples,
)
from gpuplan.analysis.reading.limits import MOST_LINE_BYTES, long_line
from gpuplan.analysis.reading.source import SourceStream

NO_NUMBER = "samples without a number, such as [N/A]"
CHUNK_BYTES = 1 << 22
TIME = r"^\s*\d{4}/\d\d?/\d\d? \d\d?:\d\d:\d\d"
TIME_BYTES = re.compile(rb"^\s*\d{4}/\d\d?/\d\d? \d\d?:\d\d:\d\d")
NUMBER = r"^\s*([0-9]+(?:\.[0-9]+)?)\s*(?:%|MiB|W)?\s*$"
MEASURED = {
    "utilization.gpu": UTILIZATION,
    "memory.used": MEMORY_MIB,
    "memory.free": MEMORY_FREE_MIB,
    "power.draw": POWER_W,
    "power.draw.instant": POWER_W,
    "power.draw.average": POWER_W,
}
GPU_COLUMNS = ("index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id")
NODE_COLUMNS = ("hostname", "host", "node")
BY_UNIT = (("%", "utilization.gpu"), ("MiB", "memory.used"), ("W", "power.draw"))
COMMAND = (
    "nvidia-smi --query-gpu=timestamp,index,utilization.gpu,memory.used,power.draw --format=csv "
    "-l 60 > $(hostname).csv"
)


def is_nvidia_smi(head: bytes) -> bool:
    """Return whether a file begins like the samples of nvidia-smi, with or without a header."""
    line = head.lstrip().partition(b"\n")[0]
    names = _names(line)
    return ("timestamp" in names and "utilization.gpu" in names) or (
        TIME_BYTES.match(line) is not None and b"%" in line and b"," in line
    )


def read_nvidia_smi(
    stream: SourceStream, samples: GpuSamples, nodes: Set[str], time_zone: str | None
) -> None:
    """Add the samples of a file.

    Args:
        stream: the file.
        samples: takes them.
        nodes: of the log.
        time_zone: of the times; None for UTC.

    Raises:
        InputError: its columns or its node cannot be told.
    """
    columns: list[str] | None = None
    node: str | None = None
    for text in _blocks(stream):
        if columns is None:
            columns = _columns(stream.path, text.lstrip().partition(b"\n")[0])
            if not set(columns) & set(NODE_COLUMNS):
                node = node_of(stream.path, nodes)
        _add(text, columns, node, samples, time_zone or "UTC")
    if columns is None:
        raise InputError(stream.path, "holds no samples", expected="samples", hint=COMMAND)


def node_of(path: Path, nodes: Set[str]) -> str:
    """Return the node of the log that a file is named after. Raises `InputError`."""
    words = [word for word in re.split(r"[^A-Za-z0-9-]+", path.name) if word]
    stem = path.name.split(".")[0]
    named = [word for word in (path.stem, stem, *words) if word in nodes]
    if named:
        return named[0]
    if len(nodes) == 1:
        return next(iter(nodes))
    raise InputError(
        path,
        "does not tell its node, and no node of the log has its name",
        expected=f"a file named after its node, such as {min(nodes, default='node1')}.csv",
        hint=COMMAND,
    )


def _names(line: bytes) -> list[str]:
    """Return the names of a header, without units."""
    cells = line.decode("utf-8", "replace").split(",")
    return [cell.partition("[")[0].strip().lower() for cell in cells]


def _columns(path: Path, line: bytes) -> list[str]:
    """Return the columns of a file, from its header or from the units of its first line."""
    names = _names(line)
    if "timestamp" not in names:
        cells = [cell.strip() for cell in line.decode("utf-8", "replace").split(",")]
        names = [f"column {i + 1}" for i in range(len(cells))]
        for i, cell in enumerate(cells):
            if re.match(TIME, cell):
                names[i] = "timestamp"
            elif cell.startswith("GPU-"):
                names[i] = "uuid"
            elif re.fullmatch(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d", cell):
                names[i] = "pci.bus_id"
            elif re.fullmatch(r"\d{1,2}", cell) and "index" not in names:
                names[i] = "index"
            unit = next((name for unit, name in BY_UNIT if cell.endswith(f" {unit}")), None)
            if unit is not None and unit not in names:
                names[i] = unit
        if sum(cell.endswith(" MiB") for cell in cells) > 1:  # which is used, free, total?
            names = [f"column {i}" if name == "memory.used" else name
                     for i, name in enumerate(names)]  # fmt: skip
    first_at: dict[str, int] = {}
    for i, name in enumerate(names):
        # A repeated name, and one that polars would take for a pattern, is not used.
        if first_at.setdefault(name, i) != i or name[:1] in ("*", "^"):
            names[i] = f"{i} {name}"
    missing = [name for name in ("timestamp", "utilization.gpu") if name not in names]
    if not set(names) & set(GPU_COLUMNS):
        missing.append("index")
    if missing:
        raise InputError(
            path, f"has no column {', '.join(missing)}", row=1,
            expected="the header of nvidia-smi, or cells with units", hint=COMMAND,
        )  # fmt: skip
    return names


def _blocks(stream: SourceStream) -> Iterator[bytes]:
    """Yield whole lines, some megabytes at a time."""
    rest, number = b"", 1
    while chunk := stream.read(CHUNK_BYTES):
        data = rest + chunk
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) > MOST_LINE_BYTES:
            raise long_line(stream.path, number)
        block, rest = data[:end], data[end:]
        number += block.count(b"\n")
        if block.strip():
            yield block
    if rest.strip():
        yield rest


def _add(
    text: bytes, columns: Sequence[str], node: str | None, samples: GpuSamples, zone: str
) -> None:
    lines = pl.Series("line", text.decode("utf-8", "replace").splitlines())
    is_sample = lines.str.contains(r"\d{4}/\d\d?/\d\d? \d\d?:\d\d:\d\d")
    fields = lines.filter(is_sample).str.split(",").list
    used = ("timestamp", *GPU_COLUMNS, *NODE_COLUMNS, *_measured(columns))
    cells = pl.DataFrame(
        {
            name: fields.get(columns.index(name), null_on_oob=True).str.strip_chars()
            for name in dict.fromkeys(used)
            if name in columns
        }
    )
    local = cells["timestamp"].str.to_datetime("%Y/%m/%d %H:%M:%S%.f", strict=False)
    time = local.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    gpu = next(name for name in GPU_COLUMNS if name in columns)
    host = next((name for name in NODE_COLUMNS if name in columns), None)
    table = cells.with_columns(
        pl.Series("\0time", time.dt.epoch("ms") / 1000.0),
        pl.lit(node).alias("\0node") if host is None else pl.col(host).alias("\0node"),
        pl.col(gpu).alias("\0gpu"),
        *(pl.col(name).str.extract(NUMBER).cast(pl.Float64) for name in _measured(columns)),
    )
    for (host_name, name), part in table.partition_by("\0node", "\0gpu", as_dict=True).items():
        key = GpuKey(str(host_name or ""), str(name or ""))
        times = part["\0time"].fill_null(np.nan).to_numpy()
        for column in _measured(columns):
            samples.sources.setdefault(column, None)
            values = part[column]
            has_value = values.is_not_null().to_numpy()  # [N/A] and [Not Supported] are missing
            samples.counts[NO_NUMBER] += int((~has_value).sum())
            samples.add(key, MEASURED[column], times[has_value],
                        values.drop_nulls().to_numpy())  # fmt: skip


def _measured(columns: Sequence[str]) -> list[str]:
    """Return the columns to use, one per metric."""
    first: dict[str, str] = {}
    for name in columns:
        if name in MEASURED:
            first.setdefault(MEASURED[name], name)
    return list(first.values())
