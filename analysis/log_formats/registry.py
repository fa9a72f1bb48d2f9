"""The known formats; a new one is a file in this folder and a line here."""

from __future__ import annotations

from gpuplan.analysis.log_formats.acmetrace import KALOS, SEREN
from gpuplan.analysis.log_formats.azure_llm import AZURE_LLM
from gpuplan.analysis.log_formats.canonical import CANONICAL_FORMAT
from gpuplan.analysis.log_formats.dilu import DILU
from gpuplan.analysis.log_formats.format import LogFormat
from gpuplan.analysis.log_formats.gavel import GAVEL
from gpuplan.analysis.log_formats.genai import GENAI
from gpuplan.analysis.log_formats.helios import HELIOS
from gpuplan.analysis.log_formats.mapped import CSV
from gpuplan.analysis.log_formats.openb import OPENB
from gpuplan.analysis.log_formats.pai import PAI
from gpuplan.analysis.log_formats.philly import PHILLY_FORMAT
from gpuplan.analysis.log_formats.sia import SIA
from gpuplan.analysis.log_formats.slurm import SLURM_FORMAT
from gpuplan.analysis.log_formats.spot_gpu import SPOT_GPU
from gpuplan.analysis.log_formats.swf import SWF
from gpuplan.analysis.log_formats.tiresias import TIRESIAS
from gpuplan.analysis.log_formats.wandb import WANDB_FORMAT
from gpuplan.analysis.lookup import find_named

FORMATS: tuple[LogFormat, ...] = (
    AZURE_LLM,
    CANONICAL_FORMAT,
    CSV,
    DILU,
    GAVEL,
    GENAI,
    HELIOS,
    KALOS,
    OPENB,
    PAI,
    PHILLY_FORMAT,
    SEREN,
    SIA,
    SLURM_FORMAT,
    SPOT_GPU,
    SWF,
    TIRESIAS,
    WANDB_FORMAT,
)


def format_named(name: str) -> LogFormat:
    """Return a format by name. Raises `UsageError` with the known names."""
    return find_named(name, {known.name: known for known in FORMATS}, "--source-format")
