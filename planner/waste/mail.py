"""A text to each user with idle GPUs, from a template. Nothing is sent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from string import Template
from urllib.parse import quote

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import OutputError
from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.characterize.clock import in_zone
from gpuplan.analysis.storage.temporary import folder_next_to
from gpuplan.analysis.waste.kinds import ALMOST_ALL, IDLE, IDLE_ENDS, PARTLY_IDLE
from gpuplan.planner.money.bill import NO_LABEL
from gpuplan.planner.waste.tally import DOING_NOTHING, WasteRow, WasteTable

LEAST_GPU_H = 1.0
"""Idle GPU-hours below which a user gets no text."""
MOST_JOBS = 10
LONGEST_NAME = 200
WHAT = {
    IDLE: "no GPU was ever used",
    IDLE_ENDS: "GPUs idled for over 2 h at the begin or the end",
    PARTLY_IDLE: "some GPUs were never used",
}
ADVICE = {
    IDLE: "- Cancel jobs that hang, and end notebooks and interactive jobs when you leave them.",
    IDLE_ENDS: "- Let jobs end when their work is done; prepare data before GPUs are requested.",
    PARTLY_IDLE: (
        "- Request as many GPUs as the program uses, or start a process on each of them and on "
        "every node."
    ),
}


def check_mail_folder(folder: Path) -> None:
    """Refuse a folder that texts cannot be written to. Raises `OutputError`."""
    if not folder.parent.is_dir():
        raise OutputError(f"{folder}: the folder {folder.parent} does not exist; create it first")
    if not os.access(folder.parent, os.W_OK):
        raise OutputError(f"{folder}: the folder {folder.parent} may not be written to")
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if os.path.lexists(folder):
        raise OutputError(f"{folder}: exists already; name a new folder for --mail")


def write_mail(
    folder: Path, table: WasteTable, users: tuple[WasteRow, ...], window_us: tuple[int, int],
    zone: str,
) -> int:  # fmt: skip
    """Write a text to each user with idle GPUs, all of them or none; return their number.

    Args:
        folder: new, or empty.
        table: what each job wasted.
        users: the same by user.
        window_us: of the log.
        zone: of the dates.

    Raises:
        OutputError: the folder is there already, or cannot be written.
    """
    check_mail_folder(folder)
    template = Template(
        (files("gpuplan.planner.waste") / "mail.txt").read_text(encoding="utf-8")
    )  # fmt: skip
    rows = [row for row in users if row.idle_gpu_h >= LEAST_GPU_H and row.name != NO_LABEL]
    named = table.jobs["user"].cast(pl.String).to_numpy() if rows else np.empty(0)
    dates = [_date(at_us, zone) for at_us in window_us]
    try:
        held = folder_next_to(folder)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made: {error.strerror or error}") from error
    try:
        for number, row in enumerate(rows, 1):
            text = _text(template, row, table, np.flatnonzero(named == row.name), dates)
            name = quote(row.name, safe=" ")
            name = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]} {number}"
            (held.path / f"{name}.txt").write_text(text, "utf-8")
        held.path.chmod(0o755)
        held.path.rename(folder)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from error
    finally:
        held.release()
    return len(rows)


def _text(
    template: Template, row: WasteRow, table: WasteTable, places: np.ndarray, dates: list[str]
) -> str:
    idle = table.hours(*DOING_NOTHING)[places]
    most = places[np.argsort(-idle, kind="stable")][:MOST_JOBS]
    has = [kind for kind in DOING_NOTHING if table.hours(kind)[places].sum() >= LEAST_GPU_H]
    cost = ""
    if table.usd is not None:
        cost = f", ${float(idle @ table.usd[places]):,.2f}"
    unknown = ""
    unknown_h = float(table.without_figures[places].sum())
    if unknown_h >= LEAST_GPU_H:
        unknown = f"Nothing is known of {unknown_h:,.0f} GPU-hours; they are not counted.\n"
    return template.substitute(
        user=" ".join(row.name.split()),
        idle=f"{row.idle_gpu_h:,.0f}",
        held=f"{row.gpu_h:,.0f}",
        share="-" if row.share is None else f"{row.share:.0%} of those known",
        cost=cost,
        begin=dates[0],
        end=dates[1],
        unknown=unknown,
        jobs="\n".join(_jobs(table, most)),
        advice="\n".join(ADVICE[kind] for kind in has),
    )


def _jobs(table: WasteTable, places: np.ndarray) -> Iterator[str]:
    hours = {kind: table.hours(kind) for kind in DOING_NOTHING}
    held = table.held
    unknown_h = table.without_figures
    for place in places.tolist():
        idle_h = sum(float(each[place]) for each in hours.values())
        if idle_h <= 0:
            continue
        kind = max(DOING_NOTHING, key=lambda name: float(hours[name][place]))
        job = table.jobs.row(place, named=True)
        known_h = held[place] - unknown_h[place]
        is_part = known_h < ALMOST_ALL * held[place]
        of_part = f" ({known_h:,.1f} with figures)" if is_part else ""
        what = f"of the GPUs with figures, {WHAT[kind]}" if is_part else WHAT[kind]
        yield (
            f"  job {job['job_id']}: {job['num_gpus']:g} GPUs, {idle_h:,.1f} of "
            f"{held[place]:,.1f} GPU-hours{of_part}; {what}"
        )


def _date(at_us: int, zone: str) -> str:
    moment = datetime.fromtimestamp(at_us / MICROS, UTC)
    return f"{in_zone(moment, zone):%Y-%m-%d}"
