"""Odd traces, such as those alike in one column: studies answer, or say why they cannot."""

import json
from datetime import timedelta

import polars as pl
import pytest
from support_traces import ORIGIN, frame, write

from gpuplan.analysis.base.time_units import LAST_SUBMIT

JOBS = frame(
    [600.0 * i for i in range(12)],
    queue_s=[10.0 * i for i in range(12)],
    duration_s=[60.0 * (i + 1) ** 2 for i in range(12)],
    num_gpus=[(1.0, 2.0, 0.5, 4.0)[i % 4] for i in range(12)],
    gpu_type=[("A100-80GB", "L4")[i % 2] for i in range(12)],
    user=[("ada", "bob")[i % 2] for i in range(12)],
    state=[("completed", "running", "failed")[i % 3] for i in range(12)],
)
ALIKE = {
    "no time": {"duration_s": 0.0},
    "no time, no wait": {"duration_s": 0.0, "queue_s": 0.0},
    "one instant": {"duration_s": 0.0, "queue_s": 0.0, "submit_time": ORIGIN},
    "no GPU": {"num_gpus": 0.0},
    "a trifle of time": {"duration_s": 1e-9},
    "a century": {"duration_s": 3e9},
    "many GPUs": {"num_gpus": 1e7},
    "waits of a century": {"queue_s": 3e9},
    "all running": {"state": "running"},
    "no type": {"gpu_type": None},
}
PRICED = ("--on-demand", "1.29", "--commit", "0.9")
STUDIES = (
    ("characterize", "--full"),
    ("waits", "--full"),
    ("bill", "--price", "1.29", "--full"),
    ("bill", "--price", "1.29", "--cluster", "8x8"),
    ("size", "--target", "p95_wait <= 1h", "--ci", "0"),
    ("size", "--target", "p95_wait <= 1h", *PRICED),
    ("plan", *PRICED, "--full"),
    ("plan", *PRICED, "--spot", "true", "--spot-price", "0.5", "--serverless", "2.1"),
    ("pareto", "--no-replay"),
    ("sweep", "--threshold", "60,600", "--resamples", "0"),
    ("simulate", "--policy", "fifo"),
    ("share",),
)


@pytest.mark.parametrize("study", STUDIES, ids=" ".join)
def test_a_trace_whose_jobs_are_alike_is_answered_or_refused(gpuplan, tmp_path, study):
    for about, columns in ALIKE.items():
        alike = JOBS.with_columns(
            pl.lit(v).cast(JOBS.schema[c]).alias(c) for c, v in columns.items()
        )
        path = write(tmp_path / "t.parquet", alike)
        code, _, err = gpuplan(study[0], path, *study[1:])
        assert code in (0, 2, 3, 4), f"{about}: {err}"


def test_intervals_of_a_log_of_microseconds_are_not_drawn(gpuplan, tmp_path):
    path = write(tmp_path / "t.parquet", JOBS.with_columns(submit_time=pl.Series(
        [ORIGIN + timedelta(microseconds=i) for i in range(12)], dtype=JOBS.schema["submit_time"]
    )))  # fmt: skip
    code, _, err = gpuplan("characterize", path, "--ci", "90", "--full")
    assert code == 0, err


@pytest.mark.parametrize("gpus", [0.0, 1.0])
def test_one_duration_is_drawn(gpuplan, tmp_path, gpus):
    path = write(tmp_path / "t.parquet", frame([0], duration_s=[60.0], num_gpus=[gpus]))
    code, _, err = gpuplan("characterize", path, "-q", "--plot", tmp_path / "p.svg")
    assert (code, err) == (0, "")


def test_a_cluster_is_billed_whose_jobs_took_no_time(gpuplan, tmp_path):
    jobs = frame([0, 3600], duration_s=[0.0, 0.0], num_gpus=[1.0, 1.0])
    path = write(tmp_path / "t.parquet", jobs)
    code, out, _ = gpuplan(
        "bill", path, "--price", "2", "--cluster", "8", "--output-format", "json"
    )
    assert code == 0
    assert json.loads(out)["results"]["usd"] == 16.0


def test_a_user_called_as_idle_gpus_are_keeps_a_row(gpuplan, tmp_path):
    jobs = frame([0, 3600], duration_s=[3600.0] * 2, num_gpus=[1.0] * 2, user=["(idle)", "bob"])
    path = write(tmp_path / "t.parquet", jobs)
    words = ("--price", "2", "--cluster", "4", "--by", "user", "--output-format", "json")
    results = json.loads(gpuplan("bill", path, *words)[1])["results"]
    users = {row["name"]: row["usd"] for row in results["groups"]}
    assert users == {"bob": 2.0, "(idle) in the log": 2.0, "(idle)": 12.0}


def test_a_period_in_which_jobs_only_wait_has_no_size(gpuplan, tmp_path):
    jobs = frame(
        [0, 3600, 39600], duration_s=[3600.0] * 3, queue_s=[0.0, 0.0, 7200.0],
        num_gpus=[1.0] * 3, gpu_type=["A100", "A100", "L4"],
    )  # fmt: skip
    path = write(tmp_path / "t.parquet", jobs)
    words = ("--target", "p95_wait <= 1h", "--from", "2026-01-05", "--to", "2026-01-05T12:00:00")
    assert gpuplan("size", path, *words)[0] == 0
    for more in (("--where", "gpu_type = 'L4'"), ("--growth=-90%",)):
        code, _, err = gpuplan("size", path, *words, *more)
        assert code == 3
        assert "no job holds a GPU of L4 in the period" in err


def test_a_period_that_growth_stretches_past_the_calendar_is_refused(gpuplan, tmp_path):
    path = write(tmp_path / "t.parquet", JOBS)
    words = ("--target", "p95_wait <= 1h", "--from", "2026-01-01", "--to", "9798-01-01")
    code, _, err = gpuplan("size", path, *words, "--growth=-99%")
    assert code == 2
    assert "--growth -99.0000%: the period would end after the year 9798" in err


def test_a_commitment_that_ends_after_the_calendar_ends_with_it(gpuplan, tmp_path):
    end = {"duration_s": 3155760000.0, "queue_s": 3155760000.0}
    last = pl.lit(LAST_SUBMIT).cast(JOBS.schema["submit_time"])
    jobs = JOBS.head(1).with_columns(submit_time=last, state=pl.lit("completed"), **end)
    path, plan = write(tmp_path / "t.parquet", jobs), tmp_path / "p.toml"
    words = ("--on-demand", "2", "--commit", "0.5:3y")
    assert gpuplan("plan", path, *words, "-o", plan)[0] == 0
    assert "until = 9999-12-31T23:59:59.999999Z" in plan.read_text()


def test_a_hazard_next_to_none_is_none(gpuplan, tmp_path):
    path = write(tmp_path / "t.parquet", JOBS)
    words = (*PRICED, "--spot", "true", "--spot-price", "0.5", "--output-format", "json")
    none, least = (
        json.loads(gpuplan("plan", path, *words, "--spot-hazard", text)[1])["results"]
        for text in ("0/12h", f"0.{'0' * 312}1/12h")
    )
    assert none["usd_per_month"] == least["usd_per_month"] > 0
