"""Synthetic traces: a fitted or published model of a workload, and jobs drawn from it."""

from gpuplan.analysis.synth.fit import fit_model
from gpuplan.analysis.synth.model import Model
from gpuplan.analysis.synth.presets import PRESETS, preset_model
from gpuplan.analysis.synth.write import Request, Synthesis, synthesize

__all__ = [
    "PRESETS",
    "Model",
    "Request",
    "Synthesis",
    "fit_model",
    "preset_model",
    "synthesize",
]
