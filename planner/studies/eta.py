"""When a job would start if it were submitted now, or at an instant of the log."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import polars as pl
from msgspec import UNSET, structs

from gpuplan.analysis.base.time_units import DAY_S
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.reading.source import read_unpacked
from gpuplan.analysis.site.log import UNFINISHED, SiteLog, left_out_notes, read_site_log
from gpuplan.analysis.site.schema import StartCalibration
from gpuplan.analysis.site.squeue import is_squeue, read_queue
from gpuplan.analysis.storage.files import sha256_of
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.planner.quota_twin.forecast import ForecastPlan, quota_forecast
from gpuplan.planner.quota_twin.new_workload import QUEUE
from gpuplan.planner.quota_twin.what_if import check_quota_groups
from gpuplan.planner.requests.eta import EtaRequest
from gpuplan.planner.site.backtest import BacktestPlan, StartBacktest, backtest, kept_backtest
from gpuplan.planner.site.eta import EtaPlan, EtaResults, check_possible, eta_results
from gpuplan.planner.site.instant import SiteInstant, instant_of, last_second
from gpuplan.planner.site.new_job import JobWish, alternatives, new_job
from gpuplan.planner.site.start_tables import start_replays
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.studies.quota_site import dump_of
from gpuplan.planner.twin.calibrate import Progress, no_progress
from gpuplan.planner.twin.settings import config_of, level_config, site_of
from gpuplan.planner.twin.workload import ONE_PARTITION, unknown_partition
from gpuplan.simkit.twin.site import SiteCluster

QUICK_JOBS, QUICK_REPLAYS = 60, 40
"""Jobs and replays of the backtest of an answer whose settings have none."""
ALL_JOBS, MOST_REPLAYS = 200, 100
"""Jobs and replays at most of a backtest that is asked for."""
BACKTEST_SHARE = 0.8
STORED = re.compile(r"\n*^\[calibration\.eta\]\n(?:(?!\[).*\n?)*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class StartForecast(Answer[EtaRequest, EtaResults]):
    """When a job would start."""

    def twin_text(self) -> str:
        """Return the text of ``twin.toml`` with what the backtest found."""
        text = STORED.sub("\n", read_unpacked(self.request.twin).decode("utf-8"))
        kept = self.results.backtest
        if kept is None:
            return text
        values = {
            name: getattr(kept, name) for name in StartCalibration.__struct_fields__
        }  # fmt: skip
        lines = [
            f"{name} = {value!r}" for name, value in values.items() if value not in (None, UNSET)
        ]
        return "\n".join([text.rstrip("\n"), "", "[calibration.eta]", *lines]) + "\n"


def eta(request: EtaRequest, progress: Progress = no_progress) -> StartForecast:
    """Replay the site from an instant on until a job started, with what is unknown drawn.

    ``progress`` is called with the share done.

    Raises:
        InputError: a file cannot be used, or the log names a partition that the settings lack.
        UsageError: the job names what the site does not have, or can never start.
    """
    request.check()
    if request.is_of_kueue:
        return _quota_eta(request, progress)
    document, calibration = request.site()
    zone = calibration.time_zone
    is_queue = is_squeue(request.trace)
    log = read_queue(request.trace, zone) if is_queue else read_site_log(request.trace, zone)
    queue = log if is_queue else None
    if request.queue is not None:
        queue = read_queue(request.queue, zone)
    instant = instant_of(log, request.at_s(zone), queue)
    named = pl.concat([instant.past, instant.running, instant.waiting], how="diagonal")
    pairs = named.select("account", "user").drop_nulls().unique().sort("account", "user")
    site = site_of(document, pairs.rows())
    config = level_config(config_of(document), calibration.level)
    if queue is not None:
        _check_queue(queue, site)
    wish = JobWish(
        request.gpus, request.nodes, request.limit_s(), request.user, request.account,
        request.partition, request.qos,
    )  # fmt: skip
    job, assumed = new_job(wish, site, named)
    other_ways = alternatives(job, site, instant.past)
    tables = start_replays(log, instant, site, config, [job, *(other.job for other in other_ways)])
    check_possible(tables, job)
    stored = calibration.eta

    def tests(share: float) -> None:
        progress(BACKTEST_SHARE * share)

    tested: StartBacktest | None = None
    if instant.finished.is_empty():
        pass  # a queue alone: the tests of a log are of other forecasts
    elif request.backtest:
        replays = min(request.replays, MOST_REPLAYS)
        plan = BacktestPlan(ALL_JOBS, replays, request.seed, with_easy=True)
        tested = backtest(log, instant, site, config, plan, tests)
    elif stored is None or stored.until > instant.at:
        plan = BacktestPlan(QUICK_JOBS, QUICK_REPLAYS, request.seed, with_easy=True)
        settings = sha256_of(request.twin)
        tested = kept_backtest(log, instant, site, config, plan, settings, tests)
    else:
        tested = StartBacktest(**structs.asdict(stored))
    results = eta_results(
        tables, instant, job, other_ways,
        EtaPlan(
            request.replays, request.seed, max(config.bf_interval, 1), calibration.level, zone
        ),
        tested,
        lambda share: progress(BACKTEST_SHARE + (1 - BACKTEST_SHARE) * share),
    )  # fmt: skip
    sources = [log, *([] if queue is None or queue is log else [queue])]
    return StartForecast(
        request=request,
        results=results,
        inputs=tuple(
            InputFile(str(source.path), source.sha256, source.jobs.height) for source in sources
        ),
        warnings=(
            *(warning for source in sources for warning in source.warnings),
            *_on_gap(log, queue),
            *_warnings(instant, tables.unplaced, tested),
        ),
        notes=(
            *(f"assumed {text}" for text in assumed),
            *(note for source in sources for note in _of_source(source)),
            *(() if instant.finished.is_empty() else (DRAWN,)),
            NOT_MODELED,
        ),
    )


def _quota_eta(request: EtaRequest, progress: Progress) -> StartForecast:
    """Return when a workload of Kueue has its quota. Raises as `eta`."""
    document, calibration = request.quota_site()
    check_quota_groups(QUEUE, calibration.level)
    log = dump_of(request.trace)
    wish = JobWish(
        request.gpus, request.nodes, 0, None, request.account, request.partition, request.qos
    )
    jobs, replays = QUICK_JOBS, QUICK_REPLAYS
    if request.backtest:
        jobs, replays = ALL_JOBS, min(request.replays, MOST_REPLAYS)
    plan = ForecastPlan(
        wish, request.at_s(calibration.time_zone), request.replays, request.seed,
        BacktestPlan(jobs, replays, request.seed), not request.backtest, sha256_of(request.twin),
    )  # fmt: skip
    forecast = quota_forecast(
        log, document, calibration, plan,
        lambda share: progress(BACKTEST_SHARE + (1 - BACKTEST_SHARE) * share),
        lambda share: progress(BACKTEST_SHARE * share),
    )  # fmt: skip
    limit = "--limit changes nothing: Kueue has no time limits" if request.limit else ""
    return StartForecast(
        request=request,
        results=forecast.results,
        inputs=(InputFile(str(log.path), log.sha256, log.jobs.height),),
        warnings=forecast.warnings,
        notes=(*forecast.notes, *filter(None, [limit])),
    )


DRAWN = (
    "run times of unfinished jobs are sampled from similar past jobs; later arrivals are those of "
    "past weeks"
)
NOT_MODELED = (
    "not modeled: node failures to come, preemption, CPUs and memory, and that others react"
)


MOST_GAP_S = 7 * DAY_S
"""The arrivals of past weeks stand for those to come: an older log tells of another time."""


def _check_queue(queue: SiteLog, site: SiteCluster) -> None:
    """Raise `InputError` where the queue names a partition that the site does not have."""
    names = [partition.name for partition in site.partitions]
    rows = pl.concat([queue.jobs, queue.waiting])
    strange = sorted(set(rows["partition"].fill_null(ONE_PARTITION).unique()) - set(names))
    if strange:
        some = rows.filter(pl.col("partition").fill_null(ONE_PARTITION) == strange[0])
        raise unknown_partition(queue.path, strange[0], names, str(some["job_id"][0]))


def _on_gap(log: SiteLog, queue: SiteLog | None) -> list[str]:
    """Return that the queue is of long after the log, if it is."""
    if queue is None or queue is log:
        return []
    gap_s = last_second(queue) - last_second(log)
    if gap_s <= MOST_GAP_S:
        return []
    return [
        f"the queue is of {counted(gap_s // DAY_S, 'day')} after the end of the log: arrivals and "
        "run times are those of an older time; give a newer log"
    ]


def _of_source(log: SiteLog) -> list[str]:
    """Return what was left out of a log; those that wait are not."""
    counts = {why: count for why, count in log.left_out.items() if why != UNFINISHED}
    return [*left_out_notes(replace(log, left_out=counts)), *log.notes]


def _warnings(instant: SiteInstant, unplaced: int, tested: StartBacktest | None) -> list[str]:
    said = []
    if instant.finished.is_empty():
        said.append(
            "no log of past weeks: every job may end at any time until its limit, and no others "
            "come; give the log of sacct, and the queue as --queue FILE"
        )
    if tested is None:
        said.append("how often such intervals hold is unknown: too few past jobs to test")
    if unplaced:
        said.append(f"{unplaced:,} running jobs fit on no node of the settings and are left out")
    return said
