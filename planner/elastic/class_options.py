"""Options of the job classes of a plan: which column tells them apart, widths, weights, limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from gpuplan.analysis.base.errors import UsageError, shortened
from gpuplan.simkit.workload import MOST_GPUS

CLASS_COLUMNS = ("job_class", "user", "group", "num_gpus")
ALL, NONE = "all", "(none)"
MOST_CLASSES = 5_000  # each has its own width in every plan; more are slow to plan and not useful


def labelled(jobs: pl.DataFrame, class_by: str) -> pl.DataFrame:
    """Return the jobs with their class as text in the column ``class``."""
    if class_by == "num_gpus":
        gpus = pl.col("num_gpus")
        whole = gpus.cast(pl.Int64).cast(pl.String)
        label = pl.when(gpus == gpus.floor()).then(whole).otherwise(gpus.cast(pl.String))
    elif jobs[class_by].is_null().all():
        label = pl.lit(ALL)
    else:
        label = pl.col(class_by).fill_null(NONE)
    return jobs.with_columns(label.alias("class"))


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


LEAST_HORIZON_S = 1.0
DEFAULT_RESCALE_S = 60.0
"""Assumed time of a start or a change of width: between a warm restart and a cold one."""


@dataclass(frozen=True, slots=True)
class ClassOptions:
    """How a trace becomes a workload.

    Attributes:
        class_by: column that defines the classes, one of `CLASS_COLUMNS`.
        horizon_s: time over which the jobs arrive; None for the span of their submissions.
        rescale_s: time of a start or a change of width, for every class; None for what the profile
            measured, and ``unmeasured_rescale_s`` where it measured none.
        unmeasured_rescale_s: see there.
        max_width: widest candidate in GPUs; None for 64, or all that a profile measured.
        widths: the candidate widths; None for every whole one from the least measured.
        scale_work: factor on job sizes that come from a profile and not from the trace.
        weights: weight of an hour of a job in the objective, by class; 1 for others.
        limits: widest candidate in GPUs of some classes, instead of ``max_width``.
        caps_s: most seconds that the jobs of some classes may take on average.
        width_step: candidate widths are its multiples, as where GPUs come in whole nodes; None
            for 1. A class that can use no more than a part of one gets one.
    """

    class_by: str = "job_class"
    horizon_s: float | None = None
    rescale_s: float | None = None
    unmeasured_rescale_s: float = DEFAULT_RESCALE_S
    max_width: int | None = None
    widths: tuple[int, ...] | None = None
    scale_work: float = 1.0
    weights: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    caps_s: Mapping[str, float] = field(default_factory=dict)
    width_step: int | None = None

    def __post_init__(self) -> None:
        if self.class_by not in CLASS_COLUMNS:
            raise UsageError(
                f"--class-by {self.class_by!r}: expected one of {', '.join(CLASS_COLUMNS)}"
            )
        if self.horizon_s is not None and not self.horizon_s >= LEAST_HORIZON_S:
            raise UsageError(f"--horizon must be at least 1 s, got {self.horizon_s:g} s")
        if self.rescale_s is not None and not 0 <= self.rescale_s < float("inf"):
            raise UsageError(f"--rescale must be at least 0 s, got {self.rescale_s:g}")
        if self.max_width is not None and self.max_width < 1:
            raise UsageError(f"--max-width must be at least 1 GPU, got {self.max_width}")
        for width in self.widths or ():
            if not 1 <= width <= MOST_GPUS:
                raise UsageError(
                    f"--widths: a width is 1 to {MOST_GPUS:,} GPUs, got {shortened(str(width))}"
                )
        for name, weight in self.weights.items():
            if not 0 < weight < float("inf"):
                raise UsageError(f"--weight {name}={weight:g}: a weight must be above 0")
        for name, limit in self.limits.items():
            if limit < 1:
                raise UsageError(f"--limit {name}={limit}: a limit is at least 1 GPU")
        for name, cap_s in self.caps_s.items():
            if not 0 < cap_s < float("inf"):
                raise UsageError(f"--require {name}: a time must be above 0 s, got {cap_s:g}")
        if self.width_step is not None and self.width_step < 1:
            raise UsageError(f"--width-step must be at least 1 GPU, got {self.width_step}")
        if self.width_step is not None and self.widths is not None:
            raise UsageError("use either --width-step or --widths, not both")

    def most_gpus(self, job_class: str) -> int | None:
        """Return the most GPUs that a job of a class may get; None without a limit."""
        return self.limits.get(job_class, self.max_width)
