"""Draw a synthetic trace with the statistics of a real one."""

from __future__ import annotations

from contextlib import ExitStack

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
from gpuplan.analysis.synth.write import RECORDED
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.requests.synth import SynthRequest
from gpuplan.planner.studies.answer import Answer


def synth(request: SynthRequest) -> Answer[SynthRequest, Synthesis]:
    """Write a synthetic trace and return how near it is to the original.

    Raises:
        InputError: the original or the model cannot be used.
        OutputError: a file cannot be written.
        UsageError: no such preset, or a length or first day that cannot be.
    """
    request.check()
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
