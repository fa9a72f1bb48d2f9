"""A plan for Slurm: nodes, partitions with time limits, and limits of QOS.

A GPU type has the partition of its pool, one of its spot GPUs, and one for each time after which
jobs leave containers, whose time limit is that time. Nodes that are rented are cloud nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, inf

from gpuplan.planner.plan.plan_file import PlanFile, PlannedShares, PlanType
from gpuplan.planner.plan.routes import GPUS_PER_NODE, SERVERLESS, SPOT, WIDTH
from gpuplan.planner.plan_exports.class_table import ROUTE_OF, ClassUses, plain_names

MINUTE_S = 60
ROUNDING = 1e-6
QOS_COLUMNS = "Name|Priority|GrpTRES|MaxTRESPU|MaxJobsPU|MaxWall"
FIRST, LATER = 1000, 0
"""Priorities of jobs that run at once, and of those that may be lost or wait."""


@dataclass(frozen=True, slots=True)
class SlurmPartition:
    """A partition of a plan.

    Attributes:
        name: also that of its QOS.
        gpus: most GPUs in use; those of the pool that are always there are ``standing``.
        standing: GPUs that are always there.
        max_minutes: of a job; None for no limit.
        priority: of its QOS.
        about: for people.
    """

    name: str
    gpus: int
    standing: int
    max_minutes: int | None
    priority: int
    about: str


def partitions_of(
    plan: PlanFile, uses: ClassUses
) -> list[tuple[PlanType, str, list[SlurmPartition]]]:
    """Return the GPU types with their names for Slurm and their partitions."""
    names = plain_names([each.name for each in plan.types], "gpu")
    peak = {(each.gpu_type, each.name): each.peak_gpus for each in plan.market}
    parts = []
    for each in plan.types:
        name = names[each.name]
        standing = _whole_gpus(each.owned + plan.bought(each.name))
        rented = _whole_gpus(peak.get((each.name, "on_demand"), 0.0))
        partitions = []
        if standing + rented:
            about = f"{standing} owned or committed, up to {rented} on demand"
            partitions.append(SlurmPartition(name, standing + rented, standing, None, FIRST, about))
        spot = _whole_gpus(peak.get((each.name, SPOT), 0.0))
        if spot:
            partitions.append(
                SlurmPartition(f"{name}-spot", spot, 0, None, LATER, "spot, may be lost")
            )
        partitions += _containers(each, name, uses)
        parts.append((each, name, partitions))
    return parts


def _containers(of_type: PlanType, name: str, uses: ClassUses) -> Iterator[SlurmPartition]:
    """Yield a partition for each time after which jobs leave containers, with their own peak."""
    for (gpu_type, leave_s), gpus in sorted(uses.container_peaks.items()):
        if gpu_type != of_type.name:
            continue
        minutes = None if leave_s == inf else ceil(leave_s / MINUTE_S)
        tier = "containers" if minutes is None else f"containers-{minutes}m"
        about = "containers" if minutes is None else f"containers, left after {minutes} min"
        yield SlurmPartition(f"{name}-{tier}", max(1, _whole_gpus(gpus)), 0, minutes, FIRST, about)


def slurm_conf(plan: PlanFile, uses: ClassUses) -> str:
    """Return nodes and partitions as slurm.conf has them."""
    lines = [
        "# Written by gpuplan plan, to be included in slurm.conf in place of nodes and partitions.",
        "# QOS are in qos.txt, and need AccountingStorageEnforce=limits,qos. What share of each",
        "# class runs on which partition is in classes.csv.",
        *(f"# {text}" for text in plan.running_on()),
    ]
    is_first = True
    for of_type, name, partitions in partitions_of(plan, uses):
        lines += ["", f"# {of_type.name or 'GPUs without a type'}"]
        lines += [f"#   {text}" for text in _classes(plan, of_type, name)]
        node = of_type.gpus_per_node or GPUS_PER_NODE
        for partition in partitions:
            hosts = []
            rented = partition.gpus - partition.standing
            kind = partition.name.removeprefix(f"{name}-") if partition.name != name else "cloud"
            for group, gpus, weight, state in (
                ("pool", partition.standing, 1, "UNKNOWN"),
                (kind, rented, 100, "CLOUD"),
            ):
                for host, count in _hosts(f"{name}-{group}", gpus, node):
                    hosts.append(host)
                    lines.append(
                        f"NodeName={host} Gres=gpu:{name}:{count} Weight={weight} State={state}"
                    )
            limit = "UNLIMITED" if partition.max_minutes is None else str(partition.max_minutes)
            tier = 2 if partition.priority == FIRST else 1
            default = " Default=YES" if is_first else ""
            is_first = False
            lines.append(
                f"PartitionName={partition.name} Nodes={','.join(hosts)} MaxTime={limit} "
                f"PriorityTier={tier} QOS={partition.name}{default}  # {partition.about}"
            )
    return "\n".join(lines) + "\n"


def qos_text(plan: PlanFile, uses: ClassUses) -> str:
    """Return the QOS as ``sacctmgr show qos -P`` prints them."""
    lines = [QOS_COLUMNS]
    standing = 0
    for _, _, partitions in partitions_of(plan, uses):
        for each in partitions:
            wall = "" if each.max_minutes is None else _wall(each.max_minutes)
            lines.append(f"{each.name}|{each.priority}|gres/gpu={each.gpus}|||{wall}")
            standing += each.standing
    if plan.options.defer is not None and standing:
        lines.append(f"deferred|{LATER}|gres/gpu={standing}|||")
    return "\n".join(lines) + "\n"


def _wall(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}-{hours:02}:{rest:02}:00" if days else f"{hours:02}:{rest:02}:00"


def _whole_gpus(gpus: float) -> int:
    return ceil(gpus - ROUNDING)


def _hosts(name: str, gpus: int, node: int) -> Iterator[tuple[str, int]]:
    """Yield host lists with the GPUs of each of their nodes; the last node may have fewer."""
    full, rest = divmod(gpus, node)
    if full == 1:
        yield f"{name}-1", node
    elif full:
        yield f"{name}-[1-{full}]", node
    if rest:
        yield f"{name}-{full + 1}", rest


def _classes(plan: PlanFile, of_type: PlanType, name: str) -> Iterator[str]:
    """Yield a sentence on where the jobs of each class go."""
    for each in plan.classes:
        if each.gpu_type == of_type.name:
            gpus = "1 GPU" if each.width_bucket == "1" else f"{each.width_bucket} GPUs"
            label = " ".join(each.name.split())
            parts = each.routes.items()
            goes = [f"{part:.0%} {_goes(route, each, name)}" for route, part in parts]
            yield f"{label}, {gpus}: {'; '.join(goes)}"


def _goes(route_name: str, each: PlannedShares, name: str) -> str:
    route = ROUTE_OF[route_name]
    if route.kind == SPOT:
        every = ", ".join(
            f"{seconds / MINUTE_S:.0f} min on {nodes} node{'' if nodes == '1' else 's'}"
            for nodes, seconds in each.checkpoint_every_s.items()
        )
        return f"to {name}-spot, checkpoint every {every}" if every else f"to {name}-spot"
    if route.kind == SERVERLESS:
        if route.leave_s == inf:
            return f"to {name}-containers"
        minutes = ceil(route.leave_s / MINUTE_S)
        return f"to {name}-containers-{minutes}m, then to {name}"
    if route.kind == WIDTH:
        return f"to {name} on {float(route.factor):g} times the GPUs"
    return f"to {name}"
