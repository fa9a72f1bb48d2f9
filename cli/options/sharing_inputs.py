"""Read what ``profile`` and ``share`` take: durations in ms, loads, functions, instances."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.errors import InputError, UsageError, shortened
from gpuplan.analysis.input_files import InputFile, trace_input
from gpuplan.cli.formats.units import parse_duration
from gpuplan.cli.options.settings import check_once

if TYPE_CHECKING:
    from gpuplan.analysis.trace import Trace
    from gpuplan.simkit.arrays import FloatArray

MILLISECONDS = re.compile(r"^\s*((?:\d+(?:\.\d*)?|\.\d+))\s*ms\s*$")
SYNTHETIC_S = 600  # length of a drawn load where nothing else tells
MOST_GAMMAS = 50
FLAGS = {"true": True, "yes": True, "false": False, "no": False}
SETTINGS = ("gamma", "omega", "alpha", "beta", "memory_gb", "tie_break", "split", "affinity")


def parse_latency(text: str, option: str) -> float:
    """Return seconds for ``80ms``, ``0.08s`` or any other duration. Raises `UsageError`."""
    found = MILLISECONDS.match(text.lower())
    seconds = float(found[1]) / 1000 if found else parse_duration(text, option)
    if not seconds > 0:
        raise UsageError(f"{option} {text!r}: expected a time above 0, such as 80ms")
    return seconds


def parse_gammas(text: str | None) -> tuple[float, ...]:
    """Return the values of ``1.5``, ``1,1.5,2`` or ``1:2.5:0.1``. Raises `UsageError`."""
    if text is None:
        return ()
    try:
        if ":" in text:
            first, last, step = (float(part) for part in text.split(":"))
            if not (0 < step and first <= last and math.isfinite(last)):
                raise ValueError
            count = int((last - first) / step + 1e-9) + 1
            if count > MOST_GAMMAS:
                raise UsageError(f"--gamma {text}: {count} values; expected at most {MOST_GAMMAS}")
            values = [round(first + at * step, 12) for at in range(count)]
        else:
            values = [float(part) for part in text.split(",")]
    except ValueError:
        values = [math.nan]
    if not all(0 < value < 1e6 for value in values):
        raise UsageError(f"--gamma {shortened(text)!r}: expected 1.5, 1,1.5,2 or 1:2.5:0.1")
    return tuple(dict.fromkeys(values))


def parse_sharing_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Return the settings of ``--set key=value``. Raises `UsageError`."""
    check_once(texts)
    values: dict[str, Any] = {}
    for text in texts:
        key, found, value = (part.strip() for part in text.partition("="))
        if not found or key not in SETTINGS:
            raise UsageError(
                f"--set {text!r}: expected one of {', '.join(SETTINGS)}, as in gamma=2"
            )
        if key == "tie_break":
            if value not in ("id", "reference"):
                raise UsageError(f"--set {text!r}: expected id or reference")
            values["reference"] = value == "reference"
        elif key in ("split", "affinity"):
            if value.lower() not in FLAGS:
                raise UsageError(f"--set {text!r}: expected yes or no")
            values[key] = FLAGS[value.lower()]
        else:
            try:
                number = float(value)
            except ValueError:
                number = math.nan
            least = 0.0 if key in ("alpha", "beta") else 1e-6
            if not least <= number < 1e6:
                raise UsageError(f"--set {text!r}: expected a number of at least {least:g}")
            values[key] = number
    return values


def read_log(path: Path) -> tuple[Trace, InputFile]:
    """Return a canonical trace, or a job log in any format that ``gpuplan ingest`` reads.

    Raises:
        InputError: no log that can be read.
    """
    from gpuplan.analysis.ingest.logs import read_trace

    columns = ("job_id", "submit_time", "queue_s", "duration_s", "num_gpus", "state")
    trace = read_trace(path, columns=columns)
    return trace, trace_input(trace)


class LoadOption:
    """The values of ``--load``: one for every service, or ``NAME=...`` for one."""

    def __init__(self, texts: Sequence[str], multiplier: float, seed: int) -> None:
        from gpuplan.planner.sharing.request_load import PROCESSES

        self.multiplier, self.seed = multiplier, seed
        self.own: dict[str, str] = {}
        self.common: str | None = None
        self.inputs: dict[str, InputFile] = {}
        self.read: dict[str, tuple[FloatArray, bool, float]] = {}
        for text in texts:
            name, found, value = text.partition("=")
            if found and "/" not in name and name.partition(":")[0] not in PROCESSES:
                if name in self.own:
                    raise UsageError(f"--load {name}: given twice")
                self.own[name] = value
            elif self.common is not None:
                raise UsageError(
                    f"--load {self.common} and --load {text}: several need the names of services\n"
                    "  next: --load NAME=FILE"
                )
            else:
                self.common = text

    def check_names(self, names: Sequence[str]) -> None:
        """Raise `UsageError` where a load is for no service."""
        for name in self.own:
            if name not in names:
                raise UsageError(f"--load {name}=...: no service {name}; found {', '.join(names)}")

    def spec(self, name: str, given: str | None, folder: Path) -> str:
        """Return what the load of a service is. Raises `UsageError` where none is given."""
        if name in self.own:
            return self.own[name]
        if given is not None:
            return given if self.process(given) is not None else str(folder / given)
        if self.common is None:
            raise UsageError(f"--load: {name} has none\n  next: --load {name}=FILE")
        return self.common

    def process(self, spec: str) -> Any:
        """Return the process of a spec such as ``poisson:20``; None for a file."""
        from gpuplan.planner.sharing.request_load import PROCESSES, RequestProcess

        name, *numbers = spec.split(":")
        if name not in PROCESSES:
            return None
        form, count = PROCESSES[name]
        try:
            values = [float(number) for number in numbers]
            if len(values) != count:
                raise ValueError
            return RequestProcess(name, *values)
        except ValueError:
            raise UsageError(f"--load {spec}: expected {form}, numbers above 0") from None

    def length_s(self, spec: str) -> float | None:
        """Return the length of a file in seconds; None for a process."""
        if self.process(spec) is not None:
            return None
        return self._file(spec)[2]

    def arrivals(self, spec: str, horizon_s: float, place: int) -> FloatArray:
        """Return the arrivals of a service within the horizon, ascending."""
        import numpy as np

        from gpuplan.planner.sharing.request_load import even_arrivals

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
                from gpuplan.analysis.files import sha256_of
                from gpuplan.analysis.user_tables.request_rates import read_rates

                rates = read_rates(path)
                self.inputs[spec] = InputFile(spec, sha256_of(path), rates.size)
                self.read[spec] = (rates, True, float(rates.size))
            else:
                trace, self.inputs[spec] = read_log(path)
                at_s = trace.submit_s
                self.read[spec] = (at_s, False, float(math.floor(at_s[-1]) + 1))
        return self.read[spec]


def _has_rates(path: Path) -> bool:
    from gpuplan.analysis.reading.source import read_unpacked

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
