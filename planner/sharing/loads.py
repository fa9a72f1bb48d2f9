"""The requests of services: files of rates, request logs, and processes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.job_table.log_options import LogOptions
from gpuplan.analysis.reading.source import read_unpacked
from gpuplan.analysis.storage.files import sha256_of
from gpuplan.analysis.trace.input_files import InputFile, trace_input
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import Trace
from gpuplan.analysis.user_tables.rates import read_rates
from gpuplan.simkit.arrays import FloatArray

SYNTHETIC_S = 600  # length of a load without a file where nothing else says
MOST_REQUESTS = 50_000_000
MOST_RATE = 1e6
"""Requests per second of a process; also its largest factor and period."""
LEAST_RATE = 1e-9
LEAST_CV, MOST_CV = 1e-3, 100.0
RATES = f"of {LEAST_RATE:g} to below {MOST_RATE:,.0f} requests per second"
BURST_S, CALM_S = 10, 50  # seconds of a burst, and of the calm after it
PROCESSES = {
    "poisson": ("poisson:RATE", 1),
    "gamma": ("gamma:RATE:CV", 2),
    "gamma-rate": ("gamma-rate:RATE:CV", 2),
    "bursty": ("bursty:RATE:FACTOR", 2),
    "periodic": ("periodic:RATE:PERIOD_S", 2),
}
"""Name -> how it is written, and its numbers.

``gamma`` has independent gaps with this coefficient of variation; ``gamma-rate`` draws the rate of
each second; ``bursty`` multiplies the rate for 10 s of each minute; ``periodic`` swings between 0
and twice the rate.
"""


@dataclass(frozen=True, slots=True)
class RequestProcess:
    """A process that requests are sampled from.

    Attributes:
        name: one of `PROCESSES`.
        rate: mean requests per second, of ``bursty`` that outside bursts.
        shape: coefficient of variation, factor or period.
    """

    name: str
    rate: float
    shape: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in PROCESSES:
            raise ValueError(f"expected one of {', '.join(PROCESSES)}, got {self.name!r}")
        if not LEAST_RATE <= self.rate < MOST_RATE:
            raise ValueError(f"expected a rate {RATES}, got {self.rate:g}")
        low, high = (LEAST_CV, MOST_CV) if self.has_cv else (LEAST_RATE, MOST_RATE)
        if not low <= self.shape <= high:
            raise ValueError(f"expected {low:g} to {high:,.0f} after the rate, got {self.shape:g}")

    @property
    def has_cv(self) -> bool:
        """Whether ``shape`` is a coefficient of variation."""
        return self.name.startswith("gamma")

    def arrivals(self, seconds: int, rng: np.random.Generator) -> FloatArray:
        """Return arrivals within a number of seconds, ascending.

        Raises `ValueError` for more than 50 million requests.
        """
        expected = seconds * self.rate * (max(self.shape, 1.0) if self.name == "bursty" else 1.0)
        if expected > MOST_REQUESTS:
            raise ValueError(f"{expected:,.0f} requests; expected at most {MOST_REQUESTS:,}")
        if self.name in ("poisson", "gamma"):
            cv = 1.0 if self.name == "poisson" else self.shape
            count = int(seconds * self.rate + 10 * math.sqrt(seconds * self.rate) * (1 + cv) + 10)
            parts, end = [], 0.0
            while end < seconds:
                gaps = rng.gamma(1 / cv**2, cv**2 / self.rate, count)
                parts.append(end + np.cumsum(gaps))
                end = float(parts[-1][-1])
            arrivals = np.concatenate(parts)
            return arrivals[arrivals < seconds]
        at = np.arange(seconds)
        if self.name == "gamma-rate":
            rates = rng.gamma(1 / self.shape**2, self.rate * self.shape**2, seconds)
        elif self.name == "bursty":
            rates = np.where(at % (BURST_S + CALM_S) >= CALM_S, self.rate * self.shape, self.rate)
        else:
            rates = self.rate * (1 + np.sin(2 * np.pi * at / self.shape))
        counts = rng.poisson(rates)
        if counts.sum() > MOST_REQUESTS:
            raise ValueError(f"{counts.sum():,} requests; expected at most {MOST_REQUESTS:,}")
        return np.sort(np.repeat(at, counts) + rng.random(int(counts.sum())))


def even_arrivals(rates: FloatArray, multiplier: float = 1.0) -> FloatArray:
    """Return arrivals of int(rate x multiplier) requests, evenly spread inside each second.

    Raises `ValueError` for more than 50 million requests.
    """
    per_second = np.floor(rates * multiplier)
    if not per_second.sum() <= MOST_REQUESTS:
        raise ValueError(f"{per_second.sum():,.0f} requests; expected at most {MOST_REQUESTS:,}")
    counts = per_second.astype(np.int64)
    second = np.repeat(np.arange(counts.size), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    inside = np.arange(second.size) - first
    return second + inside / np.repeat(counts, counts)


def read_log(path: Path, names: Mapping[str, str] | None = None) -> tuple[Trace, InputFile]:
    """Return a canonical trace, or a job log in any format that ``gpuplan ingest`` reads.

    ``names`` maps canonical columns to columns of the log.

    Raises:
        InputError: no log that can be read.
    """
    columns = ("job_id", "submit_time", "queue_s", "duration_s", "num_gpus", "state", "gpu_type")
    selection = Selection(log=LogOptions(columns=dict(names or {})))
    trace = read_trace(path, selection, columns=columns)
    return trace, trace_input(trace)


class Loads:
    """The values of ``--load``: one for every service, or ``NAME=...`` for one."""

    def __init__(self, texts: Sequence[str], multiplier: float, seed: int) -> None:
        self.multiplier, self.seed = multiplier, seed
        self.by_service: dict[str, str] = {}
        self.common: str | None = None
        self.inputs: dict[str, InputFile] = {}
        self.read: dict[str, tuple[FloatArray, bool, float]] = {}
        for text in texts:
            name, equals, value = text.partition("=")
            if equals and "/" not in name and name.partition(":")[0] not in PROCESSES:
                if name in self.by_service:
                    raise UsageError(f"--load {name}: given twice")
                self.by_service[name] = value
            elif self.common is not None:
                raise UsageError(
                    f"--load {self.common} and --load {text}: several need the names of services\n"
                    "  next: --load NAME=FILE"
                )
            else:
                self.common = text

    def check(self, services: Mapping[str, str | None]) -> None:
        """Raise `UsageError` where a load is for no service.

        Args:
            services: name -> the load that its function names; None where it names none.
        """
        if not services and (self.common is not None or self.by_service):
            raise UsageError("--load: no function is a service\n  next: leave --load out")
        for name in self.by_service:
            if name not in services:
                raise UsageError(
                    f"--load {name}=...: no service {name}; found {', '.join(services)}"
                )
        lacking = [
            name for name in services if services[name] is None and name not in self.by_service
        ]
        if self.common is not None and not lacking:
            raise UsageError(
                f"--load {self.common}: every service has another load, in its function or by "
                f"--load NAME=...\n  next: leave it out, or --load {next(iter(services))}=..."
            )

    def spec(self, name: str, load: str | None, folder: Path) -> str:
        """Return the load of a service, ``load`` where its function names one.

        Raises `UsageError` where it has none.
        """
        if name in self.by_service:
            return self.by_service[name]
        if load is not None:
            return load if self.process(load) is not None else str(folder / load)
        if self.common is None:
            raise UsageError(f"--load: {name} has none\n  next: --load {name}=FILE")
        return self.common

    def process(self, spec: str) -> Any:
        """Return the process of a spec such as ``poisson:20``; None for a file."""
        name, *numbers = spec.split(":")
        if name not in PROCESSES:
            return None
        form, count = PROCESSES[name]
        try:
            values = [float(number) for number in numbers]
        except ValueError:
            values = []
        if len(values) != count:
            raise UsageError(f"--load {spec}: expected {form}, as in {name}:20{':2' * (count - 1)}")
        try:
            return RequestProcess(name, *values)
        except ValueError as error:
            raise UsageError(f"--load {spec}: {error}") from None

    def length_s(self, spec: str) -> float | None:
        """Return the length of a file in seconds; None for a process."""
        if self.process(spec) is not None:
            return None
        return self._file(spec)[2]

    def arrivals(self, spec: str, horizon_s: float, place: int) -> FloatArray:
        """Return the arrivals of a service within the horizon, ascending."""

        process = self.process(spec)
        arrivals: FloatArray
        try:
            if process is not None:
                rng = np.random.default_rng([self.seed, place])
                scaled = type(process)(process.name, process.rate * self.multiplier, process.shape)
                arrivals = scaled.arrivals(math.ceil(horizon_s), rng)
            else:
                values, are_rates, _ = self._file(spec)
                if not are_rates and self.multiplier == 1:
                    arrivals = values
                else:
                    values = values if are_rates else values[values < math.ceil(horizon_s)]
                    rates = values if are_rates else np.bincount(values.astype(np.int64))
                    arrivals = even_arrivals(np.asarray(rates, np.float64), self.multiplier)
        except ValueError as error:
            raise UsageError(f"--load {spec} --multiplier {self.multiplier:g}: {error}") from None
        return arrivals[arrivals < horizon_s]

    def _file(self, spec: str) -> tuple[FloatArray, bool, float]:
        """Return rates or arrivals, which of the two, and the length in seconds."""
        if spec not in self.read:
            path = Path(spec)
            if _has_rates(path):
                rates = read_rates(path)
                self.inputs[spec] = InputFile(spec, sha256_of(path), rates.size)
                self.read[spec] = (rates, True, float(rates.size))
            else:
                trace, self.inputs[spec] = read_log(path)
                at_s = trace.submit_s
                self.read[spec] = (at_s, False, float(math.floor(at_s[-1]) + 1))
        return self.read[spec]


def _has_rates(path: Path) -> bool:
    if path.suffix.lower() == ".parquet":
        return False
    try:
        first = read_unpacked(path).split(b"\n", 1)[0].decode("utf-8-sig", "replace").strip()
    except InputError as error:
        if path.exists():
            return False  # too large for rates
        raise error
    try:
        float(first)
    except ValueError:
        return False
    return True
