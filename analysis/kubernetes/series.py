"""Series of metrics in answers of Prometheus and in dumps of its data, one after the other.

An answer of ``query_range`` or ``query``, the bare array of ``promtool query range -o json``, and
lines of ``promtool tsdb dump``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import Raw, Struct
from msgspec import field as member

from gpuplan.analysis.base.errors import InputError, shortened
from gpuplan.analysis.kubernetes.objects import UNREADABLE, json_texts
from gpuplan.analysis.reading.batch import CUT_OFF, Refused
from gpuplan.analysis.reading.source import BYTE_ORDER_MARK, SourceStream

Sample = tuple[float, float]
"""Time in seconds after 1970, and value."""

LINE = re.compile(
    rb"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)?\{(.*)\}\s+([-+.\w]+)\s+(-?[0-9.]+(?:e\+?[0-9]+)?)\s*"
)
LABEL = re.compile(r'\s*"?([a-zA-Z_][\w.:/-]*)"?="((?:[^"\\]|\\.)*)"\s*(?:,|$)')
ESCAPED = re.compile(r"\\(.)")
MATRIX, VECTOR = "matrix", "vector"
NAME = "__name__"
HINT = "run the query of docs/formats/kubernetes.md again, and save its JSON"
DUMP_MS = 1000.0


class _Series(Struct):
    metric: dict[str, str]
    values: list[tuple[float, str | float]] | None = None
    value: tuple[float, str | float] | None = None


class _Data(Struct):
    kind: str = member(name="resultType", default="")
    result: Raw = Raw()


class _Answer(Struct):
    status: str = ""
    data: _Data | None = None
    error: str | None = None
    error_type: str | None = member(name="errorType", default=None)
    warnings: list[str] | None = None


_AS_ANSWER, _AS_SERIES = msgspec.json.Decoder(_Answer), msgspec.json.Decoder(_Series)
_AS_LIST = msgspec.json.Decoder(list[Raw])


@dataclass(frozen=True, slots=True)
class LabelledSeries:
    """One series.

    Attributes:
        number: its place in the file.
        name: of the metric; empty where the query left none.
        labels: without the name.
        samples: with a value, in order of time.
        odd: samples that are no number, or infinite.
    """

    number: int
    name: str
    labels: dict[str, str]
    samples: list[Sample]
    odd: int = 0

    @property
    def requested(self) -> tuple[str, str]:
        """The container and the resource of a series of requests."""
        container = self.labels.get("exported_container") or self.labels.get("container", "")
        return container, self.labels.get("resource", "")


@dataclass(slots=True)
class SeriesFile:
    """What a file says besides its series, known once they have been read.

    Attributes:
        path: what messages call it.
        notes: warnings of Prometheus.
        refused: what is no series.
        gaps: seconds between the first two samples of a series -> how many series.
        first, last: time of the first and the last sample; None without any.
    """

    path: Path
    notes: list[str] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    gaps: Counter[float] = field(default_factory=Counter)
    first: float | None = None
    last: float | None = None

    @property
    def step_s(self) -> float:
        """Seconds between samples: the most common ones; 0 where no series has two."""
        return min(self.gaps, key=lambda gap: (-self.gaps[gap], gap), default=0.0)

    def seen(self, series: LabelledSeries) -> LabelledSeries:
        """Take note of the times of a series."""
        times = [time for time, _ in series.samples]
        if len(times) > 1:
            self.gaps[round(times[1] - times[0], 3)] += 1
        if times:
            self.first = times[0] if self.first is None else min(self.first, times[0])
            self.last = times[-1] if self.last is None else max(self.last, times[-1])
        return series


def read_series(stream: SourceStream, answer: SeriesFile) -> Iterator[LabelledSeries]:
    """Yield the series of a stream; ``answer`` is complete after the last one.

    Raises:
        InputError: it is an error of Prometheus, or nothing that it writes.
    """
    data = stream.to_file().read_bytes()
    start = len(BYTE_ORDER_MARK) if data.startswith(BYTE_ORDER_MARK) else 0
    if not data[start:].strip():
        raise InputError(stream.path, "is empty", expected="an answer of Prometheus", hint=HINT)
    if LINE.match(data, start) and not data[start:].lstrip().startswith(b'{"'):
        yield from map(answer.seen, _of_dump(data[start:], answer))
        return
    number = 0
    for row, text, problem in json_texts(data, start):
        if problem is not None:
            if row == 1:
                raise InputError(
                    stream.path, problem, expected="an answer of Prometheus", hint=HINT
                )
            reason = CUT_OFF if problem.startswith("ends in") else "unreadable"
            answer.refused.append(Refused(row, reason, None, problem, "an answer", ""))
            continue
        for part in _parts(text, answer):
            number += 1
            try:
                series = _series(number, _AS_SERIES.decode(part))
            except UNREADABLE as error:
                problem_text = shortened(str(error))
                answer.refused.append(
                    Refused(number, "unreadable", None, problem_text, "metric and values", "")
                )
                continue
            yield answer.seen(series)


def _parts(text: memoryview, answer: SeriesFile) -> list[Raw]:
    """Return the series of an answer, or of the bare array. Raises `InputError`."""
    path = answer.path
    try:
        if text[:1].tobytes() == b"[":
            return _AS_LIST.decode(text)
        reply = _AS_ANSWER.decode(text)
        if reply.status == "error" or reply.error is not None:
            raise InputError(
                path,
                f"is an error of Prometheus: {reply.error or reply.error_type or 'no message'}",
                hint=_advice(reply.error or ""),
            )
        answer.notes += [f"Prometheus warns: {shortened(text)}" for text in reply.warnings or ()]
        if reply.data is None or not reply.data.result:
            raise InputError(path, "has no data.result", expected="an answer of Prometheus",
                             hint=HINT)  # fmt: skip
        if reply.data.kind not in ("", MATRIX, VECTOR):
            raise InputError(
                path, f"is an answer of type {reply.data.kind!r}", expected=f"{MATRIX} or {VECTOR}",
                hint=HINT,
            )  # fmt: skip
        if reply.data.kind == VECTOR:
            answer.notes.append(
                "an answer of query, not query_range: one instant, so only pods of that instant"
            )
        return _AS_LIST.decode(reply.data.result)
    except UNREADABLE as error:
        raise InputError(
            path, shortened(str(error)), expected="an answer of Prometheus", hint=HINT
        ) from error


def _advice(error: str) -> str:
    if "maximum resolution" in error:
        return "ask for a longer step, or for less time at once; several files are joined"
    return HINT


def _series(number: int, series: _Series) -> LabelledSeries:
    pairs = series.values if series.values is not None else [series.value] if series.value else []
    samples = [
        (time, value)
        for time, written in pairs
        if math.isfinite(time) and math.isfinite(value := float(written))
    ]
    if any(later[0] < earlier[0] for earlier, later in pairwise(samples)):
        samples.sort()
    labels = series.metric
    odd = len(pairs) - len(samples)
    return LabelledSeries(number, labels.pop(NAME, ""), labels, samples, odd)


def _of_dump(data: bytes, answer: SeriesFile) -> Iterator[LabelledSeries]:
    """Yield the series of ``promtool tsdb dump``, whose lines are samples."""
    samples: dict[tuple[bytes, bytes], list[Sample]] = {}
    first: dict[tuple[bytes, bytes], int] = {}
    odd: Counter[tuple[bytes, bytes]] = Counter()
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        match = LINE.fullmatch(line)
        try:
            if match is None:
                raise ValueError("no series, value and time")
            key = match[1] or b"", match[2]
            value, time = float(match[3]), float(match[4]) / DUMP_MS
        except ValueError as error:
            answer.refused.append(
                Refused(number, "unreadable", None, str(error), '{label="..."} VALUE MS', "")
            )
            continue
        first.setdefault(key, number)
        if math.isfinite(value):
            samples.setdefault(key, []).append((time, value))
        else:
            odd[key] += 1
    for (name, written), number in first.items():
        labels = _labels(written.decode("utf-8", "replace"))
        if labels is None:
            answer.refused.append(
                Refused(number, "unreadable", None, "labels", 'label="text", ...', "")
            )
            continue
        name_label = labels.pop(NAME, "")
        key = (name, written)
        yield LabelledSeries(
            number, name.decode() or name_label, labels, sorted(samples.get(key, [])), odd[key]
        )


def _labels(written: str) -> dict[str, str] | None:
    labels, at = {}, 0
    written = written.strip()
    while at < len(written):
        match = LABEL.match(written, at)
        if match is None:
            return None
        labels[match[1]] = ESCAPED.sub(
            lambda escaped: {"n": "\n"}.get(escaped[1], escaped[1]), match[2]
        )
        at = match.end()
    return labels
