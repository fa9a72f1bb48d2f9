"""From the options of ``gpuplan pareto`` to the arguments of the library."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.job_table.gpu_names import same_gpu
from gpuplan.cli.formats.units import parse_duration
from gpuplan.cli.options.by_type import once, parse_by_type
from gpuplan.cli.options.cluster_options import read_size
from gpuplan.cli.options.pareto_options import (
    MoneyChoice,
    RentingChoice,
    ScalingChoice,
    WidthChoice,
)

if TYPE_CHECKING:
    from gpuplan.planner.elastic.class_options import ClassOptions
    from gpuplan.planner.elastic.renting import RentedCluster
    from gpuplan.planner.frontier.reference_points import Mark
    from gpuplan.planner.studies.gpu_types import GpuTypes

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


def cluster_of(renting: RentingChoice, money: MoneyChoice) -> RentedCluster | None:
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
    node_gpus, max_gpus = _rentable(renting, money)
    return RentedCluster(
        node_gpus=node_gpus,
        provision_s=parse_duration(renting.provision_delay, "--provision-delay"),
        release_s=parse_duration(renting.release_delay, "--release-delay"),
        billing_s=parse_duration(renting.billing, "--billing"),
        max_gpus=max_gpus,
        overflow=renting.overflow.value,
    )


def _rentable(renting: RentingChoice, money: MoneyChoice) -> tuple[int, int | None]:
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
        same_gpu(pool.gpu_type, gpu.partition("=")[0].strip()) for gpu in money.gpu or []
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


def gpu_types_of(money: MoneyChoice) -> GpuTypes:
    """Return the GPU types and prices given. Raises `UsageError`."""
    from gpuplan.planner.studies.gpu_types import GpuTypes

    speeds = parse_by_type(money.gpu or [], "--gpu", default=1.0)
    return GpuTypes(
        speeds=speeds,
        speeds_are_given=any("=" in text for text in money.gpu or []),
        usd_per_gpu_h=_prices(money.price or [], tuple(speeds)),
        prices=money.prices,
        provider=money.provider,
        recorded_on=money.recorded_on,
    )


def _prices(texts: Sequence[str], types: tuple[str, ...]) -> dict[str, float]:
    """Return what ``--price`` says, by type."""
    if len(texts) == 1 and "=" not in texts[0]:
        try:
            usd = float(texts[0])
        except ValueError:
            raise UsageError(
                f"--price {texts[0]!r}: expected dollars per GPU-hour such as 1.29, or TYPE=USD"
            ) from None
        if len(types) > 1:
            raise UsageError("--price: several GPU types need a price each, for example T4=0.5")
        return {types[0] if types else "": usd}
    return parse_by_type(texts, "--price")


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
