"""Routes: where the jobs of a class may run, and what they then hold and for how long.

On every route a job starts at its submission; a job that does not fit a route runs as recorded.
Checkpoints on spot GPUs are as far apart as in Young, "A first order approximation to the optimum
checkpoint interval", Communications of the ACM 17(9), 1974.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf

import numpy as np

from gpuplan.planner.speedup.model import ClassProfile, SpeedupModel
from gpuplan.simkit.arrays import BoolArray, FloatArray

BASE, WIDTH, SPOT, SERVERLESS = "base", "width", "spot", "serverless"
FACTORS = (Fraction(1, 4), Fraction(1, 2), Fraction(2), Fraction(4), Fraction(8))
LEAVES_S = (60.0, 300.0, 1800.0, inf)
GPUS_PER_NODE = 8
MOST_OVERHEAD = 1.0


@dataclass(frozen=True, slots=True)
class RouteSettings:
    """What running somewhere else takes.

    Attributes:
        rescale_s: a change of width.
        max_width: most GPUs of a job that is made wider.
        checkpoint_s, restore_s: to save a job that leaves containers, and to load it.
        spot_checkpoint_s, spot_restart_s: a checkpoint, and a restart, on spot GPUs.
        hazard_per_s: losses of a spot node.
    """

    rescale_s: float = 60.0
    max_width: float = 64.0
    checkpoint_s: float = 42.0
    restore_s: float = 42.0
    spot_checkpoint_s: float = 30.0
    spot_restart_s: float = 90.0
    hazard_per_s: float = 1 / 12 / 3600


@dataclass(frozen=True, slots=True)
class JobRoute:
    """Where jobs run.

    Attributes:
        kind: ``base``, ``width``, ``spot`` or ``serverless``.
        factor: by which a job is wider; of ``width``.
        leave_s: run time after which a job leaves containers, infinite for never; of
            ``serverless``.
    """

    kind: str
    factor: Fraction = Fraction(1)
    leave_s: float = inf

    @property
    def name(self) -> str:
        """The route in words: ``width 0.5``, ``serverless 300``."""
        if self.kind == WIDTH:
            return f"{WIDTH} {float(self.factor):g}"
        if self.kind == SERVERLESS:
            return f"{SERVERLESS} {'never' if self.leave_s == inf else f'{self.leave_s:g}'}"
        return self.kind


ROUTES = (
    JobRoute(BASE),
    *(JobRoute(WIDTH, factor=factor) for factor in FACTORS),
    JobRoute(SPOT),
    *(JobRoute(SERVERLESS, leave_s=leave_s) for leave_s in LEAVES_S),
)
"""All routes, in their order."""


@dataclass(frozen=True, slots=True)
class JobPaths:
    """What jobs hold on a route, in seconds after the submission of each; shape (n,).

    Attributes:
        fits: whether the route takes the job; one that it does not take runs as recorded.
        time_s: from submission to the end.
        pool_from_s: when it starts on the pool; equal to ``time_s`` where it never does.
        pool_gpus: that it then holds, until its end.
        outside_s: how long it holds the recorded GPUs outside the pool, from its submission.
        tau_s: between checkpoints on spot GPUs; infinite elsewhere.
    """

    fits: BoolArray
    time_s: FloatArray
    pool_from_s: FloatArray
    pool_gpus: FloatArray
    outside_s: FloatArray
    tau_s: FloatArray


def routes_offered(
    *, has_speedup: bool, has_spot: bool, has_serverless: bool
) -> tuple[JobRoute, ...]:
    """Return the routes for which there is what they need."""
    offered = {BASE: True, WIDTH: has_speedup, SPOT: has_spot, SERVERLESS: has_serverless}
    return tuple(route for route in ROUTES if offered[route.kind])


def profile_of(speedup: SpeedupModel | None, label: str, gpu_type: str) -> ClassProfile | None:
    """Return how the jobs of a label scale on a GPU type; None where that is not known."""
    if speedup is None:
        return None
    return speedup.types.get(gpu_type, speedup).of(label)


def job_paths(
    route: JobRoute,
    run_s: FloatArray,
    gpus: FloatArray,
    *,
    settings: RouteSettings,
    profile: ClassProfile | None = None,
    may_be_spot: BoolArray | None = None,
    gpus_per_node: int = GPUS_PER_NODE,
) -> JobPaths:
    """Return what jobs hold on a route.

    Args:
        route: where they run.
        run_s, gpus: as recorded; shape (n,).
        settings: overheads.
        profile: how they scale; None for jobs that have no other width.
        may_be_spot: whether each may run on spot GPUs; None for none.
        gpus_per_node: of a spot node.
    """
    none = np.zeros(run_s.size)
    endless = np.full(run_s.size, inf)
    if route.kind == WIDTH and profile is not None:
        fits, time_s = _wider(route, run_s, gpus, settings, profile)
        wide = np.where(fits, gpus * float(route.factor), gpus)
        return JobPaths(fits, time_s, none, wide, none, endless)
    if route.kind == SPOT and may_be_spot is not None:
        tau_s, overhead = checkpointing(gpus, settings, gpus_per_node)
        fits = may_be_spot & (overhead <= MOST_OVERHEAD)
        time_s = np.where(fits, run_s * (1 + overhead), run_s)
        outside_s = np.where(fits, time_s, 0.0)
        return JobPaths(fits, time_s, outside_s, gpus, outside_s, np.where(fits, tau_s, inf))
    if route.kind == SERVERLESS:
        leaves = run_s > route.leave_s
        moving_s = settings.checkpoint_s + settings.restore_s
        time_s = np.where(leaves, run_s + moving_s, run_s)
        left_s = 0.0 if route.leave_s == inf else route.leave_s + settings.checkpoint_s
        outside_s = np.where(leaves, left_s, run_s)
        return JobPaths(np.ones(run_s.size, bool), time_s, outside_s, gpus, outside_s, endless)
    is_base = route.kind == BASE
    return JobPaths(np.full(run_s.size, is_base), run_s, none, gpus, none, endless)


def _wider(
    route: JobRoute,
    run_s: FloatArray,
    gpus: FloatArray,
    settings: RouteSettings,
    profile: ClassProfile,
) -> tuple[BoolArray, FloatArray]:
    """Return whether each job fits another width, and its time: as recorded where it does not."""
    wide = gpus * float(route.factor)
    least, most = np.minimum(gpus, wide), np.maximum(gpus, wide)
    fits = (gpus == np.floor(gpus)) & (wide == np.floor(wide))
    fits &= (least >= profile.narrowest) & (most <= profile.widest)
    if route.factor > 1:
        fits &= wide <= settings.max_width
    time_s = run_s.copy()
    if fits.any():
        faster = profile.at(gpus[fits]) / profile.at(wide[fits])
        time_s[fits] = run_s[fits] * faster + settings.rescale_s
    return fits, time_s


def checkpointing(
    gpus: FloatArray, settings: RouteSettings, gpus_per_node: int = GPUS_PER_NODE
) -> tuple[FloatArray, FloatArray]:
    """Return Young's interval between checkpoints, and the time they and losses add to a job.

    Args:
        gpus: of each gang, which is lost with any of its nodes; shape (n,).
        settings: time of a checkpoint and of a restart, and the hazard of a node.
        gpus_per_node: of a spot node.

    Returns:
        Seconds of work between checkpoints, and overhead as a share of the run time.
    """
    per_s = settings.hazard_per_s * np.ceil(gpus / gpus_per_node)
    if settings.hazard_per_s == 0:
        return np.full(gpus.size, inf), np.zeros(gpus.size)
    tau_s = np.sqrt(2 * settings.spot_checkpoint_s / per_s)
    overhead = settings.spot_checkpoint_s / tau_s + per_s * (tau_s / 2 + settings.spot_restart_s)
    return tau_s, overhead
