"""A piece of a source: its columns, its rows as text cells, and the rows that could not be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl

ROW = "\0row"
"""Name of the column with row numbers; no source can have a column of this name."""
OTHER_DEVICES = (
    "jobs on accelerators that Slurm does not call gpu, such as gres/npu, which count as GPUs"
)
"""The name of the `Tally` of jobs on other accelerators."""
GPU_SHARES = "jobs on shares of GPUs, such as gres/shard and gres/mps, which count as without GPUs"
"""The name of the `Tally` of jobs that share GPUs."""
MIG_SLICES = "jobs on MIG slices, each of which counts as a GPU"
"""The name of the `Tally` of jobs on parts of GPUs that Slurm counts as GPUs."""
OTHER_CLUSTERS = "jobs of another cluster than that of the first row"
"""The name of the `Tally` of jobs of a log of several clusters."""
CUT_OFF = "cut_off"
"""Why the last line of a file that ends in the middle of it is refused."""
WITHOUT_GPUS = "without_gpus"
"""Why an object of Kubernetes is left out that requests no GPUs."""
PENDING = "pending"
"""Why an object of Kubernetes is left out that has not started."""
FAR_TIMES = "jobs with times over a year from those of the other jobs"
"""The name of the `Tally` of times that may be those of a wrong clock."""
EARLY = "jobs that start before their submission (no wait recorded)"
"""The name of the `Tally` of negative waits."""
SET_BACK = "runs an hour longer than End - Start, as clocks were set back meanwhile"
"""The name of the `Tally` of local times that are read in the wrong zone."""
FEW_GPUS = "jobs with fewer GPUs than workers"
"""The name of the `Tally` of jobs whose GPUs may be those of one worker."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A row that is not in the trace, and why.

    Attributes:
        row: line of the file (1-based, where the row starts) or element of a JSON array.
        reason: short machine word.
        column: source column at fault, if any.
        found: its content.
        expected: what should.
        raw: the row as written in the file.
    """

    row: int
    reason: str
    column: str | None
    found: str | None
    expected: str
    raw: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one source, in order.

    Attributes:
        cells: text columns under the source's names (null where a cell is empty), and `ROW`.
        raw: returns the rows at positions in ``cells``, as written in the file.
        refused: rows of this piece that could not be split into columns.
        may_be_cut: whether its last row lacks the line end that its program always writes.
    """

    cells: pl.DataFrame
    raw: Callable[[Sequence[int]], list[str]]
    refused: Sequence[Refused] = field(default=())
    may_be_cut: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """An opened source: its column names, and what reads its rows.

    Attributes:
        columns: names of the source columns.
        sample: cells of a few first rows, for a look at them.
        batches: takes the columns wanted and yields, in order, functions that each make one
            `Batch`. They may be called in any thread.
        notes: what the source says of itself, and what was found when it was opened.
    """

    columns: tuple[str, ...]
    sample: tuple[dict[str, str | None], ...]
    batches: Callable[[Sequence[str]], Iterator[Callable[[], Batch]]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableShape:
    """Columns of a table and what separates their cells.

    Attributes:
        names: column names, each once.
        separator: one ASCII character.
        free: column of free text, which may hold the separator; None where none may.
        ends_lines: whether the program that writes it ends every line, the last one too.
    """

    names: tuple[str, ...]
    separator: str
    free: str | None = None
    ends_lines: bool = False

    @property
    def width(self) -> int:
        """Cells per line."""
        return len(self.names)


def wrong_width(
    row: int, cells: int, shape: TableShape, line: str, *, unfinished: bool = False
) -> Refused:
    """Return a line with too few or too many cells as a refused row.

    ``unfinished`` says that it is the last line and has no line end: with too few cells it was cut.
    """
    what, expected = f"{cells} fields", f"{shape.width} fields"
    if unfinished and cells < shape.width:
        expected += " and a line end: the file ends in the middle of this line"
        return Refused(row, CUT_OFF, None, what, expected, line)
    return Refused(row, "wrong_number_of_fields", None, what, expected, line)


def cut_warnings(rows_cut: int, may_be_cut: bool) -> list[str]:
    """Return a warning on a log that was cut, or may have been; empty for a whole one."""
    if rows_cut:
        return [
            "the log ends in the middle of its last row: it was cut, and what came after is "
            "missing\n  next: export or copy it again"
        ]
    if may_be_cut:
        return [
            "the last row of the log has no line end: if the log was cut there, export or copy it "
            "again"
        ]
    return []


def not_text(row: int, line: bytes) -> Refused:
    """Return a line that is not UTF-8 as a refused row."""
    shown = line.decode("utf-8", "backslashreplace")
    return Refused(row, "not_utf8", None, "bytes that are not UTF-8 text", "UTF-8 text", shown)


@dataclass(frozen=True, slots=True)
class Tally:
    """A condition to count over the kept rows, reported in a note ``<what>: <count>``.

    Attributes:
        what: the description of the rows.
        counted: true in the rows to count; over fields and canonical columns.
        reason: machine word of rows that are left out; empty where none is needed.
    """

    what: str
    counted: pl.Expr
    reason: str = ""
