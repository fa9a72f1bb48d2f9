"""What is called a share or a utilization is within 0 and 1, whatever policy or command."""

import polars as pl
import pytest
from support_laws import Runs, jobs_of, numbers

pytestmark = pytest.mark.compiled

CHANGES = ("saving", "regret", "change", "growth", "error")
"""Parts of names of shares that compare two amounts, and so may be below 0 or above 1."""
SPOT = ("--spot", "duration_s < 3600")
LENT = ("gfs", "yarn-cs", "lyra", "chronus", "static-quota")
MIXED = ("fft", "gavel", "tiresias", "srtf")
TYPES = ("--gpu-speed", "A100=1,T4=0.5")
COMMANDS = {
    "bill": ("--price", "2.5", "--cluster", "16"),
    "characterize": (),
    "pareto": ("--speedup", "power:0.8", "--budget", "1.1x,2x"),
    "size": ("--target", "mean_wait <= 10m", "--ci", "0"),
    "waits": (),
}


@pytest.fixture
def runs(gpuplan, tmp_path):
    return Runs(gpuplan, tmp_path)


@pytest.fixture(
    params=[pytest.param(seed, marks=() if seed == 0 else pytest.mark.slow) for seed in range(5)]
)
def jobs(request):
    return jobs_of(request.param)


def outside(results):
    """Return the shares that are no shares."""
    shares = {
        path: value
        for path, value in numbers(results)
        if path.rpartition(".")[2].endswith("_share") or ".utilization" in path
        if not any(word in path.rpartition(".")[2] for word in CHANGES)
    }
    assert shares
    return {path: value for path, value in shares.items() if not 0 <= value <= 1}


@pytest.mark.parametrize("cluster", ["1x8", "8x8"])
def test_shares_of_lending(runs, jobs, cluster):
    words = [word for policy in LENT for word in ("--policy", policy)]
    tail = ("--set", "drain_s=0")  # jobs that are not done count too
    for more in ((), tail):
        results = runs.run("compare", jobs, *words, *SPOT, "--cluster", cluster, *more)
        assert outside(results) == {}
        for row in results["policies"]:
            (demand,) = row["demand"]
            assert not any(name.endswith("_share") for name in demand)
            assert demand["hp_demand_over_capacity"] + demand["spot_demand_over_capacity"] > 0


@pytest.mark.parametrize("cluster", ["A100=1x8,T4=1x8", "A100=4x8,T4=4x8"])
def test_shares_of_several_types(runs, jobs, cluster):
    jobs = jobs.with_columns(gpu_type=pl.Series(["A100", "T4"] * jobs.height)[: jobs.height])
    words = [word for policy in MIXED for word in ("--policy", policy)]
    assert outside(runs.run("compare", jobs, *words, "--cluster", cluster, *TYPES)) == {}


@pytest.mark.parametrize("command", COMMANDS)
def test_shares_of_other_commands(runs, jobs, command):
    results = runs.run(command, jobs, *COMMANDS[command])
    assert outside(results) == {}
    assert not [path for path, _ in numbers(results) if "over_budget_share" in path]
