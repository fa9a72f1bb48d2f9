"""What a scheduler of high-priority and spot tasks is: its order, placement, eviction and quota."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

PLACEMENTS = ("gfs", "packing", "apart", "fragmentation", "lowest")
"""How a pod chooses its node: fullest node with its own kind and few evictions; fullest node; HP
and spot on nodes of their own; least growth of fragmentation; the lowest number."""

VICTIMS = ("gfs", "latest", "fewest", "fragmentation", "lowest", "random")
"""How an HP pod chooses whom to evict: least eviction rate and waste (Eq. 19); the runs that began
last; fewest tasks; least growth of fragmentation; lowest node; random."""

QUOTAS = ("none", "forecast", "share")
ETA_RULES = ("target", "literal", "fixed")
BOUNDS = ("pool", "sum")


@dataclass(frozen=True, slots=True)
class SpotScheduler:
    """A scheduler and the rules of the pool it serves (docs/gfs.md).

    Attributes:
        largest_first: whether the largest pods and gangs come first; else by submission.
        placement: one of `PLACEMENTS`.
        victims: one of `VICTIMS`.
        avoids_heat: whether spot pods of whole GPUs skip nodes with many recent evictions.
        heat_limit: heat from which they skip a node; an eviction counts 96 for an hour, and 1 for
            24 hours. 504 is where 0.01 x 3^(heat / 120) reaches 1 (GFS, section 3.4).
        quota: one of `QUOTAS`: no limit for spot, one from a forecast of HP demand, or
            ``quota_share`` of the pool.
        quota_share: 0 to 1.
        blocking: whether a task that does not fit holds up those of its kind behind it.
        leases: decide at every tick only; an evicted task then loses nothing.
        eta_rule: how the quota follows evictions: towards the rate 1 - p, towards p, or not.
        p: probability that HP demand stays below its forecast bound.
        eviction_target: share of spot runs evicted that eta steers towards; None for that of
            ``eta_rule``.
        guarantee_h: hours for which a spot run is guaranteed.
        aggregate: whether the bound is that of the pool's demand, or the sum of all
            organizations' bounds.
        eta_falls_above: eta falls where the eviction rate exceeds this many times its target.
        eta_rises_below: eta may rise where it is below this many times its target.
        eta_min, eta_max: limits of eta.
        longest_wait_s: spot waits above this raise eta.
        beta: weight of waste against the eviction rate (Eq. 19).
        checkpoint_s: useful run time between checkpoints of a spot run.
        milestones, milestones_s: parts of a task's duration, and seconds of its work, at which
            checkpoints are taken instead.
        grace_s: how long a victim works on after its eviction is decided.
        restart_s, restart_gang_s: start-up of a run after an eviction, up to 8 GPUs and above.
        tick_s: time between updates of the quota.
    """

    largest_first: bool = True
    placement: str = "gfs"
    victims: str = "gfs"
    avoids_heat: bool = True
    heat_limit: int = 504
    quota: str = "forecast"
    quota_share: float = 0.25
    blocking: bool = False
    leases: bool = False
    eta_rule: str = "target"
    p: float = 0.9
    eviction_target: float | None = None
    guarantee_h: int = 1
    aggregate: str = "pool"
    eta_falls_above: float = 1.5
    eta_rises_below: float = 0.5
    eta_min: float = 0.05
    eta_max: float = 2.0
    longest_wait_s: int = 3600
    beta: float = 0.5
    checkpoint_s: int = 3600
    milestones: tuple[float, ...] = ()
    milestones_s: tuple[float, ...] = ()
    grace_s: int = 30
    restart_s: int = 40
    restart_gang_s: int = 60
    tick_s: int = 300

    def __post_init__(self) -> None:
        if self.eta_min > self.eta_max:
            raise ValueError(
                f"eta_min must be at most eta_max, got {self.eta_min:g} and {self.eta_max:g}"
            )


GFS = SpotScheduler()
PACKED = replace(GFS, placement="packing", avoids_heat=False)
FCFS = SpotScheduler(
    largest_first=False, avoids_heat=False, quota="none", placement="lowest", victims="lowest"
)

SCHEDULERS: dict[str, SpotScheduler] = {
    "gfs": GFS,
    "gfs-e": GFS,
    "gfs-d": replace(GFS, eta_rule="fixed"),
    "gfs-s": PACKED,
    "gfs-p": replace(GFS, victims="random"),
    "gfs-sp": replace(PACKED, victims="random"),
    "yarn-cs": replace(FCFS, placement="packing", victims="latest"),
    "lyra": replace(FCFS, placement="apart", victims="fewest"),
    "fgd": replace(FCFS, placement="fragmentation", victims="fragmentation"),
    "chronus": replace(
        FCFS, largest_first=True, placement="packing", victims="fewest", leases=True, grace_s=0
    ),
    "static-quota": replace(FCFS, quota="share"),
    "first-fit": FCFS,
}  # fmt: skip
"""The schedulers by name. ``gfs-e`` differs in its forecast alone: last week's peak of the pool.
None blocks unless set, so that all have one queue discipline."""


class Rules(NamedTuple):
    """A `SpotScheduler` as numbers for the kernel; choices by their place among the known ones."""

    largest_first: bool
    placement: int
    victims: int
    avoids_heat: bool
    heat_limit: int
    quota: int
    blocking: bool
    leases: bool
    steers: bool
    target: float
    guarantee_s: int
    falls_above: float
    rises_below: float
    eta_min: float
    eta_max: float
    longest_wait_s: int
    beta: float
    checkpoint_s: int
    grace_s: int
    restart_s: int
    restart_gang_s: int
    tick_s: int
    fixed_quota: int
    seed: int

    @classmethod
    def of(cls, scheduler: SpotScheduler, capacity_milli: int, seed: int) -> Rules:
        """Return the rules on a pool of this size."""
        target = scheduler.p if scheduler.eta_rule == "literal" else 1.0 - scheduler.p
        if scheduler.eviction_target is not None:
            target = scheduler.eviction_target
        return cls(
            largest_first=scheduler.largest_first,
            placement=PLACEMENTS.index(scheduler.placement),
            victims=VICTIMS.index(scheduler.victims),
            avoids_heat=scheduler.avoids_heat,
            heat_limit=scheduler.heat_limit,
            quota=QUOTAS.index(scheduler.quota),
            blocking=scheduler.blocking,
            leases=scheduler.leases,
            steers=scheduler.eta_rule != "fixed",
            target=target,
            guarantee_s=3600 * scheduler.guarantee_h,
            falls_above=scheduler.eta_falls_above,
            rises_below=scheduler.eta_rises_below,
            eta_min=scheduler.eta_min,
            eta_max=scheduler.eta_max,
            longest_wait_s=scheduler.longest_wait_s,
            beta=scheduler.beta,
            checkpoint_s=scheduler.checkpoint_s,
            grace_s=scheduler.grace_s,
            restart_s=scheduler.restart_s,
            restart_gang_s=scheduler.restart_gang_s,
            tick_s=scheduler.tick_s,
            fixed_quota=int(scheduler.quota_share * capacity_milli),
            seed=1 + seed % (2**31 - 2),
        )
