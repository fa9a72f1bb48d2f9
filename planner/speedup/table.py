"""Speedups from a table of measured throughputs, of one GPU type or several."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from gpuplan.analysis.user_tables.rates import read_throughputs
from gpuplan.planner.speedup.functions import measured_curve
from gpuplan.planner.speedup.model import (
    ClassProfile,
    SpeedupModel,
    check_epochs,
    of_types,
    with_shares_of,
)


def load_table(path: Path, name: str) -> SpeedupModel:
    """Return the curves of measured throughputs, each over the throughput on one GPU.

    If one GPU was not measured (the model may not fit), the smallest count is taken as linear
    speedup up to it. Throughputs of a class count the same work on every GPU type, so their ratio
    on one GPU is that of the speeds; shares of work are those on the first type of the class.

    Raises:
        InputError: see `read_throughputs`; or a class has other epochs on another GPU type.
    """
    notes: list[str] = []
    by_type: dict[str, dict[str, ClassProfile]] = {}
    first_of: dict[str, ClassProfile] = {}
    table = read_throughputs(path)
    for (gpu_type, job_class), rows in table.group_by("gpu_type", "job_class", maintain_order=True):
        label, place = str(job_class), f" of {gpu_type}" if gpu_type else ""
        profile = _profile(rows, f"{path}: {label}{place}", notes)
        first = first_of.setdefault(label, profile)
        row = int(rows["row"].min())  # type: ignore[arg-type]
        check_epochs(path, row, label, str(gpu_type), first, profile)
        by_type.setdefault(str(gpu_type), {})[label] = with_shares_of(first, profile)
    return of_types(name, f"measured, {path}", by_type, tuple(dict.fromkeys(notes)))


def _profile(rows: pl.DataFrame, what: str, notes: list[str]) -> ClassProfile:
    """Return one class on one GPU type; caveats are added to ``notes``."""
    curves, shares, speed = [], [], []
    for _, epoch in rows.group_by("epoch", maintain_order=True):
        gpus, throughput = epoch["num_gpus"].to_numpy(), epoch["throughput"].to_numpy()
        on_one = throughput[0] / gpus[0]
        curves.append(measured_curve(gpus, throughput / on_one))
        shares.append(float(epoch["work_share"][0]))
        speed.append(float(on_one))
    least = max(curve.narrowest for curve in curves)
    if least > 1:
        notes.append(
            f"{what} was not measured on 1 GPU; its speedup is taken as linear up to {least:g} "
            "GPUs, and fewer are not planned"
        )
    portions = tuple((np.array(shares) / sum(shares)).tolist())
    return ClassProfile(epochs=tuple(curves), shares=portions, speed=tuple(speed))
