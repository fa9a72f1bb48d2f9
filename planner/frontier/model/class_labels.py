"""What tells the job classes of a trace apart: the values of one of its columns."""

from __future__ import annotations

import polars as pl

from gpuplan.analysis.errors import UsageError

CLASS_COLUMNS = ("job_class", "user", "group", "num_gpus")
ALL, NONE = "all", "(none)"
MOST_CLASSES = 5_000  # each has a width of its own in every plan; more take long, and help nobody


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
    """Raise `UsageError` where jobs have more than `MOST_CLASSES` classes; name what has fewer."""
    count = jobs["class"].n_unique()
    if count <= MOST_CLASSES:
        return
    fewer = {name: jobs[name].n_unique() for name in CLASS_COLUMNS if name != class_by}
    ways = [
        f"--class-by {name} ({_classes(number)})"
        for name, number in sorted(fewer.items(), key=lambda one: one[1])
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
