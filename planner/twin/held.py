"""Which rule of a site held each job of a log while it waited.

Jobs start when they did, so that limits, fair shares and the queue are those of the record; see
`gpuplan.simkit.twin.watch`.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import IntArray
from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.history.reasons import BEGIN, DEPENDENCY, HELD, NOT_ELIGIBLE, group_of
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.log import SiteLog
from gpuplan.analysis.site.schema import CalibrationTable
from gpuplan.analysis.waits.spells import FirstWaits, Spells
from gpuplan.planner.twin.calibrate import prepared
from gpuplan.planner.twin.infer import peak_use
from gpuplan.planner.twin.settings import level_config
from gpuplan.simkit.twin.watch import NO_ARRAY, RULES, watch_site

NOT_REPLAYED = "not replayed"
"""Rule of the waits that the site's rules cannot tell: of jobs that a replay leaves out."""
ARRAY_CAP = re.compile(r"(?:^|\s)(?:-a|--array)[ =]?[^\s%]*%(\d{1,9})")
BEFORE_ELIGIBLE = (
    (re.compile(r"(?:^|\s)(?:-d[ =]?\S*after|--dependency)"), "Dependency"),
    (re.compile(r"(?:^|\s)(?:-b[ =]?\S|--begin)"), "BeginTime"),
    (re.compile(r"(?:^|\s)(?:-H(?:\s|$)|--hold)"), "JobHeldUser"),
)
"""What a line of sbatch says -> why the job is not eligible at once."""
LIMIT_TASKS = "JobArrayTaskLimit"


def rule_spells(
    waits: FirstWaits, log: SiteLog, document: SiteDocument, calibration: CalibrationTable
) -> Spells:
    """Return which rule held the jobs of a log in each part of their first waits.

    The time before a job is eligible is that of a dependency, a hold or a begin time.

    Args:
        waits: of the log, with ``job_id`` among its columns.
        log: the same jobs as the twin reads them.
        calibration: the rules to count.

    Raises:
        InputError: the log names a partition that the settings do not describe.
        UsageError: a setting cannot be used.
    """
    site, full, work = prepared(log, document, 0, calibration.limit_factor)
    config = level_config(full, calibration.level)
    start = work.recorded_start
    table = log.jobs.unique("job_id", keep="first", maintain_order=True)
    lines = dict(zip(table["job_id"], table["submit_line"], strict=True))
    reasons = dict(zip(table["job_id"], table["reason"], strict=True))
    array, cap = _arrays(work.job_ids, start, work.jobs.runtime, lines, reasons)
    held = watch_site(site, work.jobs.changed(pinned=start), config, start, array, cap)
    return _joined(waits, work.job_ids, start, held, lines)


def _arrays(
    ids: tuple[str, ...], start: IntArray, run: IntArray, lines: dict[str, str | None],
    reasons: dict[str, str | None],
) -> tuple[IntArray, IntArray]:  # fmt: skip
    """Return the array of each job, -1 for none with a limit, and the tasks that may run at once.

    The limit is that of the submit line, else the most tasks that ran at once, where one waited for
    it.
    """
    members: dict[str, list[int]] = {}
    for row, job in enumerate(ids):
        name, mark, _ = job.partition("_")
        if mark:
            members.setdefault(name, []).append(row)
    array = np.full(len(ids), NO_ARRAY, np.int64)
    caps: list[int] = []
    for rows in members.values():
        line = next((text for row in rows if (text := lines.get(ids[row]))), "")
        stated = ARRAY_CAP.search(line)
        if stated is not None:
            cap = int(stated[1])
        elif any(reasons.get(ids[row]) == LIMIT_TASKS for row in rows):
            ran = [row for row in rows if start[row] >= 0]
            cap = peak_use(start[ran], start[ran] + run[ran], np.ones(len(ran)))
        else:
            continue
        array[rows] = len(caps)
        caps.append(max(cap, 1))
    return array, np.array(caps or [1], np.int64)


def _joined(
    waits: FirstWaits, ids: tuple[str, ...], start: IntArray, held: tuple[IntArray, ...],
    lines: dict[str, str | None],
) -> Spells:  # fmt: skip
    """Return the spells of the first waits, the parts before a job is eligible among them."""
    jobs = waits.jobs["job_id"].cast(pl.String).to_list()
    row_of = {(job, int(at)): row for row, (job, at) in enumerate(
        zip(jobs, waits.start // MICROS, strict=True)
    )}  # fmt: skip
    place = np.array([row_of.get(pair, -1) for pair in zip(ids, start.tolist(), strict=True)])
    job, rule, begin, end = held
    is_waiting = place[job] >= 0
    row, rule, begin, end = (part[is_waiting] for part in (place[job], rule, begin, end))
    begin = np.clip(begin * MICROS, waits.eligible[row], waits.start[row])
    end = np.clip(end * MICROS, begin, waits.start[row])
    reasons = [*RULES, NOT_REPLAYED, NOT_ELIGIBLE]
    early = np.flatnonzero(waits.eligible > waits.submit)
    why = [_before_eligible(waits, int(job), lines.get(jobs[job])) for job in early]
    reasons += [reason for reason in dict.fromkeys(why) if reason not in reasons]
    explained_us = np.bincount(row, end - begin, waits.wait.size).astype(np.int64)
    rest = waits.start - waits.eligible - explained_us
    left = np.flatnonzero(rest > 0)
    parts = (
        (row, rule, begin, end),
        (early, np.array([reasons.index(reason) for reason in why], np.int64),
         waits.submit[early], waits.eligible[early]),
        (left, np.full(left.size, reasons.index(NOT_REPLAYED)),
         waits.start[left] - rest[left], waits.start[left]),
    )  # fmt: skip
    job, reason, begin, end = (np.concatenate(column) for column in zip(*parts, strict=True))
    some = end > begin
    job, reason, begin, end = job[some], reason[some], begin[some], end[some]
    return Spells(job, reason.astype(np.int64), begin, end, end - begin, tuple(reasons))


def _before_eligible(waits: FirstWaits, row: int, line: str | None) -> str:
    """Return why a job was not eligible at once: by its reason, else by its submit line."""
    recorded = waits.jobs["reason"][row] if "reason" in waits.jobs.columns else None
    if recorded is not None and group_of(str(recorded)).key in (DEPENDENCY, HELD, BEGIN):
        return str(recorded)
    fits = (reason for pattern, reason in BEFORE_ELIGIBLE if pattern.search(line or ""))
    return next(fits, NOT_ELIGIBLE)
