"""A class of like jobs: how many come, how much work they bring, and how fast they are where.

`labelled` says which class a job of a trace is of.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.elastic.class_options import CLASS_COLUMNS
from gpuplan.simkit.arrays import FloatArray

ALL, NONE = "all", "(none)"
ROUNDING = 1e-12  # relative; a speed this little under the bound is the bound
MOST_CLASSES = 5_000  # each has its own width in every plan; more are slow to plan and not useful


@dataclass(frozen=True, slots=True)
class JobClass:
    """A stream of like jobs.

    Attributes:
        name: the class.
        rate_per_h: arrivals per hour, > 0.
        work_h: mean work of each epoch, hours on one GPU; shape (J,), >= 0.
        widths: candidate widths in GPUs, > 0; ascending within a GPU type; shape (V,).
        speedup: s of each epoch at each width, > 0; shape (J, V).
        rescale_h: mean hours of a start or a change of width; >= 0.
        jobs: jobs of the trace behind the figures.
        weight: weight of an hour of its jobs in the objective; > 0, 1 for the plain average.
        cap_h: most hours that its jobs may take on average; infinite for no cap.
        cost_per_h: cost of an hour on each candidate in the unit of the budget, > 0; shape (V,). By
            default its width, so that budgets are GPUs on average; with prices, dollars an hour.
        base: the class of the log, where this one has those of its jobs that held some GPUs;
            empty where it is the class.
        recorded_speedup: speedup of each epoch on the GPUs that its jobs held; shape (J,); None
            where that is not known, or has no bound.
        slower: most times as long as on these GPUs that an epoch may run; infinite for no bound.
        gpu_types: the GPU type of each candidate; empty where there is one type only.
        other_widths: further widths at which s is known, such as those that jobs were recorded on;
            no candidates; ascending; shape (W,).
        other_speedup: s of each epoch at each of them, > 0; shape (J, W).
    """

    name: str
    rate_per_h: float
    work_h: FloatArray
    widths: FloatArray
    speedup: FloatArray
    rescale_h: float = 0.0
    jobs: int = 0
    weight: float = 1.0
    cap_h: float = float("inf")
    cost_per_h: FloatArray | None = None
    gpu_types: tuple[str, ...] = ()
    other_widths: FloatArray | None = None
    other_speedup: FloatArray | None = None
    base: str = ""
    recorded_speedup: FloatArray | None = None
    slower: float = float("inf")

    def __post_init__(self) -> None:
        if self.speedup.shape != (self.work_h.size, self.widths.size) or not self.speedup.size:
            raise ValueError(
                f"{self.name}: speedup must have the shape (epochs, widths) = "
                f"({self.work_h.size}, {self.widths.size}), got {self.speedup.shape}"
            )
        if not (self.rate_per_h > 0 and self.rescale_h >= 0 and np.all(self.work_h >= 0)):
            raise ValueError(f"{self.name}: rate must be above 0, work and rescaling at least 0")
        if not 0 < self.weight < float("inf"):
            raise ValueError(f"{self.name}: weight must be above 0, got {self.weight}")
        if not (np.all(self.widths > 0) and np.all(self.speedup > 0)):
            raise ValueError(f"{self.name}: widths and speedups must be above 0")
        if not self.cap_h > 0:
            raise ValueError(f"{self.name}: a cap on time must be above 0, got {self.cap_h}")
        if self.slopes.shape != self.widths.shape or not np.all(self.slopes > 0):
            raise ValueError(f"{self.name}: every width needs a cost per hour above 0")
        if self.gpu_types and len(self.gpu_types) != self.widths.size:
            raise ValueError(f"{self.name}: expected a GPU type for each of the widths")

    @property
    def slopes(self) -> FloatArray:
        """Cost of an hour on each candidate in the unit of the budget."""
        return self.widths if self.cost_per_h is None else self.cost_per_h

    @property
    def log_class(self) -> str:
        """The class as the log and the speedups name it."""
        return self.base or self.name

    @property
    def is_bounded(self) -> bool:
        """Whether its jobs may run only so much longer than recorded."""
        return self.recorded_speedup is not None and self.slower < float("inf")

    def too_slow(self) -> NDArray[np.bool_]:
        """Return on which candidates an epoch runs longer than it may; shape (J, V)."""
        if self.recorded_speedup is None:
            return np.zeros(self.speedup.shape, np.bool_)
        least = self.recorded_speedup / self.slower
        slow: NDArray[np.bool_] = self.speedup < least[:, None] * (1 - ROUNDING)
        return slow & (self.work_h > 0)[:, None]

    def least_slower(self) -> float:
        """Return the least bound that some candidate keeps in each epoch; 0 where all do."""
        if self.recorded_speedup is None:
            return 0.0
        least = self.recorded_speedup / self.speedup.max(axis=1)
        return float(least[self.work_h > 0].max(initial=0.0))

    @property
    def load_gpus(self) -> float:
        """GPUs the class keeps busy when every job runs on one."""
        return self.rate_per_h * float(self.work_h.sum())


def labelled(jobs: pl.DataFrame, class_by: str) -> pl.DataFrame:
    """Return the jobs with their class as text in the column ``class``."""
    if class_by == "num_gpus":
        gpus = pl.col("num_gpus")
        as_integer = gpus.cast(pl.Int64).cast(pl.String)
        label = pl.when(gpus == gpus.floor()).then(as_integer).otherwise(gpus.cast(pl.String))
    elif jobs[class_by].is_null().all():
        label = pl.lit(ALL)
    else:
        label = pl.col(class_by).fill_null(NONE)
    return jobs.with_columns(label.alias("class"))


def divided(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return jobs with the classes divided by GPUs held, the class before as ``base``."""
    gpus = jobs["num_gpus"].unique().to_list()
    words = {count: f"{count:g} GPU{'' if count == 1 else 's'}" for count in gpus}
    held = pl.col("num_gpus").replace_strict(words, return_dtype=pl.String)
    name = pl.when(pl.col("class") == ALL).then(held).otherwise(pl.col("class") + ", " + held)
    several = pl.col("num_gpus").n_unique().over("class") > 1
    return jobs.with_columns(
        pl.when(several).then(name).otherwise(pl.col("class")).alias("class"),
        pl.col("class").alias("base"),
    )


def _classes(number: int) -> str:
    return f"{number:,} class{'' if number == 1 else 'es'}"


def refuse_many(jobs: pl.DataFrame, class_by: str) -> None:
    """Raise `UsageError` for more than `MOST_CLASSES` classes; suggest columns with fewer."""
    count = jobs["class"].n_unique()
    if count <= MOST_CLASSES:
        return
    fewer = {name: jobs[name].n_unique() for name in CLASS_COLUMNS if name != class_by}
    ways = [
        f"--class-by {name} ({_classes(number)})"
        for name, number in sorted(fewer.items(), key=lambda item: item[1])
        if number <= MOST_CLASSES and not jobs[name].is_null().all()
    ]
    if class_by in ("user", "group", "job_class"):
        ways.append(
            "merge rare or like classes into one with gpuplan ingest --map job_class=COLUMN"
        )
    ways.append("keep the largest classes with --where")
    raise UsageError(
        f"--class-by {class_by}: {count:,} classes among the jobs planned for are too many, at "
        f"most {MOST_CLASSES:,}\n  next: {'; '.join(ways)}"
    )
