"""What ``gpuplan profile`` is asked."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from gpuplan.analysis.base.amounts import parse_duration
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Opt
from gpuplan.analysis.job_table.log_options import LogOptions
from gpuplan.planner.requests.declaration import StudyRequest, study

MILLISECONDS = re.compile(r"^\s*((?:\d+(?:\.\d*)?|\.\d+))\s*ms\s*$")
PLAIN = re.compile(r"^\s*(\d+(\.\d*)?|\.\d+)\s*$")
MOST_RPS = 1e9


def read_latency(text: str, flag: str) -> float:
    """Return seconds for ``80ms``, ``0.08s`` or any other time with a unit.

    Raises `UsageError`, also for a bare number, which could be seconds or milliseconds.
    """
    from gpuplan.analysis.reading.times import is_number

    expected = f"{flag} {text.strip()}: expected a number above 0 with a unit, such as 80ms"
    if is_number(text):
        if not 0 < float(text) < math.inf or PLAIN.match(text) is None:
            raise UsageError(expected)
        raise UsageError(
            f"{flag} {text}: needs a unit\n  next: {flag} {text.strip()}ms, or "
            f"{flag} {text.strip()}s for seconds"
        )
    milliseconds = MILLISECONDS.match(text.lower())
    seconds = float(milliseconds[1]) / 1000 if milliseconds else parse_duration(text, flag)
    if not seconds > 0:
        raise UsageError(expected)
    return seconds


def read_headers(pairs: Sequence[str], flag: str) -> dict[str, str]:
    """Return our column -> the header that stands for it. Raises `UsageError`."""
    from gpuplan.analysis.user_tables.sharing_profiles import COLUMNS

    headers: dict[str, str] = {}
    for pair in pairs:
        column, _, header = (part.strip() for part in pair.partition("="))
        if column not in COLUMNS or not header:
            raise UsageError(f"{flag} {pair!r}: expected OURS=THEIRS, OURS of {', '.join(COLUMNS)}")
        headers[column] = header
    return headers


@study(
    "profile",
    picture="Throughput by batch size and share of a GPU",
    example="gpuplan profile resnet152.csv --slo 100ms -o functions.toml",
    has_rows=False,
    more_forms={".toml": "the functions that gpuplan share reads"},
)
@dataclass(frozen=True, slots=True)
class ProfileRequest(StudyRequest):
    """Choose batch size and GPU share of a measured service.

    The file functions.toml (-o functions.toml) keeps the functions for gpuplan share.
    """

    tables: Annotated[
        tuple[Path, ...],
        Opt(
            "Measured tables of services: batch size, percent of the SMs, seconds per batch, "
            "items per second; with or without a header.",
            key=None,
            metavar="TABLE...",
            many=True,
            argument=True,
        ),
    ]
    slo_s: Annotated[
        float | None,
        Opt(
            "Latency target of a request, for example 100ms. A batch may take half of it. "
            "Required without --training.",
            flag="--slo",
            parse=read_latency,
            metavar="TIME",
            common=True,
        ),
    ] = None
    load_rps: Annotated[
        float | None,
        Opt(
            "Requests per second that the service receives: choose the batch and share that "
            "serve it on the least of a GPU. Default: the most throughput per share.",
            flag="--load",
            metavar="RPS",
            common=True,
        ),
    ] = None
    training: Annotated[
        bool,
        Opt(
            "The tables measure training: find the shares that keep 80% (request) and 100% "
            "(limit) of its speed.",
            flag="--training",
            common=True,
        ),
    ] = False
    te_drop: Annotated[
        float,
        Opt("Largest drop in throughput per percent of the SMs that a step may cause.", low=0.0),
    ] = 0.2
    names: Annotated[
        Mapping[str, str],
        Opt(
            "OURS=THEIRS: the header that stands for batch, sm_percent, latency_s or throughput; "
            "may be repeated.",
            flag="--map",
            parse=read_headers,
            key="map",
            metavar="OURS=THEIRS",
            panel=LogOptions.PANEL,
            many=True,
        ),
    ] = field(default_factory=dict)

    def check(self) -> None:
        """Check everything but the tables. Raises `UsageError`."""
        from gpuplan.analysis.user_tables.sharing_profiles import COLUMNS

        wrong = next((name for name in self.names if name not in COLUMNS), None)
        if wrong is not None:
            raise UsageError(f"--map {wrong}: expected one of {', '.join(COLUMNS)}")
        if (self.slo_s is None) != self.training:
            raise UsageError(
                "--slo: services need it, for example --slo 100ms\n"
                "  next: --training, where the tables measure training"
                if self.slo_s is None
                else "--slo and --training: training has no latency; give one of the two"
            )
        if self.load_rps is not None and (self.training or not 0 < self.load_rps < MOST_RPS):
            raise UsageError(
                "--load and --training: training serves no requests; give one of the two"
                if self.training
                else f"--load {self.load_rps:g}: expected requests per second, above 0 and below "
                f"{MOST_RPS:,.0f}"
            )
