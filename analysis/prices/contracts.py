"""The price book of a company: GPUs that it owns, commitments, and pay-per-use prices by date.

A TOML file with tables ``[[owned]]``, ``[[commitment]]`` and ``[[price]]``; one key stands per line
under its header. Dollars are exact: a number is the decimal that is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.lookup import perhaps
from gpuplan.analysis.base.time_units import micros_of
from gpuplan.analysis.base.time_zones import zone_named
from gpuplan.analysis.job_table.gpu_names import gpu_name
from gpuplan.analysis.storage.files import sha256_of
from gpuplan.analysis.storage.toml_source import read_toml, statements
from gpuplan.analysis.trace.input_files import InputFile

OWNED, COMMITTED, ON_DEMAND = "owned", "committed", "on_demand"
TABLES: Mapping[str, frozenset[str]] = {
    "owned": frozenset({"gpu_type", "gpus"}),
    "commitment": frozenset({"gpu_type", "gpus", "usd_per_gpu_h"}),
    "price": frozenset({"gpu_type", "kind", "usd_per_gpu_h"}),
}
"""Table -> the keys that it must have."""
DATES = {"owned": ("from", "until"), "commitment": ("from", "until"), "price": ("from",)}
MOST_USD_PER_GPU_H = 1_000_000
MOST_USD_DIGITS = 30
"""Zeros after the point above which a price is none; its exact fraction may not end."""
MOST_GPUS = 10_000_000
ALWAYS_US = -(2**62)
"""Begin of what has no date."""
FOREVER_US = 2**62
A_DATE = "a date such as 2026-01-01, or a time with an offset"


@dataclass(frozen=True, slots=True)
class PaidPool:
    """GPUs of one type that are paid for whether they are used or not.

    Attributes:
        market: ``owned`` or ``committed``.
        gpu_type: as written, in its one name.
        gpus: how many.
        usd_per_gpu_h: paid for each hour of each, exact.
        from_us, until_us: from when until when, microseconds since 1970; `ALWAYS_US` and
            `FOREVER_US` without a date.
    """

    market: str
    gpu_type: str
    gpus: int
    usd_per_gpu_h: Fraction
    from_us: int = ALWAYS_US
    until_us: int = FOREVER_US

    def is_paid_at(self, at_us: int) -> bool:
        """Return whether it is paid for at an instant; one without an end is so at any later."""
        return self.from_us <= at_us and (at_us < self.until_us or self.until_us == FOREVER_US)


@dataclass(frozen=True, slots=True)
class DatedPrice:
    """The pay-per-use price of one type and kind from a time until the next entry of these."""

    gpu_type: str
    kind: str
    usd_per_gpu_h: Fraction
    from_us: int = ALWAYS_US


@dataclass(frozen=True, slots=True)
class Contracts:
    """What GPUs cost, by date.

    Attributes:
        pools: in the order in which they fill: owned ones first, then commitments by their begin,
            then as written.
        prices: in order of time within a type and kind.
        inputs: the file that they were read from, if any.
        option: what to name in messages: the file or the options.
    """

    pools: tuple[PaidPool, ...] = ()
    prices: tuple[DatedPrice, ...] = ()
    inputs: tuple[InputFile, ...] = ()
    option: str = "--contracts"

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """The types that the book names, in its order."""
        named = [pool.gpu_type for pool in self.pools]
        named += [price.gpu_type for price in self.prices]
        return tuple(dict.fromkeys(named))

    def pools_of(self, gpu_type: str) -> tuple[PaidPool, ...]:
        """Return the pools of a type of the book in the order in which they fill."""
        return tuple(pool for pool in self.pools if pool.gpu_type == gpu_type)

    def kind_of(self, gpu_type: str) -> str | None:
        """Return the kind whose prices pay-per-use GPUs of a type have; None without a price.

        Raises:
            UsageError: the type has several kinds, none of them on demand.
        """
        kinds = dict.fromkeys(price.kind for price in self.prices if price.gpu_type == gpu_type)
        if not kinds:
            return None
        if ON_DEMAND in kinds:
            return ON_DEMAND
        if len(kinds) > 1:
            raise UsageError(
                f"{self.option}: {gpu_type} has prices of the kinds {', '.join(kinds)}, and none "
                f"on demand\n  next: keep one of them, or add a price with kind = {ON_DEMAND!r}"
            )
        return next(iter(kinds))

    def prices_of(self, gpu_type: str) -> tuple[DatedPrice, ...]:
        """Return the pay-per-use prices of a type in order of time. Raises as `kind_of`."""
        kind = self.kind_of(gpu_type)
        return tuple(p for p in self.prices if p.gpu_type == gpu_type and p.kind == kind)

    def changes_us(self, gpu_types: Sequence[str]) -> tuple[int, ...]:
        """Return the instants at which pools or pay-per-use prices of some types change."""
        pools = [pool for name in gpu_types for pool in self.pools_of(name)]
        dates = {edge for pool in pools for edge in (pool.from_us, pool.until_us)}
        dates |= {price.from_us for name in gpu_types for price in self.prices_of(name)}
        return tuple(sorted(dates - {ALWAYS_US, FOREVER_US}))

    def in_force(self, at_us: int, gpu_types: Sequence[str]) -> Contracts:
        """Return the pools and pay-per-use prices of some types at an instant, without dates."""
        pools = [
            replace(pool, from_us=ALWAYS_US, until_us=FOREVER_US)
            for pool in self.pools
            if pool.gpu_type in gpu_types and pool.is_paid_at(at_us)
        ]
        last = [[p for p in self.prices_of(name) if p.from_us <= at_us][-1:] for name in gpu_types]
        prices = [replace(price, from_us=ALWAYS_US) for of_type in last for price in of_type]
        return replace(self, pools=tuple(pools), prices=tuple(prices))

    def price_at(self, gpu_type: str, at_us: int, kind: str = "") -> DatedPrice | None:
        """Return the price in force at a time; before the first one there is none.

        Args:
            gpu_type: of the book.
            at_us: microseconds since 1970.
            kind: of the price; empty for that of pay-per-use GPUs. Raises as `kind_of`.
        """
        prices = self.prices_of(gpu_type)
        if kind:
            prices = tuple(p for p in self.prices if (p.gpu_type, p.kind) == (gpu_type, kind))
        begun = [price for price in prices if price.from_us <= at_us]
        return begun[-1] if begun else None

    @property
    def is_flat(self) -> bool:
        """Whether there are no pools, and each type and kind has one price for all time."""
        kinds = {(price.gpu_type, price.kind) for price in self.prices}
        always = all(price.from_us == ALWAYS_US for price in self.prices)
        return not self.pools and always and len(kinds) == len(self.prices)


def instant_us(at: object, zone: tzinfo) -> int | None:
    """Return a date, a time or the text of one as microseconds since 1970; None for what is none.

    A date is 00:00 in ``zone``, and so is a time without an offset.
    """
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at)
        except ValueError:
            return None
    if isinstance(at, date) and not isinstance(at, datetime):
        at = datetime.combine(at, time())
    if not isinstance(at, datetime):
        return None
    return micros_of(at if at.tzinfo is not None else at.replace(tzinfo=zone))


def make_contracts(
    pools: list[PaidPool],
    prices: list[DatedPrice],
    *,
    inputs: tuple[InputFile, ...] = (),
    option: str = "--contracts",
) -> Contracts:
    """Return entries as a price book, in its order; equal pools are one.

    Raises:
        UsageError: two prices of one type, kind and date.
    """
    seen: set[tuple[str, str, int]] = set()
    for price in prices:
        key = (price.gpu_type, price.kind, price.from_us)
        if key in seen:
            raise UsageError(
                f"{option}: two prices of {price.gpu_type} ({price.kind}) from the same date"
                "\n  next: keep one of them"
            )
        seen.add(key)
    gpus: Counter[PaidPool] = Counter()
    for pool in pools:
        gpus[replace(pool, gpus=0)] += pool.gpus
    fill = sorted(
        (replace(pool, gpus=number) for pool, number in gpus.items()),
        key=lambda pool: (pool.market != OWNED, pool.market != OWNED and pool.from_us),
    )
    ordered = sorted(prices, key=lambda price: price.from_us)
    return Contracts(tuple(fill), tuple(ordered), inputs, option)


def read_contracts(path: Path, time_zone: str | None = None) -> Contracts:
    """Read a price book.

    Args:
        path: of the TOML file.
        time_zone: of dates and of times without an offset; None for UTC.

    Raises:
        InputError: no such file, not TOML, or an entry that cannot be used; with its line.
    """
    text, data = read_toml(path, Decimal)
    zone = zone_named(time_zone)
    rows = _rows(text)
    for name in data:
        if name not in TABLES:
            raise InputError(
                path,
                f"unknown key {name!r}{perhaps(name, TABLES)}",
                row=rows.get((name, 0), {}).get(""),
                expected="tables [[owned]], [[commitment]] and [[price]]",
            )
    pools: list[PaidPool] = []
    prices: list[DatedPrice] = []
    first: dict[DatedPrice, int | None] = {}
    for name in TABLES:
        for place, entry in enumerate(_entries(path, data, name)):
            cells = _Cells(path, name, entry, rows.get((name, place), {}), zone)
            cells.check_keys()
            if name == "price":
                prices.append(price := cells.price())
                cells.check_first(price, first)
            else:
                pools.append(cells.pool(OWNED if name == "owned" else COMMITTED))
    if not pools and not prices:
        raise InputError(path, "has no prices", expected="[[owned]], [[commitment]] or [[price]]")
    file = InputFile(str(path), sha256_of(path), len(pools) + len(prices))
    try:
        return make_contracts(pools, prices, inputs=(file,), option=str(path))
    except UsageError as error:
        raise InputError(path, str(error).removeprefix(f"{path}: ")) from error


def _rows(text: str) -> dict[tuple[str, int], dict[str, int]]:
    """Return the lines of a book: by table and place, each key's; ``""`` is the header."""
    rows: dict[tuple[str, int], dict[str, int]] = {}
    count: dict[str, int] = {}
    for first, _, table, paths, is_header in statements(text):
        if is_header:
            name = ".".join(table)
            count[name] = count.get(name, -1) + 1
            rows.setdefault((name, count[name]), {})[""] = first
            continue
        name = ".".join(table) or paths[0][0]
        row = rows.setdefault((name, count.get(name, 0)), {"": first})
        for keys in paths:
            row.setdefault(keys[-1], first)
    return rows


def _entries(path: Path, data: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    entries = data.get(name, [])
    if isinstance(entries, dict) or not isinstance(entries, list):
        raise InputError(
            path, f"{name!r} is not a list of tables", expected=f"[[{name}]] in double brackets"
        )
    for entry in entries:
        if not isinstance(entry, dict):
            raise InputError(path, f"{name!r} holds {entry!r}", expected=f"tables [[{name}]]")
        yield entry


def _number_found(value: object, expected: str) -> tuple[str, str]:
    """Return what stands for a number, and what was expected; a text is shown with its quotes."""
    if isinstance(value, str):
        return f"found {value!r}", f"{expected}, without quotes"
    return f"found {value!s}", expected


@dataclass(frozen=True, slots=True)
class _Cells:
    """One entry of a book, and where its keys stand."""

    path: Path
    table: str
    entry: Mapping[str, Any]
    rows: Mapping[str, int]
    zone: tzinfo

    def error(self, key: str, problem: str, expected: str) -> InputError:
        """Return the error of a key; the key ``""`` stands for the entry."""
        column = key or None
        row = self.rows.get(key, self.rows.get(""))
        return InputError(self.path, problem, row=row, column=column, expected=expected)

    def check_keys(self) -> None:
        """Raise `InputError` on a key that is missing or unknown."""
        needed = TABLES[self.table]
        may = {*needed, "usd_per_gpu_h", *DATES[self.table]}
        for key in self.entry:
            if key not in may:
                hint = perhaps(key, sorted(may))
                raise self.error(key, f"is not known{hint}", f"one of {', '.join(sorted(may))}")
        for key in sorted(needed):
            if key not in self.entry:
                have = f"[[{self.table}]] has no {key!r}"
                raise self.error("", have, f"{key!r} in each [[{self.table}]]")

    def check_first(self, price: DatedPrice, first: dict[DatedPrice, int | None]) -> None:
        """Raise `InputError` on a second price of one type, kind and date; note the line."""
        key = replace(price, usd_per_gpu_h=Fraction())
        if key not in first:
            first[key] = self.rows.get("")
            return
        problem = f"a second price of {price.gpu_type} ({price.kind}) from the same date"
        problem += f"; the first is on line {first[key]}" if first[key] else ""
        raise InputError(self.path, problem, row=self.rows.get(""), hint="keep one of the two")

    def pool(self, market: str) -> PaidPool:
        """Return the entry as a pool. Raises `InputError`."""
        gpus = self.entry["gpus"]
        if isinstance(gpus, bool) or not isinstance(gpus, int) or not 1 <= gpus <= MOST_GPUS:
            raise self.error("gpus", *_number_found(gpus, "a whole number of GPUs, at least 1"))
        begin, end = self.instant("from", ALWAYS_US), self.instant("until", FOREVER_US)
        if begin >= end:
            raise self.error("until", f"found {self.entry['until']!s}", "a date after 'from'")
        return PaidPool(market, self.gpu_type(), gpus, self.usd(), begin, end)

    def price(self) -> DatedPrice:
        """Return the entry as a price. Raises `InputError`."""
        from gpuplan.analysis.price_formats.schema import KIND_WORDS, KINDS  # loads polars

        word = self.entry["kind"]
        kind = KIND_WORDS.get(word.strip().lower()) if isinstance(word, str) else None
        if kind is None:
            raise self.error("kind", f"found {word!r}", f"one of {', '.join(KINDS)}")
        return DatedPrice(self.gpu_type(), kind, self.usd(), self.instant("from", ALWAYS_US))

    def gpu_type(self) -> str:
        """Return the type in its one name. Raises `InputError`."""
        name = self.entry["gpu_type"]
        if not isinstance(name, str) or not name.strip():
            raise self.error("gpu_type", f"found {name!r}", 'a name such as "A100-80GB"')
        return gpu_name(name)

    def usd(self) -> Fraction:
        """Return dollars per GPU-hour, exact. Raises `InputError`."""
        usd = self.entry.get("usd_per_gpu_h", 0)
        is_number = isinstance(usd, int | Decimal) and not isinstance(usd, bool)
        is_price = is_number and Decimal(usd).is_finite() and 0 <= usd <= MOST_USD_PER_GPU_H
        if not is_price or (usd and Decimal(usd).adjusted() < -MOST_USD_DIGITS):
            expected = f"dollars per GPU-hour, 0 to {MOST_USD_PER_GPU_H:,}"
            raise self.error("usd_per_gpu_h", *_number_found(usd, expected))
        return Fraction(usd)

    def instant(self, key: str, otherwise: int) -> int:
        """Return a date as microseconds since 1970. Raises `InputError`."""
        if key not in self.entry:
            return otherwise
        at = self.entry[key]
        at_us = instant_us(at, self.zone)
        if at_us is None:
            raise self.error(key, f"found {at!r}" if isinstance(at, str) else f"found {at}", A_DATE)
        return at_us
