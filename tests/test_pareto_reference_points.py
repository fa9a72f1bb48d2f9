"""Points known from elsewhere in gpuplan pareto: --mark."""

import pytest
from support_pareto import FREE, results

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.frontier.reference_points import Mark, parse_reference_points


def test_known_points_beside_the_optimum_as_worked_by_hand(gpuplan, hours, tmp_path):
    # Jobs of an hour, 2 GPU-h an hour, power 0.5: width k takes 2 sqrt(k) GPUs and 60 / sqrt(k)
    # minutes, so 4 GPUs (k = 4) give half an hour; nothing keeps up with 1 GPU.
    asked = (hours, *FREE, "--speedup", "power:0.5", "--mark", "ours=4,45m", "--mark", "a=b=1,10s")
    ours, small = results(gpuplan, *asked)["marks"]
    assert (ours["name"], ours["gpus"], ours["mean_jct_s"]) == ("ours", 4, 2700)
    assert ours["optimal_mean_jct_s"] == pytest.approx(1800)
    assert 2 < ours["optimal_gpus"] < 4
    assert small["name"] == "a=b"
    assert small["optimal_mean_jct_s"] is None and small["optimal_gpus"] is None
    picture = tmp_path / "marked.svg"
    code, out, err = gpuplan("pareto", "--full", *asked, "--plot", picture)
    assert code == 0, err
    assert "Known points (--mark) vs. the planned optimum" in out
    assert "ours: 45 min" in picture.read_text()
    assert "--mark are taken as given" in err + out


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["64,2h"], "expected NAME=GPUS,JCT"),
        (["x=64"], "expected NAME=GPUS,JCT"),
        (["x=0,2h"], "expected NAME=GPUS,JCT"),
        (["x=nan,2h"], "must be a finite number"),
        (["x=64,soon"], "expected a duration"),
        (["x=64,0s"], "time: expected more than 0"),
        (["x=64,2h", "x=65,2h"], "'x' is given twice"),
    ],
)
def test_what_is_no_point_is_refused(texts, said):
    with pytest.raises(UsageError, match=said):
        parse_reference_points(texts)
    with pytest.raises(ValueError):
        Mark("x", 0, 1)


def test_known_points_are_of_one_gpu_type(gpuplan, hours):
    types = ("--gpu", "T4", "--gpu", "A100=2", "--price", "T4=1", "--price", "A100=2")
    code, _, err = gpuplan(
        "pareto", "--full", hours, *FREE, *types, "--speedup", "power:0.5", "--mark", "x=4,1h"
    )
    assert code == 2 and "--mark: works with one GPU type" in err
