"""Sia's first newTrace sample on T4, from ../shared: every job with its measured epochs."""

from dataclasses import replace

import numpy as np
import polars as pl
from support_boa_replay import workload_of_jobs

from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.speedup.functions import concave_hull

HORIZON_H = 48


def epoch_workload(shared):
    """One class per application: the hull of each epoch's speedup, and the time of a restart."""
    folder = shared / "data/boa-profiles"
    curves = pl.read_csv(folder / "speedup_epochs_aws.csv.gz")
    sizes = pl.read_csv(folder / "job_sizes.csv").filter(gpu_type="aws")
    jobs = pl.read_csv(shared / "data/sia-workloads/newtrace/workload-1.csv").sort("time")
    names = jobs["application"].unique().sort().to_list()
    k = np.arange(1.0, 65)
    classes = []
    for name in names:
        parts = curves.filter(app=name).sort("epoch", "num_gpus").partition_by("epoch")
        hulls = [concave_hull(p["num_gpus"].to_numpy(), p["speedup"].to_numpy()) for p in parts]
        classes.append(
            JobClass(
                name,
                rate_per_h=jobs.filter(application=name).height / HORIZON_H,
                work_h=np.array([p["work_hours_1gpu_calibrated"][0] for p in parts]),
                widths=k,
                speedup=np.stack([hull.at(k) for hull in hulls]),
                rescale_h=sizes.filter(app=name)["rescale_time_s"].item() / 3600,
            )
        )
    number = [names.index(name) for name in jobs["application"]]
    work_h = [float(classes[i].work_h.sum()) for i in number]
    return workload_of_jobs(classes, jobs["time"], number, work_h, HORIZON_H)


def one_width_a_job(workload):
    """The same jobs in classes of one epoch: a job keeps its width to the end."""
    classes = tuple(
        replace(
            c,
            work_h=c.work_h.sum(keepdims=True),
            speedup=c.work_h.sum() / (c.work_h[:, None] / c.speedup).sum(axis=0, keepdims=True),
        )
        for c in workload.classes
    )
    return replace(workload, classes=classes)
