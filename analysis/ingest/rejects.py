"""The rows that are not in the trace: collected, counted, limited, and written beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from gpuplan.analysis.errors import InputError, UsageError
from gpuplan.analysis.ingest.batch import Refused

SCHEMA: dict[str, pl.DataType] = {
    "file": pl.String(),
    "row": pl.Int64(),
    "reason": pl.String(),
    "column": pl.String(),
    "found": pl.String(),
    "raw": pl.String(),
}
MAX_HELD = 100_000
FOUND_LETTERS = 80
REJECTS = ".rejects.parquet"


@dataclass(frozen=True, slots=True)
class Limit:
    """How many rows may be rejected: a share of the rows, or a count.

    Attributes:
        text: as the user wrote it.
        share: of the rows read; None where it is a count.
        rows: a count; None where it is a share.
    """

    text: str
    share: float | None = None
    rows: int | None = None

    @classmethod
    def of(cls, text: str) -> Limit:
        """Read ``1%`` or ``0.01`` (shares; a point makes it one) or ``20`` (rows).

        Raises `UsageError`.
        """
        try:
            if text.endswith("%"):
                limit = cls(text, share=float(text[:-1]) / 100)
            elif "." in text:
                limit = cls(text, share=float(text))
            else:
                limit = cls(text, rows=int(text))
        except ValueError:
            limit = cls(text, share=-1.0)
        value = limit.share if limit.rows is None else limit.rows
        if value is None or not value >= 0 or (limit.share is not None and limit.share > 1):
            raise UsageError(
                f"--max-rejects {text}: expected a share such as 1% or 0.01, or a count such as 20"
            )
        return limit

    def allows(self, rejected: int, read: int) -> bool:
        """Whether so many rejected rows of those read are within the limit."""
        if self.rows is not None:
            return rejected <= self.rows
        return self.share is not None and rejected <= self.share * read


DEFAULT_LIMIT = Limit("1%", share=0.01)


class RejectLog:
    """The rejected rows of one ingest, in the order of the sources."""

    def __init__(self, limit: Limit, taken_for: str | None = None) -> None:
        """Start empty; ``taken_for`` is the guessed format and its evidence, which may be wrong."""
        self._limit = limit
        self._taken_for = taken_for
        self._rows: list[tuple[str, Refused]] = []
        self.by_reason: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, path: Path, refused: Iterable[Refused], read: int) -> None:
        """Take the rows refused in one batch; ``read`` counts all rows so far.

        Raises:
            InputError: already there are far more than can be allowed.
        """
        batch = sorted(refused, key=lambda row: row.row)
        self._rows += [(str(path), row) for row in batch]
        self.by_reason.update(row.reason for row in batch)
        if len(self) > MAX_HELD:
            self.check(read)

    def check(self, read: int) -> None:
        """Refuse the source if more rows than allowed are rejected. Raises `InputError`."""
        if self._limit.allows(len(self), read):
            return
        path, first = self._rows[0]
        found = "nothing" if first.found is None else repr(_short(first.found))
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in sorted(self.by_reason.items()))
        format_doubt = "check --source-format"
        if self._taken_for is not None:
            format_doubt = (
                f"say what it is with --source-format (it is taken for {self._taken_for})"
            )
        raise InputError(
            path,
            f"found {found} ({first.reason})",
            row=first.row,
            column=first.column,
            expected=f"{first.expected}; {len(self):,} of {read:,} rows cannot be used ({reasons}),"
            f" more than --max-rejects {self._limit.text}",
            hint=f"correct the log, {format_doubt}, or allow more with --max-rejects 5%; nothing "
            "was written",
        )

    def to_frame(self) -> pl.DataFrame:
        """Return one row per rejected row, in the columns of `SCHEMA`."""
        return pl.DataFrame(
            [
                (path, row.row, row.reason, row.column, row.found, row.raw)
                for path, row in self._rows
            ],
            schema=SCHEMA,
            orient="row",
        )


def rejects_path(output: Path) -> Path:
    """Return where the rejects of a trace go: ``trace.rejects.parquet`` for ``trace.parquet``."""
    return output.with_suffix(REJECTS)


def _short(text: str) -> str:
    return text if len(text) <= FOUND_LETTERS else text[: FOUND_LETTERS - 3] + "..."
