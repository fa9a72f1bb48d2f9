"""The identity of the rows of a list, to find a row again in another result.

Rows are named by what was requested or what they are about (a policy, a threshold, a class),
never by their position, and by a computed value only if nothing else works.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

DRAWN = ("duration_cdf", "lorenz", "timeline", "hill", "uses")
"""Lists of points of a curve, or of entries that other lists add up, anywhere in the results."""

ROW_KEYS: tuple[tuple[str, ...], ...] = (
    ("label",),
    ("requested",),
    ("policy", "threshold_s", "capacity", "price_ratio"),
    ("job_class", "epoch", "gpu_type"),
    ("job_class", "epoch", "gpu_type", "width"),
    ("job_class", "epoch", "gpu_type", "width_rank"),
    ("baseline", "knob"),
    ("baseline", "knob_rank"),
    ("budget_gpus",),
    ("budget_x_load",),
    ("budget_usd_per_h",),
    ("target_jct_s",),
    ("price_ratio", "value_of_time_usd_per_h"),
    ("wanted_gpu", "provider", "gpu_type", "kind"),
    ("provider", "gpu_type", "kind"),
    ("num_gpus",),
    ("times",),
    ("state",),
    ("name",),
    ("path",),
    ("statistic",),
    ("target_scv",),
    ("start",),
    ("months_ahead",),
    ("hour",),
    ("gpu_type",),
    ("gpu_type", "gpus"),
    ("gpus",),
)
"""Names that identify the rows of a list; the first one that most rows have is used."""

COMPUTED = ("price_ratio",)
"""Names whose value follows from prices unless several were requested.

They tell rows apart only where they differ within one list.
"""

FOUND = ("width",)
"""Names of results, which tell rows apart in one document but find no row again in another."""

RANK = "_rank"
"""Suffix of a name for a rank: ``width_rank`` 1 is the narrowest of a class."""

KEY_NAMES = tuple(dict.fromkeys(name for names in ROW_KEYS for name in names))

Layout = Mapping[str, tuple[str, ...]]
"""Path of a list -> the names that identify its rows; empty if none do."""


def text_of(value: Any) -> str:
    """Return a value of a key as text; two that differ in the seventh digit are the same."""
    if value is None:
        return "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def layout_of(*documents: Any) -> dict[str, tuple[str, ...]]:
    """Return how to identify the rows of each list, in the same way for all documents."""
    by_path: dict[str, list[list[list[Any]]]] = {}  # path -> of each document, its lists there
    for position, document in enumerate(documents):
        for path, rows in _lists(document, ""):
            by_path.setdefault(path, [[] for _ in documents])[position].append(rows)
    return {path: _key(lists) for path, lists in by_path.items()}


def _lists(value: Any, path: str) -> Iterator[tuple[str, list[Any]]]:
    if isinstance(value, dict):
        for name, item in named_items(value, path):
            yield from _lists(item, name)
    elif isinstance(value, list | tuple):
        rows = [item for item in value if isinstance(item, dict)]
        if rows:
            yield path, rows
        for row in rows:
            yield from _lists(row, path)


def _key(documents: list[list[list[Any]]]) -> tuple[str, ...]:
    """Return the names that identify rows in every list and match most between documents."""
    lists = [rows for document in documents for rows in document]
    rows = [row for part in lists for row in part]
    best: tuple[str, ...] = ()
    most = -1
    for names in (*ROW_KEYS, *_texts(rows)):
        present = tuple(name for name in names if any(name in row for row in rows))
        ranked = tuple(name for name in names if _ranked(name) in rows[0])
        is_found = len(documents) > 1 and any(name in FOUND for name in present)
        if (*present, *ranked)[:1] != names[:1] or is_found:
            continue
        kept = {*present, *ranked}
        kept -= {name for name in COMPUTED if not _differs(name, lists)}
        key = tuple(name for name in names if name in kept)
        seen = [[_texts_of(part, key) for part in document] for document in documents]
        if any(len(set(texts)) < len(texts) for document in seen for texts in document):
            continue
        common = len(
            set.intersection(*({k for texts in document for k in texts} for document in seen))
        )
        if common > most:
            best, most = key, common
    keys = [dict(key) for part in lists for key in keys_of(part, best)]
    varying = tuple(name for name in best if len({text_of(key[name]) for key in keys}) > 1)
    return varying or best[:1]


def _texts(rows: list[Any]) -> Iterator[tuple[str, ...]]:
    """Yield growing sets of names of texts: the subject of a row comes before its results."""
    texts = [name for name in rows[0] if all(isinstance(row.get(name), str) for row in rows)]
    return (tuple(texts[:end]) for end in range(1, len(texts) + 1))


def _differs(name: str, lists: Iterable[list[Any]]) -> bool:
    return any(len({text_of(row.get(name)) for row in rows}) > 1 for rows in lists)


def _ranked(name: str) -> str:
    """Return the name that a rank is of; empty for other names."""
    return name.removesuffix(RANK) if name.endswith(RANK) else ""


def _texts_of(rows: list[Any], names: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(text_of(value) for _, value in key) for key in keys_of(rows, names)]


def keys_of(rows: list[Any], names: Sequence[str]) -> list[tuple[tuple[str, Any], ...]]:
    """Return the key of each row of one list. Ranks are among rows that are otherwise equal."""
    plain = [[(name, row.get(name)) for name in names] for row in rows]
    for place, name in enumerate(names):
        if not (of := _ranked(name)):
            continue
        groups: dict[tuple[str, ...], list[int]] = {}
        for position, key in enumerate(plain):
            other_values = tuple(text_of(value) for other, value in key if other != name)
            groups.setdefault(other_values, []).append(position)
        for group in groups.values():
            ordered = sorted((_order(rows[position].get(of)), position) for position in group)
            for rank, (_, position) in enumerate(ordered, 1):
                plain[position][place] = (name, rank)
    return [tuple(key) for key in plain]


def _order(value: Any) -> tuple[bool, float]:
    is_number = isinstance(value, int | float)
    return not is_number, value if is_number else 0.0


def named_items(group: dict[Any, Any], path: str) -> Iterator[tuple[str, Any]]:
    """Yield the items of a group of results with their paths; curves are left out."""
    for name, item in group.items():
        if name not in DRAWN or isinstance(item, dict):  # a study may be named as a curve is
            yield f"{path}.{name}" if path else str(name), item
