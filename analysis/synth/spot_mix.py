"""The preset ``gfs``: high-priority and spot jobs of one pool of GPUs, in published shares.

Source: Duan et al., GFS, ASPLOS 2026, Table 3 (April to June 2024): kinds of jobs, GPUs of a pod,
share of gangs. All else is assumed, and said in the notes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import BoolArray, FloatArray, IntArray
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import DAY_S, HOUR_S, MICROS
from gpuplan.analysis.base.version import gpuplan_version
from gpuplan.analysis.job_table.schema import (
    CANONICAL,
    LAST_INSTANT_US,
    METADATA_KEY,
    SYNTHETIC,
    Provenance,
)
from gpuplan.analysis.storage.files import atomic_output
from gpuplan.analysis.synth.compare import ComparedStatistic, Statistic, compared
from gpuplan.analysis.synth.week import local_midnight_s
from gpuplan.analysis.synth.write import NOTHING_RECORDED, Request, Synthesis, synthesis_of

NAME = "gfs"
GPUS = 2296
"""The cluster of the paper's simulation: 287 nodes of 8 GPUs."""
GPU_TYPE = "A100"
START = date(2024, 4, 1)  # a Monday
DAYS = 91.0
HP_LOAD = 0.55
LEAST_S = 60.0
ORGANIZATIONS = 8
DAILY, WEEKEND = 0.3, 0.8
"""How much arrivals swing over a day, and their rate on weekends over that of other days."""

CARDS = np.array([0.5, 1.0, 2.0, 4.0, 8.0])
PODS = np.array([2, 4, 8, 16, 32])


@dataclass(frozen=True, slots=True)
class JobKind:
    """High-priority or spot jobs.

    Attributes:
        name: as `gpuplan.analysis.job_table.schema.PRIORITIES` has it.
        jobs: in 91 days.
        cards: percent of jobs by GPUs of a pod, in the order of `CARDS`.
        gang: percent of jobs of several pods.
        pods: percent of them by number of pods, in the order of `PODS`.
        mean_s, deviation: of the duration, before it is cut off at a minute; the deviation is a
            share of the mean.
    """

    name: str
    jobs: int
    cards: tuple[float, ...]
    gang: float
    pods: tuple[float, ...]
    mean_s: float
    deviation: float

    @property
    def shares(self) -> FloatArray:
        """Share of jobs by GPUs of a pod."""
        shares: FloatArray = np.array(self.cards) / sum(self.cards)
        return shares

    @property
    def mean_gpus(self) -> float:
        """GPUs of a job on average."""
        pods = 1 + self.gang / 100 * (float(PODS @ np.array(self.pods) / 100) - 1)
        is_whole = CARDS >= 1
        shares = self.shares
        return float((shares * CARDS)[is_whole].sum() * pods + (shares * CARDS)[~is_whole].sum())


KINDS = msgspec.toml.decode(
    Path(__file__).with_name("spot_mix.toml").read_bytes(), type=dict[str, tuple[JobKind, ...]]
)["kind"]


@dataclass(frozen=True, slots=True)
class SpotMix:
    """What the preset draws.

    Attributes:
        spot_load: times the published number of spot jobs per high-priority job.
    """

    spot_load: float = 1.0
    warnings: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """What it is."""
        return f"preset {NAME}: Table 3 of GFS, spot x{self.spot_load:g}"

    @property
    def jobs(self) -> int:
        """Jobs of the original."""
        return sum(kind.jobs for kind in KINDS)

    def per_day(self, kind: JobKind) -> float:
        """Return the jobs of a kind per day at the load that is assumed."""
        hp = KINDS[0]
        rate = HP_LOAD * GPUS * DAY_S / (hp.mean_s * hp.mean_gpus)
        return rate if kind is hp else rate * kind.jobs / hp.jobs * self.spot_load

    @property
    def notes(self) -> tuple[str, ...]:
        """What is assumed, one sentence each."""
        hp, spot = KINDS
        return (
            f"high-priority jobs ask for {HP_LOAD:.0%} of {GPUS:,} GPUs (287 nodes of 8) on "
            f"average, {self.per_day(hp):,.0f} jobs a day; spot jobs for "
            f"{self.per_day(spot) * spot.mean_s * spot.mean_gpus / DAY_S / GPUS:.0%}, "
            f"{self.per_day(spot):,.0f} a day (assumed)",
            f"durations are normal with a deviation of 28%: mean {hp.mean_s:,.0f} s for high "
            f"priority, {spot.mean_s:,.0f} s for spot (assumed)",
            "gangs have 2, 4, 8, 16 or 32 pods (35, 25, 20, 12 and 8% of high priority; 60, 30 and "
            "10% of spot), and jobs below a GPU take half of one (assumed)",
            f"{ORGANIZATIONS} organizations of unequal size; arrivals swing by {DAILY:.0%} over "
            f"the day, each organization at hours of its own, and fall to {WEEKEND:.0%} on "
            "weekends (assumed)",
        )


def synthesize_mix(mix: SpotMix, request: Request, output: Path) -> Synthesis:
    """Draw a trace and write it as a canonical Parquet file.

    Args:
        mix: what to draw.
        request: length, first day and seed; its number of jobs does not count.
        output: the trace; its name ends in ``.parquet``.

    Raises:
        UsageError: the times leave the calendar.
        OutputError: the file cannot be written.
    """
    days = DAYS if request.days is None else request.days
    first_s = float(local_midnight_s((request.start or START).isoformat(), "UTC"))
    if not 0 < first_s * MICROS <= LAST_INSTANT_US - (days + 1) * DAY_S * MICROS:
        raise UsageError("the trace would leave the years 1970 to 9999; choose --start, --days")
    rng = np.random.default_rng(request.seed)
    jobs = pl.concat([_draw_jobs(mix, kind, days, first_s, rng) for kind in KINDS])
    jobs = jobs.sort("submit_time", maintain_order=True)
    if jobs.is_empty():
        raise UsageError(f"--days {days:g}: no job is submitted in so short a time")
    jobs = jobs.with_columns(
        pl.format("gfs-{}", pl.int_range(pl.len()).cast(pl.String).str.zfill(7)).alias("job_id")
    )
    provenance = Provenance(
        source_format=SYNTHETIC,
        rows_read=jobs.height,
        rows_kept=jobs.height,
        rows_rejected={},
        time_zone="UTC",
        notes=(NOTHING_RECORDED, f"model: {mix.source}; seed {request.seed}", *mix.notes),
        gpuplan_version=gpuplan_version(),
    )
    with atomic_output(output) as temporary:
        jobs.select(
            pl.col(name).cast(kind) if name in jobs.columns else pl.lit(None, kind).alias(name)
            for name, kind in CANONICAL.items()
        ).write_parquet(temporary, metadata={METADATA_KEY: provenance.to_json()})
    submit = jobs["submit_time"].dt.epoch("us")
    span_s = float(submit[-1] - submit[0]) / MICROS
    return synthesis_of(output, mix, jobs.height, span_s, provenance, _statistics(mix, jobs))


def _draw_jobs(
    mix: SpotMix, kind: JobKind, days: float, first_s: float, rng: np.random.Generator
) -> pl.DataFrame:
    """Return the jobs of one kind."""
    shares = 1 / np.arange(1, ORGANIZATIONS + 1)
    shares /= shares.sum()
    phase_h = 15 + 6 * np.linspace(-1, 1, ORGANIZATIONS)
    most = 1 + DAILY
    count = rng.poisson(mix.per_day(kind) * days * most / _mean_rate())
    at_s = np.sort(rng.uniform(0, days * DAY_S, count))
    owner = rng.choice(ORGANIZATIONS, count, p=shares)
    hour = (at_s / HOUR_S) % 24
    weekday = ((first_s + at_s) // DAY_S + 3) % 7  # 1970 began on a Thursday
    rate = 1 + DAILY * np.cos((hour - phase_h[owner]) / 12 * np.pi)
    rate *= np.where(weekday >= 5, WEEKEND, 1.0)
    kept = rng.uniform(0, most, count) < rate
    at_s, owner = at_s[kept], owner[kept]
    n = at_s.size
    cards = CARDS[rng.choice(CARDS.size, n, p=kind.shares)]
    pods = np.where(
        (rng.uniform(0, 100, n) < kind.gang) & (cards >= 1),
        rng.choice(PODS, n, p=np.array(kind.pods) / 100),
        1,
    )
    duration_s = np.maximum(
        LEAST_S, np.rint(rng.normal(kind.mean_s, kind.deviation * kind.mean_s, n))
    )
    submit_us: IntArray = np.rint((first_s + np.floor(at_s)) * MICROS).astype(np.int64)
    return pl.DataFrame(
        {
            "group": [f"org-{number + 1}" for number in owner],
            "submit_time": pl.Series(submit_us).cast(CANONICAL["submit_time"]),
            "duration_s": duration_s,
            "num_gpus": cards * pods,
            "num_workers": pods.astype(np.int32),
            "gpu_type": [GPU_TYPE] * n,
            "state": ["completed"] * n,
            "priority": [kind.name] * n,
            "attempts": np.ones(n, np.int32),
        }
    )


def _mean_rate() -> float:
    """Return the mean of the rate over a week, where it is 1 without swings."""
    return (5 + 2 * WEEKEND) / 7


def _statistics(mix: SpotMix, jobs: pl.DataFrame) -> list[ComparedStatistic]:
    """Return the published shares beside those drawn."""
    statistics = []
    hp, spot = KINDS
    total = hp.jobs + mix.spot_load * spot.jobs
    is_hp = (jobs["priority"] == "hp").to_numpy()
    statistics.append(_share("hp.share", "high-priority jobs", hp.jobs / total, is_hp))
    per_pod = (jobs["num_gpus"] / jobs["num_workers"]).to_numpy()
    pods = jobs["num_workers"].to_numpy()
    for kind in KINDS:
        is_kind = (jobs["priority"] == kind.name).to_numpy()
        name = "high priority" if kind is hp else "spot"
        for cards, share in zip(CARDS.tolist(), kind.shares.tolist(), strict=True):
            label = "less than 1 GPU" if cards < 1 else f"{cards:g} GPU{'s' * (cards > 1)}"
            key = f"{kind.name}.gpus_{cards:g}".replace("gpus_0.5", "gpus_below_1")
            statistics.append(_share(key, f"{name}, {label}", share, per_pod[is_kind] == cards))
        gang = kind.gang / 100 * float(kind.shares[CARDS >= 1].sum())
        statistics.append(_share(f"{kind.name}.gang", f"{name}, gangs", gang, pods[is_kind] > 1))
    return statistics


def _share(key: str, label: str, wanted: float, is_so: BoolArray) -> ComparedStatistic:
    n = max(is_so.size, 1)
    return compared(
        Statistic(key, f"{label} (share)", "share", 0.02),
        original=wanted,
        synthetic=float(is_so.mean()) if is_so.size else 0.0,
        allowed=0.02,
        explained=4 * float(np.sqrt(wanted * (1 - wanted) / n)),
    )
