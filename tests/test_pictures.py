"""What pictures show: every GPU type, the choice, dollars of a month, and no warning."""

import warnings
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.dates import date2num

from gpuplan.analysis.trace.trace import read_trace
from gpuplan.cli.figures.prices import MAX_LINES
from gpuplan.cli.figures.size import LINES, MOST_PANELS, draw_size
from gpuplan.cli.figures.style import new_figure, svg_of
from gpuplan.cli.figures.sweep import draw_sweep
from gpuplan.cli.figures.time_axis import date_ticks
from gpuplan.planner.runs.trace_jobs import COLUMNS, jobs_of
from gpuplan.planner.studies.size_results import SizePoint, SizePool, SizeToday
from gpuplan.planner.sweep.sweep import SweepGrid, sweep
from gpuplan.simkit.allpass.parameters import Allpass

HOUR_S = 3600.0
MONTH_H = 730.5


@pytest.mark.parametrize(
    "hours", [0.05, 0.5, 3, 5, 12, 24, 72, 84, 85, 96, 119, 121, 500, 3000, 20_000, 45_000, 300_000]
)
def test_a_time_axis_of_any_length_has_dates_and_no_warning(hours):
    figure = new_figure()
    (axes,) = figure.axes
    first = datetime(2025, 7, 28, 2, 30, tzinfo=UTC).replace(tzinfo=None)
    axes.plot([first, first + timedelta(hours=hours)], [1, 2])
    date_ticks(axes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svg_of(figure)
    low, high = axes.get_xlim()
    assert sum(low <= tick <= high for tick in axes.get_xticks()) >= 2
    assert date2num(first) >= low


def results_of(names, waits=(4000.0, 900.0, 20.0), today_s=600.0):
    """A size study of GPU types, at three sizes each."""

    class Results:
        policy = "first-fit"
        points = tuple(
            SizePoint(
                gpu_type=name if len(names) > 1 else None, gpus=8 * (1 + at), nodes=None,
                mean_wait_s=wait / 3, median_wait_s=0.0, p90_wait_s=wait / 2, p95_wait_s=wait / 1.5,
                p99_wait_s=wait, mean_slowdown=1.0, utilization=0.5,
                usd_per_month=1000.0 * (1 + at), meets=at > 0, usd_per_wait_h_saved=None,
                target_values=(), target_errors=(), mean_wait_interval_s=None,
            p95_wait_interval_s=None,
            )
            for name in names
            for at, wait in enumerate(waits)
        )  # fmt: skip
        pools = tuple(
            SizePool(
                name=name, jobs=10, usd_per_gpu_h=1000 / 8 / MONTH_H, gpus=16, nodes=None,
                usd_per_month=2000.0, over_today_usd_per_month=500.0, utilization=0.5,
                interval=None, interval_is_open=False, widest_job_gpus=8,
                no_wait_gpus=24, commitment=None, fidelity=None, unclear=None,
                today=SizeToday(
                    cluster_gpus=12, mean_gpus=6.0, peak_gpus=12.0, mean_wait_s=60.0,
                    p95_wait_s=today_s, usd_per_month=1500.0,
                ),
            )
            for name in names
        )  # fmt: skip

    return Results()


@pytest.mark.parametrize("count", [1, 2, 4, MOST_PANELS, MOST_PANELS + 3])
def test_a_size_draws_every_gpu_type_or_says_how_many_it_leaves_out(count):
    names = [f"GPU-{place}" for place in range(count)]
    figure = draw_size(results_of(names))
    drawn = [axes.get_title(loc="left") for axes in figure.axes]
    assert drawn == (names[:MOST_PANELS] if count > 1 else [""])
    assert all(len(axes.lines) >= len(LINES) for axes in figure.axes)
    title = figure.get_suptitle()
    assert ("3 more GPU types" in title) == (count > MOST_PANELS)
    assert len(figure.legends) == 1


def labels_of(figure, axes):
    """The boxes of the texts in a panel, in pixels."""
    figure.draw_without_rendering()
    return [text.get_window_extent() for text in axes.texts if text.get_text()]


def crosses(box, line):
    """Whether a line goes through a box, both in pixels."""
    return any(
        box.contains(*dot) for start, end in pairwise(line) for dot in np.linspace(start, end, 400)
    )


@pytest.mark.parametrize("today_s", [600.0, 2000.0, 5000.0])
@pytest.mark.parametrize("waits", [(4000.0, 900.0, 20.0), (5000.0, 4000.0, 3900.0), (0, 0, 0)])
def test_no_label_of_a_size_crosses_a_line(waits, today_s):
    figure = draw_size(results_of(["A100", "H100"], waits, today_s))
    for axes in figure.axes:
        boxes = labels_of(figure, axes)
        assert len(boxes) == 2
        for line in axes.lines[: len(LINES)]:
            path = axes.transData.transform(line.get_xydata())
            assert not any(crosses(box, path) for box in boxes), line.get_label()


def test_a_sweep_is_in_dollars_a_month_and_rings_the_choice(lab):
    jobs = jobs_of(read_trace(lab, columns=COLUMNS), np.random.default_rng(0))
    grid = SweepGrid([30.0, 300.0], price_ratios=[0.4, 0.9])
    found = replace(sweep(jobs, Allpass(), grid, np.random.default_rng(5)), window_s=1461 * HOUR_S)
    figure = draw_sweep(found)
    for axes, case in zip(figure.axes, found.cases, strict=True):
        assert axes.get_ylabel().startswith("cost (dollars a month")
        (ring,) = [line for line in axes.lines if line.get_markersize() == 15]
        assert ring.get_ydata()[0] == pytest.approx(found.recommended_in(case).cost_usd / 2)
        usd = {round(float(line.get_ydata()[0]), 6) for line in axes.lines}
        rented = [run for run in found.all_rented if run.price_ratio == case.price_ratio]
        assert len(rented) == 1 and round(rented[0].cost_usd / 2, 6) in usd
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert named.count("all on rented workers") == named.count("recommended") == 1
    whole = draw_sweep(replace(found, window_s=None)).axes[0].get_ylabel()
    assert "dollars of the whole log" in whole


def test_prices_have_no_more_colors_than_can_be_told_apart(gpuplan, tmp_path):
    lines = ["timestamp,provider,gpu_type,region,kind,price_usd_per_gpu_hour,available"]
    start = datetime(2025, 1, 1, tzinfo=UTC)
    lines += [
        f"{start + timedelta(days=day):%Y-%m-%dT%H:%M:%SZ},p,{name},r,on_demand,{1 + place},"
        for place, name in enumerate(("A100", "H100", "L4", "L40S", "T4", "V100", "A10", "H200"))
        for day in range(20 + place)
    ]
    (tmp_path / "history.csv").write_text("\n".join(lines))
    picture = tmp_path / "p.svg"
    words = (tmp_path / "history.csv", "-o", tmp_path / "p.parquet", "--plot", picture, "-q")
    code, _, err = gpuplan("prices", *words)
    assert code == 0, err
    text = picture.read_text()
    assert f"Price ({8 - MAX_LINES} shorter histories left out)" in text
    assert text.count("A100") == 0 and "H200" in text
