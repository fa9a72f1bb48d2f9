"""Tables of options side by side: dollars a month and waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.words import counted
from gpuplan.cli.formats.report import Column, Shown, Table, table
from gpuplan.cli.formats.units import show_about_usd, show_duration
from gpuplan.planner.site.effects import SHORTER
from gpuplan.planner.site.options import MET

if TYPE_CHECKING:
    from gpuplan.planner.site.options import OptionResult, OptionsResults, OptionWaits

TODAY = "today"
MOST_GROUPS = 30
MOST_NAMED = 2


def headline(results: OptionsResults) -> str:
    """Return which option to take, or why none is named."""
    today = results.today
    if today is None:
        return "No scored job starts in every replay, so nothing can be said about waits."
    if not results.fidelity.may_speak:
        return (
            f"A replay of today waits {show_duration(today.replayed_mean_wait_s)} on average (P95 "
            f"{show_duration(today.replayed_p95_wait_s)}), your log "
            f"{show_duration(today.mean_wait_s)} (P95 {show_duration(today.p95_wait_s)}): "
            f"{results.fidelity.why}. No option is recommended; gpuplan calibrate LOG --advice "
            "says where the model errs."
        )
    if results.targets:
        return " ".join(_on_target(results))
    return _on_waits(results)


def _on_target(results: OptionsResults) -> Iterator[str]:
    targets = " and ".join(results.targets)
    options = {option.name: option for option in results.options}
    if results.today is not None and results.today.target == MET:
        yield f"Today's waits meet {targets} already."
    if results.cheapest is not None:
        best = options[results.cheapest]
        yield (
            f"The cheapest option that meets {targets} is {best.name}: {_money(best)}, "
            f"{_waits(best.waits)} (today {_today(results)}).{_lost(best)}"
        )
    elif results.tied:
        yield (
            f"{' and '.join(results.tied)} meet {targets} and cost the same "
            f"({_money(options[results.tied[0]])}), so "
            f"{'neither' if len(results.tied) == 2 else 'none'} is the cheapest."
        )
    elif results.today is not None and results.today.target == MET:
        yield f"No option is sure to keep it (today {_today(results)})."
    else:
        yield f"No option is sure to meet {targets} (today {_today(results)})."
    certain = results.cheapest is not None or results.tied
    if results.maybe:
        named = sorted(
            (options[name] for name in results.maybe), key=lambda option: option.usd_per_month
        )
        close = "; ".join(
            f"{option.name} ({_money(option)}, {_waits(option.waits)})"
            for option in named[:MOST_NAMED]
        )
        more = f"; and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        begin = "Cheaper, but too" if certain else "Too"
        yield f"{begin} close to the target to tell: {close}{more}.{_lost(named[0])}"
    elif not certain:
        reached = [
            option
            for option in results.options
            if option.waits is not None and option.is_comparable
        ]
        if reached:
            best = min(reached, key=lambda option: _figure(results, option.waits))
            yield f"The nearest is {best.name}: {_money(best)}, {_waits(best.waits)}.{_lost(best)}"
    yield from _left_out(results)


def _lost(option: OptionResult) -> str:
    """Return what becomes of jobs that do not start, or go on as new ones."""
    lost = sum(option.never_start.values())
    texts = [f" {counted(lost, 'job')} of today never start with it."] if lost else []
    if option.requeued_jobs:
        texts.append(
            f" {counted(option.requeued_jobs, 'job')} would stop and go on as new ones; the waits "
            "are those of all their parts."
        )
    return "".join(texts)


def _left_out(results: OptionsResults) -> Iterator[str]:
    """Yield the options that lose work, which nothing here prices."""
    names = [option.name for option in results.options if option.cut_jobs]
    if names:
        cut = max(option.cut_jobs for option in results.options)
        yield (
            f"{' and '.join(names)} {'cuts' if len(names) == 1 else 'cut'} up to "
            f"{counted(cut, 'job')} short; lost work has no price here, so "
            f"{'it is' if len(names) == 1 else 'they are'} not recommended."
        )


def _figure(results: OptionsResults, waits: OptionWaits | None) -> float:
    assert waits is not None
    is_mean = results.targets[0].startswith("mean")
    return waits.mean_wait_s if is_mean else waits.p95_wait_s


def _on_waits(results: OptionsResults) -> str:
    shorter = [
        (option, option.waits)
        for option in results.options
        if option.waits is not None and option.waits.verdict == SHORTER and option.is_comparable
    ]
    if not shorter:
        return f"No option makes waits clearly shorter than today ({_today(results)})."
    best, waits = min(shorter, key=lambda pair: pair[1].mean_wait_s)
    text = (
        f"{best.name} saves the most wait: {_money(best)}, {_waits(waits)} (today "
        f"{_today(results)})."
    )
    free = [option.name for option, _ in shorter if option.usd_per_month <= 0]
    if free and best.name not in free:
        return f"{text} Shorter waits at no cost: {', '.join(free)}."
    priced = [
        (option.usd_per_wait_h_saved, option.name)
        for option, _ in shorter
        if option.usd_per_wait_h_saved is not None
    ]
    if len(priced) > 1:
        usd, name = min(priced)
        text += f" {name} costs least per hour of wait saved ({show_about_usd(usd)})."
    return text


def _money(option: OptionResult) -> str:
    usd = option.usd_per_month
    if not usd:
        return "no extra cost"
    return f"{show_about_usd(abs(usd))} a month {'more' if usd > 0 else 'less'}"


def _waits(waits: OptionWaits | None) -> str:
    if waits is None:
        return "waits unknown"
    return (
        f"P95 wait {show_duration(waits.p95_wait_s)} ± {show_duration(waits.p95_error_s, 2)}, mean "
        f"{show_duration(waits.mean_wait_s)} ± {show_duration(waits.error_s, 2)}"
    )


def _today(results: OptionsResults) -> str:
    assert results.today is not None
    return (
        f"P95 {show_duration(results.today.p95_wait_s)}, mean "
        f"{show_duration(results.today.mean_wait_s)}"
    )


def options_table(results: OptionsResults) -> Table:
    """Return today and the options: dollars, waits with errors, dollars per hour of wait saved."""
    rows: list[dict[str, Any]] = []
    if results.today is not None:
        rows.append(
            {
                "option": TODAY,
                "usd_per_month": 0.0,
                "mean_wait_s": results.today.mean_wait_s,
                "p95_wait_s": results.today.p95_wait_s,
                "target": results.today.target,
            }
        )
    rows += [
        {
            "option": option.name,
            "usd_per_month": option.usd_per_month,
            "burst_gpu_h_per_month": option.burst_gpu_h_per_month,
            "usd_per_wait_h_saved": option.usd_per_wait_h_saved,
            "target": option.target,
            **_wait_cells(option.waits),
        }
        for option in results.options
    ]
    bursts = any(option.burst_gpu_h_per_month for option in results.options)
    return table(
        "Options, per month of 730.5 h",
        rows,
        {"option": "option"},
        Column("usd_per_month", "$/month more", _signed_usd),
        {
            "mean_wait_s": "mean wait",
            "error_s": "",
            "p95_wait_s": "P95 wait",
            "p95_error_s": "",
            "p95_verdict": "",
            "target": "target" if results.targets else "",
            "burst_gpu_h_per_month": "burst GPU-h" if bursts else "",
        },
        Column("usd_per_wait_h_saved", "$/h saved", show_about_usd),
    )


def _wait_cells(waits: OptionWaits | None) -> dict[str, Any]:
    if waits is None:
        return {}
    return {
        "mean_wait_s": _with_error(waits.mean_wait_s, waits.error_s),
        "p95_wait_s": _with_error(waits.p95_wait_s, waits.p95_error_s),
        "error_s": waits.error_s,
        "p95_error_s": waits.p95_error_s,
        "p95_verdict": waits.p95_verdict,
    }


def _with_error(wait_s: float, error_s: float) -> Shown:
    return Shown(wait_s, f"{show_duration(wait_s)} ± {show_duration(error_s, 2)}")


def _signed_usd(usd: float) -> str:
    return f"+{show_about_usd(usd)}" if usd > 0 else show_about_usd(usd)


def groups_table(results: OptionsResults) -> Table:
    """Return the waits of each group under each option."""
    rows = [
        {
            "option": option.name,
            "group": group.name,
            "jobs": group.jobs,
            "effect_s": group.effect_s,
            "p95_effect_s": group.p95_effect_s,
            **_wait_cells(group),
        }
        for option in results.options
        for group in option.groups
    ]
    return table(
        f"Waits by {results.by}",
        rows,
        {"option": "option", "group": results.by or "", "jobs": "jobs"},
        {"mean_wait_s": "mean wait", "error_s": "", "effect_s": ""},
        {"p95_wait_s": "P95 wait", "p95_error_s": "", "p95_effect_s": "", "p95_verdict": "P95 is"},
        most=MOST_GROUPS,
    )
