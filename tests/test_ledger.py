"""Who uses which pool: worked out by hand, against a plain count of every second, and as laws."""

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import HOUR_US
from gpuplan.analysis.prices.contracts import (
    COMMITTED,
    ON_DEMAND,
    OWNED,
    Contracts,
    DatedPrice,
    PaidPool,
    make_contracts,
)
from gpuplan.planner.money.bill import IDLE, SPREAD, bill_cells, total_cents, total_usd, whole_cents
from gpuplan.planner.money.change import change_by, parts_of_change
from gpuplan.planner.money.ledger import HeldRuns, ledger

H = HOUR_US


def runs_of(rows, gpu_types=("A100",), labels=3):
    """Runs of rows (begin, end, gpus, label, type); times in hours."""
    begin, end, gpus, label, kind = zip(*rows, strict=True)
    return HeldRuns(
        (np.array(begin) * H).astype(np.int64), (np.array(end) * H).astype(np.int64),
        np.array(gpus, float), np.array(label), np.array(kind), labels, gpu_types,
    )  # fmt: skip


def book_of(*entries):
    pools = [entry for entry in entries if isinstance(entry, PaidPool)]
    return make_contracts(pools, [e for e in entries if isinstance(e, DatedPrice)])


def amounts(found):
    """GPU-hours by label (-1: idle) and market."""
    sums = defaultdict(Fraction)
    for cell in found.cells:
        sums[-1 if cell.label is None else cell.label, cell.market] += cell.gpu_h
    return dict(sums)


def test_two_labels_share_a_pool_by_what_they_use():
    # 8 GPUs in use for 24 h, of 2 owned and 4 committed: y holds 4 of the 8, half of everything.
    runs = runs_of([(0, 24, 4, 0, 0), (0, 24, 4, 1, 0)], labels=2)
    book = book_of(
        PaidPool(COMMITTED, "A100", 4, Fraction(1)), PaidPool(OWNED, "A100", 2, Fraction(1, 2)),
        DatedPrice("A100", ON_DEMAND, Fraction(2)),
    )  # fmt: skip
    found = ledger(runs, book, np.array([0, 24 * H]))
    assert amounts(found) == {
        (0, OWNED): 24, (1, OWNED): 24, (0, COMMITTED): 48, (1, COMMITTED): 48,
        (0, ON_DEMAND): 24, (1, ON_DEMAND): 24,
    }  # fmt: skip
    of_y = [cell for cell in found.cells if cell.label == 1]
    assert sum(cell.usd for cell in of_y) == 24 * (Fraction(1, 2) + 2 + 2)


def test_idle_is_never_netted_against_overflow():
    # 10 h of 6 GPUs, 10 h of none, on 4 owned: 20 GPU-hours above, 40 idle.
    runs = runs_of([(0, 10, 6, 0, 0)], labels=1)
    book = book_of(
        PaidPool(OWNED, "A100", 4, Fraction(0)), DatedPrice("A100", ON_DEMAND, Fraction(1))
    )
    found = ledger(runs, book, np.array([0, 20 * H]))
    assert amounts(found) == {(0, OWNED): 40, (0, ON_DEMAND): 20, (-1, OWNED): 40}


def test_prices_and_pools_change_within_a_run():
    # A pool of 1 from hour 5 to 15; the price doubles at hour 10; a run of 2 GPUs from 0 to 20.
    runs = runs_of([(0, 20, 2, 0, 0)], labels=1)
    book = book_of(
        PaidPool(COMMITTED, "A100", 1, Fraction(1), 5 * H, 15 * H),
        DatedPrice("A100", ON_DEMAND, Fraction(2)),
        DatedPrice("A100", ON_DEMAND, Fraction(4), 10 * H),
    )  # fmt: skip
    found = ledger(runs, book, np.array([0, 20 * H]))
    assert amounts(found) == {(0, COMMITTED): 10, (0, ON_DEMAND): 30}
    on_demand = [cell for cell in found.cells if cell.market == ON_DEMAND]
    assert sum(cell.usd for cell in on_demand) == (10 + 5) * 2 + (5 + 10) * 4


def test_periods_cut_runs_and_leave_out_what_is_outside():
    runs = runs_of([(0, 30, 1, 0, 0)], labels=1)
    book = book_of(DatedPrice("A100", ON_DEMAND, Fraction(1)))
    found = ledger(runs, book, np.array([5 * H, 10 * H, 12 * H]))
    assert [(cell.period, cell.gpu_h) for cell in found.cells] == [(0, 5), (1, 2)]


def test_what_has_no_price_is_said():
    runs = runs_of([(0, 5, 2, 0, 0)], ("H100",), labels=1)
    with pytest.raises(UsageError, match="no price of H100; it has A100"):
        ledger(runs, book_of(DatedPrice("A100", ON_DEMAND, Fraction(1))), np.array([0, 9 * H]))
    late = book_of(DatedPrice("H100", ON_DEMAND, Fraction(1), 3 * H))
    with pytest.raises(UsageError, match="no pay-per-use price of H100 from 1970-01-01 00:00 UTC"):
        ledger(runs, late, np.array([0, 9 * H]))
    only_pools = book_of(PaidPool(OWNED, "H100", 1, Fraction(0)))
    with pytest.raises(UsageError, match=r"5\.0 GPU-hours above its pools"):
        ledger(runs, only_pools, np.array([0, 9 * H]))
    kinds = book_of(
        DatedPrice("H100", "spot", Fraction(1)), DatedPrice("H100", "marketplace", Fraction(1))
    )
    with pytest.raises(UsageError, match="none on demand"):
        ledger(runs, kinds, np.array([0, 9 * H]))


DRAWN = st.lists(
    st.tuples(
        st.integers(0, 12), st.integers(1, 9), st.sampled_from([0.5, 1.0, 2.0, 3.0]),
        st.integers(0, 2), st.integers(0, 1),
    ),
    min_size=1, max_size=12,
)  # fmt: skip
POOLS = st.lists(
    st.tuples(
        st.sampled_from([OWNED, COMMITTED]), st.integers(1, 4), st.integers(0, 9),
        st.integers(1, 9),
    ),
    max_size=3,
)  # fmt: skip


def drawn_log(rows, pools):
    rows = [(begin, begin + lasting, *rest) for begin, lasting, *rest in rows]
    entries = [
        PaidPool(market, "A", gpus, Fraction(1, 2), begin * H, (begin + lasting) * H)
        for market, gpus, begin, lasting in pools
    ]
    prices = [
        DatedPrice("A", ON_DEMAND, Fraction(2)), DatedPrice("A", ON_DEMAND, Fraction(3), 6 * H),
        DatedPrice("B", ON_DEMAND, Fraction(5)),
    ]  # fmt: skip
    return rows, book_of(*entries, *prices), runs_of(rows, ("A", "B"))


def by_the_hour(rows, book, hours):
    """Dollars by label and market, hour by hour: nothing changes within one."""
    usd = defaultdict(Fraction)
    for kind, name in enumerate(("A", "B")):
        for hour in range(hours):
            held = defaultdict(Fraction)
            for begin, end, gpus, label, of_type in rows:
                if of_type == kind and begin <= hour < end:
                    held[label] += Fraction(gpus)
            use, filled = sum(held.values()), Fraction(0)
            for pool in book.pools_of(name):
                if not pool.from_us <= hour * H < pool.until_us:
                    continue
                covered = max(min(use, filled + pool.gpus) - filled, 0)
                filled += pool.gpus
                for label, gpus in held.items():
                    usd[label, pool.market] += covered * gpus / use * pool.usd_per_gpu_h
                usd[-1, pool.market] += (pool.gpus - covered) * pool.usd_per_gpu_h
            price = [p for p in book.prices_of(name) if p.from_us <= hour * H][-1]
            for label, gpus in held.items():
                above = max(use - filled, 0)
                usd[label, price.kind] += above * gpus / use * price.usd_per_gpu_h
    return usd


@given(DRAWN, POOLS)
def test_the_ledger_agrees_with_a_count_of_every_hour(rows, pools):
    rows, book, runs = drawn_log(rows, pools)
    found = ledger(runs, book, np.array([0, 11 * H, 24 * H]))
    plain = by_the_hour(rows, book, 24)
    usd = defaultdict(Fraction)
    for cell in found.cells:
        usd[-1 if cell.label is None else cell.label, cell.market] += cell.usd
    for key in {*plain, *usd}:
        assert abs(plain[key] - usd[key]) < Fraction(1, 10**15), key


@given(DRAWN, POOLS, st.booleans())
def test_a_bill_keeps_every_gpu_hour_and_cent(rows, pools, spread):
    rows, book, runs = drawn_log(rows, pools)
    found = ledger(runs, book, np.array([0, 7 * H, 24 * H]))
    used = sum(cell.gpu_h for cell in found.cells if cell.label is not None)
    held = sum(Fraction(gpus) * (end - begin) for begin, end, gpus, *_ in rows)
    assert abs(used - held) < Fraction(1, 10**12)
    names = [("a", ""), ("b", ""), ("c", "")]
    cells = bill_cells(found, names, spread_idle=spread)
    for period in (0, 1):
        month = [cell for cell in cells if cell.period == period]
        assert total_cents(month) == whole_cents(total_usd(month))
    assert abs(total_usd(cells) - sum(cell.usd for cell in found.cells)) < Fraction(1, 10**12)
    by_name = defaultdict(Fraction)
    for cell in cells:
        by_name[cell.period, cell.name] += cell.usd
    for (period, name), usd in by_name.items():
        of_row = [c for c in cells if c.name == name and c.period == period]
        assert abs(total_cents(of_row) - usd * 100) < 1
    if spread:
        used = {(cell.gpu_type, cell.period) for cell in cells if cell.name != IDLE}
        idle = {(cell.gpu_type, cell.period) for cell in cells if cell.name == IDLE}
        assert not used & idle
        assert all(cell.gpu_h == 0 for cell in cells if cell.market == SPREAD)


@given(DRAWN, DRAWN, POOLS, st.integers(1, 5))
def test_a_change_is_the_sum_of_its_parts(before, after, pools, days):
    found = []
    for rows in (before, after):
        _, book, runs = drawn_log(rows, pools)
        entries = ledger(runs, book, np.array([0, 24 * H]))
        found.append(bill_cells(entries, [("a", ""), ("b", ""), ("c", "")]))
    used = [[cell for cell in cells if not cell.is_idle] for cells in found]
    use = parts_of_change(*used, Fraction(days, 3))
    tables = [
        change_by(*used, Fraction(days, 3), key).values()
        for key in (lambda cell: cell.name, lambda cell: cell.gpu_type)
    ]
    for row in (use, *tables[0], *tables[1]):
        parts = row.price_usd + row.calendar_usd + row.volume_usd + row.mix_usd
        assert parts == row.usd == row.after_usd - row.before_usd
    for table in tables:
        assert sum(row.usd for row in table) == use.usd
        assert sum(row.price_usd for row in table) == use.price_usd
        between = [
            getattr(use, part) - sum(getattr(row, part) for row in table)
            for part in ("volume_usd", "mix_usd")
        ]
        assert between[0] == -between[1]


def test_a_change_of_prices_alone_is_price():
    entries = [
        bill_cells(
            ledger(
                runs_of([(0, 10, 2, 0, 0)], labels=1),
                book_of(DatedPrice("A100", ON_DEMAND, Fraction(usd))), np.array([0, 10 * H]),
            ),
            [("a", "")],
        )
        for usd in (1, 3)
    ]  # fmt: skip
    use = parts_of_change(*entries, Fraction(1))
    assert (use.price_usd, use.calendar_usd, use.volume_usd, use.mix_usd) == (40, 0, 0, 0)


def test_an_empty_book_has_no_types():
    assert Contracts().gpu_types == ()


def test_a_century_of_days_costs_what_its_few_days_of_use_do():
    """Edges between days without use or pools are left out; the cells of the others stay."""
    century = 36_525 * 24
    rows = [
        (5, 6, 3, 0, 0),
        (century // 2, century // 2 + 30, 2, 1, 0),
        (century - 1, century, 1, 2, 0),
    ]
    book = book_of(
        PaidPool(OWNED, "A100", 1, Fraction(1), (century - 50) * H, (century - 20) * H),
        DatedPrice("A100", ON_DEMAND, Fraction(2)),
    )  # fmt: skip
    days = np.arange(0, century + 1, 24) * H
    found = ledger(runs_of(rows), book, days)
    by_day = {(cell.period, cell.label, cell.market): cell.gpu_h for cell in found.cells}
    half = century // 48
    assert by_day == {
        (0, 0, ON_DEMAND): 3, (half, 1, ON_DEMAND): 48 - 2 * (century // 2 - 24 * half),
        (half + 1, 1, ON_DEMAND): 12 + 2 * (century // 2 - 24 * half),
        (36_522, None, OWNED): 2, (36_523, None, OWNED): 24, (36_524, None, OWNED): 4,
        (36_524, 2, ON_DEMAND): 1,
    }  # fmt: skip
