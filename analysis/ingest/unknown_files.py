"""The error for a source that no job-log format recognizes."""

from __future__ import annotations

from gpuplan.analysis.errors import InputError
from gpuplan.analysis.log_formats.format import NAME_COLUMNS
from gpuplan.analysis.log_formats.jobless_tables import other_table
from gpuplan.analysis.log_formats.registry import FORMATS
from gpuplan.analysis.price_formats.registry import PRICE_FORMATS
from gpuplan.analysis.reading.headers import MIN_CELLS, header_error
from gpuplan.analysis.reading.source import SEPARATORS, Head, likely_separator
from gpuplan.analysis.reading.unreadable import odd_text


def unknown_log(head: Head) -> InputError:
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
    problem = f"unrecognized log format; it starts with {head.shown()}"
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
