"""How many nodes of each GPU type a site needs under its own rules, the others as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError, InputError, UsageError
from gpuplan.analysis.base.lookup import perhaps
from gpuplan.analysis.base.time_units import HOUR_S
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.characterize.today import COLUMNS, Today, today
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.job_table.gpu_names import same_gpu
from gpuplan.analysis.site.document import read_twin
from gpuplan.analysis.site.log import read_site_log
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.planner.money.bill_today import at_end
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.requests.site_request import in_site_zone
from gpuplan.planner.requests.size import SizeRequest
from gpuplan.planner.runs.gpu_intervals import Resampling
from gpuplan.planner.site.fidelity import Fidelity, unknown
from gpuplan.planner.site.node_replays import (
    GROUP_OF,
    NodesOfType,
    SiteTerms,
    group_mask,
    node_types,
    today_waits,
)
from gpuplan.planner.site.replicas import Chance, patience_of
from gpuplan.planner.site.site_sizes import SiteSizes, fidelity_of_site, held_jobs, held_note
from gpuplan.planner.sizing.search import unclear_of
from gpuplan.planner.sizing.targets import Target, whole_multiple
from gpuplan.planner.studies.size_pool import TypeAnswer, results_of
from gpuplan.planner.studies.size_results import SizeAnswer, SizeResults, SizeToday
from gpuplan.planner.twin.calibrate import prepared
from gpuplan.planner.twin.score import left_out_notes
from gpuplan.planner.twin.settings import level_config
from gpuplan.planner.twin.workload import GROUPINGS, SiteWorkload, recent
from gpuplan.simkit.twin.site import SiteCluster

CURVE_UP = 1.5
"""Times today's nodes, which are shown where none that was tried meets the targets."""


class SiteAnswer(TypeAnswer):
    """The answer for the nodes of one GPU type."""

    def __init__(
        self,
        request: SizeRequest,
        sizes: SiteSizes,
        prices: Prices,
        seen: Today,
        *,
        is_one: bool,
    ) -> None:
        terms = sizes.terms
        name = terms.nodes.name
        super().__init__(
            request, sizes, prices.of(name), name, seen, is_one=is_one, paid=prices.pools(name)
        )
        self.each, self.today_gpus = sizes.step, sizes.today
        of_type = (held for held in seen.gpu_types if same_gpu(held.gpu_type, self.name))
        self.usage = next(of_type, seen.usage)
        self.widest = _widest(terms)
        self.jobs = int((terms.work.scored | terms.held).sum())
        self.window_s = seen.window_s

    def search(self, *, may_speak: bool) -> None:
        """Search; where no number of nodes meets the targets, show today's and those tried."""
        try:
            self.run(may_speak=may_speak)
        except InfeasibleError:
            today = self.today_gpus or self.sizes.least
            tried = {*self.sizes.replays, today, whole_multiple(CURVE_UP * today, self.sizes.step)}
            self.points = tuple(self._points(self.sizes.at(sorted(tried))))
        if self.gpus is not None:
            self.unclear = unclear_of(self.sizes, self.gpus)

    def cost(self) -> _Cost | None:
        """Return what the size costs more than today; None without one, or without a price."""
        if self.gpus is None or not self.request.prices.is_given:
            return None
        low, high = self.gpus, self.gpus
        if self.unclear is not None:
            low, high = self.unclear.low_gpus, self.unclear.high_gpus or 0
        sizes = (self.gpus, low, high)
        usd, low_usd, high_usd = (self.over_today_usd(gpus) or 0.0 for gpus in sizes)
        return _Cost(self.name, usd, low_usd, high_usd if high else np.inf)

    def check_sizes(self, sizes: tuple[int, ...]) -> None:  # type: ignore[override]
        """Raise `UsageError` where a size is no whole nodes, or cannot hold a job."""
        for gpus in sizes:
            if gpus % self.sizes.step or gpus < self.sizes.least:
                raise UsageError(
                    f"--gpus {gpus:,}: must be a multiple of {self.sizes.step} (GPUs per node of "
                    f"{self.name}), {self.sizes.least:,} at least"
                )

    @property
    def no_wait_gpus(self) -> int | None:
        """Limits make jobs wait at any size."""
        return None


@dataclass(frozen=True, slots=True)
class _Cost:
    """What the size of a type costs a month more than today, and at the ends of unclear sizes."""

    name: str
    usd: float
    low_usd: float
    high_usd: float


def _widest(terms: SiteTerms) -> int:
    """Return the GPUs of the widest job in the partitions of the nodes."""
    jobs, partitions = terms.work.jobs, terms.nodes.choice.partitions
    within = [code for code, name in enumerate(jobs.partitions) if name in partitions]
    return int(jobs.total_gpus[np.isin(jobs.partition, within)].max(initial=0))


def size_site(request: SizeRequest, prices: Prices) -> SizeAnswer:
    """Return how many nodes of each type meet the targets under the site's rules.

    Raises:
        InputError: the log or the settings cannot be used.
        UsageError: a group of a target or a GPU type that the site does not have.
    """
    assert request.twin is not None  # as checked by the caller
    document, calibration = read_twin(request.twin)
    full_log = read_site_log(request.replay.trace, calibration.time_zone)
    log = full_log if calibration.all_jobs else recent(full_log)
    jobs = in_site_zone(request.replay.jobs, request.replay.trace, calibration, request.twin)
    trace = read_trace(request.replay.trace, jobs, columns=sorted(COLUMNS))
    seen, prices = today(trace), at_end(trace, prices)
    if seen is None:
        raise InputError(
            request.replay.trace,
            "no selected job holds a GPU",
            hint="loosen --where, --since and --until, or choose another --from and --to",
        )
    site, full, work = prepared(log, document, calibration.warmup_s, calibration.limit_factor)
    config, targets = level_config(full, calibration.level), request.targets()
    _check_groups(targets, work)
    resampling = None
    if request.level is not None:
        resampling = Resampling(request.level, request.resamples, request.replay.jobs.seed)
    types = node_types(site, request.gpu_type)
    if request.gpus is not None and len(types) > 1:
        raise UsageError(f"--gpus: of which type?\n  next: --gpu-type {types[0].name}")
    by = request.replay.by[0] if request.replay.by else ""
    held, chance = held_jobs(work), Chance.of(work, patience_of(work))
    today_wait = today_waits(site, config, work, chance, request.engine)
    if not ((work.scored & (today_wait >= 0)) | held).any():
        raise InputError(
            log.path,
            "has no job whose wait can be judged: each is excluded, in the warm-up or never starts",
            hint="a longer log, or settings with a shorter warmup_s",
        )
    terms = [
        SiteTerms(site, config, work, nodes, targets, resampling, by, held, chance, today_wait)
        for nodes in types
    ]
    is_one = len(types) == 1
    answers = [
        SiteAnswer(
            request, SiteSizes(each, request.engine), prices, seen, is_one=is_one
        )
        for each in terms
    ]  # fmt: skip
    has_waits = bool(work.scored.any())
    fidelity = fidelity_of_site(site, config, work) if has_waits else unknown("no job to score")
    for answer in answers:
        answer.fidelity = fidelity
        answer.search(may_speak=fidelity.may_speak)
    failure = ""
    if request.target and fidelity.may_speak and all(a.gpus is None for a in answers):
        failure = f"no number of nodes that was tried meets {listed(request.target)}"
    warnings = []
    if calibration.sha256 is not None and calibration.sha256 not in (
        full_log.sha256,
        *full_log.sources,
    ):
        warnings.append("the settings were calibrated on another log")
    return SizeAnswer(
        request=request,
        results=_results(request, answers, seen, fidelity),
        inputs=(
            InputFile(str(full_log.path), full_log.sha256, full_log.jobs.height),
            *prices.inputs,
        ),
        warnings=tuple(warnings),
        notes=(
            *work.notes,
            *left_out_notes(work, work.scored | held),
            *held_note(held, "at every size"),
            *_partitions_note(types, site),
            "waits are the log's plus the effect of the nodes; whether users would submit "
            "otherwise is not modeled",
        ),
        failure=failure,
    )


def _partitions_note(types: Sequence[NodesOfType], site: SiteCluster) -> Iterator[str]:
    """Yield which partitions of today's nodes new ones do not join."""
    for nodes in types:
        inside = set(nodes.choice.nodes)
        other_partitions = [
            part.name
            for part in site.partitions
            if inside & set(part.nodes) and part.name not in nodes.choice.partitions
        ]
        if other_partitions:
            yield (
                f"new {nodes.name} nodes join {listed(nodes.choice.partitions)}; --gpu-type "
                f"type:{nodes.choice.node_kind.gpu_type} puts them into "
                f"{listed(other_partitions)} too"
            )


def _check_groups(targets: tuple[Target, ...], work: SiteWorkload) -> None:
    """Refuse targets of groups that the log does not have. Raises `UsageError`."""
    kinds = (*GROUP_OF, *(name for name in GROUPINGS if name not in GROUP_OF))
    for target in targets:
        if target.group is None:
            continue
        by, name = target.group
        if by not in kinds:
            raise UsageError(f"--target {target.text!r}: {by} must be one of {', '.join(kinds)}")
        if not (group_mask(work, target.group) & work.scored).any():
            names = sorted(set(work.names(GROUP_OF.get(by, by))[work.scored].astype(str)))
            raise UsageError(
                f"--target {target.text!r}: no {by} {name}{perhaps(name, names)}; the log has "
                f"{listed(names, 8)}"
            )


def _results(
    request: SizeRequest, answers: list[SiteAnswer], seen: Today, fidelity: Fidelity
) -> SizeResults:
    """Return the results; those of several types are alternatives, with no sum."""
    pools = tuple(answer.result() for answer in answers)
    types = [pool.today for pool in pools]
    usd = [today.usd_per_month for today in types if today.usd_per_month is not None]
    today = SizeToday(
        cluster_gpus=fidelity.cluster_gpus,
        mean_gpus=seen.usage.gpu_h / (seen.window_s / HOUR_S) if seen.window_s else 0.0,
        peak_gpus=seen.usage.peak_gpus,
        mean_wait_s=seen.mean_wait_s,
        p95_wait_s=seen.p95_wait_s,
        usd_per_month=float(np.sum(usd)),
    )
    here = answers[0].sizes.replays.get(answers[0].today_gpus or 0)  # the same waits for every type
    meets = here.meets if here is not None and request.target else None
    results = results_of(request, answers, pools, today, fidelity)
    if not request.prices.is_given:
        results = replace(results, today=replace(results.today, price_is_assumed=True))
    return replace(results, today_meets=meets, cheapest=_cheapest(answers))


def _cheapest(answers: Sequence[SiteAnswer]) -> str | None:
    """Return the type whose size costs least more than today, whichever unclear size counts."""
    costs = [cost for cost in (answer.cost() for answer in answers) if cost is not None]
    if len(costs) < 2:
        return None
    best = min(costs, key=lambda cost: cost.usd)
    others = [cost for cost in costs if cost is not best]
    return best.name if all(best.high_usd < other.low_usd for other in others) else None
