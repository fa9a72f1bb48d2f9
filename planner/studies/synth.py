"""Draw a synthetic trace with the statistics of a real one."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.job_table.log_options import LogOptions
from gpuplan.analysis.job_table.schema import SourceFile
from gpuplan.analysis.storage.files import atomic_output, sha256_of
from gpuplan.analysis.synth import (
    PRESETS,
    Request,
    Synthesis,
    WorkloadModel,
    fit_model,
    preset_model,
    spot_mix,
    synthesize,
)
from gpuplan.analysis.synth.fit import COLUMNS
from gpuplan.analysis.synth.store import read_model
from gpuplan.analysis.synth.write import RECORDED
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.studies.answer import Answer

MOST_SPOT_LOAD = 100
MOST_DAYS = 3660


@dataclass(frozen=True, slots=True)
class SynthParameters:
    """What was asked for, as JSON has it."""

    like: str | None
    preset: str | None
    model: str | None
    jobs: int | None
    days: float | None
    start: str | None
    seed: int
    spot_load: float | None


@dataclass(frozen=True, slots=True)
class SynthRequest:
    """What to draw, like what, and where it goes. One of ``like``, ``preset`` and ``model``.

    Attributes:
        jobs: jobs to draw; None for the preset ``gfs``, whose load says how many.
        output: the trace to write; its name ends in ``.parquet``.
        like: a trace or a log; a model is fitted to it.
        preset: name of a workload whose figures were published.
        model: a model that ``save_model`` wrote.
        days: length of the trace; None for as many jobs a day as the original has.
        start: first day in the original's time zone; None for the original's.
        seed: of everything random.
        save_model: where the model goes as JSON.
        log: how to read a log.
        spot_load: of the preset ``gfs``, times the published number of spot jobs; None for 1.
    """

    jobs: int | None
    output: Path
    like: Path | None = None
    preset: str | None = None
    model: Path | None = None
    days: float | None = None
    start: date | None = None
    seed: int = 0
    save_model: Path | None = None
    log: LogOptions = field(default_factory=LogOptions)
    spot_load: float | None = None

    def __post_init__(self) -> None:
        if self.output.suffix != ".parquet":
            raise UsageError(
                f"{self.output}: a trace is Parquet; give it a name that ends in .parquet"
            )
        given = [name for name in ("like", "preset", "model") if getattr(self, name)]
        if len(given) != 1:
            found = " and ".join(f"--{name}" for name in given) or "none of them"
            raise UsageError(f"give one of --like, --preset and --model; found {found}")
        if self.preset == spot_mix.NAME:
            self._check_mix()
        elif self.jobs is None:
            raise UsageError("--jobs: needed, the number of jobs")
        elif self.spot_load is not None:
            raise UsageError(f"--spot-load: is for --preset {spot_mix.NAME}")

    def _check_mix(self) -> None:
        """Raise `UsageError` for what the preset of spot jobs does not take."""
        if self.jobs is not None:
            raise UsageError(
                f"--jobs: the load of --preset {spot_mix.NAME} says how many\n  next: --days N"
            )
        if self.save_model is not None:
            raise UsageError(f"--save-model: --preset {spot_mix.NAME} is not a fitted model")
        if self.spot_load is not None and not 0 <= self.spot_load <= MOST_SPOT_LOAD:
            raise UsageError(
                f"--spot-load: expected 0x to {MOST_SPOT_LOAD}x, got {self.spot_load:g}x"
            )
        if self.days is not None and self.days > MOST_DAYS:
            raise UsageError(f"--days: expected at most {MOST_DAYS}, got {self.days:g}")

    @property
    def reads(self) -> tuple[Path, ...]:
        """The files it reads."""
        return tuple(path for path in (self.like, self.model) if path is not None)

    @property
    def writes(self) -> tuple[Path, ...]:
        """The files it writes."""
        return tuple(path for path in (self.output, self.save_model) if path is not None)

    def check(self) -> None:
        """Check what can be checked before the original is read. Raises `UsageError`."""
        Request(self.jobs or 1, self.seed, self.days, self.start)

    def parameters(self) -> SynthParameters:
        """Return what goes under ``parameters`` in the JSON output."""
        return SynthParameters(
            like=None if self.like is None else str(self.like),
            preset=self.preset,
            model=None if self.model is None else str(self.model),
            jobs=self.jobs,
            days=self.days,
            start=None if self.start is None else self.start.isoformat(),
            seed=self.seed,
            spot_load=self.spot_load,
        )


def synth(request: SynthRequest) -> Answer[SynthRequest, Synthesis]:
    """Write a synthetic trace and return how near it is to the original.

    Raises:
        InputError: the original or the model cannot be used.
        OutputError: a file cannot be written.
        UsageError: no such preset, or a length or first day that cannot be.
    """
    drawn = Request(request.jobs or 1, request.seed, request.days, request.start)
    if request.preset == spot_mix.NAME:
        mix = spot_mix.SpotMix(1.0 if request.spot_load is None else request.spot_load)
        return _answer(request, spot_mix.synthesize_mix(mix, drawn, request.output))
    with ExitStack() as files:
        model, sources, trace = _model(request)
        if request.save_model is not None:  # kept where the trace can be written too
            temporary = files.enter_context(atomic_output(request.save_model))
            temporary.write_text(model.to_json(), encoding="utf-8", newline="\n")
        synthesis = synthesize(
            model,
            drawn,
            request.output,
            sources=sources,
            recorded=None if trace is None else trace.jobs.select(RECORDED),
        )
    rows = trace.rows if trace else 1
    inputs = (InputFile(source.name, source.sha256, rows) for source in sources)
    return _answer(request, synthesis, tuple(inputs))


def _answer(
    request: SynthRequest, synthesis: Synthesis, inputs: tuple[InputFile, ...] = ()
) -> Answer[SynthRequest, Synthesis]:
    labels = ", ".join(row.label for row in synthesis.outside)
    outside = (f"outside their tolerance: {labels}",) if labels else ()
    warnings = (*outside, *synthesis.model.warnings)
    return Answer(request=request, results=synthesis, inputs=inputs, warnings=warnings)


def _model(request: SynthRequest) -> tuple[WorkloadModel, tuple[SourceFile, ...], Trace | None]:
    """Return the model, the files it comes from, and the trace it was fitted to."""
    if request.like is not None:
        trace = read_trace(request.like, Selection(log=request.log), columns=COLUMNS)
        return fit_model(trace), (SourceFile(str(request.like), trace.sha256),), trace
    if request.model is not None:
        model = read_model(request.model)  # it refuses files without an end
        return model, (SourceFile(str(request.model), sha256_of(request.model)),), None
    if request.preset not in PRESETS:
        known = ", ".join(sorted((*PRESETS, spot_mix.NAME)))
        raise UsageError(f"--preset {request.preset}: expected one of {known}")
    return preset_model(request.preset), (), None
