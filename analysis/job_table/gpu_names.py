"""One name per GPU model for all spellings of logs, drivers and price lists: `gpu_models`.

A name is the model, with its memory if the model is sold with several: ``A100-80GB``, ``L4``. The
maker and the board form (SXM, PCIe, NVL) are left out: job logs rarely record the form, so that
prices of any form must match. Unknown memory stays unknown: ``A100`` stays ``A100`` and matches
both sizes (see `same_gpu`). A name that is not in the table does not change. Names that a user
gives meet those of a log in `match_types`, whatever they are for.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpuplan.analysis.base.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

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


@cache
def gpu_models() -> dict[str, tuple[int, ...]]:
    """Return model -> memory per GPU, in GB, of the variants sold (``gpu_models.toml``)."""
    text = Path(__file__).with_name("gpu_models.toml").read_text(encoding="utf-8")
    groups = tomllib.loads(text).values()
    return {model: tuple(sizes) for group in groups for model, sizes in group.items()}


def gpu_name(written: str, memory_gb: float | None = None) -> str:
    """Return the name of a GPU: ``NVIDIA A100-SXM4-80GB`` and ``a100-80`` give ``A100-80GB``.

    Args:
        written: the name in the source.
        memory_gb: memory per GPU from another column, used if the name has none; impossible sizes
            are ignored.
    """
    match = _model_and_memory(written)
    if match is None:
        return written.strip()
    model, recorded = match
    memory = recorded if recorded is not None else memory_gb
    if memory is None or not 1 <= memory <= MOST_MEMORY_GB:
        return model
    sold = gpu_models()[model]
    nearest = min(sold, key=lambda size: abs(size - memory))
    if abs(nearest - memory) > NEAR * nearest:
        return f"{model}-{memory:.0f}GB"  # a rare variant
    return model if len(sold) == 1 else f"{model}-{nearest}GB"


def is_known_gpu(written: str) -> bool:
    """Return whether the table has this GPU."""
    return _model_and_memory(written) is not None


def gpu_memory_gb(written: str) -> float | None:
    """Return the memory of a GPU in GB, of its name or its only variant; None where unknown."""
    match = _model_and_memory(written)
    if match is None:
        return None
    model, recorded = match
    sold = gpu_models()[model]
    return float(recorded) if recorded is not None else float(sold[0]) if len(sold) == 1 else None


def same_gpu(wanted: str, offered: str) -> bool:
    """Return whether an offered GPU can be the wanted one; unknown memory matches any."""
    wanted, offered = gpu_name(wanted), gpu_name(offered)
    if wanted == offered:
        return True
    wanted_model, offered_model = _model_and_memory(wanted), _model_and_memory(offered)
    if wanted_model is None or offered_model is None:
        return False
    return wanted_model[0] == offered_model[0] and (
        wanted_model[1] is None or offered_model[1] is None
    )


def _kind(name: str) -> str:
    """Return what GPUs that can be the same share: the model, else the name."""
    written = gpu_name(name)
    match = _model_and_memory(written)
    return written if match is None else match[0]


def match_types(
    names: Iterable[str],
    log_types: Iterable[str | None],
    option: str,
    *,
    one_type_each: bool = False,
) -> dict[str | None, str | None]:
    """Return, for each GPU type of a log, the name that means it; None where no name does.

    The same text wins over another spelling of the same GPU, and that over unknown memory: the name
    ``A100`` means all variants of the log that have no name of their own, and the name
    ``A100-80GB`` means an ``A100`` of the log unless another variant may be meant too.

    Args:
        names: as a user or a table gives them.
        log_types: as the log has them; None stands for jobs that name none.
        option: what gave the names, for messages.
        one_type_each: whether each name means one type only, as for GPUs in a cluster that the
            log's types do not share.

    Raises:
        UsageError: several names may mean a type; or, with ``one_type_each``, a name means several
            types.
    """
    distinct = dict.fromkeys(name for name in names if name)
    alike: dict[str, list[str]] = {}
    for name in distinct:
        alike.setdefault(_kind(name), []).append(name)
    name_of: dict[str | None, str | None] = {}
    for log_type in dict.fromkeys(log_types):
        meant = [log_type] if log_type in distinct else []
        if log_type is not None and not meant:
            same_types = [n for n in alike.get(_kind(log_type), ()) if same_gpu(n, log_type)]
            meant = [
                name for name in same_types if gpu_name(name) == gpu_name(log_type)
            ] or same_types
        if len(meant) > 1:
            raise UsageError(
                f"{option}: {log_type} of the log may be {' or '.join(meant)}\n"
                f"  next: name {log_type} itself"
            )
        name_of[log_type] = meant[0] if meant else None
    means_of: dict[str | None, list[str]] = {}
    for log_type, means_it in name_of.items():
        means_of.setdefault(means_it, []).append(str(log_type))
    for name in distinct if one_type_each else ():
        means = means_of.get(name, [])
        if len(means) > 1:
            raise UsageError(
                f"{option}: {name} is {' and '.join(means)} in the log\n  next: name each of them"
            )
    return name_of


def name_in(name: str, names: Iterable[str], option: str, where: str) -> str:
    """Return the name under which a list has a GPU that a user names; else the user's.

    Args:
        name: of the user, such as ``A100`` for the ``A100-80GB`` of a price book.
        names: of the list; one that stands for several GPUs as ``A100`` means any of them.
        option: what gave the name, for messages.
        where: where the list stands, for messages.

    Raises:
        UsageError: the name may mean several names of the list.
    """
    distinct = dict.fromkeys(names)
    if name in distinct:
        return name
    same_types = [other for other in distinct if same_gpu(name, other)]
    exact = [other for other in same_types if gpu_name(other) == gpu_name(name)] or same_types
    if len(exact) > 1:
        raise UsageError(
            f"{option}: {name} may be {' or '.join(exact)} of {where}\n"
            f"  next: name the one that is meant, such as {exact[0]}"
        )
    return exact[0] if exact else name


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
    ways = {model.upper(): model for model in gpu_models()}
    for model in gpu_models():  # 4090, A6000: the family's letters are often left out
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
