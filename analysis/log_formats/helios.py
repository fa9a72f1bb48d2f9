"""Helios: the job tables of four SenseTime clusters, April to September 2020.

Source: Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU
Datacenters", SC 2021. Times are China local times without an offset, which know no summer time. An
id is unique in its cluster only.
"""

from __future__ import annotations

from functools import partial

import polars as pl

from gpuplan.analysis.log_formats.acmetrace import COMMON, cluster_log
from gpuplan.analysis.log_formats.format import LogFormat, SourceContext, has_columns, need
from gpuplan.analysis.reading.plan import Field, ReadingPlan, text

COLUMNS = (*COMMON, "vc")
CLUSTERS = ("Venus", "Earth", "Saturn", "Uranus")
ZONE = "Asia/Shanghai"


def _plan(context: SourceContext) -> ReadingPlan:
    need(context, COLUMNS, "helios")
    job_id = pl.concat_str(pl.lit(_prefix(context)), "job_id")
    fields = (Field("job_id", "job_id", job_id, required=True), text("group", "vc"))
    return cluster_log(fields, ZONE, ZONE, own_durations=context.choices.own_durations)


def _prefix(context: SourceContext) -> str:
    """Return what makes ids unique among clusters: a cluster named by folder or file, or a number.

    The log of each cluster is called cluster_log.csv and lies in a folder of the cluster's name.
    """
    recorded = [context.head.path.parent.name.lower(), context.head.path.name.lower()]
    for cluster in CLUSTERS:
        if any(cluster.lower() in name for name in recorded):
            return f"{cluster}-"
    return f"{context.number + 1}-" if context.number else ""


HELIOS = LogFormat(
    name="helios",
    description="SenseTime Helios, 2020: 3.4 million jobs of four clusters",
    source="S-Lab-System-Group/HeliosData on GitHub, data.zip: <cluster>/cluster_log.csv",
    recognizes=partial(has_columns, names=COLUMNS),
    plan=_plan,
    has_durations=True,
    columns=COLUMNS,
)
