"""Tables of waste: by kind, by who, by the hour, and the waits without it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.waste.kinds import FAILED, IDLE_ENDS, UNKNOWN
from gpuplan.cli.formats.report import Column, Shown, Table, table
from gpuplan.cli.formats.units import show_duration, show_share, show_usd
from gpuplan.cli.formats.waste_text import (
    FEW_GPU_H,
    KIND_WORDS,
    is_by_month,
    lacks_ends,
    limits_words,
    remedy_words,
)
from gpuplan.cli.tables.fidelity_text import contradiction, fidelity_table
from gpuplan.planner.requests.site_request import KUBERNETES
from gpuplan.planner.site.fidelity import SITE_RULES
from gpuplan.planner.waste.right_size import CHEAPER, FEWER, PART

if TYPE_CHECKING:
    from gpuplan.planner.studies.waste_results import WasteResults
    from gpuplan.planner.waste.clock import WasteClock
    from gpuplan.planner.waste.energy import Energy
    from gpuplan.planner.waste.results import Counterfactual
    from gpuplan.planner.waste.tally import WasteKind, WasteRow

MOST_ROWS = 10
NOT_KNOWN = dict.fromkeys(("jobs", "gpu_h", "share", "usd", "usd_per_month"))
NOT_KNOWN_OF_ROW = dict.fromkeys(("idle_jobs", "idle_gpu_h", "low_gpu_h"))
"""Cells of someone none of whose GPU-hours have figures."""
SIZE_WORDS = {FEWER: "fewer GPUs", PART: "part of a GPU", CHEAPER: "cheaper type"}


def waste_tables(results: WasteResults) -> tuple[Table, ...]:
    """Return all tables of waste."""
    by_month = is_by_month(results)
    tables = [kinds_table(results), who_table(results.users, "user", by_month, most=None)]
    for rows, name in (
        (results.groups, "group"),
        (results.classes, "class"),
        (results.partitions, "partition"),
    ):
        if rows and not (name == "partition" and rows == results.classes):
            tables.append(who_table(rows, name, by_month, most=None))
    if results.counterfactual is not None:
        waits = results.counterfactual
        tables += [remedies_table(waits), *fidelity_table(waits.fidelity)]
        if waits.freed:
            tables.append(freed_table(waits))
    if results.clock is not None:
        tables.append(hours_table(results.clock))
    if results.right_size:
        tables.append(right_size_table(results))
    if results.energy is not None:
        tables.append(energy_table(results.energy))
    return tuple(tables)


def answer_tables(results: WasteResults) -> tuple[Table, ...]:
    """Return the tables of the answer: kinds, and who has them."""
    who, name = results.users, "user"
    if not who:
        who, name = results.groups, "group"
    answer = [
        kinds_table(results),
        *((who_table(who, name, is_by_month(results)),) if who else ()),
    ]
    if results.energy is not None and results.energy.kwh:
        answer.append(energy_table(results.energy))
    return tuple(answer)


def _dollar_columns(rows: Sequence[WasteKind | WasteRow], by_month: bool) -> dict[str, str]:
    """Return headers of the dollars in the log, as GPU-hours are, and of those of a month."""
    has_usd = any(row.usd is not None for row in rows)
    return {
        "usd": "$" if has_usd else "",
        "usd_per_month": "$ per month" if has_usd and by_month else "",
    }


def _kind_row(kind: WasteKind, results: WasteResults) -> dict[str, Any]:
    row = fields_of(kind) | {"what": KIND_WORDS[kind.name]}
    if kind.name == IDLE_ENDS and not kind.jobs and lacks_ends(results):
        return row | NOT_KNOWN | {"what": f"{row['what']}: not known (needs --metrics)"}
    if kind.name == FAILED and not kind.is_known:
        return row | NOT_KNOWN | {"what": f"{row['what']}: not known (the log has no states)"}
    if not kind.is_known:
        return row | NOT_KNOWN | {"what": f"{row['what']}: not known"}
    if kind.name == FAILED:  # also those without figures
        return row | {"share": Shown(kind.share, f"{show_share(kind.share or 0.0)} of all")}
    return row | ({"share": None} if kind.name == UNKNOWN else {})


def kinds_table(results: WasteResults) -> Table:
    """Return the kinds of waste, each GPU-hour in one; of the log, as its dollars."""
    return table(
        f"Kinds of waste, of {results.gpu_h:,.0f} GPU-hours in {show_duration(results.window_s)} "
        f"({show_share(results.known_share)} with figures)",
        [_kind_row(kind, results) for kind in results.kinds],
        {
            "name": "",
            "what": "kind",
            "jobs": "jobs",
            "gpu_h": "GPU-hours",
            "share": "of those known",
        },
        _dollar_columns(results.kinds, is_by_month(results)),
    )


def who_table(
    rows: Sequence[WasteRow], name: str, by_month: bool, most: int | None = MOST_ROWS
) -> Table:
    """Return who has idle GPUs, most first: of the log, dollars also of a month if so."""
    return table(
        f"By {name}",
        [
            fields_of(row) | ({} if row.share is not None else NOT_KNOWN_OF_ROW)
            for row in rows[:most]
        ],
        {
            "name": name,
            "jobs": "jobs",
            "idle_jobs": "with idle GPUs",
            "gpu_h": "GPU-hours",
            "idle_gpu_h": "did nothing",
            "share": "of those known",
            "low_gpu_h": "under 15%",
            "failed_gpu_h": "failed",
            "unknown_gpu_h": "unknown",
        },
        _dollar_columns(rows, by_month),
    )


def remedies_table(waits: Counterfactual) -> Table:
    """Return the waits without each kind of waste."""
    today: dict[str, Any] = {
        "what": "today",
        "mean_wait_s": waits.today_mean_wait_s,
        "p95_wait_s": waits.today_p95_wait_s,
    }
    rows = [fields_of(row) | {"what": remedy_words(row, waits)} for row in waits.remedies]
    return table(
        f"Waits without the waste, replayed under {waits.rules}",
        [today, *rows],
        {
            "what": "change",
            "changed_jobs": "jobs changed",
            "mean_wait_s": "mean wait",
            "mean_error_s": "mean error",
            "mean_verdict": "mean verdict",
            "p95_wait_s": "P95 wait",
            "error_s": "P95 error",
            "verdict": "P95 verdict",
        },
    )


def freed_table(waits: Counterfactual) -> Table:
    """Return the GPUs that could go at today's waits."""
    has_usd = any(row.usd_per_month is not None for row in waits.freed)
    return table(
        "GPUs that could go at today's waits, without the waste",
        waits.freed,
        {
            "gpu_type": "GPU",
            "gpus": "today",
            "enough_gpus": "enough with the waste",
            "freed_gpus": "fewer without it",
            "usd_per_month": "$ per month" if has_usd else "",
        },
    )


def hours_table(clock: WasteClock) -> Table:
    """Return when GPUs did nothing, by hour of the day."""
    return table(
        "GPU-hours that did nothing, by hour of the day",
        clock.hours,
        {"hour": "hour", "waited_gpu_h": "while others waited", "free_gpu_h": "while none waited"},
    )


def right_size_table(results: WasteResults) -> Table:
    """Return what less would do for jobs, each of them once."""
    has_usd = any(row.usd_per_month is not None for row in results.right_size)
    is_measured = any(row.measured_jobs for row in results.right_size)
    is_by_tensor = any(row.tensor_jobs for row in results.right_size)
    return table(
        "Right size: what less would do, by memory and use",
        [fields_of(row) | {"what": SIZE_WORDS[row.way]} for row in results.right_size],
        {
            "gpu_type": "GPU",
            "what": "instead",
            "slice": "which",
            "jobs": "jobs",
            "gpu_h": "GPU-hours",
            "saved_gpu_h": "saved",
            "saved_gpu_h_per_month": "saved a month",
            "usd_per_month": "$ per month" if has_usd else "",
            "measured_jobs": "speed measured" if is_measured else "",
            "tensor_jobs": "by tensor cores" if is_by_tensor else "",
        },
        *((Column("speed", "speed", show_share),) if is_measured else ()),
    )


def energy_table(energy: Energy) -> Table:
    """Return the energy by group."""
    total = fields_of(energy) | {"name": "total"}
    return table(
        f"Energy of GPUs, measured in {energy.covered_share:.1%} of the GPU-hours",
        [*energy.groups, total],
        {
            "name": "group",
            "kwh": "kWh",
            "covered_gpu_h": "GPU-hours",
            "usd": "$" if energy.usd is not None else "",
            "kg_co2": "kg CO2" if energy.kg_co2 is not None else "",
        },
    )


def waste_warnings(results: WasteResults, source_format: str = "") -> tuple[str, ...]:
    """Return why the replay says nothing of the site, where it does not."""
    waits = results.counterfactual
    why = "" if waits is None else contradiction(waits.fidelity, source_format)
    return (why.replace("gpuplan size LOG", "gpuplan waste LOG"),) if why else ()


def waste_notes(results: WasteResults, source_format: str = "") -> Iterator[str]:
    """Yield what limits the answer."""
    limits = results.long_limits
    if limits.jobs and limits.share is not None:
        yield (
            f"{limits.jobs:,} jobs ({limits.share:.0%} of those with a limit) have time limits "
            "over 3 times their run time; these cost waits, not GPU-hours"
        )
        text = "" if results.counterfactual is None else limits_words(results.counterfactual)
        if text:
            yield text
    if not results.known_share and results.jobs:
        jobstats = "have sacct print AdminComment in full where the site has jobstats, or "
        is_of_kubernetes, is_of_slurm = source_format in KUBERNETES, source_format == "slurm"
        yield (
            f"to see use, {jobstats if is_of_slurm else ''}give series with --metrics FILE"
            f"{' (DCGM through Prometheus)' if is_of_kubernetes else ''}"
        )
    elif results.sources:
        text = ", ".join(f"{each.name} ({counted(each.jobs, 'job')})" for each in results.sources)
        yield f"what GPUs did is from {text}"
    if results.known_share and results.unknown_gpu_h >= FEW_GPU_H:
        jobs = counted(results.unknown_jobs, "job")
        yield (
            f"nothing is known of the use of {results.unknown_gpu_h:,.0f} GPU-hours of {jobs} "
            f"({show_share(1 - results.known_share)}); they do not count as idle"
        )
    if results.metrics is not None:
        series = results.metrics
        yield (
            f"--metrics cover {counted(series.gpus, 'GPU')} of {counted(series.nodes, 'node')} "
            f"from {series.begin[:10]} to {series.end[:10]}: {series.covered_gpu_h:,.0f} of "
            f"{results.gpu_h:,.0f} GPU-hours ({series.covered_share:.1%})"
        )
    waits = results.counterfactual
    if waits is not None and waits.fidelity.policy is None:
        yield f"the replay is not checked against the log: {waits.fidelity.why}"
    yield from _right_size_notes(results)
    if waits is not None and sum(row.freed_gpus > 0 for row in waits.freed) > 1:
        if waits.rules == SITE_RULES:
            yield "GPUs that could go are of one type at a time, all others as they are"


def _right_size_notes(results: WasteResults) -> Iterator[str]:
    """Yield what less would do, what is assumed of it, and of how many jobs it is not known."""
    coverage = results.right_size_coverage
    if coverage is None:
        return
    # Hours of GPUs that a job never uses are among the idle ones.
    rows = [row for row in results.right_size if row.way != FEWER]
    unknown = (
        f"{counted(coverage.unknown_jobs, 'job')} without full figures of memory and use "
        f"({coverage.unknown_gpu_h:,.0f} GPU-hours, with those whose use is known)"
    )
    if rows:
        saved = sum(row.saved_gpu_h_per_month for row in rows)
        usd = sum(row.usd_per_month or 0.0 for row in rows)
        paid = f", {show_usd(usd)} a month" if usd else ""
        ways = {PART: "a part of a GPU", CHEAPER: "a cheaper type"}
        less = " or ".join(text for way, text in ways.items() if any(r.way == way for r in rows))
        rest = f"; of {unknown} this is not known" if coverage.unknown_jobs else ""
        yield (
            f"{less} would do for {counted(sum(row.jobs for row in rows), 'job')} "
            f"({saved:,.0f} GPU-hours{'' if paid else ' a month'} less{paid}, see --full){rest}"
        )
        guessed = sum(row.jobs - row.measured_jobs for row in rows if row.way == PART)
        if guessed:
            yield (
                f"whether {counted(guessed, 'job')} would be as fast on a part of a GPU is not "
                "known; --profile CLASS.csv has measured speeds"
            )
        busy = sum(row.tensor_jobs for row in rows)
        if busy:
            yield (
                f"{counted(busy, 'job')} of these keep GPUs in use but hardly their tensor cores; "
                "work that is bound by memory bandwidth, or done without tensor cores, would be "
                "slower on less"
            )
        if any(row.way == CHEAPER for row in rows):
            yield (
                "a cheaper type saves dollars and no GPU-hours; it is assumed to be slower in "
                "proportion to its price, and enough for the use of its jobs even so"
            )
    elif coverage.jobs and coverage.unknown_jobs:
        yield f"whether less would do is not known of {unknown}"
