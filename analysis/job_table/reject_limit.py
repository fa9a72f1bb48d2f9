"""How many rows of a source may be rejected."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.analysis.base.amounts import check_finite
from gpuplan.analysis.base.errors import UsageError


@dataclass(frozen=True, slots=True)
class Limit:
    """How many rows may be rejected: a share of the rows, or a count.

    Attributes:
        text: as the user wrote it.
        share: of the rows read; None for a count.
        rows: a count; None for a share.
    """

    text: str
    share: float | None = None
    rows: int | None = None

    @classmethod
    def of(cls, text: str, flag: str = "--max-rejects") -> Limit:
        """Read ``1%`` or ``0.01`` (shares; a point makes it one) or ``20`` (rows).

        Raises `UsageError`.
        """
        check_finite(text.removesuffix("%"), flag)
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
                f"{flag} {text}: expected a share such as 1% or 0.01, or a count such as 20"
            )
        return limit

    def allows(self, rejected: int, read: int) -> bool:
        """Return whether this number of rejected rows is within the limit."""
        if self.rows is not None:
            return rejected <= self.rows
        return self.share is not None and rejected <= self.share * read


DEFAULT_LIMIT = Limit("1%", share=0.01)
