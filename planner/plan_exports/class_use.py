"""What the jobs of each class hold in each market, as planned: what exports divide quotas by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.planner.plan.assignment import shares_of
from gpuplan.planner.plan.purchase import Purchase
from gpuplan.planner.plan.routes import SERVERLESS, SPOT
from gpuplan.simkit.arrays import FloatArray

POOL = "pool"
MARKETS = (POOL, SPOT, SERVERLESS)


@dataclass(frozen=True, slots=True)
class ClassUse:
    """GPUs that a class holds in a market, in the program's bins.

    Attributes:
        name, gpu_type, width_bucket: the class.
        market: ``pool``, ``spot`` or ``serverless``.
        mean_gpus, peak_gpus: held at a time.
    """

    name: str
    gpu_type: str
    width_bucket: str
    market: str
    mean_gpus: float
    peak_gpus: float


def class_uses(plan: Purchase) -> tuple[ClassUse, ...]:
    """Return what the classes of a plan hold, in the markets that they use."""
    columns = plan.program.columns
    share = shares_of(columns, plan.whole.share)
    uses = []
    for number, planned in enumerate(columns.classes):
        of_class = columns.class_of == number
        held: dict[str, FloatArray] = {POOL: (share * of_class) @ columns.pool_gpus}
        for market in (SPOT, SERVERLESS):
            rows = of_class & columns.of_kind(market)
            held[market] = (share * rows) @ columns.outside_gpus
        uses += [
            ClassUse(*planned.key, market, float(gpus.mean()), float(gpus.max()))
            for market, gpus in held.items()
            if np.any(gpus > 0)
        ]
    return tuple(uses)
