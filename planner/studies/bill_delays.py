"""Who makes whom wait, beside the bill: replays of a log without the jobs of each label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.characterize.today import COLUMNS
from gpuplan.analysis.history.jobs import BY
from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.analysis.site.document import read_twin
from gpuplan.analysis.site.log import read_site_log
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.money.bill import NO_LABEL
from gpuplan.planner.money.bill_results import BillResults
from gpuplan.planner.requests.bill import BillRequest
from gpuplan.planner.requests.shapes import read_shape
from gpuplan.planner.requests.site_request import site_zone
from gpuplan.planner.runs.trace_jobs import COLUMNS as REPLAYED
from gpuplan.planner.site.delays import (
    DelayGame,
    DelayResults,
    delays_of,
    pool_game,
    site_game,
    teams_of,
)
from gpuplan.planner.site.fidelity import (
    NO_WAITS,
    SITE_RULES,
    Fidelity,
    unknown,
    why_not_today,
)
from gpuplan.planner.site.pool_replays import fidelity_of_pools, pool_gpus
from gpuplan.planner.site.site_sizes import fidelity_of_site
from gpuplan.planner.sizing.pools import PoolTerms, pools_of
from gpuplan.planner.twin.calibrate import prepared
from gpuplan.planner.twin.settings import level_config
from gpuplan.planner.twin.workload import recent

LABEL = "group"
"""Column that the labels of a bill stand in while pools are made."""


@dataclass(frozen=True, slots=True)
class BillStudyResults(BillResults):
    """The bill of a log, and who makes whom wait.

    Attributes:
        delays: hours of waiting, of ``--delays``; in no dollar of the bill.
    """

    delays: DelayResults | UnsetType = UNSET


def delay_columns(request: BillRequest) -> tuple[str, ...]:
    """Return the columns of a trace that delays read besides those of a bill."""
    if not request.delays.delays:
        return ()
    return (*REPLAYED, *COLUMNS, LABEL)


def bill_delays(request: BillRequest, trace: Trace) -> DelayResults:
    """Return who makes whom wait.

    Args:
        request: of the bill.
        trace: its jobs, with `delay_columns`.

    Raises:
        InputError: no job can be replayed, or the settings of the site cannot be used.
        UsageError: a cluster that does not fit, or another time zone than that of the settings.
    """
    if request.delays.twin is not None:
        game, rules, gpus, fidelity = _site(request, trace)
    else:
        game, rules, gpus, fidelity = _pools(request, trace)
    teams, is_exact, replays = delays_of(game, request.jobs.seed)
    return DelayResults(
        rules=rules,
        cluster_gpus=gpus,
        jobs=sum(team.jobs for team in teams),
        wait_h=sum(team.waited_h for team in teams),
        is_exact=is_exact,
        replays=replays,
        teams=teams,
        fidelity=fidelity,
    )


def _labels(trace: Trace, column: str) -> pl.Series:
    """Return the label of each job."""
    lacking = UNNAMED if BY.get(column, column) == "gpu_type" else NO_LABEL
    return trace.jobs[BY.get(column, column)].cast(pl.String).fill_null(lacking)


def _pools(request: BillRequest, trace: Trace) -> tuple[DelayGame, str, int, Fidelity]:
    jobs = trace.jobs.with_columns(_labels(trace, request.columns[0]).alias(LABEL))
    shape = None
    if request.cluster is not None and not request.is_peak:
        shape = read_shape(request.cluster, "--cluster")
    seed, spec = request.jobs.seed, request.delays.spec()
    terms = PoolTerms(
        request.prices.gpu, shape, 0.0, None, None, include_running=True, seed=seed, by=(LABEL,)
    )
    pools, seen = pools_of(replace(trace, jobs=jobs, period=None), terms)
    labels = [_pool_labels(pool.jobs.labels) for pool in pools]
    gpu_s = [pool.jobs.workload.service_us * pool.jobs.workload.billed_gpus for pool in pools]
    teams, codes = teams_of(np.concatenate(labels), np.concatenate(gpu_s))
    ends = np.cumsum([pool_labels.size for pool_labels in labels])
    game = pool_game(pools, np.split(codes, ends[:-1]), teams, spec)
    why = why_not_today(request.jobs, trace.provenance)
    why = why or (NO_WAITS if seen.mean_wait_s is None else "")
    fidelity = unknown(why)
    if not why:
        is_part = request.jobs.where is not None
        _, draws = np.random.default_rng(seed).spawn(2)
        fidelity, _ = fidelity_of_pools(pools, seen, spec, draws, is_part=is_part)
    return game, spec.policy, sum(map(pool_gpus, pools)), fidelity


def _pool_labels(labels: pl.DataFrame | None) -> NDArray[np.object_]:
    if labels is None:
        raise ValueError("the jobs have no labels")
    names: NDArray[np.object_] = labels[LABEL].cast(pl.String).to_numpy().astype(object)
    return names


def _site(request: BillRequest, trace: Trace) -> tuple[DelayGame, str, int, Fidelity]:
    twin = request.delays.twin
    if twin is None:
        raise ValueError("there are no settings of a site")
    _check_all_jobs(request)
    document, calibration = read_twin(twin)
    zone = site_zone(calibration, twin, request.jobs.log.time_zone)
    full_log = read_site_log(request.trace, zone)
    log = full_log if calibration.all_jobs else recent(full_log)
    site, full, work = prepared(log, document, calibration.warmup_s, calibration.limit_factor)
    config = level_config(full, calibration.level)
    names = dict(zip(trace.jobs["job_id"].to_list(), _labels(trace, request.columns[0]),
                     strict=True))  # fmt: skip
    labels = np.array([names.get(job_id, NO_LABEL) for job_id in work.job_ids], object)
    teams, codes = teams_of(labels, (work.jobs.runtime * work.jobs.total_gpus).astype(np.float64))
    game = site_game(site, config, work, codes, teams)
    return game, SITE_RULES, site.gpus, fidelity_of_site(site, config, work)


def _check_all_jobs(request: BillRequest) -> None:
    """Refuse a choice of jobs: the site's rules hold for all of them."""
    jobs = request.jobs
    chosen: Sequence[tuple[str, object]] = (
        ("where", jobs.where), ("sample", jobs.sample), ("since", jobs.since),
        ("until", jobs.until),
    )  # fmt: skip
    for name, value in chosen:
        if value is not None:
            raise UsageError(
                f"--{name}: not with --twin, which replays the whole log under the site's rules"
            )
