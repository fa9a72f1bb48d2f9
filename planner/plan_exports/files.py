"""The files of an export, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gpuplan.planner.plan.plan_file import PlanFile
from gpuplan.planner.plan_exports.class_table import class_table
from gpuplan.planner.plan_exports.class_use import ClassUse
from gpuplan.planner.plan_exports.kueue import kueue_json
from gpuplan.planner.plan_exports.slurm import qos_text, slurm_conf

WRITERS: Mapping[str, Callable[[PlanFile, Sequence[ClassUse]], str]] = {
    "plan.conf": slurm_conf,
    "qos.txt": qos_text,
    "kueue.json": kueue_json,
    "classes.csv": class_table,
}
"""Name of a file -> what writes its text."""
