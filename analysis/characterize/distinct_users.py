"""How far the number of distinct users would vary over other periods as long.

A bootstrap cannot tell: users who came once are missing from most resamples, and nobody new is in
any. It is a problem of ecology, the number of species seen in a number of samples. Samples are
blocks of consecutive jobs, and it matters in how many of them each user is.

Sources: Chao, "Estimating the population size for capture-recapture data with unequal
catchability", Biometrics 43, 1987; Colwell, Mao and Chang, "Interpolating, extrapolating, and
comparing incidence-based species accumulation curves", Ecology 85, 2004 (unconditional variance).
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import polars as pl

from gpuplan.analysis.time_units import DAY_S

LEAST_BLOCKS = 10


def block_of_a_day(jobs: int, span_s: float) -> int:
    """Return the jobs of an average day, ``n^(1/3)`` if that is more, at most a tenth of all.

    It is a sample of users, not a block of a bootstrap: who came today is counted once.
    """
    a_day = jobs * DAY_S / span_s if span_s > 0 else 0.0
    return int(max(1, min(max(np.ceil(jobs ** (1 / 3)), a_day), jobs // LEAST_BLOCKS)))


def distinct_interval(names: pl.Series, block: int, level: float) -> tuple[float, float] | None:
    """Return a confidence interval of the number of distinct names; None without a second block.

    With s names seen and u estimated unseen ones the variance is ``s u / (s + u)``. Of t blocks,
    q1 names in one block only and q2 in two, u is ``(t - 1) / t q1^2 / (2 q2)``, and
    ``(t - 1) / t q1 (q1 - 1) / 2`` where q2 is 0.

    Args:
        names: one per job, in order of submission; null where unknown.
        block: consecutive jobs in a block.
        level: confidence, percent.
    """
    blocks = -(-len(names) // block)
    where = pl.Series("block", np.arange(len(names)) // block)
    known = pl.DataFrame([names.alias("name"), where]).drop_nulls("name").unique()
    seen_in = known.group_by("name").len()["len"]
    seen = len(seen_in)
    if not seen or blocks < 2:
        return None
    once, twice = int((seen_in == 1).sum()), int((seen_in == 2).sum())
    pairs = once**2 / (2 * twice) if twice else once * (once - 1) / 2
    unseen = (blocks - 1) / blocks * pairs
    deviation = (seen * unseen / (seen + unseen)) ** 0.5
    reach = NormalDist().inv_cdf(0.5 + level / 200) * deviation
    return max(seen - reach, 1.0), seen + reach
