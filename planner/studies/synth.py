"""Draw a synthetic trace with the statistics of a real one."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.ingest.logs import read_trace
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
from gpuplan.analysis.synth.write import RECORDED, SynthResults
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.requests.synth import SynthRequest


@dataclass(frozen=True, slots=True)
class SynthStudy:
    """A synthetic trace beside its original.

    Attributes:
        request: what was asked for.
        synthesis: the trace written, and how near it is.
        inputs: the file that the model comes from.
    """

    request: SynthRequest
    synthesis: Synthesis
    inputs: tuple[InputFile, ...]

    @property
    def results(self) -> SynthResults:
        """The comparison as JSON has it."""
        return self.synthesis.results()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the model doubtful."""
        return self.synthesis.model.warnings


def synth(request: SynthRequest) -> SynthStudy:
    """Write a synthetic trace and return how near it is to the original.

    Raises:
        InputError: the original or the model cannot be used.
        OutputError: a file cannot be written.
        UsageError: no such preset, or a length or first day that cannot be.
    """
    drawn = Request(request.jobs or 1, request.seed, request.days, request.start)
    if request.preset == spot_mix.NAME:
        mix = spot_mix.SpotMix(1.0 if request.spot_load is None else request.spot_load)
        return SynthStudy(request, spot_mix.synthesize_mix(mix, drawn, request.output), ())
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
    inputs = tuple(InputFile(source.name, source.sha256, rows) for source in sources)
    return SynthStudy(request, synthesis, inputs)


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
