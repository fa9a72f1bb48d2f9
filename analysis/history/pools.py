"""The GPUs that a job may use: those of its type, on the nodes of its partition where those are
known; how many there are, and how many are held over time.

How many there are comes from what the user says of the cluster, else from the nodes that the log
names (the most GPUs held on each), else from the most GPUs held at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import IntArray
from gpuplan.analysis.history.free_gpus import StepFunction
from gpuplan.analysis.site.notation import expand_hosts
from gpuplan.analysis.history.runs import END_US, START_US
from gpuplan.analysis.base.time_units import HOUR_US
from gpuplan.analysis.job_table.gpu_names import UNNAMED

PARTS_PER_GPU = 1_000_000
LEAST_NAMED = 0.99
"""Share of the GPU runs that must name their nodes before nodes count."""
LEAST_HELD_US, LEAST_HELD_SHARE = 2 * HOUR_US, 0.05
"""For how long a node must hold GPUs to have them: this time, or this share of a shorter log."""
MOST_LOST = 1000
"""Millionths of a GPU that the division of runs over nodes may lose."""
PEAK, NODES = "peak held", "nodes in the log"


@dataclass(frozen=True, slots=True)
class StatedCluster:
    """What the user says of the cluster.

    Attributes:
        source: where it is said, such as ``--cluster``.
        gpus: GPUs by type; None for GPUs of any type.
        node_gpus: GPUs of each node, where nodes are stated.
        partitions: nodes of each partition, where stated.
    """

    source: str
    gpus: Mapping[str | None, int]
    node_gpus: Mapping[str, int] = field(default_factory=dict)
    partitions: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pool:
    """GPUs that the same jobs may use.

    Attributes:
        gpu_type: their type; the partition where the log names no types.
        size: how many, in millionths.
        source: where that comes from.
        held: how many are held, in millionths.
    """

    gpu_type: str
    size: int
    source: str
    held: StepFunction


@dataclass(frozen=True, slots=True)
class Pools:
    """The pools of a log.

    Attributes:
        types: a pool per GPU type.
        of_partition: the pool of a (type, partition) that may not use all GPUs of the type.
    """

    types: dict[str, Pool]
    of_partition: dict[tuple[str, str], Pool]

    def pool(self, gpu_type: str, partition: str | None) -> Pool | None:
        """Return the GPUs that jobs of a type in a partition may use; None where none is known."""
        found = None if partition is None else self.of_partition.get((gpu_type, partition))
        return self.types.get(gpu_type) if found is None else found


@dataclass(frozen=True, slots=True)
class GpuKinds:
    """What GPUs the jobs of a log run on.

    Attributes:
        of_partition: what jobs run on that name no GPU type: the only type of their partition, or
            the partition itself where the log names no types at all.
    """

    of_partition: Mapping[str, str]

    @classmethod
    def of(cls, jobs: pl.DataFrame) -> GpuKinds:
        """Return the kinds of a whole log."""
        if "partition" not in jobs.columns:
            return cls({})
        gpu_jobs = jobs.filter(pl.col("num_gpus") > 0).select(
            pl.col("partition").cast(pl.String), pl.col("gpu_type").cast(pl.String)
        )
        if gpu_jobs["gpu_type"].null_count() == gpu_jobs.height:
            return cls({name: name for name in gpu_jobs["partition"].drop_nulls().unique()})
        types = gpu_jobs.drop_nulls().unique().group_by("partition").agg("gpu_type")
        return cls({name: kinds[0] for name, kinds in types.iter_rows() if len(kinds) == 1})

    def of_jobs(self, jobs: pl.DataFrame) -> pl.Expr:
        """Return the column ``kind`` of jobs."""
        named = pl.col("gpu_type").cast(pl.String)
        if "partition" not in jobs.columns or not self.of_partition:
            return named.fill_null(UNNAMED).alias("kind")
        part = pl.col("partition").cast(pl.String)
        of_part = part.replace_strict(self.of_partition, default=None, return_dtype=pl.String)
        return pl.coalesce(named, of_part, pl.lit(UNNAMED)).alias("kind")


def pools_of(jobs: pl.DataFrame, cluster: StatedCluster | None = None) -> Pools:
    """Return the pools of all jobs of a log.

    Args:
        jobs: with ``submit_time``, ``queue_s``, ``duration_s``, ``num_gpus``, ``gpu_type``, and
            where the log has them ``partition``, ``node_list`` and ``runs``.
        cluster: what is said of it; None for nothing.
    """
    runs = held_runs(jobs)
    named = _on_nodes(runs)
    node_gpus = _node_sizes(named) if named is not None else {}
    types: dict[str, Pool] = {}
    for (kind,), rows in runs.group_by("kind", maintain_order=True):
        held = _held(rows)
        types[kind] = Pool(kind, *_size(kind, held, node_gpus, named, cluster), held)
    if cluster is not None and set(cluster.gpus) == {None}:
        types = _of_any_type(runs, types, cluster)
    if named is None:
        return Pools(types, {})
    return Pools(types, _of_partitions(runs, named, node_gpus, types, cluster))


def held_runs(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return the runs of jobs that hold GPUs: ``run``, ``kind``, ``partition``, ``start``, ``end``
    in microseconds, ``parts`` in millionths of a GPU, and ``nodes``.
    """
    columns = jobs.columns
    text = {
        name: pl.col(name).cast(pl.String) if name in columns else pl.lit(None, pl.String)
        for name in ("partition", "node_list")
    }
    whole = jobs.filter((pl.col("num_gpus") > 0) & pl.col("duration_s").is_not_nan()).select(
        GpuKinds.of(jobs).of_jobs(jobs),
        text["partition"].alias("partition"),
        START_US.alias("start"),
        END_US.alias("end"),
        pl.col("num_gpus").alias("gpus"),
        text["node_list"].alias("nodes"),
        (pl.col("runs") if "runs" in columns else pl.lit(None)).alias("runs"),
    )
    runs = whole.filter(pl.col("runs").is_null()).drop("runs")
    if runs.height < whole.height:
        several = whole.filter(pl.col("runs").is_not_null()).explode("runs")
        run = pl.col("runs").struct
        has_nodes = any(part.name == "node_list" for part in several.schema["runs"].fields)  # type: ignore[attr-defined]
        several = several.filter(run.field("start").is_not_null()).with_columns(
            start=run.field("start").dt.epoch("us"),
            end=pl.coalesce(run.field("end").dt.epoch("us"), "end"),
            gpus=pl.coalesce(run.field("gpus"), "gpus"),
            nodes=run.field("node_list") if has_nodes else pl.col("nodes"),
        )
        runs = pl.concat([runs, several.drop("runs")])
    return runs.filter(pl.col("end") > pl.col("start")).select(
        pl.int_range(pl.len()).alias("run"), "kind", "partition", "start", "end",
        (pl.col("gpus") * PARTS_PER_GPU).round().cast(pl.Int64).alias("parts"), "nodes",
    )  # fmt: skip


def _held(runs: pl.DataFrame) -> StepFunction:
    return StepFunction.of(*(runs[name].to_numpy() for name in ("start", "end", "parts")))


def _on_nodes(runs: pl.DataFrame) -> pl.DataFrame | None:
    """Return a row per run and node; None where too few runs name their nodes."""
    lists = runs["nodes"].drop_nulls().unique()
    if not runs.height or runs["nodes"].null_count() > (1 - LEAST_NAMED) * runs.height:
        return None
    hosts = {text: _hosts(text) for text in lists.to_list()}
    of_list = pl.DataFrame(
        {"nodes": list(hosts), "node": list(hosts.values())},
        schema={"nodes": pl.String, "node": pl.List(pl.String)},
    )
    spread = runs.drop_nulls("nodes").join(of_list, on="nodes", how="left")
    count = pl.col("node").list.len().clip(1)
    return spread.with_columns(parts=pl.col("parts") // count).explode("node").drop("nodes")


def _hosts(text: str) -> list[str]:
    try:
        return expand_hosts(text)
    except ValueError:
        return [text]


def _node_sizes(named: pl.DataFrame) -> dict[str, int]:
    """Return the GPUs of each node, in millionths.

    That is the most held at once for `LEAST_HELD_US` in all, or by one job: in the hour that comes
    twice when clocks are set back, jobs that follow each other seem to run at once.
    """
    span = int(named["end"].max() or 0) - int(named["start"].min() or 0)  # type: ignore[call-overload]
    event = [
        named.select("node", time=edge, change=sign * pl.col("parts"))
        for edge, sign in (("start", 1), ("end", -1))
    ]
    held = (
        pl.concat(event)
        .group_by("node", "time")
        .agg(pl.col("change").sum())
        .sort("node", "time")
        .with_columns(
            held=pl.col("change").cum_sum().over("node"),
            lasting=(pl.col("time").shift(-1) - pl.col("time")).over("node").fill_null(0),
        )
        .sort("node", "held", descending=[False, True])
        .filter(
            pl.col("lasting").cum_sum().over("node") >= min(LEAST_HELD_US, span * LEAST_HELD_SHARE)
        )
    )
    by_level = held.group_by("node").agg(pl.col("held").max())
    by_job = named.group_by("node").agg(pl.col("parts").max())
    sizes = by_job.join(by_level, on="node", how="left").select(
        "node", pl.max_horizontal("parts", "held").alias("size")
    )
    return {node: _whole(size) for node, size in sizes.iter_rows()}


def _whole(parts: int) -> int:
    """Return whole GPUs where the division of a run over its nodes lost a little of one."""
    whole = round(parts / PARTS_PER_GPU) * PARTS_PER_GPU
    return whole if abs(parts - whole) < MOST_LOST else parts


def _size(
    kind: str,
    held: StepFunction,
    node_gpus: Mapping[str, int],
    named: pl.DataFrame | None,
    cluster: StatedCluster | None,
) -> tuple[int, str]:
    """Return how many GPUs of a type there are, in millionths, and where that comes from."""
    if cluster is not None and kind in cluster.gpus:
        return cluster.gpus[kind] * PARTS_PER_GPU, cluster.source
    if named is not None:
        nodes = named.filter(pl.col("kind") == kind)["node"].unique().to_list()
        return sum(node_gpus[node] for node in nodes), NODES
    return held.peak, PEAK


def _of_any_type(
    runs: pl.DataFrame, types: dict[str, Pool], cluster: StatedCluster
) -> dict[str, Pool]:
    """Return one pool for every type, where the cluster is stated as GPUs of any type."""
    held = _held(runs)
    size = (cluster.gpus[None] or 0) * PARTS_PER_GPU
    return {kind: Pool("all", size, cluster.source, held) for kind in types}


def _of_partitions(
    runs: pl.DataFrame,
    named: pl.DataFrame,
    node_gpus: Mapping[str, int],
    types: Mapping[str, Pool],
    cluster: StatedCluster | None,
) -> dict[tuple[str, str], Pool]:
    """Return the pools of partitions that may use some of the nodes of a type."""
    pools: dict[tuple[str, str], Pool] = {}
    stated = cluster.node_gpus if cluster is not None else {}
    partitions = cluster.partitions if cluster is not None else {}
    of_kind = {kind: set(rows["node"].unique()) for (kind,), rows in named.group_by("kind")}
    for (kind, partition), rows in named.group_by("kind", "partition", maintain_order=True):
        if partition is None or kind not in types or types[kind].gpu_type != kind:
            continue
        nodes = set(rows["node"].unique())
        if partition in partitions:
            nodes |= partitions[partition] & of_kind[kind]
        if nodes >= of_kind[kind]:
            continue
        on_them = named.filter(pl.col("node").is_in(list(nodes)))
        sums = on_them.group_by("run").agg(
            pl.col("start").first(), pl.col("end").first(), pl.col("parts").sum()
        )
        size = sum(
            stated[node] * PARTS_PER_GPU if node in stated else node_gpus[node] for node in nodes
        )
        source = cluster.source if cluster is not None and nodes <= stated.keys() else NODES
        held = _held(sums)
        pools[kind, partition] = Pool(kind, max(size, 0), source, held)
    return pools


def parts_of(gpus: pl.Series) -> IntArray:
    """Return GPUs in millionths."""
    result: IntArray = np.rint(gpus.to_numpy() * PARTS_PER_GPU).astype(np.int64)
    return result
