"""What policies that lend GPUs as spot make of high-priority and spot jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from gpuplan.analysis.base.words import joined
from gpuplan.cli.formats.report import Column, StudyView, Table, table, value_of
from gpuplan.cli.formats.units import show_duration, show_share, show_usd
from gpuplan.cli.tables.price_notes import ASSUMED

Row = Mapping[str, Any]
ALIKE = 0.02
"""Earnings within this share of the best are no difference."""
FAR, MINUTE_S = 2, 60
"""Spot jobs wait much longer under one policy than under another: this many times, and a minute."""
MOST_SAID = 3
"""Policies whose high-priority waits the headline has; of more it has the ends."""


def with_lending(
    view: StudyView, rows: Sequence[Row], settings: Iterable[Row], no_spot: Iterable[Row] = ()
) -> StudyView:
    """Return a view that leads with lending, where any policy does; else the view itself.

    Args:
        view: of a replay.
        rows: results of its policies, with ``label``.
        settings: of each policy.
        no_spot: results of high-priority jobs alone, with ``label``.
    """
    lending, settings = [row for row in rows if "spot" in row], tuple(settings)
    if not lending:
        return view
    is_assumed = all(row.get("spot_usd_per_gpu_h") is None for row in settings)
    alone = {row["label"]: row["hp"] for row in no_spot}
    lending = [{**row, "no_spot": alone[row["label"]]} if alone else row for row in lending]
    answer = _answer(lending, _queue(settings))
    tables = (answer, _classes(lending), _quota(lending), _demand(lending))
    notes = tuple(
        note for note in view.notes if not note.startswith(ASSUMED)
    )  # prices of rented GPUs say nothing of lending
    return replace(
        view,
        headline=_headline(lending, is_assumed=is_assumed),
        tables=(*tables, *view.tables),
        answer=(answer,),
        notes=notes,
    )


def _headline(rows: Sequence[Row], *, is_assumed: bool) -> str:
    texts = (
        _earning(rows, "an assumed " if is_assumed else ""),
        _waiting(rows),
        _spot_waiting(rows),
    )
    return " ".join(text for text in texts if text)


def _queue(settings: Iterable[Row]) -> str:
    """Return how all policies queue; empty where they differ."""
    kinds = {values.get("blocking") for values in settings} - {None}
    if kinds == {False}:
        return "; jobs pass one that does not fit"
    return "; a job that does not fit holds up those behind it" if kinds == {True} else ""


def _usd(value: float) -> str:
    return f"{show_usd(value)}/month"


def _earning(rows: Sequence[Row], assumed: str = "") -> str:
    """Return what lending earns; ``assumed`` stands before the price of a spot GPU-hour."""
    some = [row for row in rows if row["spot_runs"]]
    if not some:
        return (
            "No spot job starts." if any(row["spot"]["jobs"] for row in rows) else "No job is spot."
        )
    best = max(some, key=lambda row: float(row["benefit_usd_per_month"]))
    most = best["benefit_usd_per_month"]
    price = f"at {assumed}{show_usd(best['spot_usd_per_gpu_h'])} per spot GPU-hour"
    if len(some) == 1:
        return f"{best['label']} earns {_usd(most)} {price}, and {_kept(best)}."
    best_rows = [row for row in some if row["benefit_usd_per_month"] >= (1 - ALIKE) * most]
    safest = min(best_rows, key=lambda row: float(row["eviction_rate"]))
    if len(best_rows) == len(some) and all(
        row["evictions"] == some[0]["evictions"] for row in some
    ):
        return f"The scheduler hardly matters here: each earns about {_usd(most)} {price}."
    other_rows = [row for row in some if row is not safest]
    worst = max(other_rows, key=lambda row: float(row["eviction_rate"]))
    return (
        f"{safest['label']} earns {_usd(safest['benefit_usd_per_month'])} {price} and "
        f"{_kept(safest)}; {worst['label']} earns {_usd(worst['benefit_usd_per_month'])} and "
        f"{_kept(worst)}."
    )


def _kept(row: Row) -> str:
    return (
        f"keeps {show_share(row['guarantee_success_share'])} of its guarantees, evicting "
        f"{show_share(row['eviction_rate'])} of spot runs"
    )


def _waiting(rows: Sequence[Row]) -> str:
    """Return how long high-priority jobs wait, and what of it lending adds under each policy."""
    some = sorted(
        (row for row in rows if row["hp"]["mean_jqt_s"] is not None),
        key=lambda row: (_added_s(row) or 0.0, float(row["hp"]["mean_jqt_s"])),
    )
    if not some:
        return ""
    waits = [_seconds(row["hp"]["mean_jqt_s"]) for row in some]
    costs = [_cost(_added_s(row)) for row in some]
    if len({*zip(waits, costs, strict=True)}) == 1:
        return f"High-priority jobs wait on average {waits[0]}{costs[0]}."
    texts = [
        f"{wait} under {row['label']}{cost}"
        for row, wait, cost in zip(some, waits, costs, strict=True)
    ]
    shown = texts if len(texts) <= MOST_SAID else (texts[0], texts[-1])
    return f"High-priority jobs wait on average {joined(shown)}."


def _cost(added_s: float | None) -> str:
    if added_s is None:
        return ""
    sign = "-" if round(added_s, 1) < 0 else "+"
    return f" ({sign}{_seconds(abs(added_s))} from lending)"


def _added_s(row: Row) -> float | None:
    """Return what spot jobs add to the mean wait of high-priority jobs under the same policy."""
    alone = row.get("no_spot", {}).get("mean_jqt_s")
    return None if alone is None else float(row["hp"]["mean_jqt_s"] - alone)


def _spot_waiting(rows: Sequence[Row]) -> str:
    """Return how long spot jobs wait, where that differs much between policies."""
    waits = {
        row["label"]: float(row["spot"]["mean_jqt_s"])
        for row in rows
        if row["spot"]["mean_jqt_s"] is not None
    }
    least, most = (end(waits, key=waits.__getitem__, default="") for end in (min, max))
    if not waits or waits[most] < max(FAR * waits[least], MINUTE_S):
        return ""
    return (
        f"Spot jobs wait {_seconds(waits[least])} under {least}, {_seconds(waits[most])} under "
        f"{most}."
    )


def _seconds(value: float) -> str:
    return show_duration(round(value, 1))


LABEL = Column("label", "policy", lambda label: label.replace(",", ", "))


def _of(kind: str, **headers: str) -> Iterator[Column]:
    """Yield columns of one class of jobs, whose results are a group of each row."""
    for key, header in headers.items():
        yield Column(f"{kind}_{key}", header, read=partial(value_of, path=f"{kind}.{key}"))


def _answer(rows: Sequence[Row], queue: str) -> Table:
    alone = _of("no_spot", mean_jqt_s="HP wait, no spot") if "no_spot" in rows[0] else ()
    return table(
        f"High-priority (HP) and spot jobs, and what spot earns{queue}",
        rows,
        LABEL,
        *_of("hp", mean_jqt_s="HP wait"),
        *alone,
        *_of("hp", p99_jct_s="HP P99 JCT"),
        *_of("spot", mean_jqt_s="spot wait", mean_jct_s="spot JCT"),
        Column("eviction_rate", "evicted", show_share),
        {"guarantee_success_share": "kept", "wasted_gpu_h": "wasted GPU-h"},
        Column("allocation_rate", "in use", show_share),
        Column("benefit_usd_per_month", "$/month", show_usd),
    )


def _classes(rows: Sequence[Row]) -> Table:
    measures = {
        "unfinished": "unfinished",
        "mean_jct_s": "mean JCT",
        "p50_jct_s": "median",
        "p99_jqt_s": "P99 wait",
        "gpu_h": "GPU-h",
    }
    high, spot = _of("hp", jobs="HP jobs", **measures), _of("spot", jobs="spot jobs", **measures)
    return table("Both classes of jobs", rows, LABEL, *high, *spot)


def _quota(rows: Sequence[Row]) -> Table:
    return table(
        "Spot runs and the quota (eta: its factor)",
        rows,
        LABEL,
        {
            "spot_runs": "spot runs",
            "evictions": "evictions",
            "starving_jobs": "starving",
            "paying_spot_gpu_h": "paying GPU-h",
            "mean_eta": "mean eta",
            "eta_at_min_share": "at its minimum",
            "eta_at_max_share": "at its maximum",
        },
    )


def _demand(rows: Sequence[Row]) -> Table:
    return table(
        "Requested GPUs over those there are",
        {pool["pool"]: pool for row in rows for pool in row["demand"]}.values(),
        {"pool": "pool", "gpus": "GPUs"},
        Column("hp_demand_over_capacity", "HP requests", show_share),
        Column("spot_demand_over_capacity", "spot requests", show_share),
    )
