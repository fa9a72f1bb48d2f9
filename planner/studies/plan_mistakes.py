"""Refusals of an older plan that does not fit a log, or says what cannot be used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.words import listed
from gpuplan.planner.plan.plan_file import WRITE, PlanFile
from gpuplan.planner.requests.plan import PurchaseRequest

FILE_OPTIONS = ("spot", "defer", "by", "speedup", "cluster", "spot_availability", "budget")


def check_same_types(plan: PlanFile, path: Path, types: Sequence[str]) -> None:
    """Refuse a plan of GPU types of which a log has none. Raises `InputError`."""
    of_plan = [each.name for each in plan.types]
    if set(of_plan) & set(types):
        return
    named, of_log = (listed(list(filter(None, names)), 6) for names in (of_plan, types))
    raise InputError(
        path,
        f"the plan is of {named or 'GPUs without a type'}, and this log names "
        f"{of_log or 'no GPU types'}",
        hint="a plan of this log: gpuplan plan LOG ... -o plan.toml",
    )


def of_file(error: UsageError, typed: PurchaseRequest, path: Path) -> Exception:
    """Return what to raise where an option cannot be used that only the plan has."""
    text = str(error).partition("\n")[0]
    defaults = PurchaseRequest(typed.trace)
    is_typed = {name: getattr(typed, name) != getattr(defaults, name) for name in FILE_OPTIONS}
    is_typed["where"] = typed.jobs.where is not None
    for name, was_typed in is_typed.items():
        flag = f"--{name.replace('_', '-')}"
        if not was_typed and re.match(rf"{flag}(?![\w-])", text):
            return InputError(path, f"options.{name}{text.removeprefix(flag)}", hint=WRITE)
    return error
