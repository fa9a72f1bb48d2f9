"""The policies ``easy`` and ``conservative`` on workloads: schedules by hand, limits, commands."""

import json

import numpy as np
import polars as pl
import pytest

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.policies.backfill import backfill_run
from gpuplan.planner.registry import find_policy
from gpuplan.simkit.cluster.parameters import Cluster
from gpuplan.simkit.cluster.simulator import run_cluster
from gpuplan.simkit.time import MICROS
from gpuplan.simkit.workload import Workload

pytestmark = pytest.mark.compiled
# Job 1 wants 2 of 4 GPUs at 100, job 2 all of them; job 3 is narrow and long.
LINE = [(0, 100, 3), (1, 100, 2), (2, 100, 4), (3, 300, 1)]


def workload(rows):
    submit, service, gpus = (np.array(column) for column in zip(*rows, strict=True))
    return Workload.from_seconds(submit, service, gpus, np.full(len(rows), 1e6))


def starts(policy, rows, gpus=4, each=None, factor=1.0):
    jobs = workload(rows)
    limits = np.ceil(jobs.service_us * factor).astype(np.int64)
    run = backfill_run(jobs, Cluster(gpus, gpus_per_node=each), policy, limits)
    return (run.start_us / MICROS).tolist()


def test_easy_may_delay_the_second_in_line_and_conservative_may_not():
    assert starts("easy", LINE) == [0, 100, 303, 3]
    assert starts("conservative", LINE) == [0, 100, 200, 300]


def test_a_limit_above_the_run_time_keeps_a_job_from_passing():
    rows = [(0, 100, 3), (1, 50, 4), (3, 60, 1)]
    assert starts("easy", rows) == [0, 100, 3]
    assert starts("easy", rows, factor=2.0) == [0, 100, 3]  # 3 + 120 < 200
    # 3 + 200 > 200, when job 1 is planned to begin; in truth job 0 ends at 100
    assert starts("easy", [(0, 100, 3), (1, 50, 4), (3, 100, 1)], factor=2.0) == [0, 100, 150]
    assert starts("easy", [(0, 50, 3), (40, 5, 4), (41, 35, 1)], factor=2.0) == [0, 50, 55]


def test_fractions_of_a_second_count():
    assert starts("easy", [(0, 0.5, 4), (0.25, 0.25, 4)]) == [0, 0.5]


def test_gangs_take_equal_shares_of_nodes():
    # 12 GPUs are 2 x 6 on nodes of 8: two jobs of 2 fit beside it, one on each node.
    assert starts("easy", [(0, 10, 12), (1, 5, 2), (2, 5, 2), (3, 5, 1)], 16, 8) == [0, 1, 2, 6]


def test_nothing_waits_where_everything_fits_and_fifo_agrees():
    rows = [(i, 50, 1 + i % 3) for i in range(20)]
    fifo = run_cluster(workload(rows), Cluster(64))
    for policy in ("easy", "conservative"):
        run = backfill_run(workload(rows), Cluster(64), policy, workload(rows).service_us)
        assert run.start_us.tolist() == fifo.start_us.tolist()
        assert (run.used.max(), run.waiting.max()) == (fifo.used.max(), 0)


def test_the_commands_take_them(gpuplan, lab):
    code, out, err = gpuplan(
        "compare", lab, "--gpus=32", "--policy=fifo", "--policy=easy:limit_factor=1.5",
        "--policy=conservative", "--output-format=json",
    )  # fmt: skip
    assert code == 0, err
    assert "time limits are assumed: 1.5 times the run time" in err
    found = {row["policy"]: row for row in json.loads(out)["results"]["policies"]}
    assert found["easy"]["mean_queue_s"] <= found["fifo"]["mean_queue_s"]
    code, out, _ = gpuplan("simulate", lab, "--policy=easy", "--cluster=x8", "--output-format=json")
    assert code == 0 and json.loads(out)["results"]["waiting_peak"] == 0


def test_settings_that_cannot_be(gpuplan, lab):
    code, _, err = gpuplan("simulate", lab, "--policy=easy", "--gpus=32", "--set=limit_factor=0.5")
    assert code == 2 and "limit_factor" in err
    code, _, err = gpuplan("simulate", lab, "--policy=conservative", "--gpus=1")
    assert code == 2 and "widest job" in err


def test_they_are_listed():
    for name in ("easy", "conservative"):
        policy = find_policy(name)
        assert policy.settings.keys() == policy.defaults().keys()
    with pytest.raises(UsageError):
        find_policy("easier")


def with_limits(lab, path, limits):
    """Write the trace with a column of time limits, as ``ingest --twin`` does."""
    jobs = pl.read_parquet(lab)
    limit_s = pl.Series("limit_s", [limits(i, s) for i, s in enumerate(jobs["duration_s"])])
    jobs.with_columns(limit_s.cast(pl.Float64)).write_parquet(path)
    return path


def replayed(gpuplan, trace, *options):
    code, out, err = gpuplan(
        "simulate", trace, "--policy=easy", "--gpus=32", "--output-format=json", "--full", *options
    )
    assert code == 0, err
    document = json.loads(out)
    return document["results"]["mean_queue_s"], document["parameters"]["settings"], err


def test_recorded_limits_count_and_it_is_said_which(gpuplan, lab, tmp_path):
    exact = with_limits(lab, tmp_path / "exact.parquet", lambda _, run_s: run_s)
    some = with_limits(lab, tmp_path / "some.parquet", lambda i, run_s: run_s if i % 2 else None)
    wait, settings, err = replayed(gpuplan, exact)
    assert "time limits are those that the trace recorded" in err
    assert settings["limit_factor"] is None
    by_option, settings, err = replayed(gpuplan, exact, "--limit-factor=1")
    assert by_option == wait == replayed(gpuplan, lab, "--set=limit_factor=1")[0]
    assert settings["limit_factor"] == 1 and "assumed: 1 times" in err
    _, settings, err = replayed(gpuplan, some)
    assert settings["limit_factor"] == 2 and "jobs without one they are assumed: 2 times" in err
    assert replayed(gpuplan, exact, "--scale-duration=2")[0] == pytest.approx(
        replayed(gpuplan, lab, "--scale-duration=2", "--limit-factor=1")[0]
    )


def test_a_policy_without_limits_takes_no_factor(gpuplan, lab):
    code, _, err = gpuplan("simulate", lab, "--policy=fifo", "--gpus=32", "--limit-factor=2")
    assert code == 2 and "--limit-factor 2.0 does not apply to fifo" in err
    code, _, err = gpuplan("compare", lab, "--gpus=32", "--policy=fifo", "--limit-factor=2")
    assert code == 2 and "--limit-factor 2.0 does not apply to fifo" in err
