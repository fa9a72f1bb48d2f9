"""Who makes whom wait, beside a bill: a sentence, a table, and what limits it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.analysis.base.words import listed
from gpuplan.cli.formats.report import Column, Table, table
from gpuplan.cli.formats.units import show_number
from gpuplan.cli.tables.fidelity_text import contradiction

if TYPE_CHECKING:
    from gpuplan.planner.site.delays import DelayResults

MOST_TEAMS = 10
MOST_NAMED = 3


def delays_text(delays: DelayResults, by: str) -> str:
    """Return who makes others wait longest, or that it is not known.

    Args:
        delays: of a replay.
        by: what teams are.
    """
    if not delays.fidelity.may_speak:
        return (
            f" Which {by} makes others wait is not known: a replay under {delays.rules} is not "
            "what the log recorded."
        )  # the warning says more
    if not delays.wait_h:
        return ""
    top = delays.teams[0]
    text = f" Jobs wait {show_number(delays.wait_h)} h in a replay under {delays.rules}"
    if len(delays.teams) < 2:
        return f"{text}."
    least_h = top.caused_h - (top.caused_error_h or 0.0)
    if least_h <= 0:
        return f"{text}; no {by} clearly makes others wait."
    most = [team for team in delays.teams if team.caused_h + (team.caused_error_h or 0) >= least_h]
    who, make, it = f"{by} {top.name}", "makes", "it"
    if len(most) > 1:
        names = [team.name for team in most]
        who, make, it = f"{by}s {listed(names, MOST_NAMED)}", "make", top.name
    return (
        f"{text}; {who} {make} others wait longest: without {it} they would wait "
        f"{show_number(top.caused_h)} h less{_error(top.caused_error_h)}."
    )


def _error(error_h: float | None) -> str:
    return "" if error_h is None else f" (error {show_number(error_h)} h)"


def delays_table(delays: DelayResults, by: str, *, is_full: bool = False) -> Table:
    """Return the hours that teams wait and make others wait."""
    has_errors = any(team.caused_error_h is not None for team in delays.teams)
    has_shares = delays.is_exact is not None
    has_share_errors = any(team.share_error_h is not None for team in delays.teams)
    return table(
        f"Hours of waiting, replayed under {delays.rules} on {delays.cluster_gpus:,} GPUs",
        list(delays.teams if is_full else delays.teams[:MOST_TEAMS]),
        {
            "name": by,
            "jobs": "jobs",
            "waited_h": "its jobs wait, h",
            "caused_h": "others wait less without it, h",
            "caused_error_h": "error" if has_errors else "",
        },
        Column("share_h", "share of all waiting, h" if has_shares else "", show_number),
        Column("share_error_h", "error" if has_share_errors else "", show_number),
    )


def delay_warnings(delays: DelayResults) -> tuple[str, ...]:
    """Return why the hours say nothing of the site, where they do not."""
    why = contradiction(delays.fidelity)
    if not why:
        return ()
    return (f"--delays: {why.replace('gpuplan size LOG', 'gpuplan bill LOG --delays')}",)


def delay_notes(delays: DelayResults, billed_jobs: int) -> tuple[str, ...]:
    """Return what the columns say, and what limits the hours.

    Args:
        delays: of a replay.
        billed_jobs: of the bill, some of which the replay may not score.
    """
    notes = ["hours of waiting are of jobs in a replay; no dollar of the bill depends on them"]
    if billed_jobs > delays.jobs:
        notes.append(
            f"waits are of {delays.jobs:,} jobs; those of {billed_jobs - delays.jobs:,} others "
            "on the bill do not count"
        )
    if delays.fidelity.may_speak and len(delays.teams) > 1:
        notes.append(
            "hours that others wait less do not add up: where two teams cause a wait together, "
            "leaving out either one ends it"
        )
    if delays.fidelity.may_speak and delays.is_exact is not None:
        notes.append(
            "shares add up to all waiting; a team's share includes waits caused by its own jobs"
        )
    if delays.fidelity.policy is None:
        notes.append(f"the replay is not checked against the log: {delays.fidelity.why}")
    if delays.is_exact is None:
        notes.append("waiting is shared among 12 teams at most; there are more here")
    elif not delays.is_exact:
        notes.append(f"shares are of sampled orders of the teams, from {delays.replays:,} replays")
    return tuple(notes)
