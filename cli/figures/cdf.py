"""Distribution functions of durations: of one workload, or of several together."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from gpuplan.analysis.characterize import Characterization
from gpuplan.analysis.characterize.durations import CdfPoint, Spread
from gpuplan.cli.figures.style import COLOURS, CYCLE, INK, new_figure, on_paper, styled
from gpuplan.cli.formats.units import show_duration

TICKS = (
    (1e-3, "1 ms"),
    (1, "1 s"),
    (10, "10 s"),
    (60, "1 min"),
    (600, "10 min"),
    (3600, "1 h"),
    (6 * 3600, "6 h"),
    (86400, "1 d"),
    (7 * 86400, "1 wk"),
    (30 * 86400, "30 d"),
    (365 * 86400, "1 y"),
)


def draw_cdf(axes: Axes, cdf: Sequence[CdfPoint], duration: Spread) -> None:
    """Draw both distribution functions on a logarithmic axis of time, with P50 and P90 marked."""
    axes.set_title("How long jobs run")
    axes.set_ylabel("jobs, or GPU time, up to this duration")
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    axes.set_ylim(0, 1.02)
    if not cdf or cdf[-1].duration_s <= 0:
        write_reason(axes, "no durations recorded" if not cdf else "every duration is zero")
        return
    times = [point.duration_s for point in cdf]
    low, high = log_ends(times[0], times[-1])
    if len(cdf) == 1:  # one step needs an end on either side
        cdf = [CdfPoint(low, 0, 0), CdfPoint(times[0], 0, 0), *cdf, CdfPoint(high, 1, 1)]
        times = [point.duration_s for point in cdf]
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    tick_durations(axes, low, high)
    axes.set_xlabel("duration")
    shares = [point.share_jobs for point in cdf]
    axes.plot(times, shares, color=COLOURS["blue"], label="jobs")
    _name(axes, times, shares, 0.62, "jobs", COLOURS["blue"], right=False)
    held = [p.share_gpu_hours for p in cdf if p.share_gpu_hours is not None]
    if len(held) == len(cdf):  # not where no job held a GPU
        axes.plot(times, held, color=COLOURS["orange"], label="GPU time")
        _name(axes, times, held, 0.3, "GPU time", COLOURS["orange"], right=True)
    for share, at in ((0.5, duration.p50), (0.9, duration.p90)):
        if at is None or not low <= at <= high:
            continue
        axes.plot([at], [share], marker="o", markersize=5, color=COLOURS["blue"])
        left = _crowded(times, at)
        axes.annotate(
            f"P{share:.0%} {show_duration(at)}".replace("%", ""),
            (at, share),
            xytext=(-7 if left else 7, 4 if left else -9),
            textcoords="offset points",
            ha="right" if left else "left",
            fontsize=9,
            color=INK,
        )


def log_ends(low: float, high: float) -> tuple[float, float]:
    """Return the ends of a logarithmic axis; wider apart where they are the same to a billionth."""
    return (low, high) if high > low * (1 + 1e-9) else (low / 10, high * 10)


def write_reason(axes: Axes, why: str) -> None:
    """Write the reason into an empty panel."""
    axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", color=INK)
    axes.set_xticks([])
    axes.set_yticks([])


def _crowded(times: Sequence[float], at: float) -> bool:
    """Return whether a label right of ``at`` would run out of the panel or into the other curve."""
    return (at / times[0]) ** 2 > times[-1] / times[0]


def _name(
    axes: Axes,
    times: Sequence[float],
    shares: Sequence[float],
    level: float,
    text: str,
    colour: str,
    *,
    right: bool,
) -> None:
    """Write the name of a curve next to the point where it crosses ``level``."""
    at = next(i for i, share in enumerate(shares) if share >= level)
    axes.annotate(
        text,
        (times[at], level),
        xytext=(8 if right else -8, 0),
        textcoords="offset points",
        ha="left" if right else "right",
        va="center",
        fontsize=10,
        fontweight="bold",
        color=on_paper(colour),
    )


def tick_durations(axes: Axes, low: float, high: float) -> None:
    """Write durations a person would choose along a logarithmic axis of time."""
    ticks = [(at, name) for at, name in TICKS if low <= at <= high]
    while len(ticks) > 6:
        ticks = ticks[::2]
    axes.fmt_xdata = show_duration
    axes.xaxis.set_minor_locator(NullLocator())
    if len(ticks) > 1:
        axes.xaxis.set_major_locator(FixedLocator([at for at, _ in ticks]))
        axes.set_xticklabels([name for _, name in ticks])
    else:
        axes.xaxis.set_major_locator(FixedLocator([low, high]))
        axes.set_xticklabels([show_duration(low), show_duration(high)])


@styled
def draw_comparison(names: Sequence[str], results: Sequence[Characterization]) -> Figure:
    """Return two panels: share of jobs, and of GPU time, up to each duration, by trace."""
    figure = new_figure(2, width_in=10.0, height_in=4.2)
    jobs, held = [], []
    for name, result, colour in zip(names, results, CYCLE, strict=False):
        points = [point for point in result.duration_cdf if point.duration_s > 0]
        times = [point.duration_s for point in points]
        median = result.duration_s.p50
        remark = "" if median is None else f", P50 {show_duration(median)}"
        jobs.append((f"{name}{remark}", times, [p.share_jobs for p in points], colour))
        shares = [p.share_gpu_hours for p in points if p.share_gpu_hours is not None]
        held.append((name, times if shares else [], shares, colour))
    _panel(figure.axes[0], "How long jobs run", "jobs up to this duration", jobs)
    _panel(figure.axes[1], "Where the GPU time is", "GPU time in jobs up to it", held)
    return figure


Curve = tuple[str, list[float], list[float], str]


def _panel(axes: Axes, title: str, label: str, curves: list[Curve]) -> None:
    axes.set_title(title)
    axes.set_ylabel(label)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    axes.set_ylim(0, 1.02)
    drawn = [curve for curve in curves if curve[1]]
    if not drawn:
        write_reason(axes, "no durations recorded")
        return
    low, high = log_ends(min(c[1][0] for c in drawn), max(c[1][-1] for c in drawn))
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    tick_durations(axes, low, high)
    axes.set_xlabel("duration")
    for name, times, shares, colour in drawn:
        # Beyond its own jobs a curve stays at its last value.
        start, end = [times[0]], [high]
        axes.plot([*start, *times, *end], [0, *shares, shares[-1]], color=colour, label=name)
    axes.legend(loc="best")
