"""The picture of gpuplan pareto."""

from dataclasses import replace

import numpy as np
import pytest
from support_pareto import FREE

from gpuplan.analysis.trace.trace import read_trace
from gpuplan.cli.figures.frontier import draw_frontier
from gpuplan.planner.baselines import compare_baselines
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.frontier.budget import Budget
from gpuplan.planner.frontier.reference_points import Mark, reference_points_of
from gpuplan.planner.frontier.study import PlanRequest, study_frontier
from gpuplan.planner.speedup.registry import load_speedup


def test_picture_with_dollars_and_a_long_frontier(gpuplan, hours, tmp_path):
    picture = tmp_path / "dear.svg"
    # Amdahl with a fifth serial: 64 GPUs per job cost 13.6 times the load.
    code, _, err = gpuplan(
        "pareto", hours, *FREE, "--speedup", "amdahl:0.2", "--price", "2", "--budget", "1.2x,2x",
        "--plot", picture,
    )  # fmt: skip
    assert code == 0, err
    drawn = picture.read_text()
    assert "dollars a month" in drawn
    assert "least budget: 2.000 GPUs" in drawn
    assert "GPUs rented on average, logarithmic" in drawn


def test_a_point_beyond_saturation_is_drawn_where_its_gpus_are_used(hours):
    # 16 GPUs are of use; a budget of 40 must not stretch the axis.
    study = study_frontier(
        read_trace(hours),
        load_speedup("power:0.5"),
        ClassOptions(rescale_s=0),
        PlanRequest(budgets=[Budget(4), Budget(40)]),
    )
    axes = draw_frontier(study).axes[0]
    dots = next(line for line in axes.lines if line.get_marker() == "o")
    assert dots.get_xdata() == pytest.approx([4, 16])
    assert axes.get_xlim()[1] < 20


def drawn_at(axes, marker):
    """Return the points drawn with a marker, as rows of budget and seconds."""
    lines = [line for line in axes.lines if line.get_marker() == marker]
    return np.concatenate([line.get_xydata() for line in lines])


def test_replays_baselines_and_known_points_stand_where_they_belong(hours):
    study = study_frontier(
        read_trace(hours),
        load_speedup("power:0.5"),
        request=PlanRequest(budgets=[Budget(3), Budget(5)], cluster=RentedCluster()),
    )
    fixed = compare_baselines(study, ["fixed-width"])
    known = reference_points_of(study, [Mark("known", 4.5, 2000.0)])
    axes = draw_frontier(replace(study, sections=(fixed, known))).axes[0]
    plans = [(point.plan.used, point.plan.mean_jct_s) for point in study.points]
    runs = [point.replayed.replay for point in study.points]
    replays = [(run.rented_gpus, run.mean_jct_s) for run in runs]
    hollow, filled = (line for line in axes.lines if line.get_marker() == "o")
    assert hollow.get_xydata() == pytest.approx(np.array(replays))
    assert filled.get_xydata() == pytest.approx(np.array(plans))
    ties = [line.get_xydata() for line in axes.lines if len(line.get_xdata()) == 2]
    for tie in zip(plans, replays, strict=True):
        assert any(np.allclose(np.array(tie), found) for found in ties)
    theirs = [(one.replay.rented_gpus, one.replay.mean_jct_s) for one in fixed.points]
    assert drawn_at(axes, "s") == pytest.approx(np.array(sorted(theirs)))
    assert drawn_at(axes, "*") == pytest.approx(np.array([[4.5, 2000.0]]))
    knee = study.knee.plan
    assert drawn_at(axes, "D") == pytest.approx(np.array([[knee.budget, knee.mean_jct_s]]))
    assert any(text.get_text() == "known: 33.3 min" for text in axes.texts)


def test_the_time_line_has_dates_where_the_log_has(gpuplan, hours, newtrace, tmp_path):
    drawn = {}
    for name, path, law in (("dates", hours, "power:0.5"), ("hours", newtrace, "profile:t4")):
        picture = tmp_path / f"{name}.svg"
        assert gpuplan("pareto", path, "--speedup", law, "--plot", picture)[0] == 0
        drawn[name] = picture.read_text()
    assert "2026-01-01 to 2026-01-03 (UTC)" in drawn["dates"]
    frontier = draw_frontier(study_frontier(read_trace(hours), load_speedup("power:0.5")))
    assert len(frontier.axes) == 1  # without a replay there is no time line
