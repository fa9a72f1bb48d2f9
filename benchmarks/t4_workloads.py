"""Workloads of the published evaluations: their arrivals, and T4 measurements of their jobs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from gpuplan.planner.elastic.arrivals import ClassArrivals
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.elastic.job_classes import ClassWorkload
from gpuplan.planner.speedup.functions import concave_hull

SHARED = Path(__file__).resolve().parents[2] / "shared"
DATA = SHARED / "data"
HORIZON_H = {"newtrace": 48.0, "pollux": 8.0}
MOST = 64
SMALL_TYPES = ("cifar10", "bert", "deepspeech2")  # ResNet18, BERT and DeepSpeech2


def submissions(
    trace: str, applications: tuple[str, ...] = (), *, sample: int = 1, load: str = ""
) -> pl.DataFrame:
    """The jobs of a sample of ``newtrace`` or ``pollux``: application, time in seconds, GPUs.

    Pollux' samples also exist at ``-0.5``, ``-1.5`` and ``-2.0`` times the load.
    """
    folder = {"newtrace": "sia-workloads/newtrace", "pollux": f"pollux-workloads/workloads{load}"}
    jobs = pl.read_csv(DATA / folder[trace] / f"workload-{sample}.csv").select(
        "application", pl.col("time").cast(pl.Float64), "num_replicas"
    )
    return jobs.filter(pl.col("application").is_in(applications)) if applications else jobs


def shipped_jct_s(policy: str, load: str, sample: int) -> float:
    """Mean completion time that Pollux' authors ship for 64 GPUs; load 0.5, 1.0, 1.5 or 2.0."""
    shipped = pl.read_csv(DATA / "boa-profiles/pollux_osdi_shipped_results.csv")
    row = shipped.filter(
        experiment=f"results-jobload/{policy}-{load}", workload=f"workload-{sample}"
    )
    return float(row["avg_jct_s"].item())


def t4_workload(
    jobs: pl.DataFrame,
    horizon_h: float,
    *,
    calibrated: bool = True,
    rescale_s: float | None = None,
    curve: str = "speedup",
) -> ClassWorkload:
    """One class per application with all its statistical epochs, on T4 GPUs in nodes of four.

    Args:
        jobs: columns ``application`` and ``time``.
        horizon_h: hours over which they arrive.
        calibrated: whether sizes carry the slowdown of Sia's simulator.
        rescale_s: pause of a start or a change of width; by default what was measured.
        curve: ``speedup`` as measured, ``speedup_model`` as the fitted goodput model has it.
    """
    table = pl.read_csv(DATA / "boa-profiles/speedup_epochs_aws.csv.gz").sort("epoch", "num_gpus")
    sizes = pl.read_csv(DATA / "boa-profiles/job_sizes.csv").filter(gpu_type="aws")
    pauses = dict(sizes.select("app", "rescale_time_s").iter_rows())
    size = "work_hours_1gpu_calibrated" if calibrated else "work_hours_1gpu"
    names = sorted(jobs["application"].unique())
    classes = []
    for name in names:
        epochs = table.filter(app=name).partition_by("epoch", maintain_order=True)
        # The published simulations keep this one on one GPU.
        widths = np.arange(1.0, 2 if name == "ncf" else MOST + 1)
        hulls = (
            concave_hull(e["num_gpus"].cast(float).to_numpy(), e[curve].to_numpy()) for e in epochs
        )
        count = int((jobs["application"] == name).sum())
        pause = pauses[name] if rescale_s is None else rescale_s
        classes.append(
            JobClass(
                name,
                count / horizon_h,
                np.array([e[size][0] for e in epochs]),
                widths,
                np.stack([hull.at(widths) for hull in hulls]),
                pause / 3600,
                count,
            )
        )
    group = np.array([names.index(name) for name in jobs["application"]], np.int64)
    work_h = np.array([c.work_h.sum() for c in classes])[group]
    return ClassWorkload(
        classes=tuple(classes),
        horizon_h=horizon_h,
        jobs=jobs.height,
        rescale_origin="profile" if rescale_s is None else "option",
        notes=(),
        arrivals=ClassArrivals(
            submit_s=jobs["time"].to_numpy(),
            job_class=group,
            work_h=work_h,
            gpus=jobs["num_replicas"].cast(float).to_numpy(),
        ),
    )
