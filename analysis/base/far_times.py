"""Times of jobs far from those of the others: a clock that was wrong, or a typing error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

YEAR_S = 365.25 * 86_400
FAR_S, IMPOSSIBLE_S = YEAR_S, 10 * YEAR_S
FEWEST = 3
"""Jobs without which nothing can be said of one of them."""
FAR = "over a year from those of the other jobs"
IMPOSSIBLE = "a time within 10 years of the other jobs"

Span = tuple[float, float]
"""First and last time of a job, in seconds after 1970."""


@dataclass(frozen=True, slots=True)
class OtherTimes:
    """When most jobs of a log were there.

    Attributes:
        begin, end: first and last time of the jobs, without the hundredth that is first and the
            one that is last, at least one job each; None for a log of few jobs.
    """

    begin: float | None = None
    end: float | None = None

    @classmethod
    def of(cls, spans: Iterable[Span]) -> OtherTimes:
        """Return the times of the jobs of a log."""
        firsts, lasts = [], []
        for first, last in spans:
            firsts.append(first)
            lasts.append(last)
        if len(firsts) < FEWEST:
            return cls()
        return cls._between(sorted(firsts), sorted(lasts))

    @classmethod
    def of_seconds(cls, times: pl.Series) -> OtherTimes:
        """Return the times of the jobs of a log that each have one, in seconds after 1970."""
        ordered = times.drop_nulls().sort()
        if ordered.len() < FEWEST:
            return cls()
        return cls._between(ordered, ordered)

    @classmethod
    def _between(
        cls, firsts: Sequence[float] | pl.Series, lasts: Sequence[float] | pl.Series
    ) -> OtherTimes:
        """Return what lies between the outer hundredths of ascending times."""
        left_out = -(-len(firsts) // 100)
        return cls(float(firsts[left_out]), float(lasts[-1 - left_out]))

    def is_far(self, span: Span) -> bool:
        """Return whether a job is over a year from the others: it may be right."""
        return self._distance(span) > FAR_S

    def is_impossible(self, span: Span) -> bool:
        """Return whether a job is over ten years from the others: no cluster keeps jobs as long."""
        return self._distance(span) > IMPOSSIBLE_S

    def outer(self, span: Sequence[float]) -> float:
        """Return the time of a job that is farthest from the others."""
        middle = ((self.begin or 0.0) + (self.end or 0.0)) / 2
        return max(span, key=lambda at: abs(at - middle))

    def _distance(self, span: Span) -> float:
        if self.begin is None or self.end is None:
            return 0.0
        return max(self.begin - span[0], span[1] - self.end, 0.0)
