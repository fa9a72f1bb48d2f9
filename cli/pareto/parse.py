"""From the options of ``gpuplan pareto`` to the arguments of the library."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuplan.analysis.base.amounts import once, parse_by_type, parse_duration
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.job_table.gpu_names import same_gpu
from gpuplan.cli.options.cluster_options import read_size
from gpuplan.cli.pareto.options import (
    PlannedGpuChoice,
    RentingChoice,
    ScalingChoice,
    WidthChoice,
)

if TYPE_CHECKING:
    from gpuplan.planner.frontier.model.class_options import ClassOptions
    from gpuplan.planner.frontier.replay.renting import RentedCluster
    from gpuplan.planner.studies.gpu_types import GpuTypes

CAP = re.compile(r"^(?P<name>.*\S)\s*<=\s*(?P<time>\S+)$")


def choices_of(scaling: ScalingChoice, width: WidthChoice) -> ClassOptions:
    """Return how the trace becomes a workload. Raises `UsageError`."""
    from gpuplan.planner.frontier.model.class_options import ClassOptions
    from gpuplan.planner.frontier.model.job_classes import parse_weights, parse_widths

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
    from gpuplan.planner.frontier.replay.renting import RentedCluster

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
    return tuple(parse_duration(one, "--target-jct") for one in texts)


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
