"""Bring price lists and histories into one table: read, check, write, and account for every row.

The prices of all sources are held in memory to be sorted: about 100 bytes each.

Prices that overlapping sources share, such as two downloads of one history, are kept once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.base.version import gpuplan_version
from gpuplan.analysis.job_table.gpu_names import is_known_gpu
from gpuplan.analysis.job_table.reject_limit import DEFAULT_LIMIT, Limit
from gpuplan.analysis.log_formats.registry import formats
from gpuplan.analysis.price_formats.canonical import COLUMNS
from gpuplan.analysis.price_formats.format import (
    PriceChoices,
    PriceFormat,
    PricePlan,
    PriceSourceContext,
    Skip,
)
from gpuplan.analysis.price_formats.registry import price_format_named, price_formats
from gpuplan.analysis.price_formats.schema import (
    METADATA_KEY,
    PRICE,
    SERIES,
    ZONE,
    PriceProvenance,
    PriceSource,
)
from gpuplan.analysis.reading.batch import Batch
from gpuplan.analysis.reading.detect import guesses, left_out_notes, look_early
from gpuplan.analysis.reading.inputs import opened_inputs, share_of_bytes
from gpuplan.analysis.reading.outcome import apply
from gpuplan.analysis.reading.rejects import RejectLog, rejects_path
from gpuplan.analysis.reading.source import Head, Source, SourceStream
from gpuplan.analysis.reading.unreadable import header_error, odd_text
from gpuplan.analysis.storage.files import atomic_output
from gpuplan.analysis.storage.parquet import write_parquet


def unknown_prices(head: Head) -> InputError:
    """Return the error for a file that no format recognizes: a job log, odd text or any other."""
    for log in formats():
        if (sign := log.recognizes(head)) is not None:
            return InputError(
                head.path,
                f"is a job log ({log.name}: {sign}); it has no prices",
                expected="a price list",
                hint=f"gpuplan ingest {head.path} -o trace.parquet",
            )
    columns = {"canonical": (*COLUMNS, PRICE)}
    return (
        odd_text(head)
        or header_error(head, columns)
        or InputError(
            head.path,
            f"unrecognized price format; it starts with {head.shown()}",
            expected=f"one of {_names()}",
            hint="force a format with --source-format NAME, or write a table with the columns "
            "timestamp,provider,gpu_type,region,kind,price_usd_per_gpu_hour,available",
        )
    )


def _names() -> str:
    return ", ".join(price_format.name for price_format in price_formats())


SOURCE_NUMBER = "source_number"
NEAR_USD = 1.5e-6
"""Tables derived from a history round its prices to a millionth, and its times to the second."""


def without_repeats(prices: pl.DataFrame) -> pl.DataFrame:
    """Return prices without those that an earlier source has too, in the same order.

    Prices are the same if zone, second, price, availability and instance type are equal; the last
    two are ignored if one lacks them, as derived tables do. Of such prices the one with an
    availability stays. Equal prices within one source are several offers: their number is that of
    the source with the most. Rows without a price are compared the same way.

    Args:
        prices: canonical columns and `SOURCE_NUMBER`, in order of the sources.
    """
    number = pl.col(SOURCE_NUMBER)
    if prices[SOURCE_NUMBER].n_unique() < 2:
        return prices
    moment = ("series", "second")
    names = (pl.col(name).cast(pl.String).fill_null("") for name in ZONE)
    series = pl.concat_str(*names, separator="\0").cast(pl.Categorical).to_physical()
    second = pl.col("timestamp").dt.epoch("s").alias("second")
    usd = pl.col(PRICE)
    is_priced = usd.is_not_null() | usd.shift().is_not_null()
    is_new_price = (usd.diff() > NEAR_USD).fill_null(is_priced)
    levels = (
        prices.select(series.alias("series"), second, PRICE, "available", "instance", SOURCE_NUMBER)
        .with_row_index("at")
        .sort(*moment, PRICE, "at")
        .with_columns((_is_new(moment) | is_new_price).cum_sum().alias("level"))
    )
    shared = (
        levels.group_by("level")
        .agg(
            (number.min() < number.max()).alias("is_shared"),
            pl.col("available", "instance").is_not_null().all().name.prefix("told_"),
        )
        .filter("is_shared")
    )
    recorded = ("available", "instance")
    offer = ("level", *(f"compared_{name}" for name in recorded))
    row = pl.int_range(pl.len())
    first_row = pl.when(_is_new((*offer, SOURCE_NUMBER))).then(row).forward_fill()
    repeats = (
        levels.join(shared, on="level")
        .with_columns(
            pl.when(f"told_{name}").then(name).alias(f"compared_{name}") for name in recorded
        )
        .sort(*offer, SOURCE_NUMBER, pl.col("available").is_null(), "at")
        .with_columns((row - first_row).alias("nth"))
        .sort(*offer, "nth", pl.col("available").is_null(), "at")
        .filter(~_is_new((*offer, "nth")))
    )
    return prices.filter(~row.is_in(repeats["at"].implode()))


def _is_new(names: tuple[str, ...]) -> pl.Expr:
    """Return where a row differs from the one before it; the first row does."""
    differs = (pl.col(name).ne_missing(pl.col(name).shift()) for name in names)
    return pl.any_horizontal(pl.int_range(pl.len()) == 0, *differs)


MAX_WORDS_LISTED = 5
ORDER = ("timestamp", "provider", "gpu_type", "kind", "region", "instance")
REPEATED = "prices that another source has too"


@dataclass(frozen=True, slots=True)
class ReadPrices:
    """One input of a price table.

    Attributes:
        path: the file.
        source_format: format it was read in.
        sampling: ``snapshot``, ``change`` or ``mixed``.
        rows: prices found in it.
    """

    path: str
    source_format: str
    sampling: str
    rows: int


@dataclass(frozen=True, slots=True)
class PriceAccount:
    """What became of the rows of price lists; read = kept + skipped + rejected.

    Attributes:
        rows_read: rows found.
        rows_kept: rows in the table.
        rows_skipped: rows that are not prices.
        rows_rejected: rows that cannot be used.
        rows_without_price: rows of availability alone.
        skipped_by_reason: skipped rows by reason.
        rejected_by_reason: rejected rows by reason.
        first_time: instant of the first price.
        last_time: instant of the last price.
        sources: the inputs.
        output: the table.
        rejects_file: the rejected rows; null where there are none.
        notes: what a reader of the table should know.
        prices: the table, sorted by time.
        provenance: facts stored with it: sources, counts, notes.
    """

    rows_read: int
    rows_kept: int
    rows_skipped: int
    rows_rejected: int
    rows_without_price: int
    skipped_by_reason: dict[str, int]
    rejected_by_reason: dict[str, int]
    first_time: datetime
    last_time: datetime
    sources: tuple[ReadPrices, ...]
    output: Path
    rejects_file: Path | None
    notes: tuple[str, ...]
    prices: Hidden[pl.DataFrame]
    provenance: Hidden[PriceProvenance]


def ingest_prices(
    sources: Sequence[Path],
    output: Path,
    *,
    source_format: str | None = None,
    choices: PriceChoices | None = None,
    limit: Limit = DEFAULT_LIMIT,
    on_progress: Callable[[float], None] | None = None,
    on_read: Callable[[pl.DataFrame, PriceProvenance], None] | None = None,
) -> PriceAccount:
    """Write the prices of some lists and histories, of one format or several, to a Parquet file.

    Rejected rows go to ``<output>.rejects.parquet``; both files appear whole or not at all. Where
    too many rows are rejected only theirs does.

    Args:
        sources: files, plain or compressed with gzip or zstd, zip archives and folders of them,
            or ``-`` for standard input.
        output: the table; its name ends in ``.parquet``.
        source_format: name of the format of all; None detects that of each.
        choices: the user's options about facts missing in the sources.
        limit: how many rows may be rejected.
        on_progress: called with the share of the bytes read, 0 to 1.
        on_read: called with the prices before anything is written; if it raises, nothing is.

    Raises:
        InputError: a source cannot be used, or more rows than allowed are rejected.
        OutputError: the table cannot be written.
        UsageError: the options do not fit together.
    """
    forced = None if source_format is None else price_format_named(source_format)
    rejects = rejects_path(output)
    recorded = choices or PriceChoices()

    def planned(price_format: PriceFormat, stream: SourceStream) -> None:
        head = Head(stream.path, stream.head)
        price_format.plan(PriceSourceContext(head, price_format.open(stream).columns, recorded))

    def look(source: Source) -> bool:
        return look_early(source, price_formats(), unknown_prices, forced, planned)

    with opened_inputs(sources, output, look) as inputs:
        log = RejectLog(rejects, inputs.spool, limit, command="gpuplan prices")
        reading = _Reading(recorded, log)
        lists, left_out = guesses(inputs, price_formats(), unknown_prices, forced)
        advance = share_of_bytes([price_list.source for price_list in lists], on_progress)
        reading.notes += left_out_notes(left_out)
        for price_list in lists:
            reading.take(price_list.source, price_list.format, advance)
        prices = reading.prices(lists[0].source.path)
        provenance = reading.provenance()
        if on_read is not None:
            on_read(prices, provenance)
        with atomic_output(output) as table:
            write_parquet(prices, table, {METADATA_KEY: provenance.to_json()})
            log.write()
    times = prices["timestamp"]
    return PriceAccount(
        rows_read=provenance.rows_read,
        rows_kept=provenance.rows_kept,
        rows_skipped=sum(provenance.rows_skipped.values()),
        rows_rejected=sum(provenance.rows_rejected.values()),
        rows_without_price=prices[PRICE].null_count(),
        skipped_by_reason=provenance.rows_skipped,
        rejected_by_reason=provenance.rows_rejected,
        first_time=times[0],
        last_time=times[-1],
        sources=tuple(
            ReadPrices(source.name, source.source_format, source.sampling, source.rows)
            for source in provenance.sources
        ),
        output=output,
        rejects_file=rejects if len(log) else None,
        notes=tuple(provenance.notes),
        prices=prices,
        provenance=provenance,
    )


@dataclass(slots=True)
class _Reading:
    """The prices read so far."""

    choices: PriceChoices
    log: RejectLog
    kept: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    skipped_words: dict[str, Counter[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    files: list[PriceSource] = field(default_factory=list)
    frames: list[pl.DataFrame] = field(default_factory=list)
    changing: list[pl.DataFrame] = field(default_factory=list)

    @property
    def usable(self) -> int:
        return self.kept + len(self.log)

    def take(
        self, source: Source, price_format: PriceFormat, advance: Callable[[int], None] | None
    ) -> None:
        """Read one source to its end."""
        before, changes, path = self.kept, 0, source.path
        with closing(SourceStream(source, advance)) as stream:
            data = stream.head
            rows = price_format.open(stream)
            head = Head(path, data, stream.file)
            plan = price_format.plan(PriceSourceContext(head, rows.columns, self.choices))
            is_change = plan.changes
            if self.choices.sampling is not None:
                is_change = pl.lit(self.choices.sampling == "change")
            for task in rows.batches(_wanted(plan)):
                outcome = apply(plan.plan, self._without_skipped(task(), plan.skips))
                self.kept += outcome.jobs.height
                self.log.add(path, outcome.refused, self.usable + len(outcome.refused))
                number = pl.lit(len(self.files), pl.UInt32).alias(SOURCE_NUMBER)
                self.frames.append(outcome.jobs.with_columns(number))
                changing = outcome.jobs.filter(is_change)
                changes += changing.height
                self.changing.append(changing.select(SERIES).unique())
            digest = stream.sha256()
        self.notes += plan.plan.notes
        rows_kept = self.kept - before
        sampling = "mixed" if 0 < changes < rows_kept else "change" if changes else "snapshot"
        self.files.append(PriceSource(str(path), digest, price_format.name, sampling, rows_kept))

    def prices(self, first: Path) -> pl.DataFrame:
        """Return all prices in order of time, each once. Raises `InputError` for none."""
        self.log.check(self.usable)
        if self.kept == 0:
            left_out = "; ".join(f"{n:,} {reason}" for reason, n in self.skipped.items())
            problem = f"has no usable price ({left_out})" if left_out else "has no prices"
            hint = (
                "give a file with prices or counts of GPUs; what is read of each format stands in "
                "docs/formats/prices.md"
                if left_out
                else "fetch it again, for a time and a GPU of which there are prices"
            )
            raise InputError(first, problem, expected="at least one price of a GPU", hint=hint)
        prices = without_repeats(pl.concat(self.frames))
        if repeated := self.kept - prices.height:
            self.kept = prices.height
            self.skipped[REPEATED] = repeated
        self.frames = [prices.drop(SOURCE_NUMBER).sort(ORDER, maintain_order=True)]
        return self.frames[0]

    def provenance(self) -> PriceProvenance:
        """Return the counts of rows read."""
        changing = pl.concat(self.changing).unique().sort(SERIES)
        return PriceProvenance(
            sources=tuple(self.files),
            rows_read=self.usable + self.skipped.total(),
            rows_kept=self.kept,
            rows_skipped=dict(sorted(self.skipped.items())),
            rows_rejected=dict(sorted(self.log.by_reason.items())),
            change_series=tuple(changing.rows()),
            notes=tuple(self._notes()),
            gpuplan_version=gpuplan_version(),
        )

    def _without_skipped(self, batch: Batch, skips: Sequence[Skip]) -> Batch:
        """Return the batch without rows that do not belong here, which are counted."""
        kept, positions = batch.cells, None
        for skip in skips:
            drop = kept.select(skip.skipped.fill_null(False).alias("drop")).to_series()
            if not drop.any():
                continue
            self.skipped[skip.reason] += int(drop.sum())
            if skip.source is not None:
                words = kept[skip.source].filter(drop).fill_null("nothing").to_list()
                self.skipped_words.setdefault(skip.reason, Counter()).update(words)
            at = (~drop).arg_true()
            kept, positions = kept.filter(~drop), at if positions is None else positions.gather(at)
        if positions is None:
            return batch
        left = positions
        return Batch(kept, lambda at: batch.raw(left.gather(list(at)).to_list()), batch.refused)

    def _notes(self) -> Iterator[str]:
        yield from dict.fromkeys(self.notes)
        for reason, n in sorted(self.skipped.items()):
            words = self.skipped_words.get(reason)
            yield f"left out, {reason}{_most_common(words) if words else ''}: {n:,}"
        unknown: Counter[str] = Counter()
        for frame in self.frames:
            counted = frame["gpu_type"].value_counts()
            unknown.update({gpu: n for gpu, n in counted.rows() if not is_known_gpu(gpu)})
        if unknown:
            yield (
                f"prices whose GPU is not in the table of names, kept as they are"
                f"{_most_common(unknown)}: "
                f"{unknown.total():,}"
            )


def _wanted(plan: PricePlan) -> list[str]:
    """Return the source columns that a plan reads, each once."""
    skipping = [name for skip in plan.skips for name in skip.skipped.meta.root_names()]
    return list(dict.fromkeys([*plan.plan.sources(), *skipping]))


def _most_common(words: Counter[str]) -> str:
    most = sorted(words.items(), key=lambda item: (-item[1], item[0]))[:MAX_WORDS_LISTED]
    more = ", ..." if len(words) > MAX_WORDS_LISTED else ""
    return f" ({', '.join(word for word, _ in most)}{more})"
