"""The shape of a table, and the errors of lines that do not have it."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.analysis.reading.batch import Refused


@dataclass(frozen=True, slots=True)
class TableShape:
    """Columns of a table and what separates their cells.

    Attributes:
        names: column names, each once.
        separator: one ASCII character.
    """

    names: tuple[str, ...]
    separator: str

    @property
    def width(self) -> int:
        """Cells per line."""
        return len(self.names)


def wrong_width(row: int, found: int, shape: TableShape, line: str) -> Refused:
    """Return a line with too few or too many cells as a refused row."""
    what, expected = f"{found} fields", f"{shape.width} fields"
    return Refused(row, "wrong_number_of_fields", None, what, expected, line)


def not_text(row: int, line: bytes) -> Refused:
    """Return a line that is not UTF-8 as a refused row."""
    shown = line.decode("utf-8", "backslashreplace")
    return Refused(row, "not_utf8", None, "bytes that are no UTF-8 text", "UTF-8 text", shown)
