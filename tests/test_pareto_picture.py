"""The picture of gpuplan pareto."""

import pytest
from support_pareto import write_hours

from gpuplan.analysis.trace import read_trace
from gpuplan.cli.figures.frontier import draw_frontier
from gpuplan.planner.boa.budget import Budget
from gpuplan.planner.boa.study import study_frontier
from gpuplan.planner.speedup.registry import load_speedup


@pytest.fixture
def hours(tmp_path):
    return write_hours(tmp_path)


def test_picture_with_dollars_and_a_long_frontier(gpuplan, hours, tmp_path):
    picture = tmp_path / "dear.svg"
    # Amdahl with a fifth serial: 64 GPUs per job cost 13.6 times the load.
    code, _, err = gpuplan(
        "pareto", hours, "--speedup", "amdahl:0.2", "--price", "2", "--budget", "1.2x,2x",
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
        read_trace(hours), load_speedup("power:0.5"), budgets=[Budget(4), Budget(40)]
    )
    axes = draw_frontier(study).axes[0]
    dots = next(line for line in axes.lines if line.get_marker() == "o")
    assert dots.get_xdata() == pytest.approx([4, 16])
    assert axes.get_xlim()[1] < 20
