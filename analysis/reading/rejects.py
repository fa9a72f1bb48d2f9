"""Rejected rows: collected, counted, limited, and written next to the trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from gpuplan.analysis.base.errors import InputError, OutputError, UsageError
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.job_table.reject_limit import Limit
from gpuplan.analysis.reading.batch import Refused
from gpuplan.analysis.storage.files import atomic_output
from gpuplan.analysis.storage.parquet import write_parquet
from gpuplan.analysis.storage.temporary import is_temporary

SCHEMA: dict[str, pl.DataType] = {
    "file": pl.String(),
    "row": pl.Int64(),
    "reason": pl.String(),
    "column": pl.String(),
    "found": pl.String(),
    "raw": pl.String(),
}
MAX_HELD = 100_000
FIRST_ROWS = 100_000
"""Where so many rows are rejected for one reason and none is kept, reading stops."""

READ_TO_END = 0.5
"""From this --max-rejects on a source is read to its end, whatever its first rows are."""

FOUND_LETTERS = 80
REJECTS = ".rejects.parquet"


class RejectLog:
    """The rejected rows of one ingest, in the order of the sources.

    Beyond `MAX_HELD` rows they are set aside in temporary files.
    """

    def __init__(
        self,
        path: Path,
        spool: Path,
        limit: Limit,
        taken_for: Mapping[str, str] | None = None,
        doubted: str = "--source-format",
        command: str = "gpuplan ingest",
    ) -> None:
        """Start empty.

        Args:
            path: the file for the rows.
            spool: folder for temporary files, which must outlive the log.
            limit: how many may be rejected.
            taken_for: source -> its guessed format and the evidence, which may be wrong.
            doubted: the option to check for a source without a guess.
            command: the command that reads such sources.
        """
        self._path = path
        self._spool = spool
        self._limit = limit
        self._taken_for = taken_for or {}
        self._doubted = doubted
        self._command = command
        self._first: tuple[str, Refused] | None = None
        self._held: list[tuple[str, Refused]] = []
        self._parts: list[Path] = []
        self.by_reason: Counter[str] = Counter()

    def __len__(self) -> int:
        return self.by_reason.total()

    def add(self, path: Path, refused: Iterable[Refused], read: int) -> None:
        """Take the rows refused in one batch; ``read`` counts all rows so far.

        Raises:
            InputError: far more than a count allows; a share is of all rows, known at the end.
            OutputError: the disk is full.
        """
        batch = sorted(refused, key=lambda row: row.row)
        self._held += [(str(path), row) for row in batch]
        self.by_reason.update(row.reason for row in batch)
        if self._first is None and self._held:
            self._first = self._held[0]
        if len(self._held) > MAX_HELD:
            if self._limit.rows is not None:
                self.check(read)
            self._set_aside()

    def check(self, read: int) -> None:
        """Refuse the source if more rows than allowed are rejected; they are written then too.

        Raises `InputError`.
        """
        if not self._limit.allows(len(self), read):
            reasons = ", ".join(f"{n:,} {reason}" for reason, n in sorted(self.by_reason.items()))
            raise self._refused(
                f"{len(self):,} of {counted(read, 'row')} cannot be used ({reasons}), more than "
                f"--max-rejects {self._limit.text}"
            )

    def check_start(self, kept: int) -> None:
        """Refuse a source whose first `FIRST_ROWS` rows are all rejected for one reason.

        The rest is most likely the same, as with a wrong ``--map``, and is not read. A limit that
        is a count or `READ_TO_END` and more lets it pass. Raises `InputError`.
        """
        if kept or len(self.by_reason) != 1 or len(self) < FIRST_ROWS:
            return
        if self._limit.share is not None and self._limit.share < READ_TO_END:
            raise self._refused(
                f"the first {len(self):,} rows are all rejected for this reason, and the rest is "
                "not read"
            )

    def _refused(self, why: str) -> InputError:
        """Return the error for a source, with the first rejected row; the others are written."""
        if self._first is None:
            raise ValueError("no row is rejected")
        path, first = self._first
        cell = "nothing" if first.found is None else repr(_short(first.found))
        format_hint = f"check {self._doubted}"
        if path in self._taken_for:
            name = self._taken_for[path]
            format_hint = f"name its format with --source-format (it was recognized as {name})"
        return InputError(
            path,
            f"found {cell} ({first.reason})",
            row=first.row,
            column=first.column,
            expected=f"{first.expected}; {why}",
            hint=f"correct it, {format_hint}, or allow more such rows with "
            f"{self._command} --max-rejects; {self.leave()}",
        )

    def leave(self) -> str:
        """Write the rows of a source that is refused; return where they are, or why nowhere."""
        if is_temporary(self._path):
            return f"{self._command} keeps the rows that cannot be used"
        try:
            self.write()
        except OutputError as error:
            return f"the rows that cannot be used are not kept ({error})"
        return f"the rows that cannot be used are in {self._path}, and nothing else was written"

    def write(self) -> None:
        """Write one row per rejected row, in the columns of `SCHEMA`; none where there is none.

        A file of an earlier run is replaced or removed. Raises `OutputError`.
        """
        write_rejects([self], self._path)

    def rows(self) -> list[pl.LazyFrame]:
        """Return the rejected rows, in the columns of `SCHEMA`."""
        return [*(pl.scan_parquet(part, glob=False) for part in self._parts), self._frame().lazy()]

    def _set_aside(self) -> None:
        """Move the rows held into a temporary file."""
        part = self._spool / f"rejects-{len(self._parts)}.parquet"
        with _disk_full_error(self._path):
            write_parquet(self._frame(), part)
        self._parts.append(part)
        self._held = []

    def _frame(self) -> pl.DataFrame:
        rows = [(path, r.row, r.reason, r.column, r.found, r.raw) for path, r in self._held]
        return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def write_rejects(logs: Sequence[RejectLog], path: Path) -> None:
    """Write the rejected rows of several logs to one file, as `RejectLog.write` does for one."""
    if not any(map(len, logs)):
        path.unlink(missing_ok=True)
        return
    with atomic_output(path) as aside, _disk_full_error(path), aside.open("wb") as file:
        pl.concat([rows for log in logs for rows in log.rows()]).sink_parquet(file)


@contextmanager
def _disk_full_error(path: Path) -> Iterator[None]:
    """Turn a full disk into an error about the file to write."""
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as error:
        raise OutputError(f"{path}: cannot be written: {error}") from error


def rejects_path(output: Path) -> Path:
    """Return where the rejects of a trace go: ``trace.rejects.parquet`` for ``trace.parquet``.

    Raises `UsageError` where the trace is not called Parquet.
    """
    if output.suffix != ".parquet":
        raise UsageError(f"{output}: is written as Parquet; give it a name that ends in .parquet")
    return output.with_suffix(REJECTS)


def _short(text: str) -> str:
    return text if len(text) <= FOUND_LETTERS else text[: FOUND_LETTERS - 3] + "..."
