"""Fairness of policies in rounds on one GPU type or several, and what it costs in speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from gpuplan.cli.formats.report import Column, StudyView, table
from gpuplan.cli.formats.units import show_number, show_share

Row = Mapping[str, Any]
SHARE = "an equal share of the cluster"
ALIKE = 0.05
"""Mean JCTs and fairness within this share of each other are no difference."""

FAIRNESS = {
    "mean_jct_s": "mean JCT",
    "ftf_mean": "fairness, mean",
    "ftf_max": "worst",
    "ftf_below_one_share": "better than share",
    "starvation_mean_s": "first start, mean",
    "starvation_max_s": "latest",
}
MOVES = {
    "switches": "switches",
    "migrations": "changes of type",
    "upward_share": "to a faster one",
    "lost_gpu_h": "GPU-hours lost",
    "productive_share": "productive",
}


def with_fairness(view: StudyView, rows: Sequence[Row]) -> StudyView:
    """Return a view that shows fairness too, where any policy measured it.

    Args:
        view: of a replay.
        rows: results of its policies, with ``label``.
    """
    measured = [row for row in rows if "ftf_mean" in row]
    if not measured:
        return view
    label = Column("label", "policy", lambda text: text.replace(",", ", "))
    types = list(dict.fromkeys(name for row in measured for name in row["utilization_by_type"]))
    fair = table(
        "Finish-time fairness: completion time over that on a 1/N share of the cluster",
        measured,
        label,
        FAIRNESS,
    )
    moves = table("Switches, and GPU time without progress", measured, label, MOVES)
    used = table(
        "GPUs held, by type",
        measured,
        label,
        *(
            Column(f"held_{name}", name, show_share, partial(_held, gpu_type=name))
            for name in types
        ),
    )
    extra = (fair, moves, used) if len(types) > 1 else (fair, moves)
    shown = (*view.answer[:1], fair) if view.answer else (fair,)
    return replace(
        view,
        headline=" ".join(text for text in (view.headline, _trade(measured)) if text),
        tables=(*view.tables, *extra),
        answer=shown,
    )


def _trade(rows: Sequence[Row]) -> str:
    """Return what fairness costs in speed, or that it costs nothing."""
    if len(rows) == 1:
        share = show_share(rows[0]["ftf_below_one_share"])
        return f"{share} of jobs end sooner than on {SHARE}."
    quick = min(rows, key=lambda row: float(row["mean_jct_s"]))
    fair = min(rows, key=lambda row: float(row["ftf_mean"]))
    as_good = [row for row in rows if _is_near(row, quick, "mean_jct_s")]
    as_good = [row for row in as_good if _is_near(row, fair, "ftf_mean")]
    if len(as_good) == len(rows):
        return f"All are about as fast and as fair (within {ALIKE:.0%}): {_times(fair)}."
    plain = next((row for row in as_good if row["label"].partition(":")[0] == "srtf"), None)
    if plain is not None:
        return (
            f"None is faster or fairer than plain {plain['label']} by more than {ALIKE:.0%}: "
            f"{_times(plain)}."
        )
    if quick in as_good:
        return f"{quick['label']} is also the fairest (within {ALIKE:.0%}): {_times(quick)}."
    more = fair["mean_jct_s"] / quick["mean_jct_s"] - 1
    slower = "as fast" if more <= ALIKE else f"{more:.0%} slower"
    return (
        f"{fair['label']} is the fairest and {slower}: {_times(fair)}, and "
        f"{_change(quick)[0]} under {quick['label']}."
    )


def _is_near(row: Row, best: Row, key: str) -> bool:
    return bool(row[key] <= best[key] * (1 + ALIKE))


def _times(row: Row) -> str:
    return f"on average a job takes {' '.join(_change(row))} on {SHARE}"


def _change(row: Row) -> tuple[str, str]:
    times = float(row["ftf_mean"])
    if abs(times - 1) < 0.005:
        return "about as long", "as"
    if times >= 2:
        return f"{show_number(times)} times as long", "as"
    return f"{abs(times - 1):.0%} {'less' if times < 1 else 'more'} time", "than"


def _held(row: Row, gpu_type: str) -> float | None:
    share: float | None = row["utilization_by_type"].get(gpu_type)
    return share
