"""Tables of ``gpuplan size``: the curve, the pools, and the answer in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpuplan.analysis.base.words import counted, price_text
from gpuplan.cli.formats.report import Column, Shown, Table, table
from gpuplan.cli.formats.today_text import period_text
from gpuplan.cli.formats.units import (
    show_between,
    show_count,
    show_duration,
    show_number,
    show_price,
)
from gpuplan.cli.tables.commitment_tables import (
    commitment_text,
    show_dollars,
)
from gpuplan.cli.tables.fidelity_text import contradiction
from gpuplan.cli.tables.size_today import is_billed, less_today, point_of, today_sentence
from gpuplan.planner.site.fidelity import SITE_RULES, UNKNOWN

if TYPE_CHECKING:
    from gpuplan.planner.studies.size_results import SizeAnswer, SizePoint, SizePool, SizeResults

MOST_CURVES = 2
"""GPU types whose curves the headline has room for."""


def curve_table(results: SizeResults) -> Table:
    """Return one row per size."""
    several = len(results.pools) > 1
    answers = {pool.name if several else None: pool.gpus for pool in results.pools}
    marks = {(gpu_type, gpus): "answer" for gpu_type, gpus in answers.items()}
    for pool in results.pools:
        gpus = pool.today.cluster_gpus
        if gpus is None and not results.fidelity.may_speak:
            gpus = pool.fidelity.cluster_gpus
        today = (pool.name if several else None, gpus)
        marks[today] = "answer, today" if today in marks else "today"

    def note(point: SizePoint) -> str:
        mark, answer = marks.get((point.gpu_type, point.gpus), ""), answers[point.gpu_type]
        if not mark and point.meets is False:
            return "too small"
        if point.meets and answer is not None and point.gpus < answer:
            return f"{mark}, meets, off the step".removeprefix(", ")
        return mark

    return table(
        f"Waits and cost by size, under {results.policy}",
        results.points,
        {
            "gpu_type": "GPU" if several else "",
            "gpus": "GPUs",
            "nodes": _nodes(results.points),
            "mean_wait_s": "wait, mean",
            "p95_wait_s": "P95",
            "p99_wait_s": "P99",
            "utilization": "used",
        },
        *_target_columns(results),
        Column("usd_per_month", "$/month", show_dollars),
        Column("usd_per_wait_h_saved", "$ per hour of wait saved", show_dollars),
        Column("note", "note" if any(map(note, results.points)) else "", read=note),
    )


def _target_columns(results: SizeResults) -> tuple[Column, ...]:
    """Return a column for each target of a group, whose waits no other column has."""
    named = [
        (at, target.name.partition("<")[0].strip())
        for at, target in enumerate(results.targets)
        if "[" in target.name
    ]

    def column(at: int, name: str) -> Column:
        show = show_duration if "_wait[" in name else show_number
        return Column(f"target_{at}", name, show, lambda point: point.target_values[at])

    return tuple(column(at, name) for at, name in named)


def _nodes(rows: Sequence[SizePoint | SizePool]) -> str:
    """Return the header of nodes, empty where GPUs have none."""
    return "nodes" if any(row.nodes is not None for row in rows) else ""


def pools_table(results: SizeResults) -> Table:
    """Return one row per GPU type."""
    is_site = results.policy == SITE_RULES
    return table(
        _pools_title(results),
        results.pools,
        {
            "name": "GPU",
            "jobs": "jobs",
            "gpus": "GPUs needed",
            "nodes": _nodes(results.pools),
            "interval.low_gpus": "interval from",
        },
        Column("high_gpus", "to", show_count, _high),
        {
            "today.cluster_gpus": "today",
            "today.mean_gpus": "held, mean",
            "today.peak_gpus": "peak",
            "widest_job_gpus": "widest job",
            "no_wait_gpus": "no waits from" if results.pools[0].no_wait_gpus is not None else "",
        },
        Column("usd_per_gpu_h", "$/GPU-h", price_text),
        Column("usd_per_month", "$/month", show_dollars),
        Column("over_today_usd_per_month", "over today" if is_site else "", show_dollars),
    )


def _high(pool: SizePool) -> int | Shown | None:
    """Return the high end of an interval; with a plus where more GPUs may be needed."""
    if pool.interval is None:
        return None
    high = pool.interval.high_gpus
    return Shown(high, f"{high:,}+") if pool.interval_is_open else high


def _pools_title(results: SizeResults) -> str:
    if len(results.pools) == 1:
        return "The jobs and their GPUs"
    if results.policy == SITE_RULES:
        return "By GPU type: alternatives, with the other nodes as they are"
    return "By GPU type: a pool each"


def price_note(study: SizeAnswer) -> tuple[str, ...]:
    """Return a note where the price is assumed."""
    if study.request.prices.is_given or study.request.commits:
        return ()
    usd = study.results.pools[0].usd_per_gpu_h
    assert usd is not None  # only commitments leave it out
    return (
        f"GPUs cost {show_price(usd)} an hour, an assumption: --price USD, or --prices builtin",
    )


def headline(
    results: SizeResults,
    period: Mapping[str, str | None] | None = None,
    source_format: str = "",
) -> str:
    """Return the size, how sure it is, and what today is; the commitment where asked for."""
    parts = []
    if why := contradiction(results.fidelity, source_format):
        return f"{why} {today_sentence(results, period_text(period))}"
    if results.policy == SITE_RULES and results.targets:
        met = " Today's nodes already meet the target." if results.today_meets else ""
        return f"{_nodes_needed(results)} {today_sentence(results, period_text(period))}{met}"
    if results.gpus is not None:
        parts += [_answer(results), _interval(results)]
    elif results.points:
        parts.append(_curves(results))
    if results.commitment is not None:
        parts.append(commitment_text(results))
    if results.commitment is not None and results.commitment.today_gpus and len(parts) == 1:
        return parts[0]  # it says what today costs
    if len(parts) < 3 or not parts[1]:
        parts.append(today_sentence(results, period_text(period)))
    parts.append(less_today(results))
    if results.gpus is not None and results.fidelity.verdict == UNKNOWN:
        parts.append(f"The answer is not checked against the log: {results.fidelity.why}.")
    return " ".join(part for part in parts if part)


def _nodes_needed(results: SizeResults) -> str:
    """Return how many nodes of each type meet the targets, alternatives to each other."""
    names = " and ".join(target.name for target in results.targets)
    met, missed = [], []
    for pool in results.pools:
        if pool.gpus is None or pool.nodes is None:
            missed.append(pool.name)
            continue
        today = (pool.today.cluster_gpus or 0) // (pool.gpus // pool.nodes)
        point = point_of(results, pool, pool.gpus)
        wait = "" if point is None else _wait(results, point)
        nodes, more = counted(pool.nodes, f"{pool.name} node"), _over_today(pool)
        met.append(f"{nodes} (today {today:,}{more}; {wait}{_ends(pool, pool.gpus // pool.nodes)})")
    if not met:
        return _out_of_reach(results, names)
    text = f"For {names} under the site's rules you need {', or '.join(met)}"
    text += ", the other nodes as they are." if len(results.pools) == 1 else "."
    if len(met) > 1:
        text = f"{text[:-1]}, each with the other nodes as they are."
    if results.cheapest is not None:
        word = "cheaper" if len(met) == 2 else "the cheapest"
        text += f" The {results.cheapest} nodes are {word}."
    elif len(met) > 1 and results.today.price_is_assumed is not True:
        text += " Which costs least is too close to tell."
    if missed:
        text += f" No number of {' or '.join(missed)} nodes that was tried meets it."
    return text


def _over_today(pool: SizePool) -> str:
    """Return what the size of a pool costs more or less than today."""
    usd = pool.over_today_usd_per_month
    if not usd:
        return ""
    return f", {show_dollars(abs(usd))} a month {'more' if usd > 0 else 'less'}"


def _ends(pool: SizePool, each: int) -> str:
    """Return the nodes that may be enough: the interval, without one those within the error."""
    if (ends := pool.interval) is not None and ends.low_gpus < ends.high_gpus:
        high = "or more" if pool.interval_is_open else f"to {ends.high_gpus // each:,}"
        return f", {ends.level_percent:g}% interval {ends.low_gpus // each:,} {high}"
    if pool.unclear is None:
        return ""
    low, most = pool.unclear.low_gpus // each, pool.unclear.high_gpus
    return (
        f", unclear from {low:,} on"
        if most is None
        else f", unclear between {low:,} and {most // each:,}"
    )


def _out_of_reach(results: SizeResults, names: str) -> str:
    """Return what the most nodes of each type reach where no number of them meets the targets."""
    reached = []
    for pool in results.pools:
        points = [
            point
            for point in results.points
            if point.gpu_type == pool.name or len(results.pools) == 1
        ]
        if points and (most := points[-1]).nodes:
            nodes = counted(most.nodes, f"{pool.name} node")
            reached.append(f"{nodes} still give {_wait(results, most)}")
    return (
        f"No number of nodes of one type that was tried meets {names} under the site's rules: "
        f"{'; '.join(reached)}. The waits that are left come from limits, array limits or "
        "other nodes: gpuplan waits LOG --twin FILE says which."
    )


def _answer(results: SizeResults) -> str:
    assert results.gpus is not None and results.usd_per_month is not None
    nodes = "" if results.nodes is None else f" ({counted(results.nodes, 'node')})"
    names = " and ".join(target.name for target in results.targets)
    grown = f" after {results.growth:.0%} growth" if results.growth else ""
    gpus = counted(results.gpus, "GPU")
    text = f"You need {gpus}{nodes} for {names}{grown} under {results.policy}"
    cost = f"{show_dollars(results.usd_per_month)} a month"
    if is_billed(results):
        cost += " around the clock"
    if len(results.pools) > 1:
        each = ", ".join(f"{pool.gpus:,} {pool.name}" for pool in results.pools)
        return f"{text}: {each}, {cost}."
    point = point_of(results, results.pools[0], results.gpus)
    used = "" if point is None or point.utilization is None else f", {point.utilization:.0%} used"
    wait = "" if point is None else f"{_wait(results, point)}{used}, "
    return f"{text}: {wait}{cost}."


def _wait(results: SizeResults, point: SizePoint) -> str:
    """Return the wait that the first target is about, the P95 wait for other targets."""
    name, is_wait, rest = results.targets[0].name.partition("<")[0].strip().partition("_wait")
    if not is_wait or rest.startswith("_over") or not point.target_values:
        return f"a P95 wait of {show_duration(point.p95_wait_s)}"
    called = f"P{name[1:]}" if name[:1] == "p" else name
    group = f" of {rest.strip('[] ').partition('=')[2].strip()}" if "=" in rest else ""
    return f"a {called} wait{group} of {show_duration(point.target_values[0])}"


def _interval(results: SizeResults) -> str:
    ends, gpus = results.interval, results.today.cluster_gpus
    widest = results.pools[0].widest_job_gpus
    if len(results.pools) == 1 and results.gpus == widest:
        more = ""
        if ends is not None and ends.low_gpus < ends.high_gpus:
            more = f"; {ends.level_percent:g}% interval: up to {ends.high_gpus:,} GPUs"
        return f"The widest job needs {widest:,} at once, so no smaller cluster can run it{more}."
    if ends is None:
        return ""
    text = (
        f"{ends.level_percent:g}% interval: "
        f"{show_between(ends.low_gpus, ends.high_gpus, show_count)} GPUs"
        if ends.low_gpus < ends.high_gpus
        else f"The {ends.level_percent:g}% interval is this size alone"
    )
    if gpus is not None and ends.low_gpus <= gpus <= ends.high_gpus:
        text += ", and today's size is within it"
    return f"{text}."


def _curves(results: SizeResults) -> str:
    """Return the curve of each GPU type in words, of the first one where there are many."""
    kinds = list(dict.fromkeys(point.gpu_type for point in results.points))
    shown = kinds if len(kinds) <= MOST_CURVES else kinds[:1]
    parts = [
        _curve(results, [point for point in results.points if point.gpu_type == kind])
        for kind in shown
    ]
    if len(shown) < len(kinds):
        parts.append(f"The table has the other {len(kinds) - len(shown)} GPU types.")
    return " ".join(parts)


def _curve(results: SizeResults, points: list[SizePoint]) -> str:
    first, last = points[0], points[-1]
    of = "" if first.gpu_type is None else f"{first.gpu_type} "
    if first is last:
        return (
            f"{counted(first.gpus, f'{of}GPU')} under {results.policy}: a P95 wait of "
            f"{show_duration(first.p95_wait_s)} for {show_dollars(first.usd_per_month)} a month."
        )
    waits = show_duration(first.p95_wait_s), show_duration(last.p95_wait_s)
    wait = (
        f"the P95 wait stays at {waits[0]}"
        if waits[0] == waits[1]
        else f"the P95 wait goes from {waits[0]} to {waits[1]}"
    )
    usd = show_dollars(first.usd_per_month)
    bill = f"from {show_between(first.usd_per_month, last.usd_per_month, show_dollars)}"
    if usd == show_dollars(last.usd_per_month):
        bill = f"stays at {usd}"
    return (
        f"From {first.gpus:,} to {last.gpus:,} {of}GPUs {wait} under {results.policy}, and the "
        f"bill {bill} a month."
    )
