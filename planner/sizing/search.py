"""Find the smallest cluster that meets the targets, and how sure that size is.

Candidates are the multiples of a step. A larger cluster need not have shorter waits: another
schedule may be worse. So the search keeps a candidate that fails below one that meets, halves the
gap to nothing, and then looks at some smaller candidates too: the answer meets the targets, and
the next smaller candidate does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from gpuplan.analysis.errors import InfeasibleError
from gpuplan.planner.engine import Engine, run_all, usable_cores
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.sizing.sized_replay import ReplayTerms, SizedReplay, replay_at
from gpuplan.planner.sizing.targets import whole_multiple
from gpuplan.simkit.cluster.parameters import Cluster
from gpuplan.simkit.cluster.simulator import enough_gpus
from gpuplan.simkit.workload import MOST_GPUS

LOOK_BELOW = 4
DOUBLINGS = 3
"""Times that the size at which no job waits is doubled for policies that let jobs wait even so."""


@dataclass(frozen=True, slots=True)
class SizeInterval:
    """The smallest sizes of resamples: between ``low`` and ``high`` GPUs, which are candidates."""

    low_gpus: int
    high_gpus: int
    blocks: int


@dataclass
class Sizes:
    """The replays of one pool, each size once.

    Attributes:
        jobs: of the pool.
        terms: what the replays share.
        step: candidates are its multiples.
        engine: where replays run.
        progress: called after each replay.
    """

    jobs: TraceJobs
    terms: ReplayTerms
    step: int
    engine: Engine
    progress: Callable[[], None] = lambda: None
    found: dict[int, SizedReplay] = field(default_factory=dict)
    _enough: int = 0

    @property
    def widest(self) -> int:
        """GPUs of the widest job."""
        return int(self.jobs.workload.gpus.max())

    @property
    def least(self) -> int:
        """The smallest candidate that can hold the widest job."""
        return whole_multiple(self.widest, self.step)

    def enough(self) -> int:
        """Return the smallest candidate at which no job waits for another."""
        if self._enough:
            return self._enough
        shape = Cluster(
            self.terms.gpus_per_node or 1, skipping=True, gpus_per_node=self.terms.gpus_per_node
        )
        needed = enough_gpus(self.jobs.workload, shape)
        most = MOST_GPUS // self.step * self.step
        self._enough = min(whole_multiple(needed, self.step), most)
        return self._enough

    def at(self, sizes: Iterable[int]) -> list[SizedReplay]:
        """Return the replays at some sizes, side by side where they are new."""
        wanted = list(sizes)
        new = [gpus for gpus in dict.fromkeys(wanted) if gpus not in self.found]
        for one in run_all(replay_at, new, shared=(self.jobs, self.terms), engine=self.engine):
            self.found[one.gpus] = one
            self.progress()
        return [self.found[gpus] for gpus in wanted]

    def one(self, gpus: int) -> SizedReplay:
        """Return the replay at one size."""
        return self.at([gpus])[0]


def smallest(sizes: Sizes) -> int:
    """Return the smallest size found that meets the targets; the next smaller one does not.

    Raises:
        InfeasibleError: no size meets them.
    """
    top = _sure(sizes)
    found = _between(sizes, 0, top // sizes.step, lambda one: one.meets) * sizes.step
    while True:  # another schedule may be better with fewer GPUs
        below = range(found - sizes.step, sizes.least - 1, -sizes.step)[: 1 + LOOK_BELOW]
        lower = [one.gpus for one in sizes.at(below) if one.meets]
        if not lower:
            return found
        found = min(lower)


def _sure(sizes: Sizes) -> int:
    """Return a size that meets the targets. Raises `InfeasibleError` where there is none."""
    for target in sizes.terms.targets:
        if not target.is_met(target.least):
            raise InfeasibleError(
                f"--target {target.text!r}: no size meets it; where no job waits it is "
                f"{target.least:g}\n  next: a higher limit"
            )
    top = max(sizes.enough(), sizes.least)
    for _ in range(1 + DOUBLINGS):
        found = sizes.one(top)
        if found.meets:
            return top
        if 2 * top > MOST_GPUS:
            break
        top *= 2
    missed = next(
        (target, value)
        for target, value in zip(sizes.terms.targets, found.target_values, strict=True)
        if not target.is_met(value)
    )
    raise InfeasibleError(
        f"--target {missed[0].text!r}: no size meets it; under {sizes.terms.policy.policy} it is "
        f"{missed[1]:g} even at {found.gpus:,} GPUs, where no job waits for another\n"
        "  next: a higher limit, or another --policy"
    )


def _between(
    sizes: Sizes, fails: int, meets: int, holds: Callable[[SizedReplay], bool]
) -> int:  # fmt: skip
    """Return a multiple of the step at which a property holds, and below which it does not.

    Args:
        sizes: the replays.
        fails: a multiple below all candidates, or at which it does not hold.
        meets: a multiple at which it holds.
        holds: the property.
    """
    fails = max(fails, sizes.least // sizes.step - 1)
    workers = sizes.engine.workers or usable_cores()
    while meets - fails > 1:
        inner = np.linspace(fails, meets, min(workers, meets - fails - 1) + 2)[1:-1]
        places = sorted({round(one) for one in inner.tolist()} - {fails, meets})
        for place, one in zip(
            places, sizes.at(place * sizes.step for place in places), strict=True
        ):
            if holds(one):
                meets = place
                break
            fails = place
    return meets


def interval_of(sizes: Sizes, answer: int) -> SizeInterval | None:
    """Return the interval of the smallest size; None where there are too few jobs for one."""
    step, least = sizes.step, sizes.least // sizes.step
    center = sizes.one(answer)
    if center.met_share is None:
        return None
    at, top = answer // step, max(sizes.enough(), answer) // step
    low, low_fails = at, least - 1 if center.may_meet else at
    high, high_fails = at, at
    down, up, reach = center.may_meet and at > least, not center.surely_meets, 1
    while down or up:  # both ends at once, twice as far each time
        under, over = max(at - reach, least), min(at + reach, top)
        sizes.at([*([under * step] if down else []), *([over * step] if up else [])])
        if down:
            if sizes.one(under * step).may_meet:
                low, down = under, under > least
            else:
                low_fails, down = under, False
        if up:
            high, up = over, over < top and not sizes.one(over * step).surely_meets
            high_fails = over if up else high_fails
        reach *= 2
    if center.may_meet:
        low = _between(sizes, low_fails, low, lambda one: one.may_meet)
    if not center.surely_meets:
        high = _between(sizes, high_fails, high, lambda one: one.surely_meets)
    return SizeInterval(low * step, max(high, at) * step, center.blocks)
