"""What gpuplan pareto says of other laws of speedup."""

import numpy as np
import pytest
from support_pareto import FREE, results

from gpuplan.planner.frontier.uncertainty.laws import other_family
from gpuplan.planner.speedup.registry import load_speedup


@pytest.mark.parametrize("name", ["power:0.8", "amdahl:0.05", "usl:0.05,0.001", "power:1"])
def test_the_other_family_is_as_fast_on_8_gpus(name):
    law = load_speedup(name).law
    other = other_family(name, law)
    assert other.partition(":")[0] != name.partition(":")[0]
    eight = np.array([8.0])
    assert load_speedup(other).law.at(eight) == pytest.approx(law.at(eight), rel=1e-3)


def test_an_assumed_law_is_shown_beside_others_unasked(gpuplan, hours):
    laws = results(gpuplan, hours, *FREE, "--budget", "4gpu")["laws"]
    assert [law["name"] for law in laws] == [
        "power:0.8",
        "power:0.6",
        "power:0.9",
        "amdahl:0.07367",
    ]
    # 2 GPU-h an hour of jobs on one GPU: with k GPUs each, k^0.4 x 2 GPUs at 60 / k^0.6 min, so
    # 4 GPUs give k = 2^2.5 under power:0.6; whole widths lie on a chord just above that.
    assert [law["load_gpus"] for law in laws] == pytest.approx([2] * 4)
    by_name = {law["name"]: law["at"][0] for law in laws}
    assert by_name["power:0.6"]["budget_gpus"] == 4
    ideal_s = 3600 / 2 ** (2.5 * 0.6)
    assert ideal_s <= by_name["power:0.6"]["mean_jct_s"] < 1.01 * ideal_s
    times = [by_name[f"power:{alpha}"]["mean_jct_s"] for alpha in (0.6, 0.8, 0.9)]
    assert times == sorted(times, reverse=True)


def test_other_laws_come_with_sensitivity_and_not_beside_measurements(gpuplan, hours):
    given = (hours, *FREE, "--speedup", "power:0.6", "--budget", "1.5x")
    assert "laws" not in results(gpuplan, *given)
    names = [law["name"] for law in results(gpuplan, *given, "--sensitivity")["laws"]]
    assert names[:2] == ["power:0.6", "power:0.9"] and len(names) == 3
    assert "laws" not in results(gpuplan, hours, *FREE, "--speedup", "power:0.6..0.9")
    code, out, _ = gpuplan("pareto", "--full", hours, *FREE, "--budget", "1.5x,2x")
    assert code == 0 and "If jobs scale by another law" in out
    assert max(map(len, out.splitlines())) <= 100


def test_a_law_that_cannot_keep_a_required_time_is_told(gpuplan, hours):
    # 10 GPUs take 60 / 10^0.8 = 9.5 min, and 15 min under power:0.6.
    code, _, err = gpuplan(
        "pareto", "--full", hours, *FREE, "--max-width", "10", "--require", "all <= 10m"
    )
    assert code == 0, err
    said = " ".join(err.split())
    assert "no plan at all if jobs follow power:0.6: class 'all' cannot take 600.0 s" in said
    assert "power:0.9" not in said.partition("no plan at all")[2]
