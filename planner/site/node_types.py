"""The GPU types of a site as people count them: nodes of one size, more or fewer of them."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.words import listed
from gpuplan.planner.twin.node_changes import (
    NodeChoice,
    add_nodes,
    chosen_nodes,
    remove_nodes,
)
from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.site import SiteCluster


@dataclass(frozen=True, slots=True)
class NodesOfType:
    """The nodes of a GPU type.

    Attributes:
        name: the GPU type, or the partition that was named.
        choice: the nodes, and the partitions that new ones join.
        text: how changes name them.
    """

    name: str
    choice: NodeChoice
    text: str

    @property
    def count(self) -> int:
        """How many there are today."""
        return len(self.choice.nodes)

    @property
    def gpus_per_node(self) -> int:
        """GPUs of each."""
        return self.choice.like.gpus

    def on(self, site: SiteCluster, count: int) -> SiteCluster:
        """Return the site with so many of these nodes. Raises `UsageError`."""
        if count == self.count:
            return site
        change = add_nodes if count > self.count else remove_nodes
        changed = change(f"{self.text}={abs(count - self.count)}").site
        assert changed is not None  # a change of nodes
        return changed(site)

    def least(self, site: SiteCluster, jobs: SiteJobs) -> int:
        """Return the fewest of these nodes with which every job has room in its partitions."""
        needed, gone = 1, set(self.choice.nodes)
        for part in site.partitions:
            if part.name not in self.choice.partitions or part.name not in jobs.partitions:
                continue
            of_part = jobs.partition == jobs.partitions.index(part.name)
            widest = int(jobs.nodes[of_part].max(initial=0))
            needed = max(needed, widest - len(set(part.nodes) - gone))
        return min(needed, self.count)


def node_types(site: SiteCluster, chosen: str | None = None) -> tuple[NodesOfType, ...]:
    """Return the GPU types of a site with their nodes, most GPUs first.

    Args:
        site: the site.
        chosen: a GPU type, a partition or a node; None for every type with nodes of one size.

    Raises:
        UsageError: nothing has that name, or it stands for nodes of several sizes or types.
    """
    types = tuple(dict.fromkeys(node.gpu_type for node in site.nodes))
    if chosen is not None:
        kind = next((kind for kind in types if kind.lower() == chosen.lower()), None)
        text = chosen if kind is None else _named(kind, site)
        return (NodesOfType(kind or chosen, chosen_nodes(site, text, "--gpu-type"), text),)
    counted = []
    for kind in types:
        if len({node.gpus for node in site.nodes if node.gpu_type == kind}) == 1:
            text = _named(kind, site)
            counted.append(NodesOfType(kind, chosen_nodes(site, text, "--gpu-type"), text))
    if not counted:
        raise UsageError(
            f"--gpu-type: the nodes of {listed(types)} have several sizes\n"
            "  next: --gpu-type NODE for nodes like one"
        )
    return tuple(sorted(counted, key=lambda each: -each.count * each.gpus_per_node))


def _named(kind: str, site: SiteCluster) -> str:
    """Return how changes name the nodes of a type: by the partition that they are, if any."""
    nodes = {node.name for node in site.nodes if node.gpu_type == kind}
    own = next((part.name for part in site.partitions if set(part.nodes) == nodes), None)
    return f"type:{kind}" if own is None else f"partition:{own}"
