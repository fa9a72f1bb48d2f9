"""``gpuplan simulate``."""

import json

import polars as pl
import pytest
from support_traces import write_trace

from gpuplan.cli.options.settings import parse_settings
from gpuplan.planner.policies.allpass_settings import SETTINGS


def test_jobs_and_summary_agree(gpuplan, lab, tmp_path):
    code, out, err = gpuplan(
        *("simulate", lab, "--policy", "allpass", "-o", tmp_path / "jobs.parquet"),
        *("--output-format", "json", "--set", "capacity=30", "--set", "threshold_s=2m"),
    )
    assert code == 0, err
    document = json.loads(out)
    results, frame = document["results"], pl.read_parquet(tmp_path / "jobs.parquet")
    assert document["command"] == "simulate"
    assert document["parameters"]["settings"]["threshold_s"] == 120
    assert document["parameters"]["settings"]["capacity"] == 30
    assert results["policy"] == "allpass"
    assert results["jobs"] == frame.height == 400
    assert frame["job_id"][0].startswith("job-")
    assert results["mean_jct_s"] == pytest.approx(frame["jct_s"].mean(), rel=1e-9)
    assert results["p95_jct_s"] == pytest.approx(frame["jct_s"].quantile(0.95, "linear"))
    assert results["cost_usd"] == pytest.approx(frame["cost_usd"].sum(), rel=1e-9)
    assert "400 jobs get an assumed deadline" in err
    assert any("400 jobs get an assumed deadline" in text for text in document["warnings"])
    assert "notes" not in results


def test_running_jobs_count_only_where_asked_for(gpuplan, tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0, 1], [9.0, 9.0], state=["running", "failed"])
    for flags, jobs, included in (((), 1, False), (("--include-running",), 2, True)):
        code, out, err = gpuplan("simulate", path, "--output-format", "json", *flags)
        document = json.loads(out)
        assert code == 0
        assert document["results"]["jobs"] == jobs
        assert document["parameters"]["include_running"] is included
        assert "1 job was still running" in document["warnings"][0]
        assert "1 job was still running" in err


def test_the_seed_alone_decides(gpuplan, lab):
    first, again, other = (
        gpuplan("simulate", lab, "--seed", seed, "--output-format", "json")[1] for seed in (1, 1, 2)
    )
    assert first == again != other


def test_a_table_for_people(gpuplan, lab, tmp_path):
    code, out, _ = gpuplan("simulate", lab, "--plot", tmp_path / "t.svg")
    assert code == 0
    assert out.startswith("Today: ") and " a month, allpass takes " in " ".join(out.split())
    assert out.count("\n") <= 45
    assert max(map(len, out.splitlines())) <= 100
    assert "Jobs waiting for workers" in (tmp_path / "t.svg").read_text()


def test_serverless_only_and_short_runs_have_a_picture_too(gpuplan, lab, tmp_path):
    code, out, err = gpuplan(
        *("simulate", lab, "--set", "controller=fixed", "--set", "threshold_s=inf"),
        *("--plot", tmp_path / "a.svg", "--output-format", "json"),
    )
    assert code == 0, err
    assert json.loads(out)["results"]["finished_serverless_share"] == 1
    short = ("--where", "duration_s < 50", "--sample", 1)
    assert gpuplan("simulate", lab, *short, "--plot", tmp_path / "b.svg")[0] == 0
    assert "before the first tick" in (tmp_path / "b.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--policy", "alpass"], "did you mean allpass?"),
        (["--set", "treshold_s=5"], "did you mean threshold_s?"),
        (["--set", "threshold_s"], "expected key=value"),
        (["--set", "threshold_s=soon"], "--set threshold_s 'soon': expected a duration"),
        (["--set", "capacity=some"], "expected a whole number or none"),
        (["--set", "controller=wild"], "must be adaptive or fixed"),
        (["--set", "max_pressure=high"], "expected a number"),
        (["--set", "serverless_limit=2"], "the widest job takes 4 GPUs"),
        (["--set", "window_s=45s"], "multiple of 60"),
    ],
)
def test_usage_errors_name_the_option(gpuplan, lab, arguments, problem):
    code, out, err = gpuplan("simulate", lab, *arguments)
    assert (code, out) == (2, "")
    assert problem in err


def test_settings_are_read_by_their_kind():
    texts = [
        "threshold_s=5m",
        "capacity=none",
        "serverless_usd_per_gpu_h=$1.80",
        "threshold_rule=admission",
        "max_pressure=7",
    ]
    assert parse_settings(texts, SETTINGS) == {
        "threshold_s": 300.0,
        "capacity": None,
        "serverless_usd_per_gpu_h": 1.8,
        "threshold_rule": "admission",
        "max_pressure": 7.0,
    }


def test_submissions_over_more_than_a_century_are_refused(gpuplan, tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0.0, 4e9], [10.0, 10.0], [1.0, 1.0])
    code, _, err = gpuplan("simulate", path)
    assert code == 3
    assert "span 127 years" in err and "submit_time" in err
