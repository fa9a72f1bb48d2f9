"""Find the smallest cluster that meets the targets, and how sure that size is.

Candidates are the multiples of a step. A larger cluster need not have shorter waits: another
schedule may be worse. So the search keeps a candidate that fails below one that meets, halves the
gap to nothing, and then looks at some smaller candidates too: the answer meets the targets, and
the next smaller candidate does not.

A replay of many jobs takes long. The search of a long log therefore begins at the size that its
first jobs need (`PART`), and intervals are rounded outward to 1% of the size (`ROUGH`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.planner.engine import Engine
from gpuplan.planner.parallel import run_all, usable_cores
from gpuplan.planner.policies.cluster import replayable
from gpuplan.planner.runs.gpu_intervals import GpuInterval, Resampling
from gpuplan.planner.runs.trace_jobs import TraceJobs, first_jobs, replay_bytes
from gpuplan.planner.sizing.sized_replay import (
    ReplayTerms,
    SizedReplay,
    UnclearSizes,
    replay_at,
)
from gpuplan.planner.sizing.targets import Target, whole_multiple
from gpuplan.simkit.cluster.parameters import Cluster
from gpuplan.simkit.cluster.simulator import enough_gpus
from gpuplan.simkit.limits import MOST_GPUS

LOOK_BELOW = 4
MANY_JOBS = 1_000_000
PART = 10
"""One in so many jobs of a long log, its first, give the size at which its search begins."""
NEAR = 64
"""The first candidates of that search are within this fraction of it."""
ROUGH = 100
DOUBLINGS = 3
"""Times that the size at which no job waits is doubled for policies that let jobs wait even so."""


class Candidates(ABC):
    """Sizes that may be the answer, multiples of a step, and the replays of those tried.

    Attributes:
        step: candidates are its multiples.
        engine: where replays run.
        replays: by size, each size once.
        targets: what a size must meet.
        confidence: how intervals are made; None for none.
        rules: the policy or the rules that are replayed, for messages.
        least: the smallest candidate that can hold the widest job.
        is_long: whether replays take so long that fewer of them count.
        doublings: how often `enough` is doubled before the search gives up.
        where_enough: what to say of the largest size tried where none meets a target.
    """

    targets: tuple[Target, ...]
    confidence: Resampling | None
    rules: str
    least: int
    is_long = False
    doublings = DOUBLINGS
    where_enough = (
        "GPUs, where no job waits for another\n  next: a higher limit, or another --policy"
    )

    def __init__(self, step: int, engine: Engine) -> None:
        self.step, self.engine = step, engine
        self.replays: dict[int, SizedReplay] = {}

    @abstractmethod
    def enough(self) -> int:
        """Return a candidate above which the search need not look."""

    @abstractmethod
    def replayed(self, sizes: Sequence[int]) -> Iterable[SizedReplay]:
        """Return new replays, in the order of the sizes."""

    def first_guess(self) -> int:
        """Return the multiple of the step at which the search of a long log begins."""
        return self.enough() // self.step

    def at(self, sizes: Iterable[int]) -> list[SizedReplay]:
        """Return the replays at some sizes, side by side where they are new."""
        wanted = list(sizes)
        new = [gpus for gpus in dict.fromkeys(wanted) if gpus not in self.replays]
        for replay in self.replayed(new) if new else ():
            self.replays[replay.gpus] = replay
        return [self.replays[gpus] for gpus in wanted]

    def at_size(self, gpus: int) -> SizedReplay:
        """Return the replay at one size."""
        return self.at([gpus])[0]


class Sizes(Candidates):
    """The sizes of one pool under a policy."""

    def __init__(self, jobs: TraceJobs, terms: ReplayTerms, step: int, engine: Engine) -> None:
        super().__init__(step, engine)
        self.jobs, self.terms = jobs, terms
        self.targets, self.confidence = terms.targets, terms.confidence
        self.rules = terms.policy.policy
        self.is_long = jobs.workload.size > MANY_JOBS
        self.least = whole_multiple(int(jobs.workload.gpus.max()), step)

    def enough(self) -> int:
        """Return the smallest candidate at which no job waits for another."""
        return self._enough

    @cached_property
    def _enough(self) -> int:
        shape = Cluster(
            self.terms.gpus_per_node or 1, skipping=True, gpus_per_node=self.terms.gpus_per_node
        )
        with replayable({}):
            needed = enough_gpus(self.jobs.workload, shape)
        most = MOST_GPUS // self.step * self.step
        return min(whole_multiple(needed, self.step), most)

    def replayed(self, sizes: Sequence[int]) -> Iterable[SizedReplay]:
        """Return new replays, in the order of the sizes."""
        return run_all(
            replay_at,
            sizes,
            shared=(self.jobs, self.terms),
            engine=self.engine,
            bytes_each=replay_bytes(self.jobs),
        )

    def first_guess(self) -> int:
        """Return the multiple of the step that the first jobs need."""
        part = first_jobs(self.jobs, self.jobs.workload.size // PART)
        some = Sizes(part, replace(self.terms, confidence=None), self.step, self.engine)
        try:
            return smallest(some) // self.step
        except InfeasibleError:
            return self.enough() // self.step


def smallest(sizes: Candidates) -> int:
    """Return the smallest size found that meets the targets; the next smaller one does not.

    Raises:
        InfeasibleError: no size meets them.
    """
    fails, meets = 0, _size_that_meets(sizes) // sizes.step
    if sizes.is_long:
        fails, meets = _around(sizes, sizes.first_guess(), meets)
    size = _between(sizes, fails, meets, lambda replay: replay.meets)[1] * sizes.step
    look = 1 if sizes.is_long else 1 + LOOK_BELOW
    while True:  # another schedule may be better with fewer GPUs
        below = range(size - sizes.step, sizes.least - 1, -sizes.step)[:look]
        lower = [replay.gpus for replay in sizes.at(below) if replay.meets]
        if not lower:
            return size
        size = min(lower)


def smallest_below(sizes: Candidates, gpus: int) -> int | None:
    """Return the smallest size found up to one that meets the targets; None where that does not.

    Args:
        sizes: the replays.
        gpus: the largest size, a multiple of the step.
    """
    if gpus < sizes.least or not sizes.at_size(gpus).meets:
        return None
    fails = sizes.least // sizes.step - 1
    return _between(sizes, fails, gpus // sizes.step, lambda replay: replay.meets)[1] * sizes.step


def _around(sizes: Candidates, guess: int, meets: int) -> tuple[int, int]:
    """Return multiples of the step, one at which the targets are missed and one that meets them.

    Args:
        sizes: the replays.
        guess: where to begin.
        meets: a multiple that meets them.
    """
    step, least = sizes.step, sizes.least // sizes.step
    guess = min(max(guess, least), meets)
    fails, reach = least - 1, max(1, guess // NEAR)
    while fails < meets - 1:  # twice as far each time
        under, over = max(guess - reach, fails + 1), min(guess + reach, meets)
        low, high = sizes.at([under * step, over * step])
        if not low.meets and high.meets:
            return under, over
        if low.meets:
            meets = guess = under
        else:
            fails = guess = over
        reach *= 2
    return fails, meets


def _size_that_meets(sizes: Candidates) -> int:
    """Return a size that meets the targets. Raises `InfeasibleError` where there is none."""
    for target in sizes.targets:
        if not target.is_met(target.least):
            raise InfeasibleError(
                f"--target {target.text!r}: no size meets it; where no job waits it is "
                f"{target.least:g}\n  next: a higher limit"
            )
    top = max(sizes.enough(), sizes.least)
    for _ in range(1 + sizes.doublings):
        replay = sizes.at_size(top)
        if replay.meets:
            return top
        if 2 * top > MOST_GPUS:
            break
        top *= 2
    missed = next(
        (target, value)
        for target, value in zip(sizes.targets, replay.target_values, strict=True)
        if not target.is_met(value)
    )
    raise InfeasibleError(
        f"--target {missed[0].text!r}: no size meets it; under {sizes.rules} it is "
        f"{missed[0].text_of(missed[1])} even at {replay.gpus:,} {sizes.where_enough}"
    )


def _between(
    sizes: Candidates, fails: int, meets: int, holds: Callable[[SizedReplay], bool], gap: int = 1
) -> tuple[int, int]:
    """Return two multiples of the step: a property does not hold at one and holds at the other.

    Args:
        sizes: the replays.
        fails: a multiple below all candidates, or at which it does not hold.
        meets: a multiple at which it holds.
        holds: the property.
        gap: stop where they are at most this far apart.
    """
    fails = max(fails, sizes.least // sizes.step - 1)
    workers = sizes.engine.workers or usable_cores()
    replayed = (gpus // sizes.step for gpus in sorted(sizes.replays) if gpus % sizes.step == 0)
    places = [place for place in replayed if fails < place < meets]
    while True:
        replays = sizes.at(place * sizes.step for place in places)
        for place, replay in zip(places, replays, strict=True):
            if holds(replay):
                meets = place
                break
            fails = place
        if meets - fails <= gap:
            return fails, meets
        inner = np.linspace(fails, meets, min(workers, meets - fails - 1) + 2)[1:-1]
        places = sorted({round(place) for place in inner.tolist()} - {fails, meets})


def unclear_of(sizes: Candidates, answer: int) -> UnclearSizes | None:
    """Return the sizes around the smallest that may be it within the error of the model.

    None where the error spans the target at no size.
    """
    step, at = sizes.step, answer // sizes.step
    low = _between(
        sizes, sizes.least // step - 1, at, lambda replay: replay.meets or replay.could_meet
    )[1]
    top = max(sizes.enough(), answer) // step
    if not sizes.at_size(answer).could_miss:
        return UnclearSizes(low * step, answer) if low < at else None
    if sizes.at_size(top * step).could_miss:
        return UnclearSizes(low * step, None)
    high = _between(sizes, at, top, lambda replay: replay.meets and not replay.could_miss)[1]
    return UnclearSizes(low * step, high * step)


def interval_of(sizes: Candidates, answer: int) -> GpuInterval | None:
    """Return the interval of the smallest size; None where there are too few jobs for one."""
    step, least = sizes.step, sizes.least // sizes.step
    center = sizes.at_size(answer)
    resampling = sizes.confidence
    if center.met_share is None or resampling is None:
        return None
    at, top = answer // step, max(sizes.enough(), answer) // step
    low, low_fails = at, least - 1 if center.may_meet else at
    high, high_fails = at, at
    down, up = center.may_meet and at > least, not center.surely_meets
    reach = max(1, at // 10) if sizes.is_long else 1  # sizes of the curve
    while down or up:  # both ends at once, twice as far each time
        under, over = max(at - reach, least), min(at + reach, top)
        sizes.at([*([under * step] if down else []), *([over * step] if up else [])])
        if down:
            if sizes.at_size(under * step).may_meet:
                low, down = under, under > least
            else:
                low_fails, down = under, False
        if up:
            high, up = over, over < top and not sizes.at_size(over * step).surely_meets
            high_fails = over if up else high_fails
        reach *= 2
    gap = max(1, at // ROUGH) if sizes.is_long else 1
    if center.may_meet:
        low = _between(sizes, low_fails, low, lambda replay: replay.may_meet, gap)[0] + 1
    if not center.surely_meets:
        high = _between(sizes, high_fails, high, lambda replay: replay.surely_meets, gap)[1]
    low_gpus, high_gpus = low * step, max(high, at) * step
    return GpuInterval(resampling.level, low_gpus, high_gpus, resampling.resamples)
