"""The files beside a trace that a replay reads: prices, checkpoints, rates on GPU types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuplan.analysis.prices.catalogue import BUILT_IN
from gpuplan.analysis.prices.price_table import PriceTable, read_prices
from gpuplan.analysis.storage.files import sha256_of
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.analysis.user_tables.checkpoints import read_checkpoints
from gpuplan.planner.runs.throughputs import load_throughputs


@dataclass(frozen=True, slots=True)
class ReplayFiles:
    """What the files beside the trace say.

    Attributes:
        inputs: the files.
        prices: None for the built-in list, or where no prices were asked for.
        overheads: seconds to save and to load a job by class; None without a table of them.
    """

    inputs: tuple[InputFile, ...]
    prices: PriceTable | None
    overheads: Mapping[str, tuple[float, float]] | None


def read_replay_files(
    prices: str | None, checkpoints: Path | None, throughputs: str | None
) -> ReplayFiles:
    """Read what is given of them. Raises `InputError` where a file cannot be used."""
    inputs: tuple[InputFile, ...] = ()
    price_table = overheads = None
    if checkpoints is not None:
        overheads = read_checkpoints(checkpoints)
        inputs = (InputFile(str(checkpoints), sha256_of(checkpoints), len(overheads)),)
    if prices is not None and prices != BUILT_IN:
        price_table = read_prices(Path(prices))
        inputs = (*inputs, price_table.input)
    if throughputs is not None:
        inputs = (*inputs, *load_throughputs(throughputs).inputs())
    return ReplayFiles(inputs, price_table, overheads)
