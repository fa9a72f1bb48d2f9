"""Find the format of each source: forced, or guessed by its first bytes, with the evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.words import a_log
from gpuplan.analysis.reading.archives import archive_kind
from gpuplan.analysis.reading.inputs import Inputs
from gpuplan.analysis.reading.source import Head, Source, SourceStream

MAX_NAMES_LISTED = 3


class Recognizer(Protocol):
    """A format, as far as it matters here."""

    @property
    def name(self) -> str:
        """What ``--source-format`` takes."""

    @property
    def recognizes(self) -> Callable[[Head], str | None]:
        """What returns the evidence that a file is of this format, or None."""


F = TypeVar("F", bound=Recognizer)


@dataclass(frozen=True, slots=True)
class Guess(Generic[F]):
    """A source with its format.

    Attributes:
        source: the source.
        format: its format.
        evidence: how it was recognized; None if the user named the format.
    """

    source: Source
    format: F
    evidence: str | None


def recognized(head: Head, formats: Sequence[F]) -> tuple[F, str] | None:
    """Return the one format that recognizes a file and its evidence; None where none does.

    Raises:
        InputError: several do; the message has the evidence.
    """
    seen = [
        (log_format, sign)
        for log_format in formats
        if (sign := log_format.recognizes(head)) is not None
    ]
    if len(seen) > 1:
        signs = "; ".join(f"{log_format.name} ({sign})" for log_format, sign in seen)
        raise InputError(
            head.path,
            f"could be of several formats: {signs}",
            hint="choose one with --source-format",
        )
    return seen[0] if seen else None


def guesses(
    inputs: Inputs,
    formats: Sequence[F],
    unknown: Callable[[Head], InputError],
    forced: F | None = None,
    fits: Callable[[Head], bool] = lambda head: False,
    fallback: F | None = None,
) -> tuple[list[Guess[F]], list[Path]]:
    """Return the sources to read with their formats, and the files that are left out.

    A file that the user named must be a log. In a folder or an archive, files that no
    format recognizes are left out, and with a forced format those that it does not recognize.

    Args:
        inputs: the paths that the user named.
        formats: the known ones.
        unknown: makes the error for a file of no known format.
        forced: the format that the user named.
        fits: whether a file that is not recognized can still be of the forced format, or of
            ``fallback``.
        fallback: the format of a file that none recognizes; None where that is an error.

    Raises:
        InputError: a file cannot be read, has no format or several, or none is left.
    """
    chosen: list[Guess[F]] = []
    left_out = list(inputs.left_out)
    for source in inputs.sources:
        if forced is not None and source.is_named:
            chosen.append(Guess(source, forced, None))
            continue
        head = head_of(source)
        match = recognized(head, formats if forced is None else [forced])
        if match is not None:
            chosen.append(Guess(source, match[0], match[1] if forced is None else None))
        elif forced is not None and fits(head):
            chosen.append(Guess(source, forced, None))
        elif fallback is not None and (source.is_named or fits(head)):
            chosen.append(Guess(source, fallback, None))
        elif source.is_named:
            raise unknown(head)
        else:
            left_out.append(source.path)
    if not chosen:
        wanted = "in a known format" if forced is None else a_log(forced.name)
        raise InputError(
            inputs.sources[0].path if len(inputs.sources) == 1 else inputs.first,
            f"has no file that is {wanted}{_names(left_out)}",
            hint="name the file to read, with --source-format if its format is unclear",
        )
    return chosen, left_out


def look_early(
    source: Source,
    formats: Sequence[F],
    unknown: Callable[[Head], InputError],
    forced: F | None,
    planned: Callable[[F, SourceStream], object],
    fallback: F | None = None,
) -> bool:
    """Refuse a pipe by its first bytes where the rest of it, which may be endless, cannot help.

    Returns whether it is plain text in lines.

    Args:
        source: the first bytes, as a file.
        formats: the known ones.
        unknown: makes the error for a file of no known format.
        forced: the format that the user named.
        planned: opens a source in a format and plans it; raises where it cannot.
        fallback: the format of a file that none recognizes; None where that is an error.

    Raises:
        InputError: it is of no format, of several, or not of the forced one.
    """
    if archive_kind(source.file) is not None:
        return False
    try:
        stream = SourceStream(source)
    except InputError:
        return False  # packed and truncated here: the full file decides
    with closing(stream):
        head = Head(source.path, stream.head)
        if head.is_parquet:
            return False
        if forced is None and recognized(head, formats) is None:
            if fallback is None:
                raise unknown(head)
            forced = fallback
        if forced is not None:
            planned(forced, stream)
        return not (stream.is_packed or head.is_json)


def left_out_notes(left_out: Sequence[Path]) -> list[str]:
    """Return the notes about files that are not read: none or one."""
    recorded = (
        f"files left out because they are not such a log{_names(left_out)}: {len(left_out):,}"
    )
    return [recorded] if left_out else []


def _names(left_out: Sequence[Path]) -> str:
    """Return a few names in parentheses."""
    names = ", ".join(map(str, left_out[:MAX_NAMES_LISTED]))
    more = ", ..." if len(left_out) > MAX_NAMES_LISTED else ""
    return f" ({names}{more})" if left_out else ""


def head_of(source: Source) -> Head:
    """Return the first bytes of a source. Raises `InputError`."""
    with closing(SourceStream(source)) as stream:
        return Head(source.path, stream.head)
