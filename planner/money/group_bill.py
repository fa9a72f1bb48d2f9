"""The bill of a log by group, user, class or GPU type, exact to the cent.

Jobs pay for the GPU-hours that they hold. Where a cluster is given, what no job holds is idle:
shown apart, or spread over the jobs of its GPU type by their GPU-hours. Amounts are exact fractions
until they are rounded, and every set of rows adds up to its total.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import HOUR_US, MONTH_H
from gpuplan.analysis.job_table.gpu_names import match_types, same_gpu
from gpuplan.planner.money.gpu_hours import UNKNOWN, GpuHours
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_request import Price


def whole_cents(usd: Fraction) -> int:
    """Return dollars as cents, half a cent rounded up."""
    return floor(usd * 100 + Fraction(1, 2))


def split_cents(total: int, parts: Sequence[Fraction]) -> list[int]:
    """Return cents for each part that add up to ``total``.

    Method of the largest remainder (Hamilton): every part is rounded down, and the cents left go to
    the parts that lost most.

    Args:
        total: cents, >= 0; of the sum of the parts, rounded.
        parts: dollars, each >= 0. Of equal remainders the first part gets the cent.

    Raises:
        ValueError: the total is not that of the parts.
    """
    cents = [floor(usd * 100) for usd in parts]
    left = total - sum(cents)
    if not 0 <= left <= len(cents):
        raise ValueError(f"expected a total of these parts, got {total} for {sum(cents)} and up")
    lost = sorted(range(len(cents)), key=lambda part: cents[part] - parts[part] * 100)
    for part in lost[:left]:
        cents[part] += 1
    return cents


MONTH = Fraction(MONTH_H)


@dataclass(frozen=True, slots=True)
class BilledCell:
    """What one name pays for one GPU type in one period.

    Attributes:
        name: None for GPUs that no job holds.
        gpu_type: place in `GpuHours.gpu_types`, or after these in the order of the cluster.
        period: place among the periods.
        gpu_h: GPU-hours.
        cents: the amount.
    """

    name: str | None
    gpu_type: int
    period: int
    gpu_h: float
    cents: int


@dataclass(frozen=True, slots=True)
class RowAmounts:
    """Amounts of one row of a bill.

    Attributes:
        name: None for GPUs that no job holds.
        gpu_h: GPU-hours held; those of idle GPUs where they stand apart.
        cents: in the window.
        month_cents: in a month at this rate.
        idle_month_cents: part of it that pays for idle GPUs.
    """

    name: str | None
    gpu_h: float
    cents: int
    month_cents: int
    idle_month_cents: int


@dataclass(frozen=True, slots=True)
class GroupBill:
    """A bill; see the module.

    Attributes:
        hours: what is billed.
        gpu_types: those of the log, then those that only the cluster has.
        prices: of each type.
        cluster: GPUs of each type; empty where only what jobs hold is billed.
        rows: by amount, idle GPUs last.
        cells: by row, type and period; they add up to the rows.
        type_month_cents: amount of each type in a month, and what of it is idle.
        cents, idle_cents, month_cents, idle_month_cents: of all rows.
        is_spread: whether jobs pay for idle GPUs.
    """

    hours: GpuHours
    gpu_types: tuple[str | None, ...]
    prices: tuple[Price, ...]
    cluster: tuple[int, ...]
    rows: tuple[RowAmounts, ...]
    cells: tuple[BilledCell, ...]
    type_month_cents: tuple[tuple[int, int], ...]
    cents: int
    idle_cents: int
    month_cents: int
    idle_month_cents: int
    is_spread: bool = False


Cell = tuple[str | None, int, int]  # name, type, period


def bill_of(
    hours: GpuHours,
    prices: Prices,
    cluster: Mapping[str | None, int],
    *,
    spread_idle: bool = False,
    month_us: int | None = None,
) -> GroupBill:
    """Return the bill of GPU-hours.

    Args:
        hours: what jobs held.
        prices: of GPU types.
        cluster: GPUs by type, as `cluster_of` returns them; empty for no idle GPUs.
        spread_idle: let jobs pay for idle GPUs, instead of a row of their own.
        month_us: what the amounts of a month are of; None for a month.

    Raises:
        UsageError: a type without a price, or jobs that hold more GPU-hours in a period than the
            cluster has.
    """
    types = (*hours.gpu_types, *(name for name in cluster if name not in hours.gpu_types))
    price_of_type = tuple(map(prices.of, types))
    rate = [Fraction(str(price.usd_per_gpu_h)) for price in price_of_type]
    usd: dict[Cell, Fraction] = {}
    gpu_h: dict[Cell, float] = {}
    for place, kind, period in np.argwhere(hours.gpu_h > 0).tolist():
        held = float(hours.gpu_h[place, kind, period])
        cell: Cell = (hours.names[place], kind, period)
        gpu_h[cell], usd[cell] = held, Fraction(held) * rate[kind]
    for name in hours.names:  # all its jobs ended as they began
        usd.setdefault((name, 0, 0), Fraction(0))
        gpu_h.setdefault((name, 0, 0), 0.0)
    idle = _idle(hours, types, rate, cluster)
    idle_usd: dict[Cell, Fraction] = {}
    if spread_idle:
        idle_usd = _spread(hours, types, idle)
    else:
        for (kind, period), (spare_h, amount) in idle.items():
            usd[None, kind, period], gpu_h[None, kind, period] = amount, spare_h
            idle_usd[None, kind, period] = amount
    for cell, amount in idle_usd.items():
        if cell[0] is not None:
            usd[cell] = usd.get(cell, Fraction(0)) + amount
            gpu_h.setdefault(cell, 0.0)
    to_month = (MONTH * HOUR_US if month_us is None else Fraction(month_us)) / hours.window_us
    total = sum(usd.values(), Fraction(0))
    names: list[str | None] = [*hours.names, *([None] if idle and not spread_idle else [])]
    by_name = _sums(usd, 0)
    cents = whole_cents(total)
    month = whole_cents(total * to_month)
    parts = [by_name.get(name, Fraction(0)) for name in names]
    in_window = split_cents(cents, parts)
    in_month = split_cents(month, [part * to_month for part in parts])
    of_idle = _sums(idle_usd, 0)
    idle_parts = [of_idle.get(name, Fraction(0)) * to_month for name in names]
    idle_month = whole_cents(sum(idle_parts, Fraction(0)))
    idle_in_month = split_cents(idle_month, idle_parts)
    idle_cents = whole_cents(sum(idle_usd.values(), Fraction(0)))
    if not spread_idle and idle:
        idle_in_month = [0] * (len(names) - 1) + in_month[-1:]
        idle_month, idle_cents = in_month[-1], in_window[-1]
    hours_of = _sums_of_hours(gpu_h)
    rows = tuple(
        RowAmounts(name, hours_of.get(name, 0.0), *amounts)
        for name, *amounts in zip(names, in_window, in_month, idle_in_month, strict=True)
    )
    month_of = dict(zip(names, in_month, strict=True))
    type_month = _by_type(month_of, usd, to_month, len(types))
    type_idle = _by_type(
        dict(zip(names, idle_in_month, strict=True)), idle_usd, to_month, len(types)
    )
    return GroupBill(
        hours=hours,
        gpu_types=types,
        prices=price_of_type,
        cluster=tuple(cluster.get(name, 0) for name in types) if cluster else (),
        rows=tuple(sorted(rows, key=lambda row: (row.name is None, -row.month_cents))),
        cells=tuple(_cells(rows, usd, gpu_h)),
        type_month_cents=tuple(zip(type_month, type_idle, strict=True)),
        cents=cents,
        idle_cents=idle_cents,
        month_cents=month,
        idle_month_cents=idle_month,
        is_spread=spread_idle,
    )


def _idle(
    hours: GpuHours,
    types: Sequence[str | None],
    rate: Sequence[Fraction],
    cluster: Mapping[str | None, int],
) -> dict[tuple[int, int], tuple[float, Fraction]]:
    """Return GPU-hours that no job holds and their cost, by type and period."""
    idle = {}
    for kind, name in enumerate(types if cluster else ()):
        for period in range(hours.edges_us.size - 1):
            lasting = int(hours.edges_us[period + 1] - hours.edges_us[period])
            owned = Fraction(cluster.get(name, 0) * lasting, HOUR_US)
            used = Fraction(0)
            if kind < len(hours.gpu_types):
                column = hours.gpu_h[:, kind, period]
                used = sum((Fraction(float(gpu_h)) for gpu_h in column), Fraction(0))
            if used > owned * (1 + Fraction(1, 10**9)):
                mean = float(used) * HOUR_US / lasting
                raise UsageError(
                    f"--cluster: jobs hold {mean:,.1f} {name or 'GPUs'} on average in one month of "
                    f"the log, more than the {cluster.get(name, 0):,} given\n"
                    "  next: --cluster with all GPUs, or --cluster peak"
                )
            spare = max(owned - used, Fraction(0))
            idle[kind, period] = float(spare), spare * rate[kind]
    return idle


def _spread(
    hours: GpuHours,
    types: Sequence[str | None],
    idle: Mapping[tuple[int, int], tuple[float, Fraction]],
) -> dict[Cell, Fraction]:
    """Return who pays for idle GPUs: the jobs of the type by GPU-hours, all where it has none."""
    paid: dict[Cell, Fraction] = defaultdict(Fraction)
    for kind in range(len(types)):
        of_type = hours.gpu_h[:, kind] if kind < len(hours.gpu_types) else np.zeros((1, 1))
        held = of_type.sum(axis=1) if of_type.any() else hours.gpu_h.sum(axis=(1, 2))
        if not held.any():
            held = hours.jobs.astype(np.float64)
        weights = [Fraction(float(gpu_h)) for gpu_h in held]
        whole = sum(weights, Fraction(0))
        for (other, period), (_, amount) in idle.items():
            if other == kind:
                for name, weight in zip(hours.names, weights, strict=True):
                    paid[name, kind, period] += amount * weight / whole
    return paid


def _by_type(
    cents_of: Mapping[str | None, int], usd: Mapping[Cell, Fraction], to_month: Fraction, types: int
) -> list[int]:
    """Return the cents of each type: the cells of a row share its cents, so that tables agree."""
    parts: dict[str | None, list[Fraction]] = {name: [Fraction(0)] * types for name in cents_of}
    for (name, kind, _), amount in usd.items():
        parts[name][kind] += amount * to_month
    rows = [split_cents(cents, parts[name]) for name, cents in cents_of.items()]
    return [sum(row[kind] for row in rows) for kind in range(types)]


def _sums(usd: Mapping[Cell, Fraction], place: int) -> dict[str | int | None, Fraction]:
    sums: dict[str | int | None, Fraction] = defaultdict(Fraction)
    for cell, amount in usd.items():
        sums[cell[place]] += amount
    return dict(sums)


def _sums_of_hours(gpu_h: Mapping[Cell, float]) -> dict[str | None, float]:
    sums: dict[str | None, float] = defaultdict(float)
    for (name, _, _), held in gpu_h.items():
        sums[name] += held
    return dict(sums)


def _cells(
    rows: Sequence[RowAmounts], usd: Mapping[Cell, Fraction], gpu_h: Mapping[Cell, float]
) -> list[BilledCell]:
    """Return the cells of all rows in their order; those of a row add up to it."""
    of_row: dict[str | None, list[Cell]] = defaultdict(list)
    for cell in sorted(usd, key=lambda cell: cell[1:]):
        of_row[cell[0]].append(cell)
    billed = []
    for row in rows:
        cells = of_row[row.name]
        amounts = split_cents(row.cents, [usd[cell] for cell in cells])
        billed += [
            BilledCell(*cell, gpu_h=gpu_h.get(cell, 0.0), cents=cents)
            for cell, cents in zip(cells, amounts, strict=True)
        ]
    return billed


def cluster_of(
    hours: GpuHours, pools: Sequence[tuple[str | None, int]] | None, *, is_peak: bool = False
) -> dict[str | None, int]:
    """Return the GPUs of each type in the pools, or with ``is_peak`` the most that jobs held.

    Raises:
        UsageError: a type of the log that the cluster lacks, or GPUs of no type where the log
            names several.
    """
    if is_peak:
        peaks = zip(hours.gpu_types, hours.peak_gpus.tolist(), strict=True)
        return {name: ceil(peak - 1e-9) for name, peak in peaks}
    if pools is None:
        return {}
    if len(pools) == 1 and (pools[0][0] is None or len(hours.gpu_types) == 1):
        kind, gpus = pools[0]
        if len(hours.gpu_types) > 1:
            each = ",".join(f"{name or UNKNOWN}=N" for name in hours.gpu_types)
            raise UsageError(
                f"--cluster {gpus}: the log has several GPU types\n"
                f"  next: give the GPUs of each, --cluster {each}, or choose one with --where"
            )
        only_type = hours.gpu_types[0]
        if kind is None or only_type is None or same_gpu(kind, only_type):
            return {only_type: gpus}
    names = [kind for kind, _ in pools if kind]
    means = match_types(names, hours.gpu_types, "--cluster", apart=True)
    type_of = {name: log_type for log_type, name in means.items() if name is not None}
    gpus_of = {type_of.get(kind or "", kind): gpus for kind, gpus in pools}
    missing = [name for name in hours.gpu_types if name not in gpus_of]
    if missing:
        raise UsageError(
            f"--cluster: the log also has jobs on {', '.join(name or UNKNOWN for name in missing)}"
            "\n  next: name their GPUs too, or choose jobs with --where"
        )
    return gpus_of
