"""What ``gpuplan synth`` is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Annotated

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Group, Opt
from gpuplan.analysis.job_table.log_options import LogOptions
from gpuplan.analysis.storage.files import is_stream
from gpuplan.planner.requests.declaration import StudyRequest, study
from gpuplan.planner.requests.trace import TRACE_HELP, table_file

SOURCE = "What to imitate (one of these)"
SPOT_MIX = "gfs"
MOST_SPOT_LOAD = 100
MOST_DAYS = 3660


def read_factor(text: str, flag: str) -> float:
    """Return the number of ``4x``. Raises `UsageError`."""
    try:
        factor = float(text.strip().removesuffix("x"))
    except ValueError:
        factor = -1.0
    if not 0 <= factor < float("inf"):
        raise UsageError(f"{flag} {text!r}: expected a factor such as 4x")
    return factor


@study(
    "synth",
    example="gpuplan synth --preset kalos --jobs 1000 --seed 1 -o kalos.parquet",
    doing="drawing",
    has_picture=False,
    has_rows=False,
)
@dataclass(frozen=True, slots=True)
class SynthRequest(StudyRequest):
    """Make a synthetic trace that is like a real one.

    Attributes:
        output: the trace to write; its name ends in ``.parquet``.
        log: how to read a log.
    """

    output: Annotated[Path, table_file("Trace to write (.parquet).")]
    jobs: Annotated[
        int | None,
        Opt(
            "Number of jobs. Needed, except for --preset gfs.", low=1, high=100_000_000, common=True
        ),
    ] = None
    like: Annotated[
        Path | None,
        Opt(
            f"{TRACE_HELP} The new trace is like it.",
            metavar="TRACE|LOG",
            panel=SOURCE,
            common=True,
        ),
    ] = None
    preset: Annotated[
        str | None,
        Opt(
            "Published statistics to imitate: seren, kalos, philly, helios (GPU jobs, AcmeTrace), "
            "wandb, abc (all jobs, Allpass), gfs (high-priority and spot jobs).",
            metavar="NAME",
            panel=SOURCE,
            common=True,
            complete="presets",
        ),
    ] = None
    model: Annotated[
        Path | None,
        Opt(
            "Model to use, written by --save-model.",
            metavar="FILE.json",
            panel=SOURCE,
            common=True,
        ),
    ] = None
    days: Annotated[
        float | None,
        Opt(
            "Length of the trace in days. Default: as many jobs per day as the original.",
            common=True,
        ),
    ] = None
    start: Annotated[
        date | None,
        Opt(
            "First day, in the original's time zone. Default: the original's.",
            metavar="YYYY-MM-DD",
        ),
    ] = None
    spot_load: Annotated[
        float | None,
        Opt(
            "Spot jobs of --preset gfs, as a multiple of the published number: 4x.",
            parse=read_factor,
            metavar="FACTOR",
        ),
    ] = None
    seed: Annotated[
        int,
        Opt("Seed of everything random. The same seed gives the same bytes.", low=0, common=True),
    ] = 0
    save_model: Annotated[
        Path | None,
        Opt(
            "Also write the model as JSON, without any jobs.",
            key=None,
            metavar="FILE.json",
            panel="Output",
            common=True,
            writes=True,
        ),
    ] = None
    log: Annotated[LogOptions, Group(in_json=False)] = field(default_factory=LogOptions)

    def __post_init__(self) -> None:
        if self.output.suffix != ".parquet":
            raise UsageError(
                f"{self.output}: a trace is Parquet; give it a name that ends in .parquet"
            )
        sources = [name for name in ("like", "preset", "model") if getattr(self, name)]
        if len(sources) != 1:
            listed = " and ".join(f"--{name}" for name in sources) or "none of them"
            raise UsageError(f"give one of --like, --preset and --model; found {listed}")
        if self.preset == SPOT_MIX:
            self._check_mix()
        elif self.jobs is None:
            raise UsageError("--jobs is required: the number of jobs to make")
        elif self.spot_load is not None:
            raise UsageError(f"--spot-load works only with --preset {SPOT_MIX}")

    def _check_mix(self) -> None:
        """Raise `UsageError` for what the preset of spot jobs does not take."""
        if self.jobs is not None:
            raise UsageError(
                f"--jobs: the load of --preset {SPOT_MIX} says how many\n  next: --days N"
            )
        if self.save_model is not None:
            raise UsageError(f"--save-model: --preset {SPOT_MIX} is not a fitted model")
        if self.spot_load is not None and not 0 <= self.spot_load <= MOST_SPOT_LOAD:
            raise UsageError(
                f"--spot-load: expected 0x to {MOST_SPOT_LOAD}x, got {self.spot_load:g}x"
            )
        if self.days is not None and self.days > MOST_DAYS:
            raise UsageError(f"--days: expected at most {MOST_DAYS}, got {self.days:g}")

    def check(self) -> None:
        """Check what can be checked before the original is read. Raises `UsageError`."""
        from gpuplan.analysis.synth import Request

        model = self.save_model
        if model is not None and model.suffix.lower() != ".json" and not is_stream(model):
            raise UsageError(f"--save-model {model}: expected a name that ends in .json")
        Request(self.jobs or 1, self.seed, self.days, self.start)
