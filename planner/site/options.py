"""Changes of a site side by side: dollars a month, waits with errors, the cheapest that will do.

The waits of a change are those of the log plus the effect that pairs of replays show: what the
model gets wrong about today is in both replays of a pair and cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.base.time_units import HOUR_S
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.runs.recorded_waits import WaitPairs
from gpuplan.planner.site.change_effects import ChangeEffect, WhatIfResults, change_cost, months_of
from gpuplan.planner.site.effects import MOST_LOST, NO_CHANGE, SHORTER, GroupEffect, chance_of
from gpuplan.planner.site.fidelity import SITE_RULES, Fidelity, TodayReplay, fidelity_of, unknown
from gpuplan.planner.site.site_sizes import held_jobs
from gpuplan.planner.sizing.targets import MEAN, PERCENTILE, WAIT, Target, parse_target
from gpuplan.planner.twin.settings import site_of
from gpuplan.planner.twin.site_changes import SiteChange
from gpuplan.planner.twin.workload import ALL_JOBS, SiteWorkload
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.twin.site import SiteCluster

MET, MISSED, UNCLEAR = "met", "missed", "unclear"
SAME_USD = 0.005
"""Dollars a month that differ by less than this share are the same."""
NOTHING_STARTS = "no scored job starts in every replay"


@dataclass(frozen=True, slots=True)
class OptionWaits:
    """The waits of one group under an option, in seconds.

    Attributes:
        name: the group.
        jobs: whose waits count.
        mean_wait_s, p95_wait_s: recorded plus the effect, at least 0. The wait of a job that goes
            on as new ones is that of all its parts.
        effect_s, p95_effect_s: what the option does to them.
        error_s, p95_error_s: of both the effects and these waits.
        verdict, p95_verdict: of the effects.
        chance_s, p95_chance_s: how far the effects may be off by the chance of the replays alone.
    """

    name: str
    jobs: int
    mean_wait_s: float
    p95_wait_s: float
    effect_s: float
    p95_effect_s: float
    error_s: float
    p95_error_s: float
    verdict: str
    p95_verdict: str
    chance_s: float
    p95_chance_s: float

    @classmethod
    def of(cls, group: GroupEffect, pairs: int, recorded_s: FloatArray) -> OptionWaits:
        """Return the waits of a group of a change, whose jobs waited so in the log."""
        return cls(
            group.name, group.jobs, max(float(recorded_s.mean()) + group.effect_s, 0.0),
            max(float(np.percentile(recorded_s, 95)) + group.p95_effect_s, 0.0), group.effect_s,
            group.p95_effect_s, group.error_s, group.p95_error_s, group.verdict, group.p95_verdict,
            chance_of(group.noise_s, pairs), chance_of(group.p95_noise_s, pairs),
        )  # fmt: skip

    @property
    def differs(self) -> bool:
        """Whether any wait differs from today's."""
        return not self.verdict == self.p95_verdict == NO_CHANGE


@dataclass(frozen=True, slots=True)
class OptionResult:
    """What one option costs and does.

    Attributes:
        name: the option as given.
        gpus_added: GPUs more than today by type; fewer are negative.
        burst_gpu_h_per_month: GPU-hours on demand in a month of 730.5 hours.
        usd_per_month: dollars more than today; less are negative.
        waits: of all jobs; null where no scored job starts in every replay, or most jobs never
            start.
        usd_per_wait_h_saved: dollars per hour that a job waits less; null where it costs nothing
            or waits are not clearly shorter.
        target: ``met``, ``missed``, or ``unclear`` within the error; null without a target.
        never_start: jobs that start today and never with it, by reason.
        requeued_jobs: jobs that it ends before they are done and that go on as new ones.
        cut_jobs: jobs whose work beyond a limit is lost; an option with any is not recommended.
        groups: the groups of ``by``, by name.
    """

    name: str
    gpus_added: dict[str, int]
    burst_gpu_h_per_month: float
    usd_per_month: float
    waits: OptionWaits | None
    usd_per_wait_h_saved: float | None
    target: str | None
    never_start: dict[str, int]
    requeued_jobs: int
    cut_jobs: int
    groups: tuple[OptionWaits, ...]

    @property
    def is_comparable(self) -> bool:
        """Whether waits and dollars say all: no work is lost, and anything changes at all."""
        changes = self.usd_per_month != 0 or self.waits is None or self.waits.differs
        return changes and not self.cut_jobs


@dataclass(frozen=True, slots=True)
class OptionsToday:
    """Waits of today, in seconds.

    Attributes:
        jobs: scored ones that start in the replay of today, whatever the options are, and those
            whose wait the rules do not explain.
        gpus: of the site, by type.
        mean_wait_s, p95_wait_s: recorded.
        replayed_mean_wait_s, replayed_p95_wait_s: replayed under the rules of today.
        target: ``met`` or ``missed``; null without a target.
    """

    jobs: int
    gpus: dict[str, int]
    mean_wait_s: float
    p95_wait_s: float
    replayed_mean_wait_s: float
    replayed_p95_wait_s: float
    target: str | None

    def waited_s(self, target: Target) -> float:
        """Return the recorded wait that a target is about."""
        return self.mean_wait_s if target.statistic == MEAN else self.p95_wait_s


@dataclass(frozen=True, slots=True)
class OptionsResults:
    """Options side by side.

    Attributes:
        level: the rules that are replayed.
        by: what groups are; null without groups.
        targets: what must be met.
        today: the waits of today; null where no scored job starts.
        options: one entry per option, in their order.
        cheapest: the cheapest option that meets the targets; null where none does for certain, or
            several cost the same. Options that change nothing, or lose work, do not count.
        tied: the options that share the least cost where there are several.
        maybe: cheaper options, or all where none is certain, too close to the target to tell.
        fidelity: how the replay of today compares with the log; nothing is recommended where it
            contradicts it.
        work: the jobs.
    """

    level: str
    by: str | None
    targets: tuple[str, ...]
    today: OptionsToday | None
    options: tuple[OptionResult, ...]
    cheapest: str | None
    tied: tuple[str, ...]
    maybe: tuple[str, ...]
    fidelity: Fidelity
    work: Hidden[SiteWorkload]


def read_wait_target(text: str) -> Target:
    """Return a target on the mean or the P95 wait, whose errors are known. Raises `UsageError`."""
    target = parse_target(text)
    is_known = target.statistic == MEAN or (target.statistic == PERCENTILE and target.at == 95)
    if target.quantity != WAIT or not is_known:
        raise UsageError(
            f"--target {text!r}: options have errors of mean_wait and p95_wait only; write for "
            "example 'p95_wait <= 6h'"
        )
    return target


def options_of(
    effects: WhatIfResults,
    changes: Sequence[SiteChange],
    document: SiteDocument,
    prices: Prices,
    targets: Sequence[Target],
    by: str | None,
) -> OptionsResults:
    """Return what options cost and do.

    Args:
        changes: the options.
        prices: of a GPU-hour, on demand too.
        targets: see `read_wait_target`.
        by: what groups are; None for none.

    Raises:
        UsageError: an option costs money and a GPU type has no price.
    """
    site, work = site_of(document), effects.work
    today = _today(effects.today, site, targets)
    options = tuple(
        _option(effect, change, document, work, prices, targets, today, by)
        for effect, change in zip(effects.changes, changes, strict=True)
    )
    fidelity = unknown(NOTHING_STARTS)
    if today is not None:
        gpus = sum(today.gpus.values())
        fidelity = fidelity_of(TodayReplay(SITE_RULES, gpus, effects.today.summary()))
    comparable = [option for option in options if fidelity.may_speak and option.is_comparable]
    certain = [option for option in comparable if option.target == MET]
    least = min((option.usd_per_month for option in certain), default=float("inf"))
    best = [option for option in certain if _same(option.usd_per_month, least)]
    maybe = [
        option.name
        for option in comparable
        if option.target == UNCLEAR and not (certain and _reaches(option.usd_per_month, least))
    ]
    return OptionsResults(
        level=effects.level,
        by=by,
        targets=tuple(target.text for target in targets),
        today=today,
        options=options,
        cheapest=best[0].name if len(best) == 1 else None,
        tied=tuple(option.name for option in best) if len(best) > 1 else (),
        maybe=tuple(maybe),
        fidelity=fidelity,
        work=work,
    )


def _option(
    effect: ChangeEffect,
    change: SiteChange,
    document: SiteDocument,
    work: SiteWorkload,
    prices: Prices,
    targets: Sequence[Target],
    today: OptionsToday | None,
    by: str | None,
) -> OptionResult:
    cost, months = change_cost(effect, change, document, work, prices), months_of(work)
    usd = cost.usd_per_month
    groups = [
        OptionWaits.of(group, effect.replicas, _recorded(work, group, by))
        for group in effect.groups
    ]
    loses_most = sum(effect.rejected.values()) > MOST_LOST * work.jobs.id.size
    waits = groups[0] if groups and not loses_most else None
    verdict = MISSED if loses_most else target_verdict(waits, targets, today)
    saved_h = 0.0
    if waits is not None and waits.verdict == SHORTER and months:
        saved_h = -waits.effect_s / HOUR_S * waits.jobs / months
    return OptionResult(
        name=effect.name,
        gpus_added=cost.gpus_added,
        burst_gpu_h_per_month=cost.burst_gpu_h_per_month,
        usd_per_month=usd,
        waits=waits,
        usd_per_wait_h_saved=usd / saved_h if saved_h > 0 and usd > 0 else None,
        target=verdict if targets else None,
        never_start=effect.rejected,
        requeued_jobs=0 if effect.split is None else effect.split.requeued,
        cut_jobs=0 if effect.split is None else effect.split.cut,
        groups=tuple(groups[1:]) if by is not None else (),
    )


def _recorded(work: SiteWorkload, group: GroupEffect, by: str | None) -> FloatArray:
    """Return the recorded waits of the jobs of a group, all of them where it is all jobs."""
    mask = work.scored | held_jobs(work)
    if group.name != ALL_JOBS and by is not None:
        mask = mask & (work.names(by) == group.name)
    waits: FloatArray = work.recorded_wait[mask].astype(np.float64)
    return waits


def _today(waits: WaitPairs, site: SiteCluster, targets: Sequence[Target]) -> OptionsToday | None:
    if not waits.recorded_s.size:
        return None
    recorded, replayed = (
        (float(each.mean()), float(np.percentile(each, 95)))
        for each in (waits.recorded_s, waits.replayed_s)
    )
    today = OptionsToday(
        jobs=waits.recorded_s.size,
        gpus=site.gpus_of_type,
        mean_wait_s=recorded[0],
        p95_wait_s=recorded[1],
        replayed_mean_wait_s=replayed[0],
        replayed_p95_wait_s=replayed[1],
        target=None,
    )
    if not targets:
        return today
    is_met = all(target.is_met(today.waited_s(target)) for target in targets)
    return replace(today, target=MET if is_met else MISSED)


def target_verdict(
    waits: OptionWaits | None, targets: Sequence[Target], today: OptionsToday | None
) -> str:
    """Return whether waits meet all targets within their errors.

    Where today meets a target, so does an option whose replays wait less than those of today by
    more than their own chance, however long the error; and where today misses it, so does one whose
    replays wait longer.
    """
    if waits is None:
        return UNCLEAR
    verdicts = {_verdict(waits, target, today) for target in targets}
    return MISSED if MISSED in verdicts else UNCLEAR if UNCLEAR in verdicts else MET


def _verdict(waits: OptionWaits, target: Target, today: OptionsToday | None) -> str:
    value_s, effect_s, error_s, chance_s = (
        (waits.mean_wait_s, waits.effect_s, waits.error_s, waits.chance_s)
        if target.statistic == MEAN
        else (waits.p95_wait_s, waits.p95_effect_s, waits.p95_error_s, waits.p95_chance_s)
    )
    is_met_today = None if today is None else target.is_met(today.waited_s(target))
    if target.is_met(value_s + error_s) or (is_met_today and effect_s + chance_s <= 0):
        return MET
    if not target.is_met(value_s - error_s) or (is_met_today is False and effect_s >= chance_s):
        return MISSED
    return UNCLEAR


def _reaches(usd: float, other: float) -> bool:
    return usd >= other or _same(usd, other)


def _same(usd: float, other: float) -> bool:
    return abs(usd - other) <= SAME_USD * max(abs(usd), abs(other))
