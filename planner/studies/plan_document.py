"""A plan as an answer and as a file, and the request and older plan that a file stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import MAXYEAR, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.time_units import MICROS, time_of
from gpuplan.analysis.base.version import gpuplan_version
from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.analysis.prices.contracts import OWNED, PaidPool
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.planner.money.commitment_texts import CommitPrice, TermOffer, months_of_term
from gpuplan.planner.plan.columns import RouteColumns
from gpuplan.planner.plan.jobs import PlannedJobs
from gpuplan.planner.plan.kept import OldPlan
from gpuplan.planner.plan.markets import GpuMarkets
from gpuplan.planner.plan.plan_file import (
    WRITE,
    PlanCommitment,
    PlanFile,
    PlanMarket,
    PlannedShares,
    PlanOptions,
    PlanOrigin,
    PlanTotals,
    PlanType,
    in_utc,
    plan_text,
)
from gpuplan.planner.plan.purchase import WHOLE, Purchase, gap_share
from gpuplan.planner.plan.routes import SPOT, checkpointing
from gpuplan.planner.plan.targets import parse_target
from gpuplan.planner.plan_exports.class_table import ClassUses, class_table, class_uses
from gpuplan.planner.plan_exports.kueue import kueue_json
from gpuplan.planner.plan_exports.slurm import qos_text, slurm_conf
from gpuplan.planner.requests.plan import PurchaseRequest
from gpuplan.planner.requests.plan_texts import (
    parse_bound,
    parse_deferral,
    parse_levers,
    parse_policy,
)
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.studies.plan_results import PlanResults

MONTHS_A_YEAR = 12
PARSERS: Mapping[str, Callable[[str, str], Any]] = {
    "target": parse_target,
    "slower": parse_bound,
    "levers": parse_levers,
    "defer": parse_deferral,
    "policy": parse_policy,
}
"""What reads an option of a file that is no number and no plain text."""
SAME_NAMES = (*PARSERS, "budget", "by", "spot", "spot_max", "speedup", "cluster", "holdout")
"""Options that requests and files call the same."""
DELAYS = ("provision_s", "release_s", "billing_s")
"""Of GPUs on demand, as requests and files name them."""
WRITERS: Mapping[str, Callable[[PlanFile, ClassUses], str]] = {
    "plan.conf": slurm_conf,
    "qos.txt": qos_text,
    "kueue.json": kueue_json,
    "classes.csv": class_table,
}
"""Name of a file of an export -> what writes its text."""


def end_of(columns: RouteColumns) -> datetime:
    """Return the last recorded end."""
    return time_of(columns.jobs.begin_us + round(columns.bins.window_s * MICROS))


def months_later(time: datetime, months: int) -> datetime:
    """Return the same day some months later; the last day of a month that is shorter."""
    month = time.month - 1 + months
    year, month = time.year + month // MONTHS_A_YEAR, month % MONTHS_A_YEAR + 1
    if year > MAXYEAR:
        return datetime.max.replace(tzinfo=time.tzinfo)
    for day in range(time.day, 0, -1):
        try:
            return time.replace(year=year, month=month, day=day)
        except ValueError:
            continue
    raise ValueError(f"no day in month {month} of {year}")


def with_options_of(request: PurchaseRequest, plan: PlanFile, path: Path) -> PurchaseRequest:
    """Return a request with the options of a plan where it has defaults, and its prices.

    The prices of commitments, on demand and GPUs owned are those of the plan where none is given.

    Raises `InputError` where an option of the plan cannot be used.
    """
    options = plan.options
    defaults = PurchaseRequest(request.trace)

    def read(name: str) -> Any:
        value = getattr(options, name)
        try:
            return PARSERS[name](value, f"options.{name}") if value and name in PARSERS else value
        except UsageError as error:
            raise InputError(path, str(error).partition("\n")[0], hint=WRITE) from error

    of_plan: dict[str, Any] = {
        **{name: read(name) for name in SAME_NAMES},
        "spot_hazard": options.spot_losses_per_s,
        "spot_availability": options.spot_availability and Path(options.spot_availability),
        "spot_price": _by_type({each.name: each.spot_usd for each in plan.types}),
        "serverless": _by_type({each.name: each.serverless_usd for each in plan.types}),
    }
    if options.spot is None:
        of_plan["spot_price"] = {}
    if request.target is not None or request.budget is not None:
        del of_plan["target"], of_plan["budget"]
    changes = {
        name: value
        for name, value in of_plan.items()
        if (value is not None or name == "slower")
        and getattr(request, name) == getattr(defaults, name)
    }
    usual = defaults.renting
    delays = {
        name: getattr(options, name)
        for name in DELAYS
        if getattr(options, name) is not None
        and getattr(request.renting, name) == getattr(usual, name)
    }
    changes["renting"] = replace(request.renting, **delays)
    jobs, prices, commitment, services = (
        request.jobs, request.prices, request.commitment, request.services,
    )  # fmt: skip
    if jobs.where is None:
        jobs = replace(jobs, where=options.where)
    has_price = prices.is_given or commitment.commit or commitment.on_demand
    gpu = prices.gpu or options.gpu
    if not has_price:
        commitment = replace(
            commitment,
            commit=tuple(_offers(plan.types)),
            on_demand=_by_type({each.name: each.on_demand_usd for each in plan.types}),
        )
        owned = tuple(
            PaidPool(OWNED, each.name or gpu or UNNAMED, round(each.owned), Fraction(0))
            for each in plan.types
            if each.owned
        )
        prices = replace(prices, owned=owned)
    prices = replace(prices, gpu=gpu)
    if services.services is None and not services.load:
        services = replace(services, services=options.services, load=tuple(options.load))
    if services.lend is None:
        services = replace(services, lend=options.lend)
    return replace(
        request, jobs=jobs, prices=prices, commitment=commitment, services=services, **changes
    )


def _by_type(prices: Mapping[str, float | None]) -> dict[str, float]:
    return {name: usd for name, usd in prices.items() if usd is not None}


def _offers(types: Sequence[PlanType]) -> list[CommitPrice]:
    return [
        CommitPrice(
            each.name,
            TermOffer(Fraction(repr(usd)), months_of_term(term or None, term, "commit_usd")),
        )
        for each in types
        for term, usd in each.commit_usd.items()
    ]


def old_plan(plan: PlanFile, hysteresis: float) -> OldPlan:
    """Return a plan in the terms of the program."""
    return OldPlan(
        committed={each.name: plan.committed(each.name) for each in plan.types},
        routes={each.key: each.routes for each in plan.classes},
        hysteresis=hysteresis,
    )


def terms_of(
    plan: PlanFile | None,
    markets: Mapping[str, GpuMarkets],
    jobs: PlannedJobs,
    request: PurchaseRequest,
) -> tuple[dict[str, GpuMarkets], list[str]]:
    """Return the markets with the commitments of a plan whose term goes on, and what to know."""
    if plan is None:
        return dict(markets), []
    end = time_of(jobs.begin_us + round(jobs.window_s * MICROS))
    held: dict[str, list[PlanCommitment]] = {}
    for commitment in _in_force(plan, end):
        held.setdefault(commitment.gpu_type, []).append(commitment)
    with_held = {
        name: replace(market, held=_gpus(held[name]), held_usd=_usd(held[name]) / _gpus(held[name]))
        if name in held
        else market
        for name, market in markets.items()
    }
    notes = [
        f"{_gpus(unused):,.10g} {name or 'GPUs'} stay committed to until "
        f"{max(map(_until, unused)):%Y-%m-%d} for ${_usd(unused):,.2f} an hour, and no job of this "
        "log is on them; the bill leaves them out"
        for name, unused in held.items()
        if name not in markets
    ]
    if plan.plan.end is not None and end < in_utc(plan.plan.end):
        notes.append(
            f"{request.upkeep.keep}: the plan is of a log that ends on {plan.plan.end:%Y-%m-%d}, "
            f"this one ends on {end:%Y-%m-%d}"
        )
    return with_held, notes


def _in_force(plan: PlanFile, end: datetime) -> list[PlanCommitment]:
    return [each for each in plan.commitment if each.gpus and each.until and _until(each) > end]


def _until(commitment: PlanCommitment) -> datetime:
    assert commitment.until is not None
    return in_utc(commitment.until)


def _gpus(commitments: Sequence[PlanCommitment]) -> float:
    return sum(each.gpus for each in commitments)


def _usd(commitments: Sequence[PlanCommitment]) -> float:
    return sum(each.gpus * each.usd_per_gpu_h for each in commitments)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAnswer(Answer[PurchaseRequest, PlanResults]):
    """A plan.

    Attributes:
        log: that it is of.
        source_format: of the log.
        offered: markets of each GPU type.
        bought: the plan.
        older: the plan that it stays with; None without one.
    """

    log: InputFile
    source_format: str
    offered: Mapping[str, GpuMarkets]
    bought: Purchase
    older: PlanFile | None

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in JSON, with the options of an older plan."""
        return self.request.parameters()

    @property
    def rounding_share(self) -> float:
        """What whole nodes cost over the program's value, as a share of it."""
        return gap_share(self.bought)

    def exported(self, name: str) -> str:
        """Return the text of a file of the export."""
        return WRITERS[name](plan_file(self), class_uses(self.bought))

    def toml(self) -> str:
        """Return the text of the plan's file."""
        return plan_text(plan_file(self))


def plan_file(answer: PlanAnswer) -> PlanFile:
    """Return a plan as it is written."""
    results, columns = answer.results, answer.bought.program.columns
    replay, end = results.replay, end_of(columns)
    return PlanFile(
        plan=PlanOrigin(
            gpuplan_version=gpuplan_version(),
            log=answer.log.path,
            sha256=answer.log.sha256,
            begin=time_of(columns.jobs.begin_us),
            end=end,
            jobs=results.jobs,
            labelled_by=columns.jobs.labelled_by,
        ),
        options=_options(answer.request),
        results=PlanTotals(
            usd_per_month=float(results.usd_per_month),
            program_usd_per_month=float(results.program_usd_per_month),
            mean_time_s=float(results.mean_time_s),
            replayed_usd_per_month=None if replay is None else float(replay.usd_per_month),
            replayed_mean_time_s=None if replay is None else float(replay.mean_time_s),
            saving_share=None if results.saving_share is None else float(results.saving_share),
            confirmed=results.confirmed,
        ),
        types=[_type(name, answer.offered[name]) for name in columns.types],
        commitment=_commitments(answer, end),
        market=[
            PlanMarket(
                use.name,
                use.gpu_type,
                *(
                    float(amount)
                    for amount in (
                        use.gpus, use.mean_gpus, use.peak_gpus, use.peak_s, use.usd_per_month,
                    )
                ),
            )
            for use in results.markets
        ],
        classes=[
            PlannedShares(
                name=each.name,
                gpu_type=each.gpu_type,
                width_bucket=each.width_bucket,
                routes={route.name: route.share for route in each.routes},
                jobs=each.jobs,
                recorded_time_s=each.recorded_time_s,
                mean_time_s=each.mean_time_s,
                checkpoint_every_s=_checkpoints(columns, number)
                if any(route.name == SPOT for route in each.routes)
                else {},
            )
            for number, each in enumerate(results.classes)
        ],
    )  # fmt: skip


def _options(request: PurchaseRequest) -> PlanOptions:
    typed = request.parameters()
    typed |= {"slower": typed["slower"] or "none", "lend": request.services.lend}
    return PlanOptions(**{name: typed[name] for name in PlanOptions.__struct_fields__})


def _type(name: str, market: GpuMarkets) -> PlanType:
    return PlanType(
        name=name,
        owned=market.owned,
        cap=market.cap,
        gpus_per_node=market.node,
        commit_usd=dict(market.commit_usd),
        on_demand_usd=market.on_demand_usd,
        spot_usd=market.spot_usd,
        serverless_usd=market.serverless_usd,
    )


def _commitments(answer: PlanAnswer, end: datetime) -> list[PlanCommitment]:
    """Return the commitments whose term goes on, and those that the plan adds.

    Those of the price book go on too, also where the plan has fewer GPUs.
    """
    bought = answer.bought
    commitments = [] if answer.older is None else _in_force(answer.older, end)
    for of_type in answer.results.today.committed:
        for in_force in of_type.terms:
            if in_force.until is not None and in_force not in commitments:
                commitments.append(in_force)
    columns = bought.program.columns
    for number, name in enumerate(columns.types):
        market = answer.offered[name]
        gpus = columns.markets[number].held + float(bought.whole_nodes.committed[number])
        new = gpus - _gpus([each for each in commitments if each.gpu_type == name])
        if new <= WHOLE or market.committed_usd is None:
            continue
        term = market.term or ""
        months = months_of_term(term or None, term, "commit_usd")
        commitments.append(
            PlanCommitment(
                gpu_type=name,
                gpus=round(new, 6),
                usd_per_gpu_h=market.committed_usd,
                term=term,
                begin=None if months is None else end,
                until=None if months is None else months_later(end, months),
            )
        )
    return commitments


def _checkpoints(columns: RouteColumns, number: int) -> dict[str, float]:
    """Return nodes of a gang -> seconds between its checkpoints, of jobs that may be on spot."""
    planned = columns.classes[number]
    jobs, node = columns.jobs, columns.markets[columns.types.index(planned.gpu_type)].gpus_per_node
    gpus = jobs.gpus[planned.jobs][jobs.is_spot[planned.jobs]]
    nodes = np.unique(np.ceil(gpus / node))
    tau_s, _ = checkpointing(nodes * node, columns.settings, node)
    pairs = zip(nodes.tolist(), tau_s.tolist(), strict=True)
    return {f"{count:.0f}": seconds for count, seconds in pairs if np.isfinite(seconds)}
