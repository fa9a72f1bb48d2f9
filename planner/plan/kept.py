"""What of an older plan stays: a change is made only where it saves enough, item by item.

Items are the GPUs to commit to of each type and the routes of each class. The worth of a change is
the difference between two programs: with the item at its old value, and with it free, where what
was decided to stay is at its old value in both. Where old shares of a class break a limit, as they
do by a hair on a longer log, they may shift by `SHIFT`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.plan.assignment import LEAST_SHARE, shares_of
from gpuplan.planner.plan.classes import class_name
from gpuplan.planner.plan.optimum import optimum
from gpuplan.planner.plan.program import PlanOptimum, PlanProgram
from gpuplan.planner.plan.purchase import WHOLE, Purchase, purchase
from gpuplan.planner.plan.routes import BASE
from gpuplan.planner.plan.warm_start import ProgramStart
from gpuplan.simkit.arrays import FloatArray, IntArray

COMMITTED, ROUTES = "committed", "routes"
ROUNDING = 1e-9
SHIFT = 0.02
"""By so much may the old shares of a class change where they would break a limit by little."""
NO_PRICE = "there is no price to commit to so many any more"
OVER_CAP = "more than the cluster may have"
TERM = "the term of {gpus:,.10g} goes on"
NO_ROUTE = "{route} is not offered any more"
BREAKS = "the old value breaks a limit"
BREAKS_TOGETHER = "the old value breaks a limit, with what stays"


@dataclass(frozen=True, slots=True)
class OldPlan:
    """What an older plan says, in the terms of the program.

    Attributes:
        committed: GPU type -> GPUs committed to, those of ended terms among them.
        routes: class, by label, GPU type and width bucket -> name of a route -> share.
        hysteresis: share of the bill that a change must save to be made; with a budget, of the mean
            time.
    """

    committed: Mapping[str, float]
    routes: Mapping[tuple[str, str, str], Mapping[str, float]]
    hysteresis: float = 0.03


@dataclass(frozen=True, slots=True)
class PlanItem:
    """A part of a plan, in an older plan and now.

    Attributes:
        item: ``committed`` or ``routes``.
        name: label of the class; empty for GPUs.
        gpu_type: empty where the log names none.
        width_bucket: of the class; empty for GPUs.
        old: GPUs, or routes with their shares.
        new: the same as planned now; of what stays, as it would be if all moved.
        moved: whether the plan takes the new value.
        worth_usd_per_month: what the move saves; null where the old value cannot stay, or the plan
            is for the least mean time.
        worth_s: by how much the move shortens the mean time, of a plan for the least mean time.
        reason: why the old value cannot stay; empty where it can.
    """

    item: str
    name: str
    gpu_type: str
    width_bucket: str
    old: str
    new: str
    moved: bool
    worth_usd_per_month: float | None
    worth_s: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """A plan that stays with an older one where a change saves little.

    Attributes:
        hysteresis: share of the bill, or of the mean time, that a change must save.
        items: of both plans; first those that move, by their worth.
        new_classes, old_classes: that only one of the two plans has.
        keeping_usd_per_month: what staying with the old values costs; null of a plan for the least
            mean time.
        keeping_s: by how much it lengthens the mean time, of such a plan.
    """

    hysteresis: float
    items: tuple[PlanItem, ...]
    new_classes: tuple[str, ...]
    old_classes: tuple[str, ...]
    keeping_usd_per_month: float | None
    keeping_s: float | None


@dataclass(slots=True)
class _ComparedItem:
    """An item while it is looked at.

    Attributes:
        kind: ``committed`` or ``routes``.
        number: place of the GPU type or of the class.
        fix: returns a program with the item at its old value.
        loosened: returns one with the item within `SHIFT` of it; None where it cannot shift.
        old: its text.
        reason: why the old value cannot stay.
        is_same: whether the plan anew has the old value.
        worth: of the move, in the program's terms.
        is_kept: whether the old value stays.
    """

    kind: str
    number: int
    fix: Callable[[PlanProgram], PlanProgram]
    old: str
    loosened: Callable[[PlanProgram], PlanProgram] | None = None
    reason: str = ""
    is_same: bool = False
    worth: float | None = None
    is_kept: bool = False


def keep_plan(anew: Purchase, old: OldPlan) -> tuple[Purchase, KeptPlan]:
    """Return the plan that stays with an older one, and what stays.

    Args:
        anew: the plan without it, where the commitments whose term goes on are held.
        old: the older plan.

    Raises:
        InfeasibleError: no plan meets the limits.
    """
    program = anew.program
    items = [
        *_commitments(program, old, anew.whole_nodes),
        *_routes(program, old, anew.whole_nodes.share),
    ]
    free = _value(program, anew.exact)
    kept = _decide(program, items, anew.exact, free, old.hysteresis * free)
    try:
        bought = purchase(kept, anew.exact.start)
    except InfeasibleError:  # whole nodes of a type that moves do not fit beside what stays
        for item in items:
            if item.kind == COMMITTED and item.is_kept:
                item.is_kept, item.reason = False, BREAKS_TOGETHER
        kept = _fixed(program, [item for item in items if item.is_kept])
        bought = purchase(kept, anew.exact.start)
    is_for_time = program.limits.usd_per_h is not None
    labels = {each.key for each in program.columns.classes}
    loss = max(0.0, _value(kept, bought.whole_nodes) - _value(program, anew.whole_nodes))
    ranked = sorted(items, key=lambda item: (item.is_kept, -(item.worth or 0.0)))
    return (
        _as_offered(program, bought),
        KeptPlan(
            hysteresis=old.hysteresis,
            items=tuple(_shown(item, anew if item.is_kept else bought) for item in ranked),
            new_classes=tuple(
                each.name for each in program.columns.classes if each.key not in old.routes
            ),
            old_classes=tuple(class_name(*key) for key in old.routes if key not in labels),
            keeping_usd_per_month=None if is_for_time else loss * MONTH_H,
            keeping_s=loss if is_for_time else None,
        ),
    )


def _as_offered(program: PlanProgram, bought: Purchase) -> Purchase:
    """Return a plan with what stays of its commitments as bought, not as there before."""
    before, markets = bought.program.columns.markets, program.columns.markets
    more = np.array([now.held - then.held for now, then in zip(before, markets, strict=True)])
    exact, rounded = (
        replace(plan, committed=plan.committed + more)
        for plan in (bought.exact, bought.whole_nodes)
    )
    offered = replace(bought.program, columns=program.columns)
    return Purchase(offered, exact, rounded, is_kept=True)


def _decide(
    program: PlanProgram,
    items: Sequence[_ComparedItem],
    anew: PlanOptimum,
    free: float,
    most: float,
) -> PlanProgram:
    """Say of each item whether it stays; return the program with these.

    What is the same in both plans stays. Of the rest, what is worth least is decided first.
    """
    solve = partial(_solved, start=anew.start)
    same = [item for item in items if item.is_same and not item.reason]
    for item in same:
        item.worth, item.is_kept = 0.0, True
    kept, value = _fixed(program, same), free
    if any(item.kind == COMMITTED for item in same):  # the plan anew is in whole nodes
        value = solve(kept) or free
    base = value
    undecided = [item for item in items if not item.is_same and not item.reason]
    with_all = solve(_fixed(kept, undecided))
    if with_all is None:
        for item in undecided:
            if solve(item.fix(kept)) is None:
                _loosen(item)
        with_all = solve(_fixed(kept, undecided))
    all_stay = with_all is not None and with_all - base <= most + _rounding(free)
    for item in undecided:
        fixed = solve(item.fix(kept))
        if fixed is None:
            item.reason = BREAKS
        else:
            item.worth, item.is_kept = max(0.0, fixed - base), all_stay
    if with_all is not None and all_stay:
        return _fixed(kept, undecided)
    possible = [item for item in undecided if not item.reason]
    for item in sorted(possible, key=lambda item: item.worth or 0.0):
        with_item = item.fix(kept)
        fixed = solve(with_item)
        if fixed is None and _loosen(item):
            with_item = item.fix(kept)
            fixed = solve(with_item)
        if fixed is None:
            item.worth, item.reason = None, BREAKS_TOGETHER
            continue
        item.worth = max(0.0, fixed - value)
        if item.worth <= most + _rounding(free):
            item.is_kept, kept, value = True, with_item, fixed
    return kept


def _loosen(item: _ComparedItem) -> bool:
    """Let the old value shift a little; returns whether it can and did not yet."""
    if item.loosened is None:
        return False
    item.fix, item.loosened = item.loosened, None
    return True


def _rounding(value: float) -> float:
    return ROUNDING * max(1.0, value)


def _fixed(program: PlanProgram, items: Collection[_ComparedItem]) -> PlanProgram:
    for item in items:
        program = item.fix(program)
    return program


def _value(program: PlanProgram, answer: PlanOptimum) -> float:
    """Return what the program minimizes: dollars an hour, or with a budget the mean time."""
    return answer.usd_per_h if program.limits.usd_per_h is None else answer.mean_time_s


def _solved(program: PlanProgram, start: ProgramStart) -> float | None:
    """Return the value of a program; None where nothing meets its limits."""
    is_for_time = program.limits.usd_per_h is not None
    answer = optimum(program, start, is_for_time=is_for_time)
    return None if answer is None else _value(program, answer)


def _commitments(program: PlanProgram, old: OldPlan, anew: PlanOptimum) -> list[_ComparedItem]:
    """Return the items of GPUs to commit to."""
    items = []
    types = zip(program.columns.types, program.columns.markets, strict=True)
    for number, (gpu_type, market) in enumerate(types):
        gpus = old.committed.get(gpu_type, 0.0)
        if gpu_type not in old.committed:
            continue
        reason = ""
        new = gpus - market.held
        if new > WHOLE and market.committed_usd is None:
            reason = NO_PRICE
        elif market.most_committed is not None and new > market.most_committed + WHOLE:
            reason = OVER_CAP
        elif new < -WHOLE:
            reason = TERM.format(gpus=market.held)
        fix = partial(_with_commitment, number=number, gpus=max(gpus, market.held))
        is_same = not reason and abs(new - anew.committed[number]) < WHOLE
        text = f"{gpus:,.10g} GPUs"
        items.append(_ComparedItem(COMMITTED, number, fix, text, None, reason, is_same))
    return items


def _with_commitment(program: PlanProgram, *, number: int, gpus: float) -> PlanProgram:
    """Return the program with so many GPUs of a type committed to, neither more nor fewer."""
    market = program.columns.markets[number]
    usd_per_h = market.held_usd_per_h + (gpus - market.held) * (market.committed_usd or 0.0)
    held_usd = usd_per_h / gpus if gpus else 0.0
    fixed = replace(market, held=gpus, held_usd=held_usd, commit_usd={})
    return program.with_market(number, fixed)


def _routes(program: PlanProgram, old: OldPlan, share: FloatArray) -> list[_ComparedItem]:
    """Return the items of routes of classes; ``share`` is that of the plan anew."""
    columns = program.columns
    share = shares_of(columns, share)
    items = []
    for number, planned in enumerate(columns.classes):
        routes = old.routes.get(planned.key)
        if routes is None:
            continue
        rows = np.flatnonzero(columns.class_of == number)
        row_of = {columns.routes[row].name: int(row) for row in rows}
        shares = {name: part for name, part in routes.items() if part >= LEAST_SHARE}
        lacking = next((name for name in shares if name not in row_of), None)
        reason = "" if lacking is None else NO_ROUTE.format(route=lacking)
        most = np.zeros(rows.size)
        if lacking is None:
            most[[row_of[name] - rows[0] for name in shares]] = list(shares.values())
            most /= most.sum()
        near = np.where(most > 0, np.minimum(1.0, most + SHIFT), 0.0)
        near[row_of[BASE] - rows[0]] = min(1.0, most[row_of[BASE] - rows[0]] + SHIFT)
        fix = partial(_with_shares, rows=rows, most=most)
        loosened = partial(_with_shares, rows=rows, most=near)
        is_same = not reason and bool((np.abs(most - share[rows]) < LEAST_SHARE).all())
        text = _routes_text(shares)
        items.append(_ComparedItem(ROUTES, number, fix, text, loosened, reason, is_same))
    return items


def _with_shares(program: PlanProgram, *, rows: IntArray, most: FloatArray) -> PlanProgram:
    """Return the program with at most these shares of a class, which add up to 1 or more."""
    share = np.ones(program.columns.class_of.size)
    if program.most_share is not None:
        share = program.most_share.copy()
    share[rows] = most
    used = np.union1d(program.used, rows[most > 0])
    return replace(program, most_share=share, used=used)


def _routes_text(shares: Mapping[str, float]) -> str:
    if len(shares) == 1:
        return next(iter(shares))
    return ", ".join(f"{name} {share:.0%}" for name, share in shares.items())


def _shown(item: _ComparedItem, plan: Purchase) -> PlanItem:
    """Return an item as people see it, with its new value in a plan."""
    columns, number = plan.program.columns, item.number
    if item.kind == COMMITTED:
        gpus = columns.markets[number].held + float(plan.whole_nodes.committed[number])
        name, gpu_type, bucket = "", columns.types[number], ""
        new = f"{gpus:,.10g} GPUs"
    else:
        name, gpu_type, bucket = columns.classes[number].key
        share = shares_of(columns, plan.whole_nodes.share)
        rows = np.flatnonzero((columns.class_of == number) & (share > 0))
        new = _routes_text({columns.routes[row].name: float(share[row]) for row in rows})
    is_for_time, worth = plan.program.limits.usd_per_h is not None, item.worth
    return PlanItem(
        item=item.kind,
        name=name,
        gpu_type=gpu_type,
        width_bucket=bucket,
        old=item.old,
        new=new,
        moved=not item.is_kept,
        worth_usd_per_month=None if worth is None or is_for_time else worth * MONTH_H,
        worth_s=worth if is_for_time else None,
        reason=item.reason,
    )
