"""One name per GPU model for all spellings of logs, drivers and price lists: `MODELS`.

A name is the model, with its memory if the model is sold with several: ``A100-80GB``, ``L4``. The
maker and the board form (SXM, PCIe, NVL) are left out: job logs rarely record the form, so that
prices of any form must match. Unknown memory stays unknown: ``A100`` stays ``A100`` and matches
both sizes (see `same_gpu`). A name that is not in the table does not change. Names that a user
gives meet those of a log in `match_types`, whatever they are for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from gpuplan.analysis.base.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

MODELS: dict[str, tuple[int, ...]] = {
    # data centres, by generation
    **{"B300": (288,), "B200": (192,), "GB300": (288,), "GB200": (192,), "GH200": (96, 144)},
    **{"H200": (141,), "H100": (80, 94, 96), "H800": (80,), "H20": (96, 141)},
    **{"A100": (40, 80), "A800": (40, 80), "A40": (48,), "A30": (24,), "A16": (16,), "A10": (24,)},
    **{"A10G": (24,), "A10M": (24,), "A2": (16,)},
    **{"L40S": (48,), "L40": (48,), "L20": (48,), "L4": (24,), "L2": (24,)},
    **{"V100": (16, 32), "V100S": (32,), "T4": (16,), "T4G": (16,)},
    **{"P100": (12, 16), "P40": (24,), "P4": (8,)},
    **{"M60": (8,), "M40": (12, 24), "M2050": (3,)},
    **{"K80": (12,), "K40": (12,), "K20": (5,), "K520": (4,)},
    **{"MI355X": (288,), "MI325X": (256,), "MI300X": (192,), "MI300A": (128,), "MI250X": (128,)},
    **{"MI250": (128,), "MI210": (64,), "MI100": (32,), "MI60": (32,), "MI50": (16, 32)},
    # workstations
    **{"RTXPRO6000": (96,), "RTX6000Ada": (48,), "RTX5000Ada": (32,), "RTX4000Ada": (20,)},
    **{"RTX4500Ada": (24,), "RTX2000Ada": (16,)},
    **{"RTXA6000": (48,), "RTXA5500": (24,), "RTXA5000": (24,), "RTXA4500": (20,)},
    **{"RTXA4000": (16,), "RTXA2000": (6, 12)},
    **{"RTX8000": (48,), "RTX6000": (24,), "RTX5000": (16,), "RTX4000": (8,)},
    # consumers
    **{"RTX5090": (32,), "RTX5080": (16,), "RTX5070Ti": (16,), "RTX5070": (12,)},
    **{"RTX5060Ti": (8, 16), "RTX5060": (8,)},
    **{"RTX4090": (24,), "RTX4090D": (24,), "RTX4080": (16,), "RTX4080Super": (16,)},
    **{"RTX4070": (12,), "RTX4070Ti": (12,), "RTX4070Super": (12,), "RTX4070TiSuper": (16,)},
    **{"RTX4060": (8,), "RTX4060Ti": (8, 16)},
    **{"RTX3090": (24,), "RTX3090Ti": (24,), "RTX3080": (10, 12), "RTX3080Ti": (12,)},
    **{"RTX3070": (8,), "RTX3070Ti": (8,), "RTX3060": (8, 12), "RTX3060Ti": (8,)},
    **{"RTX2080Ti": (11,), "RTX2080": (8,), "RTX2080Super": (8,), "RTX2070": (8,)},
    **{"RTX2070Super": (8,), "RTX2060": (6, 12), "RTX2060Super": (8,)},
    **{"GTX1080Ti": (11,), "GTX1080": (8,), "GTX1070": (8,), "GTX1070Ti": (8,)},
    **{"GTX1060": (3, 6), "GTXTitanX": (12,)},
    **{"TitanRTX": (24,), "TitanV": (12,), "TitanXp": (12,), "TitanX": (12,)},
}
"""Model -> memory per GPU, in GB, of the variants sold; the name says which of several."""

UNNAMED = "unknown"
"""The type of jobs that name none, where types are listed."""
SEPARATORS = re.compile(r"[-_ /().]+")
NOISE = re.compile(
    r"\b(nvidia|tesla|geforce|quadro|amd|instinct|radeon|corporation|gpu|generation)\b"
    r"|(?<= )(sxm\d?|pcie?|nvl(?:ink)?|oam|hgx|dgx|hbm\d?e?|ws|s|mega)\b"
    r"|(?<= )blackwell(?:( max q)? workstation| server)?(?: edition)?\b",
    re.I,
)
ALIASES = {"GH200480GB": ("GH200", 96)}
"""Names with another number than the memory of the GPU: GH200 480GB has the memory of its CPU."""
GLUED_FORM = r"(?:SXM\d?|PCIE?|NVL)?"
MEMORY = r"(?:M?([1-9]\d{0,2})(?:GB|GIB|G)?)?"
MOST_MEMORY_GB = 10_000
NEAR = 0.15
"""Relative tolerance of a variant's memory: 80 GB are also reported as 79 or 81.6."""


def gpu_name(written: str, memory_gb: float | None = None) -> str:
    """Return the name of a GPU: ``NVIDIA A100-SXM4-80GB`` and ``a100-80`` give ``A100-80GB``.

    Args:
        written: the name in the source.
        memory_gb: memory per GPU from another column, used if the name has none; impossible sizes
            are ignored.
    """
    found = _model_and_memory(written)
    if found is None:
        return written.strip()
    model, recorded = found
    memory = recorded if recorded is not None else memory_gb
    if memory is None or not 1 <= memory <= MOST_MEMORY_GB:
        return model
    sold = MODELS[model]
    nearest = min(sold, key=lambda size: abs(size - memory))
    if abs(nearest - memory) > NEAR * nearest:
        return f"{model}-{memory:.0f}GB"  # a rare variant
    return model if len(sold) == 1 else f"{model}-{nearest}GB"


def is_known_gpu(written: str) -> bool:
    """Return whether the table has this GPU."""
    return _model_and_memory(written) is not None


def same_gpu(wanted: str, offered: str) -> bool:
    """Return whether an offered GPU can be the wanted one; unknown memory matches any."""
    wanted, offered = gpu_name(wanted), gpu_name(offered)
    if wanted == offered:
        return True
    one, other = _model_and_memory(wanted), _model_and_memory(offered)
    if one is None or other is None:
        return False
    return one[0] == other[0] and (one[1] is None or other[1] is None)


def match_types(
    names: Iterable[str], log_types: Iterable[str | None], option: str, *, apart: bool = False
) -> dict[str | None, str | None]:
    """Return, for each GPU type of a log, the name that means it; None where no name does.

    The same text wins over another spelling of the same GPU, and that over unknown memory: the name
    ``A100`` means all variants of the log that have no name of their own, and the name
    ``A100-80GB`` means an ``A100`` of the log unless another variant may be meant too.

    Args:
        names: as a user or a table gives them.
        log_types: as the log has them; None stands for jobs that name none.
        option: what gave the names, for messages.
        apart: whether each name means one type only, as for GPUs in a cluster that the log's types
            do not share.

    Raises:
        UsageError: several names may mean a type; or, with ``apart``, a name means several types.
    """
    known = [name for name in dict.fromkeys(names) if name]
    found: dict[str | None, str | None] = {}
    for log_type in dict.fromkeys(log_types):
        own = [name for name in known if name == log_type]
        if log_type is not None and not own:
            alike = [name for name in known if same_gpu(name, log_type)]
            own = [name for name in alike if gpu_name(name) == gpu_name(log_type)] or alike
        if len(own) > 1:
            raise UsageError(
                f"{option}: {log_type} of the log may be {' or '.join(own)}\n"
                f"  next: name {log_type} itself"
            )
        found[log_type] = own[0] if own else None
    for name in known if apart else ():
        means = [str(log_type) for log_type, own in found.items() if own == name]
        if len(means) > 1:
            raise UsageError(
                f"{option}: {name} is {' and '.join(means)} in the log\n  next: name each of them"
            )
    return found


def gpu_names(source: str | pl.Expr) -> pl.Expr:
    """Return the normalized names of a text column; each distinct one is computed once."""
    import polars as pl  # options import this file, and --help loads no polars

    column = pl.col(source) if isinstance(source, str) else source

    def name_each(cells: pl.Series) -> pl.Series:
        written = cells.drop_nulls().unique(maintain_order=True).to_list()
        table = {word: gpu_name(word) for word in written}
        return cells.replace_strict(table, default=None, return_dtype=pl.String)

    return column.map_batches(name_each, return_dtype=pl.String)


@cache
def _pattern() -> tuple[re.Pattern[str], dict[str, str]]:
    """Return a pattern for names without separators, and the model of each spelling."""
    ways = {model.upper(): model for model in MODELS}
    for model in MODELS:  # 4090, A6000: the family's letters are often left out
        short = re.sub(r"^(RTX|GTX)(?=A?\d{4})", "", model.upper())
        ways.setdefault(short, model)
    longest_first = sorted(ways, key=lambda way: (-len(way), way))
    return re.compile(f"({'|'.join(longest_first)}){GLUED_FORM}{MEMORY}"), ways


@cache
def _model_and_memory(written: str) -> tuple[str, int | None] | None:
    pattern, ways = _pattern()
    words = NOISE.sub("", SEPARATORS.sub(" ", written))
    joined = words.replace(" ", "").upper()
    if joined in ALIASES:
        return ALIASES[joined]
    match = pattern.fullmatch(joined)
    if match is None:
        return None
    return ways[match[1]], int(match[2]) if match[2] else None
