"""Speedup from Pollux' goodput model: the throughput of a step times the efficiency of its batch.

Source: Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
OSDI 2021, section 3. On k GPUs, with m samples on each and a accumulation steps before the last,
a step trains on M = k m (a + 1) samples and takes

    T = a T_grad + (T_grad^gamma + T_sync^gamma)^(1 / gamma)        seconds
    T_grad = alpha_c + beta_c m
    T_sync = 0 on one GPU, alpha_r + beta_r (k - 2) within a node, alpha_n + beta_n (k - 2) beyond

and a sample of it counts (phi + M0) / (phi + M) of one in a batch of M0, where phi is the
gradient noise scale. Goodput is M / T times that; s(k) is the best goodput on k GPUs over the best
on one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.user_tables.rates import read_goodputs
from gpuplan.planner.speedup.functions import MeasuredSpeedup, measured_curve
from gpuplan.planner.speedup.model import (
    ClassProfile,
    SpeedupModel,
    check_epochs,
    of_types,
    with_shares_of,
)
from gpuplan.simkit.arrays import FloatArray, IntArray

MOST_GPUS = 1024  # larger widths are not evaluated; few jobs could use them


@dataclass(frozen=True, slots=True)
class Goodput:
    """The goodput of one class in one epoch.

    Attributes:
        alpha_c, beta_c: seconds of a gradient, per step and per sample on a GPU.
        alpha_r, beta_r: seconds of synchronization within a node, and per GPU beyond two.
        alpha_n, beta_n: the same for GPUs on several nodes.
        gamma: overlap of the two, from 1 (none) to infinity (the longer one counts).
        init_batch_size: M0, samples; no smaller batch is used.
        max_batch_size: largest M, samples.
        min_local_bsz, max_local_bsz: limits of m, samples on a GPU.
        gpus_per_node: GPUs of a node; jobs are packed on as few as can be.
        noise_scale: phi, in samples.
    """

    alpha_c: float
    beta_c: float
    alpha_r: float
    beta_r: float
    alpha_n: float
    beta_n: float
    gamma: float
    init_batch_size: int
    max_batch_size: int
    min_local_bsz: int
    max_local_bsz: int
    gpus_per_node: int
    noise_scale: float

    @property
    def widest(self) -> int:
        """Most GPUs that the largest batch can fill, 1 to `MOST_GPUS`."""
        return min(max(1, self.max_batch_size // self.min_local_bsz), MOST_GPUS)

    def sync_s(self, gpus: IntArray) -> FloatArray:
        """Return the seconds of synchronization on each GPU count."""
        local = self.alpha_r + self.beta_r * np.maximum(gpus - 2, 0)
        remote = self.alpha_n + self.beta_n * np.maximum(gpus - 2, 0)
        seconds: FloatArray = np.where(gpus > self.gpus_per_node, remote, local)
        return np.where(gpus == 1, 0.0, seconds)

    def at(self, gpus: IntArray, local_bsz: IntArray, accumulated: IntArray) -> FloatArray:
        """Return the goodput in samples per second, as of samples in a batch of M0; elementwise."""
        batch = gpus * local_bsz * (accumulated + 1)
        gradient_s = self.alpha_c + self.beta_c * local_bsz
        longer = np.maximum(gradient_s, self.sync_s(gpus))  # keeps the powers from overflowing
        ratio = np.minimum(gradient_s, self.sync_s(gpus)) / longer
        last_s = longer * (1 + ratio**self.gamma) ** (1 / self.gamma)
        worth = (self.noise_scale + self.init_batch_size) / (self.noise_scale + batch)
        result: FloatArray = batch / (accumulated * gradient_s + last_s) * worth
        return result

    def best(self) -> FloatArray:
        """Return the best goodput on 1, 2, ... `widest` GPUs; 0 if no batch is allowed.

        All whole m, and accumulation steps up to those that the largest batch needs. On one GPU a
        batch above M0 is accumulated in two steps at least: the noise scale is measured between
        parts of a batch, and one GPU has no other parts (as in Pollux).

        For given steps T is convex in m and the rest of 1 / goodput is 1 / a concave function, so
        goodput rises to one peak in m and falls from there: bisection finds it.
        """
        counts = np.arange(1, self.widest + 1)
        most = -(-self.max_batch_size // (counts * self.max_local_bsz))  # steps, including the last
        most[0] = max(most[0], 2)
        gpus = np.repeat(counts, most)
        steps = np.arange(gpus.size) - np.repeat(np.cumsum(most) - most, most)
        share = gpus * (steps + 1)
        low = np.maximum(self.min_local_bsz, -(-self.init_batch_size // share))
        high = np.minimum(self.max_local_bsz, self.max_batch_size // share)
        only_init = (gpus == 1) & (steps == 0)
        high = np.where(only_init, np.minimum(high, self.init_batch_size), high)
        allowed = low <= high
        high = np.maximum(low, high)
        while np.any(low < high):
            middle = (low + high) // 2
            rises = self.at(gpus, middle + 1, steps) > self.at(gpus, middle, steps)
            low, high = (
                np.where(rises & (low < high), middle + 1, low),
                np.where(rises, high, middle),
            )
        goodput = np.where(allowed, self.at(gpus, low, steps), 0.0)
        best: FloatArray = np.maximum.reduceat(goodput, np.cumsum(most) - most)
        return best

    def profile(self) -> tuple[MeasuredSpeedup, float] | None:
        """Return the speedup on 1, 2, ... `widest` GPUs, and the goodput on one.

        None if one GPU allows no batch. If none is allowed on k GPUs, a job uses the best smaller
        number.
        """
        goodput = self.best()
        if not goodput[0]:
            return None
        fewer = np.maximum.accumulate(goodput)
        goodput = np.where(goodput > 0, goodput, fewer)
        counts = np.arange(1.0, goodput.size + 1)
        return measured_curve(counts, goodput / goodput[0]), float(goodput[0])

    def curve(self) -> MeasuredSpeedup | None:
        """Return the speedup alone."""
        profile = self.profile()
        return None if profile is None else profile[0]


def load_goodputs(path: Path, name: str) -> SpeedupModel:
    """Return the speedups from a table of goodput parameters, of one GPU type or several.

    Shares of work are those on the first type of a class.

    Raises:
        InputError: the table cannot be read, or an epoch allows no batch on one GPU.
    """
    by_type: dict[str, dict[str, ClassProfile]] = {}
    first_of: dict[str, ClassProfile] = {}
    table = read_goodputs(path)
    for (gpu, job_class), rows in table.group_by("gpu_type", "job_class", maintain_order=True):
        profile, label = _profile(path, rows), str(job_class)
        first = first_of.setdefault(label, profile)
        row = int(rows["row"].min())  # type: ignore[arg-type]
        check_epochs(path, row, label, str(gpu), first, profile)
        by_type.setdefault(str(gpu), {})[label] = (
            profile if profile is first else with_shares_of(first, profile)
        )
    return of_types(name, f"Pollux' goodput model, {path}", by_type)


def _profile(path: Path, rows: pl.DataFrame) -> ClassProfile:
    """Return one class on one GPU type."""
    curves, speeds = [], []
    for row in rows.select("row", *Goodput.__dataclass_fields__).iter_rows(named=True):
        at = row.pop("row")
        profile = Goodput(**row).profile()
        if profile is None:
            raise InputError(
                path,
                "no batch on one GPU is within the limits",
                row=at,
                column="max_batch_size",
                expected="room for init_batch_size samples, in parts of min_local_bsz to "
                "max_local_bsz",
            )
        curves.append(profile[0])
        speeds.append(profile[1])
    shares = rows["work_share"] / rows["work_share"].sum()
    return ClassProfile(
        epochs=tuple(curves),
        shares=tuple(shares.to_list()),
        work_h=rows["work_h"][0],
        rescale_s=rows["rescale_s"][0],
        speed=tuple(speeds),
    )
