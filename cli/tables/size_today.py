"""What ``gpuplan size`` says of today: its GPUs, its waits and its bill."""

from __future__ import annotations

from math import isclose
from typing import TYPE_CHECKING

from gpuplan.analysis.base.words import counted, joined
from gpuplan.cli.formats.units import show_count, show_duration, show_number
from gpuplan.cli.tables.commitment_tables import (
    MOST_TYPES,
    commitments,
    is_of_some_types,
    show_dollars,
)
from gpuplan.planner.site.fidelity import SITE_RULES

if TYPE_CHECKING:
    from gpuplan.planner.studies.size_results import SizePoint, SizePool, SizeResults


def today_sentence(results: SizeResults, when: str) -> str:
    """Return what the log shows today.

    Args:
        results: of the study.
        when: the word for it, or the part of the log it is of.
    """
    today = results.today
    if results.gpus is None and not results.points and is_of_some_types(results):
        return _today_of_types(results, when)
    mean, peak = show_number(today.mean_gpus), show_count(today.peak_gpus)
    if len(results.pools) > 1:
        peak += ", all GPU types at once"
    wait = _wait_today(results)
    # Dollars of some types do not stand beside the bill of all.
    usd = None if results.gpus is None and is_of_some_types(results) else today.usd_per_month
    cluster = "" if today.cluster_gpus is None else counted(today.cluster_gpus, "GPU")
    if usd is not None and not is_billed(results):
        return (
            f"{when}: {cluster} around the clock for {show_dollars(usd)} a month, {mean} held on "
            f"average (peak {peak}){wait}."
        )
    gpus = "1 GPU" if today.mean_gpus == 1 else f"{mean} GPUs"
    gpus = f"{cluster}, {mean}" if cluster and usd is not None else gpus
    bill = "" if usd is None else f", {show_dollars(usd)} a month as billed"
    return f"{when}: {gpus} held on average (peak {peak}){wait}{bill}."


def is_billed(results: SizeResults) -> bool:
    """Whether today's dollars are its bill, and not those of the GPUs of a cluster, busy or not."""
    today, cluster_usd = results.today, [pool.today.usd_per_month for pool in results.pools]
    if today.usd_per_month is None or today.cluster_gpus is None:
        return today.usd_per_month is not None
    return not isclose(today.usd_per_month, sum(usd or 0.0 for usd in cluster_usd))


def _wait_today(results: SizeResults) -> str:
    """Return the recorded P95 wait, under a site's rules that of the curve beside it."""
    if results.today.p95_wait_s is None:
        return ""
    recorded = show_duration(results.today.p95_wait_s)
    pool = results.pools[0]
    point = point_of(results, pool, pool.today.cluster_gpus)
    if results.policy != SITE_RULES or point is None:
        return f", P95 wait {recorded}"
    counted_wait = show_duration(point.p95_wait_s)
    if counted_wait == recorded:
        return f", P95 wait {recorded}"
    return f", P95 wait {counted_wait} ({recorded} from submission, of all jobs)"


def _today_of_types(results: SizeResults, when: str) -> str:
    """Return what is held of the types alone that a commitment is looked for on."""
    names = [name for name, _ in commitments(results)]
    held = {pool.name: pool.today for pool in results.pools if pool.name in names}
    parts = [
        f"{show_number(today.mean_gpus)} {name} (peak {show_count(today.peak_gpus)})"
        for name, today in held.items()
    ]
    if more := len(parts[MOST_TYPES:]):
        parts = [*parts[:MOST_TYPES], counted(more, "more GPU type")]
    return f"{when}: {joined(parts)} held on average."


def point_of(results: SizeResults, pool: SizePool, gpus: int | None) -> SizePoint | None:
    """Return a size of a pool on its curve; None where it is not there."""
    names = (None, pool.name)
    return next((p for p in results.points if p.gpus == gpus and p.gpu_type in names), None)


def less_today(results: SizeResults) -> str:
    """Return that today's waits meet the targets for less, and why it costs less."""
    now, size = results.today.usd_per_month, results.usd_per_month
    if not results.today_meets or now is None or size is None or now >= size:
        return ""
    if not is_billed(results):
        return "Today already meets the target for less."
    return (
        "Today already meets the target for less: its bill is for GPUs rented as jobs come, this "
        "size is a fixed cluster paid around the clock."
    )
