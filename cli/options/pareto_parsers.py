"""From the options of ``gpuplan pareto`` to the arguments of the library: what their texts say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuplan.analysis.base.amounts import once, parse_by_type, parse_duration
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.job_table.gpu_names import same_gpu
from gpuplan.cli.options.pareto_options import (
    PlannedGpuChoice,
    RentingChoice,
    ScalingChoice,
    WidthChoice,
)
from gpuplan.planner.requests.clusters import read_size

if TYPE_CHECKING:
    from gpuplan.planner.elastic.class_options import ClassOptions
    from gpuplan.planner.elastic.renting import RentedCluster
    from gpuplan.planner.frontier.budget import Budget
    from gpuplan.planner.frontier.reference_points import Mark
    from gpuplan.planner.studies.gpu_types import GpuTypes

NUMBER = r"(\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?"
BUDGET = re.compile(
    rf"^(?P<usd>\$)?(?P<value>{NUMBER})(?P<unit>x|gpus?|/(?P<period>h|hour|month|quarter|year))?$",
    re.I,
)
NOW_BUDGET = re.compile(rf"^now(?:(?P<sign>[+-])(?P<percent>{NUMBER})%)?$", re.I)
THOUSANDS = re.compile(r"\$\d{1,3}(?:,\d{3})+(?!\d)|(?<!\d)\d{1,3},0\d\d(?:,\d{3})*(?!\d)")
"""Thousands separators that can only be part of one number: ``$1,500`` or ``12,000``."""
MOST = 10_000  # points of a range; more take minutes
FORMS = (
    "now, now+20% (of the GPUs in use today), 60gpu, 1.2x (times the one-GPU load), $12/h, "
    "$10000/month|quarter|year, or a range LOW:HIGH:COUNT of them"
)
CAP = re.compile(r"^(?P<name>.*\S)\s*<=\s*(?P<time>\S+)$")


def choices_of(scaling: ScalingChoice, width: WidthChoice) -> ClassOptions:
    """Return how the trace becomes a workload. Raises `UsageError`."""
    from gpuplan.planner.elastic.class_options import ClassOptions

    horizon, rescale = scaling.horizon, scaling.rescale
    return ClassOptions(
        class_by=scaling.class_by.value,
        horizon_s=None if horizon is None else parse_duration(horizon, "--horizon"),
        rescale_s=None if rescale is None else parse_duration(rescale, "--rescale"),
        max_width=width.max_width,
        widths=None if width.widths is None else parse_widths(width.widths),
        weights=parse_weights(width.weight or []),
        limits=parse_limits(width.limit or []),
        caps_s=parse_caps(width.require or []),
        width_step=width.width_step,
    )


def cluster_of(renting: RentingChoice, planned: PlannedGpuChoice) -> RentedCluster | None:
    """Return how GPUs are rented; None without a replay. Raises `UsageError`."""
    from gpuplan.planner.elastic.renting import RentedCluster

    if renting.no_replay:
        usual = RentingChoice(no_replay=True)
        for name in RentingChoice.__dataclass_fields__:
            if getattr(renting, name) != getattr(usual, name):
                raise UsageError(
                    f"--{name.replace('_', '-')} needs the replay, which --no-replay leaves out"
                )
        return None
    node_gpus, max_gpus = _rentable(renting, planned)
    return RentedCluster(
        node_gpus=node_gpus,
        provision_s=parse_duration(renting.provision_delay, "--provision-delay"),
        release_s=parse_duration(renting.release_delay, "--release-delay"),
        billing_s=parse_duration(renting.billing, "--billing"),
        max_gpus=max_gpus,
        overflow=renting.overflow.value,
    )


def _rentable(renting: RentingChoice, planned: PlannedGpuChoice) -> tuple[int, int | None]:
    """Return the GPUs of a node, and the most GPUs rented at once; None for no limit.

    Raises:
        UsageError: no such shape, several GPU types, another type than ``--gpu``, or two limits.
    """
    if renting.cluster is None:
        return 1, renting.max_gpus
    size = read_size(renting.cluster)
    if len(size.shape.pools) > 1:
        raise UsageError(
            f"{size.option}: pareto rents the same nodes of every GPU type\n"
            f"  next: --cluster {replace(size.shape.pools[0], gpu_type=None)}"
        )
    pool = size.shape.pool
    if pool.gpu_type is not None and not any(
        same_gpu(pool.gpu_type, gpu.partition("=")[0].strip()) for gpu in planned.gpu or []
    ):
        raise UsageError(
            f"{size.option}: {pool.gpu_type} is not a GPU to plan for\n"
            f"  next: --gpu {pool.gpu_type} as well, or --cluster {replace(pool, gpu_type=None)}"
        )
    if pool.gpus is not None and renting.max_gpus is not None:
        raise UsageError(
            f"{size.option} and --max-gpus {renting.max_gpus}: both limit the GPUs rented; give "
            "one of the two"
        )
    return pool.gpus_per_node or 1, renting.max_gpus if pool.gpus is None else pool.gpus


def targets_of(text: str | None) -> tuple[float, ...]:
    """Return the seconds of ``45m,1h``. Raises `UsageError`."""
    texts = () if text is None else text.split(",")
    return tuple(parse_duration(each, "--target-jct") for each in texts)


def gpu_types_of(planned: PlannedGpuChoice) -> GpuTypes:
    """Return the GPU types given. Raises `UsageError`."""
    from gpuplan.planner.studies.gpu_types import GpuTypes

    speeds = parse_by_type(planned.gpu or [], "--gpu", default=1.0)
    return GpuTypes(
        speeds=speeds,
        speeds_are_given=any("=" in text for text in planned.gpu or []),
        recorded_on=planned.recorded_on,
    )


def parse_caps(texts: Sequence[str]) -> dict[str, float]:
    """Return seconds by class from ``bert <= 2h``.

    Raises:
        UsageError: a text is not such a requirement, or repeats a class.
    """
    caps: dict[str, float] = {}
    for text in texts:
        match = CAP.match(text.strip())
        if match is None:
            raise UsageError(f"--require {text!r}: expected 'CLASS <= TIME' such as 'bert <= 2h'")
        once(caps, match["name"], "--require")
        caps[match["name"]] = parse_duration(match["time"], f"--require {text!r}: time")
    return caps


def parse_limits(texts: Sequence[str]) -> dict[str, int]:
    """Return GPUs by class from ``bert=16``. Raises `UsageError` as `parse_caps` does."""
    limits: dict[str, int] = {}
    for text in texts:
        name, _, gpus = (part.strip() for part in text.rpartition("="))
        if not name or not re.fullmatch("[0-9]{1,7}", gpus):
            raise UsageError(f"--limit {text!r}: expected CLASS=GPUS such as bert=16")
        once(limits, name, "--limit")
        limits[name] = int(gpus)
    return limits


def parse_widths(text: str) -> tuple[int, ...]:
    """Return the widths of ``1,2,4,8``. Raises `UsageError` for an invalid list."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--widths {text!r}: expected whole GPUs such as 1,2,4,8,16") from None


def parse_weights(texts: Sequence[str]) -> dict[str, float]:
    """Return weights by class from ``class=weight``. Raises `UsageError` where one is not so."""
    weights: dict[str, float] = {}
    for text in texts:
        name, equals, weight = text.rpartition("=")
        try:
            weights[name.strip()] = float(weight if equals else "")
        except ValueError:
            raise UsageError(f"--weight {text!r}: expected CLASS=W such as bert=2") from None
    return weights


def parse_reference_points(texts: Sequence[str]) -> list[Mark]:
    """Return the points of ``Pollux=142,2087.8s``.

    Raises:
        UsageError: a text is not such a point, or repeats a name.
    """
    from gpuplan.planner.frontier.reference_points import Mark

    marks: dict[str, Mark] = {}
    for text in texts:
        name, _, point = (part.strip() for part in text.rpartition("="))
        gpus, comma, time = (part.strip() for part in point.partition(","))
        try:
            count = float(gpus)
        except ValueError:
            count = 0.0
        if not (name and comma and 0 < count < float("inf")):
            raise UsageError(f"--mark {text!r}: expected NAME=GPUS,JCT such as 'our cluster=64,2h'")
        if name in marks:
            raise UsageError(f"--mark: {name!r} is given twice")
        jct_s = parse_duration(time, f"--mark {text!r}: time")
        if not jct_s > 0:
            raise UsageError(f"--mark {text!r}: time: expected more than 0")
        marks[name] = Mark(name, count, jct_s)
    return list(marks.values())


def parse_budgets(text: str) -> list[Budget]:
    """Return the budgets of a comma-separated list. Raises `UsageError` where one is not so."""
    if (comma := THOUSANDS.search(text)) is not None:
        raise UsageError(
            f"--budget {text!r}: a comma separates budgets, and thousands take none\n"
            f"  next: {text.replace(comma[0], comma[0].replace(',', ''))!r}"
        )
    return [budget for item in text.split(",") for budget in _item(item.strip())]


def _item(text: str) -> list[Budget]:
    parts = text.split(":")
    if len(parts) == 1:
        return [_budget(text)]
    if len(parts) != 3:
        raise UsageError(f"--budget {text!r}: expected {FORMS}")
    low, high = _budget(parts[0]), _budget(parts[1])
    if (low.unit, low.period) != (high.unit, high.period):
        raise UsageError(f"--budget {text!r}: both ends of a range must have one unit")
    if not low.value < high.value:
        raise UsageError(f"--budget {text!r}: a range runs from the lower budget to the higher")
    count = int(parts[2]) if re.fullmatch("[0-9]{1,9}", parts[2]) else 0
    if not 2 <= count <= MOST:
        raise UsageError(
            f"--budget {text!r}: a range has 2 to {MOST:,} points, as a whole number; "
            f"found {parts[2]!r}"
        )
    step = (high.value - low.value) / (count - 1)
    inner = [replace(low, value=low.value + i * step) for i in range(count - 1)]
    return [*inner, high]


def _budget(text: str) -> Budget:
    from gpuplan.planner.frontier.budget import DOLLARS, GPUS, LOADS, NOW, Budget

    if (now := NOW_BUDGET.match(text)) is not None:
        change = float(now["percent"] or 0) / 100
        return Budget(1 - change if now["sign"] == "-" else 1 + change, NOW)
    if re.match(r"^[+-]", text) and text.endswith("%"):
        raise UsageError(f"--budget {text!r}: of what?\n  next: --budget now{text}")
    match = BUDGET.match(text)
    if match is None or bool(match["usd"]) != bool(match["period"]):
        raise UsageError(f"--budget {text!r}: expected {FORMS}")
    value = float(match["value"])
    if match["usd"]:
        period = match["period"].lower()
        return Budget(value, DOLLARS, "h" if period.startswith("h") else period)
    return Budget(value, LOADS if (match["unit"] or "").lower() == "x" else GPUS)
