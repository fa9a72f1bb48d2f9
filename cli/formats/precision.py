"""How many digits a result deserves: few where few jobs are behind it."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10

from gpuplan.cli.formats.units import show_duration, significant, tick_usd

FEW_JOBS = 100
"""Fewer jobs than this are too few for a mean with three digits."""


@dataclass(frozen=True, slots=True)
class Precision:
    """The digits that a number of jobs can carry.

    Attributes:
        jobs: jobs behind the numbers.
    """

    jobs: int

    @property
    def is_rough(self) -> bool:
        """Whether the jobs are few."""
        return self.jobs < FEW_JOBS

    @property
    def digits(self) -> int:
        """Significant digits."""
        return 2 if self.is_rough else 3

    def duration(self, seconds: float) -> str:
        """Return a duration: ``2.29 h``, or ``2.3 h`` of few jobs."""
        return show_duration(seconds, self.digits)

    def gpus(self, gpus: float) -> str:
        """Return average GPUs, rounded up, so that a plan for them fits: ``18.3``, ``194``."""
        if not gpus > 0:
            return "0"
        places = self.digits - 1 - floor(log10(gpus))
        if not self.is_rough:
            places = max(places, 0)
        rounded = ceil(gpus * 10.0**places * (1 - 1e-12)) / 10.0**places
        return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"

    def gpus_text(self, gpus: float) -> str:
        """Return average GPUs with the word: ``1 GPU``, ``18.3 GPUs``."""
        shown = self.gpus(gpus)
        return f"{shown} GPU{'' if shown == '1' else 's'}"

    def usd(self, usd: float) -> str:
        """Return dollars: ``$615,000``, ``$1.03M``."""
        rounded = significant(abs(usd), self.digits)
        return f"-{tick_usd(rounded)}" if usd < 0 and rounded else tick_usd(rounded)

    @property
    def caution(self) -> str:
        """What to say where the jobs are few; else empty."""
        if not self.is_rough:
            return ""
        return f"only {self.jobs:,} job{'' if self.jobs == 1 else 's'}"
