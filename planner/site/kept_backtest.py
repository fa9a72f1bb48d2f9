"""The quick backtest of a forecast, kept in the cache: it is of a log, its site and a day.

Only what was known before the day counts, so all forecasts of one day share a test.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

from msgspec import UNSET

from gpuplan.analysis.base.errors import OutputError
from gpuplan.analysis.base.time_units import DAY_S
from gpuplan.analysis.site.log import SiteLog
from gpuplan.analysis.storage.cache import Cache, key_of, usual_folder
from gpuplan.planner.site.backtest import BacktestPlan, StartBacktest, backtest
from gpuplan.planner.site.instant import SiteInstant, instant_of, last_second
from gpuplan.planner.twin.calibrate import Progress
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster

KIND = "start-backtests"


def kept_backtest(
    log: SiteLog, instant: SiteInstant, site: SiteCluster, config: SchedulerConfig,
    plan: BacktestPlan, settings_sha256: str, progress: Progress,
) -> StartBacktest | None:  # fmt: skip
    """Return how well starts of jobs before the day of an instant would have been forecast.

    Args:
        log: the log.
        instant: what is known.
        site, config: the site and its rules.
        plan: how to test.
        settings_sha256: hash of the file that site and rules come from.
        progress: called with the share done.

    Returns:
        None where the log has too few jobs for a test.
    """
    day = min(day_of(instant.at, instant.first), last_second(log))
    key = key_of(
        "start-backtest", log=log.sha256, settings=settings_sha256, day=day, plan=asdict(plan)
    )
    return kept(
        key, lambda: backtest(log, instant_of(log, day), site, config, plan, progress)
    )  # fmt: skip


def day_of(at: int, first: int) -> int:
    """Return the second until which a test of an instant may know: its day's first."""
    return max(at // DAY_S * DAY_S, first)


def told(tested: StartBacktest) -> dict[str, object]:
    """Return the fields of a test that have a value."""
    return {name: value for name, value in asdict(tested).items() if value is not UNSET}


def kept(key: str, test: Callable[[], StartBacktest | None]) -> StartBacktest | None:
    """Return a test that the cache keeps under a key, done where it does not have it yet."""
    try:
        cache = Cache(usual_folder())
    except OutputError:  # no home folder
        cache = None
    text = None if cache is None else cache.read(KIND, key)
    if text is not None:
        values = json.loads(text)
        return None if values is None else StartBacktest(**values)
    tested = test()
    if cache is not None:
        cache.keep(KIND, key, json.dumps(None if tested is None else told(tested)))
    return tested
