"""The price of a GPU type over time in a price table: the median of its offers in force."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from statistics import median

import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import DAY_US
from gpuplan.analysis.job_table.gpu_names import gpu_name, same_gpu
from gpuplan.analysis.price_formats.schema import KIND_WORDS, KINDS
from gpuplan.analysis.prices.catalogue import BUILT_IN
from gpuplan.analysis.prices.price_table import in_force, read_prices

USUAL_KIND = "on_demand"
MOST_STEPS = 2_000
"""Changes of a price above which it is looked up once a day."""


def dated_usd(table: str, gpu: str, provider: str | None = None) -> list[tuple[int, Fraction]]:
    """Return when a price begins, in microseconds since 1970, and the price; ascending.

    A price holds until the next one, the last one for good; where no offer is in force the price
    before holds.

    Args:
        table: a price table of ``gpuplan prices``; of the built-in list, which has no history, and
            of a type that it does not have nothing is returned.
        gpu: the type, in any spelling.
        provider: ``aws`` or ``aws:spot``; the kind is else that of `usual_kind`.
    """
    if table == BUILT_IN:
        return []
    company, kind = kind_of_provider(provider)
    rows = in_force(read_prices(Path(table)))
    if company is not None:
        rows = rows.filter(pl.col("provider").str.to_lowercase() == company)
    name = gpu_name(gpu)
    columns = rows.select("gpu_type", "kind", "start_us", "end_us", "typical").iter_rows()
    of_gpu = [row[1:] for row in columns if same_gpu(name, row[0])]
    kind = kind or usual_kind(row[0] for row in of_gpu)
    spans = [row[1:] for row in of_gpu if row[0] == kind]
    starts = sorted({begin for begin, _, _ in spans})
    if len(starts) > MOST_STEPS:
        days = range(starts[0], starts[-1] + DAY_US, DAY_US)
        starts = list(days)
    steps: list[tuple[int, Fraction]] = []
    for at in starts:
        in_force_now = [usd for begin, end, usd in spans if begin == at or begin < at < end]
        if in_force_now:
            usd = Fraction(str(median(in_force_now)))
            if not steps or steps[-1][1] != usd:
                steps.append((at, usd))
    return steps


def usual_kind(kinds: Iterable[str]) -> str:
    """Return the kind of a pay-per-use price: on demand, else the only kind there is."""
    distinct = dict.fromkeys(kinds)
    return next(iter(distinct)) if len(distinct) == 1 else USUAL_KIND


def kind_of_provider(provider: str | None) -> tuple[str | None, str | None]:
    """Return company and kind of ``aws:spot``, None for all companies and for the usual kind.

    Raises `UsageError` on an unknown kind.
    """
    if provider is None:
        return None, None
    company, colon, word = provider.rpartition(":")
    if not colon:
        return provider.strip().lower(), None
    kind = KIND_WORDS.get(word.strip().lower())
    if kind is None:
        raise UsageError(f"--provider {provider}: a kind is one of {', '.join(KINDS)}")
    return company.strip().lower() or None, kind
