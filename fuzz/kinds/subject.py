"""What a kind of cases with inputs of its own drafts, and the values of Slurm and Kubernetes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

SLURM = (
    *("UNLIMITED", "Partition_Limit", "1-0", "1-00:00:00", "60", "0", "-1", "1e30", "4294967296"),
    *("n[1-3]", "n[1-999999999]", "n[01-", "ALL", "a[01-06],h[01-04]", "100000", "1000001"),
    *("gpu:a100:8", "gres/gpu=8", "gres/gpu=99999999999999999999", "cpu=4", "gres/gpu:h100=2"),
    *("Unknown", "None", "2026-03-02T01:34:55", "CANCELLED by 7", "RUNNING", "parent", "root"),
    *("DRAIN", "DEFAULT", "{ gpu = 3 }", "[]", "{}", "true", "[[1]]", "inf", "nan", "1979-05-27"),
    *("1", "2", "7", "30", "1000", "9999999-00:00:00", "99999999999", "1772409299", "18000000000"),
    *("priority/basic", "sched/builtin", "NO_FAIR_TREE", "CR_LLN", "none", "vision", "Reservation"),
)
KUBERNETES = (
    *("8", "16", "0", "1", "-1", "3k", "500m", "1Gi", "0.5", "1e3", "8E", "99999999999999999999"),
    *("10000000", "10000001", "team-a", "team-b", "research", "default-flavor", "a100", "h100"),
    *("LowerPriority", "Never", "Any", "LowerOrNewerEqualPriority", "StrictFIFO", "BestEffortFIFO"),
    *("2026-11-03T10:00:00Z", "2026-11-03T10:00:00+25:00", "1969-12-31T23:59:59Z", "True", "False"),
    *("Running", "Succeeded", "Pending", "QuotaReserved", "Admitted", "Evicted", "Finished"),
    *("nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-9g.999gb", "cpu", "NaN", "+Inf"),
    *("ADDED", "DELETED", "BOOKMARK", "Workload", "ClusterQueue", "Pod", "Node", "List", "null"),
)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a kind drafts.

    Attributes:
        lines: command lines to start from.
        options: values of options, valid and hostile.
        damaged: files to damage, where a line names them.
        files: all files.
        policies: policies whose settings ``--set`` draws.
        values: what its files hold, put in the place of other values.
    """

    lines: tuple[tuple[str, ...], ...]
    options: dict[str, tuple[str, ...]]
    damaged: tuple[str, ...]
    files: Callable[[], dict[str, bytes]]
    policies: tuple[str, ...] = ()
    values: tuple[str, ...] = SLURM
