"""How a log is read where a trace is expected, and what became of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Opt
from gpuplan.analysis.job_table.reject_limit import DEFAULT_LIMIT, Limit


def mapping(pairs: Sequence[str], flag: str = "--map") -> dict[str, str]:
    """Return canonical column -> column of the log. Raises `UsageError` for a bad ``--map``."""
    columns: dict[str, str] = {}
    for pair in pairs:
        name, equals, column = (part.strip() for part in pair.partition("="))
        if not (equals and name and column):
            raise UsageError(f"{flag} {pair}: expected canonical=column, as submit_time=created")
        if name in columns:
            raise UsageError(f"{flag} {pair}: {name} is already mapped to {columns[name]}")
        columns[name] = column
    return columns


def value_mapping(texts: Sequence[str], flag: str = "--map-value") -> dict[str, dict[str, str]]:
    """Return canonical column -> word in lower case -> value.

    Raises `UsageError` for a bad ``--map-value``.
    """
    from gpuplan.analysis.job_table.schema import PRIORITIES, STATES

    allowed = {"state": STATES, "priority": PRIORITIES}
    values: dict[str, dict[str, str]] = {}
    for text in texts:
        column, _, pair = text.partition(":")
        word, equals, value = (part.strip() for part in pair.rpartition("="))
        column, word, value = column.strip(), equals and word.lower(), value.lower()
        if column not in allowed or not word:
            raise UsageError(f"{flag} {text}: must be state:WORD=VALUE or priority:WORD=VALUE")
        if value not in allowed[column]:
            raise UsageError(f"{flag} {text}: {column} must be one of {', '.join(allowed[column])}")
        if values.setdefault(column, {}).setdefault(word, value) != value:
            raise UsageError(f"{flag} {text}: {word} is already {values[column][word]}")
    return values


def mapping_texts(columns: Mapping[str, str]) -> list[str]:
    """Return columns as ``--map`` gives them."""
    return [f"{name}={column}" for name, column in columns.items()]


def value_texts(values: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return words as ``--map-value`` gives them."""
    return [
        f"{name}:{word}={value}" for name, words in values.items() for word, value in words.items()
    ]


def limit_text(limit: Limit) -> str:
    """Return a limit as ``--max-rejects`` gives it."""
    return limit.text


def each_once(texts: Sequence[str], _: str) -> tuple[str, ...]:
    """Return each text once, in their order."""
    return tuple(dict.fromkeys(texts))


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How to read a log that is given in place of a trace.

    Attributes:
        source_format: name of its format; None detects it.
        columns: canonical column -> column of the log, or an expression over its columns.
        values: canonical column -> word of the log in lower case -> value.
        time_zone: zone of times that are written without an offset.
        max_rejects: how many rows may be rejected.
        keep: columns of the log that the trace has too.
    """

    PANEL: ClassVar[str] = "How to read the input"

    source_format: Annotated[
        str | None,
        Opt(
            "Format of a log; [cyan]gpuplan list formats[/cyan] names them. Default: detected.",
            metavar="NAME",
            complete="log_formats",
        ),
    ] = None
    columns: Annotated[
        Mapping[str, str],
        Opt(
            "Take a canonical column from this column of the log or from an expression, for "
            "example job_class=model_type or num_gpus='gpus * pods': adds to a detected format or "
            "overrides it. Other tables need submit_time and num_gpus. May be repeated.",
            flag="--map",
            parse=mapping,
            write=mapping_texts,
            key="map",
            metavar="CANONICAL=COLUMN",
            many=True,
        ),
    ] = field(default_factory=dict)
    values: Annotated[
        Mapping[str, Mapping[str, str]],
        Opt(
            "Read a word of the log as this state or priority, such as state:Reaped=preempted or "
            "priority:batch=spot; in any case. May be repeated.",
            flag="--map-value",
            parse=value_mapping,
            write=value_texts,
            key="map_value",
            metavar="COLUMN:WORD=VALUE",
            many=True,
        ),
    ] = field(default_factory=dict)
    time_zone: Annotated[
        str | None,
        Opt(
            "Zone of times in a log that have no offset, such as Europe/Berlin. Default: the "
            "format's, else UTC.",
            metavar="NAME",
        ),
    ] = None
    max_rejects: Annotated[
        Limit,
        Opt(
            "Fail if more rows than this are unusable: a share (1%, 0.01) or a count (20).",
            parse=Limit.of,
            write=limit_text,
            metavar="SHARE|COUNT",
            default=DEFAULT_LIMIT.text,
        ),
    ] = DEFAULT_LIMIT
    keep: Annotated[
        tuple[str, ...],
        Opt(
            "Keep this column of the log in the trace, for --where, --spot, and --by of bill and "
            "forecast. May be repeated.",
            parse=each_once,
            metavar="COLUMN",
            many=True,
        ),
    ] = ()


@dataclass(frozen=True, slots=True)
class LogAccount:
    """What became of the rows of a log that was given in place of a trace.

    Attributes:
        source_format: format it was read in.
        rows_read: rows found.
        rows_kept: jobs in the trace.
        rejected_by_reason: rows that cannot be used, by reason.
    """

    source_format: str
    rows_read: int
    rows_kept: int
    rejected_by_reason: dict[str, int]
