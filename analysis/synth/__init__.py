"""Synthetic traces: a fitted or published model of a workload, and jobs sampled from it."""

from gpuplan.analysis.synth.fit import fit_model
from gpuplan.analysis.synth.model import WorkloadModel
from gpuplan.analysis.synth.presets import PRESETS, preset_model
from gpuplan.analysis.synth.write import Request, Synthesis, synthesize

__all__ = [
    "PRESETS",
    "Request",
    "Synthesis",
    "WorkloadModel",
    "fit_model",
    "preset_model",
    "synthesize",
]
