"""The known formats; a new one is a file in `formats` and a line here."""

from __future__ import annotations

from gpuplan.analysis.errors import InputError
from gpuplan.analysis.log_formats.acmetrace import KALOS, SEREN
from gpuplan.analysis.log_formats.azure_llm import AZURE_LLM
from gpuplan.analysis.log_formats.canonical import CANONICAL_FORMAT
from gpuplan.analysis.log_formats.dilu import DILU
from gpuplan.analysis.log_formats.format import NAME_COLUMNS, LogFormat
from gpuplan.analysis.log_formats.gavel import GAVEL
from gpuplan.analysis.log_formats.genai import GENAI
from gpuplan.analysis.log_formats.helios import HELIOS
from gpuplan.analysis.log_formats.jobless_tables import other_table
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
from gpuplan.analysis.price_formats.registry import PRICE_FORMATS
from gpuplan.analysis.reading.headers import MIN_CELLS, header_error
from gpuplan.analysis.reading.source import SEPARATORS, Head, likely_separator
from gpuplan.analysis.reading.unreadable import odd_text

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


def unknown(head: Head) -> InputError:
    """Return the error for a file that no format recognizes."""
    for prices in PRICE_FORMATS:
        if (sign := prices.recognizes(head)) is not None:
            return InputError(
                head.path,
                f"is a price list ({prices.name}: {sign}); it has no jobs",
                expected="a job log",
                hint=f"gpuplan prices {head.path} -o prices.parquet",
            )
    columns = {known.name: known.columns for known in FORMATS}
    return odd_text(head) or other_table(head) or header_error(head, columns) or _unknown_log(head)


def _unknown_log(head: Head) -> InputError:
    """Return the error for a file that may be a log: by its columns where it is a table."""
    names = head.table_columns
    problem = f"is no known job log; it starts with {head.shown()}"
    hint = "gpuplan list formats tells the known ones; force one with --source-format NAME"
    if len(names) >= MIN_CELLS and head.line is not None:
        separator = likely_separator(head.line)
        if separator != ",":
            problem += f", cells between {SEPARATORS[separator]}"
        if (near := _nearest(names)) is not None:
            problem += f"; nearest: {near}"
        hint = NAME_COLUMNS
    return InputError(head.path, problem, expected=f"one of {_names()}", hint=hint)


def _nearest(names: tuple[str, ...]) -> str | None:
    """Return the format whose columns a table has but for the fewest; None below half of them."""
    found = set(names)
    near = [
        (len(missing), known.name, missing)
        for known in FORMATS
        if (missing := [name for name in known.columns if name not in found])
        and 2 * len(missing) <= len(known.columns)
    ]
    if not near:
        return None
    _, name, missing = min(near)
    return f"{name}, which also needs {', '.join(missing)}"


def _names() -> str:
    return ", ".join(known.name for known in FORMATS)
