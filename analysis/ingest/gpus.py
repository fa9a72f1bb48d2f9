"""One name per GPU model, whatever a log or a driver calls it."""

from __future__ import annotations

import re

import polars as pl

MAKERS = re.compile(r"\b(nvidia|tesla|geforce|quadro|amd|instinct|corporation)\b[ -]*", re.I)
FORM = re.compile(r"[-_ ](sxm\d?|pcie?|nvl|oam|hbm\d?e?)\b", re.I)
MEMORY = re.compile(r"[-_ ]?(\d+) ?(?:gb|gib|g)\b", re.I)


def gpu_name(written: str) -> str:
    """Return a normalized model name: ``NVIDIA A100-SXM4-80GB`` gives ``A100-80GB``.

    Maker and board form go, memory stays as it tells variants apart; other names only get
    their spaces replaced.
    """
    name = MAKERS.sub("", written.strip())
    memory = MEMORY.search(name)
    if memory:
        name = name[: memory.start()] + name[memory.end() :]
    name = re.sub(r"[ _]+", "-", FORM.sub("", name).strip(" -_"))
    if not name:
        return written.strip()
    name = name.upper() if re.fullmatch(r"[A-Za-z]{1,3}\d+[A-Za-z]?", name) else name
    return f"{name}-{memory[1]}GB" if memory else name


def gpu_names(source: str) -> pl.Expr:
    """Return the normalized names of a text column; each distinct one is worked out once."""

    def name_each(cells: pl.Series) -> pl.Series:
        written = cells.drop_nulls().unique(maintain_order=True).to_list()
        table = {word: gpu_name(word) for word in written}
        return cells.replace_strict(table, default=None, return_dtype=pl.String)

    return pl.col(source).map_batches(name_each, return_dtype=pl.String)
