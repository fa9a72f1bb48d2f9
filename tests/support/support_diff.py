"""Outputs of commands for `gpuplan diff` to compare, written out by hand."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from gpuplan.cli.diff.changes import compare
from gpuplan.cli.diff.read import Version


def output(command: str, results: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the JSON output of a command."""
    return {
        "schema_version": 1,
        "command": command,
        "inputs": [{"path": "t.parquet", "sha256": "ab" * 32, "rows": 10}],
        "parameters": {"seed": 0, "ci": None},
        "results": results,
        "warnings": [],
        "gpuplan_version": "0.1.0",
    } | more


def version(document: dict[str, Any]) -> Version:
    """Return a document as `read_versions` reads it."""
    studies = document.get("studies")
    named = {"": document} if studies is None else {one["name"]: one for one in studies}
    return Version(Path("x.json"), "00", document["command"], named, document["gpuplan_version"])


def compared(old: dict[str, Any], new: dict[str, Any], command: str = "pareto"):
    """Return the changes between two results of a command."""
    return compare(version(output(command, old)), version(output(command, new)))


PARETO = {
    "jobs": 100,
    "load_gpus": 4.0,
    "price": None,
    "cheapest": "fifo",
    "knee": {"budget_gpus": 8.0, "mean_jct_s": 3600.0, "utilization": 0.5, "wait_s": 0.0},
    "points": [
        {"budget_gpus": 4.0, "mean_jct_s": 7200.0},
        {"budget_gpus": 8.0, "mean_jct_s": 3600.0},
    ],
    "duration_cdf": [{"duration_s": 1.0}],
    "by_hour": [1, 2],
}


def changed_by(*path: Any, to: Any) -> dict[str, Any]:
    """Return `PARETO` with one value changed."""
    new = copy.deepcopy(PARETO)
    place: Any = new
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = to
    return new
