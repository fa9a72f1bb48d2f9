"""The GPUs that a job may use: those of its type, on the nodes of its partition where those are
known; how many there are, and how many are held over time.

How many there are comes from what the user says of the cluster, else from the nodes that the log
names (the most GPUs held on each), else from the most GPUs held at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import IntArray
from gpuplan.analysis.history.runs import END_OF_ONE_RUN_US, START_US
from gpuplan.analysis.history.steps import StepFunction
from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.analysis.job_table.notation import hosts_of

PARTS_PER_GPU = 1_000_000
LEAST_NAMED = 0.99
"""Share of the GPU runs that must name their nodes before nodes count."""
INSTANTS = 256
"""Instants of a log at which the GPUs held on each node are counted."""
MOST_HELD = 20_000_000
"""Nodes held, over all instants, above which fewer instants are looked at."""
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
class HeldPool:
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

    types: dict[str, HeldPool]
    of_partition: dict[tuple[str, str], HeldPool]

    def pool(self, gpu_type: str, partition: str | None) -> HeldPool | None:
        """Return the GPUs that jobs of a type in a partition may use; None where none is known."""
        pool = None if partition is None else self.of_partition.get((gpu_type, partition))
        return self.types.get(gpu_type) if pool is None else pool


def partition_kinds(jobs: pl.DataFrame) -> dict[str, str]:
    """Return, by partition, what the jobs of a whole log run on that name no GPU type.

    The only type of their partition, or the partition itself where the log names no types at all.
    """
    if "partition" not in jobs.columns:
        return {}
    gpu_jobs = jobs.filter(pl.col("num_gpus") > 0).select(
        pl.col("partition").cast(pl.String), pl.col("gpu_type").cast(pl.String)
    )
    if gpu_jobs["gpu_type"].null_count() == gpu_jobs.height:
        return {name: name for name in gpu_jobs["partition"].drop_nulls().unique()}
    types = gpu_jobs.drop_nulls().unique().group_by("partition").agg("gpu_type")
    return {name: kinds[0] for name, kinds in types.iter_rows() if len(kinds) == 1}


def kind_of(jobs: pl.DataFrame, of_partition: Mapping[str, str]) -> pl.Expr:
    """Return the column ``kind`` of jobs: their GPU type, or what `partition_kinds` says."""
    named = pl.col("gpu_type").cast(pl.String)
    if "partition" not in jobs.columns or not of_partition:
        return named.fill_null(UNNAMED).alias("kind")
    part = pl.col("partition").cast(pl.String)
    of_part = part.replace_strict(of_partition, default=None, return_dtype=pl.String)
    return pl.coalesce(named, of_part, pl.lit(UNNAMED)).alias("kind")


def pools_of(jobs: pl.DataFrame, cluster: StatedCluster | None = None) -> Pools:
    """Return the pools of all jobs of a log.

    Args:
        jobs: with ``submit_time``, ``queue_s``, ``duration_s``, ``num_gpus``, ``gpu_type``, and
            where the log has them ``partition``, ``node_list`` and ``runs``.
        cluster: what is said of it; None for nothing.
    """
    runs = held_runs(jobs)
    nodes = NamedNodes.of(runs)
    types: dict[str, HeldPool] = {}
    for (kind,), rows in runs.partition_by("kind", as_dict=True).items():
        held = _held(rows)
        types[kind] = HeldPool(kind, *_size(kind, held, nodes, cluster), held)
    if cluster is not None and set(cluster.gpus) == {None}:
        types = _of_any_type(runs, types, cluster)
    if nodes is None:
        return Pools(types, {})
    return Pools(types, _of_partitions(runs, nodes, types, cluster))


def held_runs(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return the runs of jobs that hold GPUs: ``kind``, ``partition``, ``start``, ``end``
    in microseconds, ``parts`` in millionths of a GPU, and ``nodes``.
    """
    columns = jobs.columns
    text = {
        name: pl.col(name).cast(pl.String) if name in columns else pl.lit(None, pl.String)
        for name in ("partition", "node_list")
    }
    of_jobs = jobs.filter((pl.col("num_gpus") > 0) & pl.col("duration_s").is_not_nan()).select(
        kind_of(jobs, partition_kinds(jobs)),
        text["partition"].alias("partition"),
        START_US.alias("start"),
        END_OF_ONE_RUN_US.alias("end"),
        pl.col("num_gpus").alias("gpus"),
        text["node_list"].alias("nodes"),
        (pl.col("runs") if "runs" in columns else pl.lit(None)).alias("runs"),
    )
    runs = of_jobs.filter(pl.col("runs").is_null()).drop("runs")
    if runs.height < of_jobs.height:
        several = of_jobs.filter(pl.col("runs").is_not_null()).explode("runs")
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
        "kind", "partition", "start", "end",
        (pl.col("gpus") * PARTS_PER_GPU).round().cast(pl.Int64).alias("parts"), "nodes",
    )  # fmt: skip


def _held(runs: pl.DataFrame) -> StepFunction:
    return StepFunction.of(*(runs[name].to_numpy() for name in ("start", "end", "parts")))


@dataclass(frozen=True, slots=True)
class NamedNodes:
    """The nodes that a log names.

    Attributes:
        lists: each list of nodes as it is written, in ``nodes``, with its ``hosts``.
        parts: millionths of a GPU that each node has.
        used: nodes by (kind, partition); the partition may be None.
    """

    lists: pl.DataFrame
    parts: dict[str, int]
    used: dict[tuple[str, str | None], set[str]]

    @classmethod
    def of(cls, runs: pl.DataFrame) -> NamedNodes | None:
        """Return the nodes of runs; None where too few runs name theirs."""
        if not runs.height or runs["nodes"].null_count() > (1 - LEAST_NAMED) * runs.height:
            return None
        by_use = runs.group_by("kind", "partition", "nodes").agg(pl.col("parts").max())
        by_use = by_use.drop_nulls("nodes")
        written = by_use["nodes"].unique().sort().to_list()
        hosts = {text: hosts_of(text) or [text] for text in written}
        lists = pl.DataFrame(
            {"nodes": list(hosts), "hosts": list(hosts.values())},
            schema={"nodes": pl.String, "hosts": pl.List(pl.String)},
        )
        used: dict[tuple[str, str | None], set[str]] = {}
        parts: dict[str, int] = {}
        for kind, partition, text, most in by_use.iter_rows():
            used.setdefault((kind, partition), set()).update(hosts[text])
            for node in hosts[text]:
                parts[node] = max(parts.get(node, 0), most // len(hosts[text]))
        for node, held in _held_by_node(runs, lists):
            parts[node] = max(parts[node], held)
        return cls(lists, {node: _near_whole(each) for node, each in parts.items()}, used)

    def of_kind(self, kind: str) -> set[str]:
        """Return all nodes with GPUs of a kind."""
        return {node for (of, _), nodes in self.used.items() if of == kind for node in nodes}

    def held_on(self, runs: pl.DataFrame, nodes: set[str]) -> StepFunction:
        """Return the GPUs that runs hold on some nodes."""
        count = pl.col("hosts").list.len()
        inside = pl.col("hosts").list.eval(pl.element().is_in(list(nodes))).list.sum()
        part = self.lists.select("nodes", count=count, inside=inside).filter(pl.col("inside") > 0)
        rows = runs.join(part, on="nodes", how="inner")
        return _held(rows.with_columns(parts=pl.col("parts") // pl.col("count") * pl.col("inside")))


def _held_by_node(runs: pl.DataFrame, lists: pl.DataFrame) -> Iterator[tuple[str, int]]:
    """Yield the second highest number of GPUs that each node holds at `INSTANTS` instants.

    It is the second, for in the hour that comes twice when clocks are set back, jobs that follow
    each other seem to run at once.
    """
    first, last = runs.select(pl.col("start").min(), pl.col("end").max()).row(0)
    step = max((last - first) // INSTANTS, 1)
    low, high = ((pl.col(edge) - first + step - 1) // step for edge in ("start", "end"))
    by_list = (
        runs.drop_nulls("nodes")
        .select("nodes", "parts", instant=pl.int_ranges(low, high))
        .filter(pl.col("instant").list.len() > 0)
        .explode("instant")
        .group_by("nodes", "instant")
        .agg(pl.col("parts").sum())
        .join(lists, on="nodes", how="left")
        .with_columns(count=pl.col("hosts").list.len())
    )
    every = 1 + int(by_list["count"].sum()) // MOST_HELD
    held = (
        by_list.filter(pl.col("instant") % every == 0)
        .with_columns(pl.col("parts") // pl.col("count"))
        .explode("hosts")
        .group_by("hosts", "instant")
        .agg(pl.col("parts").sum())
        .group_by("hosts")
        .agg(pl.col("parts").top_k(2).min())
    )
    yield from held.iter_rows()


def _near_whole(parts: int) -> int:
    """Return whole GPUs where the division of a run over its nodes lost a little of one."""
    whole_gpus = round(parts / PARTS_PER_GPU) * PARTS_PER_GPU
    return whole_gpus if abs(parts - whole_gpus) < MOST_LOST else parts


def _size(
    kind: str, held: StepFunction, nodes: NamedNodes | None, cluster: StatedCluster | None
) -> tuple[int, str]:
    """Return how many GPUs of a type there are, in millionths, and where that comes from."""
    if cluster is not None and kind in cluster.gpus:
        return cluster.gpus[kind] * PARTS_PER_GPU, cluster.source
    if nodes is not None:
        return sum(nodes.parts[node] for node in nodes.of_kind(kind)), NODES
    return held.peak, PEAK


def _of_any_type(
    runs: pl.DataFrame, types: dict[str, HeldPool], cluster: StatedCluster
) -> dict[str, HeldPool]:
    """Return one pool for every type, where the cluster is stated as GPUs of any type."""
    held = _held(runs)
    size = (cluster.gpus[None] or 0) * PARTS_PER_GPU
    return {kind: HeldPool("all", size, cluster.source, held) for kind in types}


def _of_partitions(
    runs: pl.DataFrame,
    nodes: NamedNodes,
    types: Mapping[str, HeldPool],
    cluster: StatedCluster | None,
) -> dict[tuple[str, str], HeldPool]:
    """Return the pools of partitions that may use some of the nodes of a type."""
    pools: dict[tuple[str, str], HeldPool] = {}
    stated = StatedCluster("", {}) if cluster is None else cluster
    for (kind, partition), used in sorted(nodes.used.items(), key=str):
        if partition is None or types[kind].gpu_type != kind:
            continue
        of_kind = nodes.of_kind(kind)
        members = used | (stated.partitions.get(partition, frozenset()) & of_kind)
        if members >= of_kind:
            continue
        gpus = {node: stated.node_gpus.get(node, 0) * PARTS_PER_GPU for node in members}
        size = sum(gpus[node] or nodes.parts[node] for node in members)
        source = stated.source if all(gpus.values()) else NODES
        pools[kind, partition] = HeldPool(kind, size, source, nodes.held_on(runs, members))
    return pools


def parts_of(gpus: pl.Series) -> IntArray:
    """Return GPUs in millionths."""
    result: IntArray = np.rint(gpus.to_numpy() * PARTS_PER_GPU).astype(np.int64)
    return result
