"""Tables of ``gpuplan plan``: markets, levers and classes, and the answer in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.analysis.base.words import listed
from gpuplan.cli.formats.report import Column, Table, table
from gpuplan.cli.formats.units import show_about_usd, show_duration, show_number, show_share
from gpuplan.cli.tables.plan_replay_tables import cap_text, confirmed_text

if TYPE_CHECKING:
    from gpuplan.planner.studies.plan import PlanClass, PlanResults

SAME = 0.005
"""A smaller difference of dollars is shown as none."""
WORDS = {
    "owned": "owned",
    "committed": "committed",
    "on_demand": "on demand",
    "spot": "spot",
    "serverless": "containers",
}


def markets_table(results: PlanResults) -> Table:
    """Return what is bought and used in each market."""
    return table(
        "What to buy",
        results.markets,
        Column("name", "market", lambda name: WORDS[name]),
        {"gpu_type": "GPU" if any(use.gpu_type for use in results.markets) else ""},
        Column("gpus", "GPUs", show_number),
        Column("mean_gpus", "in use, mean", show_number),
        Column("peak_gpus", "peak", show_number),
        Column("peak_s", "peak after", show_duration),
        Column("usd_per_month", "$/month", show_about_usd),
    )


def levers_table(results: PlanResults) -> Table:
    """Return what each lever is worth."""
    return table(
        "What each lever is worth: $/month of the program, "
        f"{show_about_usd(results.program_usd_per_month)} with all",
        results.levers,
        {"name": "lever"},
        Column("without_usd_per_month", "plan without it", show_about_usd),
        Column("alone_usd_per_month", "it alone", show_about_usd),
    )


def classes_table(results: PlanResults) -> Table:
    """Return where the jobs of each class run."""

    def routes(row: PlanClass) -> str:
        shares = [(route.name, route.share) for route in row.routes]
        if len(shares) == 1:
            return shares[0][0]
        return ", ".join(f"{name} {share:.0%}" for name, share in shares)

    return table(
        "Where jobs run; base is as recorded",
        results.classes,
        {
            "name": "class",
            "gpu_type": "GPU" if any(row.gpu_type for row in results.classes) else "",
            "width_bucket": "GPUs per job",
            "jobs": "jobs",
        },
        Column("recorded_time_s", "time today", show_duration),
        Column("mean_time_s", "planned", show_duration),
        Column("routes", "runs on", read=routes),
    )


def headline(results: PlanResults) -> str:
    """Return what to buy and what it costs; an unconfirmed plan says so first."""
    bought = [
        f"{use.gpus:,.0f} {use.gpu_type or 'GPUs'}"
        for use in results.markets
        if use.name == "committed"
    ]
    rented = any(use.name == "on_demand" and use.mean_gpus > 0 for use in results.markets)
    commit = f"Commit to {listed(bought, 6)}" if bought else "Commit to none"
    rest = " and rent the rest" if rented else ""
    elsewhere = [
        WORDS[name]
        for name in ("spot", "serverless")
        if any(use.name == name and use.mean_gpus > 0 for use in results.markets)
    ]
    if elsewhere:
        rest += f", with some jobs on {' and '.join(elsewhere)}"
    rest += cap_text(results)
    cost = f"for {show_about_usd(results.usd_per_month)} a month{_compared(results)}"
    replay = results.replay
    time = "Jobs take {} on average{}; today {}.".format(
        show_duration(results.mean_time_s if replay is None else replay.mean_time_s),
        " without waits" if replay is None else "",
        show_duration(results.today.mean_time_s),
    )
    answer = f"{commit}{rest} {cost}. {time}"
    if not results.confirmed:
        why = "; ".join(results.unconfirmed)
        return f"Not confirmed ({why}): {answer[0].lower()}{answer[1:]}"
    return f"{answer} {confirmed_text(results)}"


def _compared(results: PlanResults) -> str:
    """Return the saving over the best commitment, or over none where it is the only lever."""
    names = [lever.name for lever in results.levers]
    if names == ["commitment"]:
        rented = results.levers[0].without_usd_per_month
        return f", {_saving(1 - results.usd_per_month / rented)} all on demand" if rented else ""
    if results.saving_share is None or not names:
        return ""
    return f", {_saving(results.saving_share)} the best commitment with jobs as recorded"


def _saving(share: float) -> str:
    if abs(share) < SAME:
        return "about the same as"
    return f"{show_share(abs(share))} {'less' if share > 0 else 'more'} than"
