"""Read what Prometheus answers to ``query_range``: series of the exporter of DCGM.

A file may hold several answers, one after another. Samples are read in pieces of some megabytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.metrics.samples import (
    ENGINE,
    MEMORY_FREE_MIB,
    MEMORY_MIB,
    POWER_W,
    TENSOR,
    UTILIZATION,
    GpuKey,
    GpuSamples,
)
from gpuplan.analysis.reading.limits import MOST_RECORD_BYTES, shown_size
from gpuplan.analysis.reading.source import SourceStream

METRICS: dict[str, tuple[str, float]] = {
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": (ENGINE, 100.0),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": (TENSOR, 100.0),
    "DCGM_FI_DEV_GPU_UTIL": (UTILIZATION, 1.0),
    "DCGM_FI_DEV_FB_USED": (MEMORY_MIB, 1.0),
    "DCGM_FI_DEV_FB_FREE": (MEMORY_FREE_MIB, 1.0),
    "DCGM_FI_DEV_POWER_USAGE": (POWER_W, 1.0),
}
"""Metric of the exporter -> what it measures, and the factor to our unit."""
NODE_LABELS = ("Hostname", "exported_hostname", "node", "kubernetes_node", "nodename", "instance")
POD_LABELS = (("exported_namespace", "exported_pod"), ("namespace", "pod"))
MIG_LABELS = ("GPU_I_ID", "GPU_I_PROFILE")

SAMPLE = {"time_s": pl.Float64, "value": pl.Float64}
CHUNK_BYTES = 1 << 22
PIECE_BYTES = 1 << 23
RECORD = re.compile(rb'\{\s*"metric"\s*:\s*\{')
STATUS = re.compile(rb'"status"\s*:\s*"(\w+)"')
NOISE = b' \t\r\n"['
EXPECTED = "what Prometheus answers to /api/v1/query_range, of the metrics DCGM_FI_..."
NAMELESS = "series without a metric name, not used"
UNLABELED = "series without the labels Hostname and gpu, not used"
HINT = "curl 'http://PROMETHEUS/api/v1/query_range?query=DCGM_FI_DEV_GPU_UTIL&start=...&step=60'"


class _Record(msgspec.Struct, gc=False):
    metric: dict[str, str]
    values: msgspec.Raw = msgspec.Raw()
    value: msgspec.Raw = msgspec.Raw()


_DECODER = msgspec.json.Decoder(_Record)


def is_prometheus(head: bytes) -> bool:
    """Return whether a file begins like an answer of Prometheus, or a piece of one."""
    begin = head.lstrip()
    has_result = b'"resultType"' in head or b'"errorType"' in head
    is_array = begin[:1] == b"[" and RECORD.match(begin[1:].lstrip()) is not None
    return is_array or (begin[:1] == b"{" and (has_result or RECORD.match(begin) is not None))


@dataclass(slots=True)
class _Piece:
    """Series whose samples are parsed together."""

    keys: list[tuple[GpuKey, str, float]]
    texts: list[bytes]
    size: int = 0


def read_prometheus(stream: SourceStream, samples: GpuSamples, nodes: Set[str]) -> None:
    """Add the samples of a file.

    Args:
        stream: the file.
        samples: takes them.
        nodes: of the log; a label that names one of them tells the node.

    Raises:
        InputError: Prometheus answered with an error, or the file is no such answer or was cut.
    """
    piece = _Piece([], [])
    count = 0
    for count, text in enumerate(_records(stream), 1):
        record = _record(stream, text, count)
        key = _key(record.metric, samples, nodes)
        if key is None:
            continue
        raw = bytes(record.values) or bytes(record.value)
        values = raw.translate(None, NOISE).replace(b"],", b"\n").rstrip(b"]")
        if not values:
            continue
        piece.keys.append(key)
        piece.texts.append(values)
        piece.size += len(values)
        if piece.size > PIECE_BYTES:
            _parse(piece, samples)
            piece = _Piece([], [])
    _parse(piece, samples)
    if not count:
        raise InputError(stream.path, "holds no series", expected=EXPECTED, hint=HINT)


def _records(stream: SourceStream) -> Iterator[bytes]:
    """Yield the text of each element of ``result``, with what follows it up to the next one."""
    rest, is_first = b"", True
    while True:
        chunk = stream.read(CHUNK_BYTES)
        data = rest + chunk if rest else chunk
        begins = [match.start() for match in RECORD.finditer(data)]
        if is_first and (begins or not chunk or len(data) > CHUNK_BYTES):
            _check_status(stream, data[: begins[0]] if begins else data)
            is_first = False
        for begin, end in pairwise(begins):
            yield data[begin:end]
        rest = data[begins[-1] :] if begins else data if chunk else b""
        if len(rest) > MOST_RECORD_BYTES:
            size = shown_size(MOST_RECORD_BYTES)
            raise InputError(
                stream.path, f"has a series longer than {size}", expected=EXPECTED,
                hint="ask for a shorter time or a longer step",
            )  # fmt: skip
        if not chunk:
            if rest:
                yield rest
            return


def _check_status(stream: SourceStream, head: bytes) -> None:
    status = STATUS.search(head)
    if status is None or status[1] == b"success":
        return
    try:
        message = json.loads(head).get("error")
    except (ValueError, AttributeError, RecursionError):
        message = None
    raise InputError(
        stream.path,
        f"is an error of Prometheus ({message or status[1].decode()})",
        expected=EXPECTED,
        hint=HINT,
    )


def _record(stream: SourceStream, text: bytes, number: int) -> _Record:
    """Return a series; what follows its end in the text is no part of it."""
    end = text.rstrip(b" \t\r\n,")
    try:
        return _DECODER.decode(end)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    problem = "is not JSON"
    try:
        element, _ = json.JSONDecoder().raw_decode(text.decode("utf-8", "replace"))
        return msgspec.convert(
            {**element, **{name: msgspec.Raw(json.dumps(element[name]).encode())
                           for name in ("values", "value") if name in element}},
            _Record,
        )  # fmt: skip
    except json.JSONDecodeError as error:
        is_cut = error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated")
        problem = "ends in the middle of this series: the file was cut" if is_cut else problem
    except (ValueError, RecursionError, TypeError) as error:  # an integer of 5,000 digits too
        problem = f"is no series ({error})"
    raise InputError(
        stream.path, problem, row=number, expected="a series with metric and values",
        hint="fetch it again",
    )  # fmt: skip


def _key(
    labels: dict[str, str], samples: GpuSamples, nodes: Set[str]
) -> tuple[GpuKey, str, float] | None:
    """Return the GPU and the metric of a series; None for one not used, which is counted."""
    name = labels.get("__name__")
    if name not in METRICS:
        samples.counts[NAMELESS if name is None else "series of other metrics, not used"] += 1
        return None
    if any(labels.get(label) for label in MIG_LABELS):
        samples.counts["series of MIG instances, not used"] += 1
        return None
    hosts = [host.partition(":")[0] for label in NODE_LABELS if (host := labels.get(label))]
    named = [name for host in hosts for name in (host, host.partition(".")[0]) if name in nodes]
    node = next(iter([*named, *hosts]), "")
    gpu = labels.get("gpu") or labels.get("minor_number") or labels.get("UUID") or ""
    if not node or not gpu:
        samples.counts[UNLABELED] += 1
        return None
    job = ""
    for namespace, pod in POD_LABELS:
        if labels.get(pod):
            space = labels.get(namespace)
            job = f"{space}/{labels[pod]}" if space else labels[pod]
            break
    metric, factor = METRICS[name]
    samples.sources.setdefault(name, None)
    if model := labels.get("modelName"):
        samples.models.setdefault(node, model)
    return GpuKey(node, gpu, job), metric, factor


def _parse(piece: _Piece, samples: GpuSamples) -> None:
    if not piece.texts:
        return
    counts = [text.count(b"\n") + 1 for text in piece.texts]
    try:
        table = pl.read_csv(
            b"\n".join(piece.texts),
            has_header=False,
            schema=SAMPLE,
            ignore_errors=True,
            quote_char=None,
            truncate_ragged_lines=True,
            missing_columns="insert",
        )
    except pl.exceptions.PolarsError:  # lists that are no pairs
        table = pl.DataFrame(schema=SAMPLE)
    if table.height != sum(counts):  # or an odd cell holds a line end
        table = pl.concat([_one_by_one(text) for text in piece.texts])
        counts = [text.count(b"\n") + 1 for text in piece.texts]
    time_s: FloatArray = table["time_s"].fill_null(np.nan).to_numpy()
    values: FloatArray = table["value"].fill_null(np.nan).to_numpy()
    begin = 0
    for (gpu, metric, factor), count in zip(piece.keys, counts, strict=True):
        part = slice(begin, begin + count)
        with np.errstate(over="ignore"):  # such a sample is lost and counted
            in_our_unit = values[part] * factor
        samples.add(gpu, metric, time_s[part], in_our_unit)
        begin += count


def _one_by_one(text: bytes) -> pl.DataFrame:
    """Return samples line by line; what is no pair of numbers is NaN."""

    def number(cell: bytes) -> float:
        try:
            return float(cell)
        except ValueError:
            return np.nan

    pairs = [line.partition(b",") for line in text.split(b"\n")]
    columns = {"time_s": [number(p[0]) for p in pairs], "value": [number(p[2]) for p in pairs]}
    return pl.DataFrame(columns, schema=SAMPLE)
