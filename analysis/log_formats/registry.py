"""The known formats; a new one is a file in this folder and a line here.

An installed package adds one through an entry point in the group ``gpuplan.log_formats``.
"""

from __future__ import annotations

from types import NoneType

from gpuplan.analysis.base.lookup import find_named
from gpuplan.analysis.log_formats.acmetrace import KALOS, SEREN
from gpuplan.analysis.log_formats.azure_functions import AZURE_FUNCTIONS
from gpuplan.analysis.log_formats.azure_llm import AZURE_LLM
from gpuplan.analysis.log_formats.canonical import CANONICAL_FORMAT
from gpuplan.analysis.log_formats.dilu import DILU
from gpuplan.analysis.log_formats.dstack import DSTACK
from gpuplan.analysis.log_formats.format import LogFormat, SideTable
from gpuplan.analysis.log_formats.gavel import GAVEL
from gpuplan.analysis.log_formats.genai import GENAI
from gpuplan.analysis.log_formats.helios import HELIOS
from gpuplan.analysis.log_formats.kube import KUBE
from gpuplan.analysis.log_formats.kube_metrics import KUBE_METRICS
from gpuplan.analysis.log_formats.kueue import KUEUE
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
from gpuplan.analysis.log_formats.yunikorn import YUNIKORN
from gpuplan.analysis.plugins import Registry
from gpuplan.analysis.reading.batch import Rows
from gpuplan.analysis.reading.plan import ReadingPlan

FORMATS = Registry(
    "gpuplan.log_formats",
    "log format",
    LogFormat,
    (
        AZURE_FUNCTIONS,
        AZURE_LLM,
        CANONICAL_FORMAT,
        CSV,
        DILU,
        DSTACK,
        GAVEL,
        GENAI,
        HELIOS,
        KALOS,
        KUBE,
        KUBE_METRICS,
        KUEUE,
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
        YUNIKORN,
    ),
    calls={"plan": ReadingPlan, "open": Rows, "side_table": (SideTable, NoneType)},
    optional_calls={"recognizes": (str, NoneType)},
)


def formats() -> tuple[LogFormat, ...]:
    """Return all formats that can be used."""
    return tuple(FORMATS.values())


def format_named(name: str) -> LogFormat:
    """Return a format by name.

    Raises:
        PluginError: it is of an installed package and cannot be used.
        UsageError: there is none; the message has the known names.
    """
    return find_named(name, FORMATS, "--source-format")
