"""Kinds of waste: each GPU-hour once, worked by hand, by law, and on the site with known truth."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_ingest import ingest_text
from support_jobstats import summary
from support_sitelab import DUMPS, SITELAB
from support_slurm import HEADER, log

from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.job_table.schema import (
    CANONICAL,
    LIMIT_COLUMN,
    UTILIZATION_COLUMNS,
    Provenance,
)
from gpuplan.analysis.log_formats.format import IngestOptions
from gpuplan.analysis.trace.trace import Trace, read_trace
from gpuplan.analysis.waste.kinds import (
    COLUMNS,
    KINDS,
    OPTIONAL,
    UNKNOWN,
    USED,
    column_of,
    kinds_of_waste,
)

SCHEMA = {**CANONICAL, **UTILIZATION_COLUMNS, LIMIT_COLUMN: pl.Float64()}
ALL = [column_of(kind) for kind in (*KINDS, UNKNOWN, USED)]
HOUR = 3600.0


def trace(*rows):
    """Return a log of jobs of 4 GPUs for 10 hours that end well, with changes."""
    plain = {
        "submit_time": 0, "queue_s": 0.0, "duration_s": 10 * HOUR, "num_gpus": 4.0,
        "state": "completed", "gpu_util_mean": 60.0, "gpus_idle": 0.0, "gpu_util_coverage": 1.0,
    }  # fmt: skip
    jobs = pl.DataFrame(
        [{**dict.fromkeys(SCHEMA), **plain, "job_id": str(i), **row} for i, row in enumerate(rows)],
        schema_overrides={name: kind for name, kind in SCHEMA.items() if name != "submit_time"},
    ).with_columns(pl.from_epoch("submit_time").dt.replace_time_zone("UTC"))
    return Trace(jobs, Path("log"), "", jobs.height, Provenance("canonical"))


def hours(frame):
    """Return the GPU-hours above 0 of each job by kind."""
    return [
        {name.removesuffix("_gpu_h"): value for name in ALL if (value := row[name])}
        for row in frame.rows(named=True)
    ]


UNKNOWN_JOB = dict.fromkeys(UTILIZATION_COLUMNS)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({}, {"used": 40}),
        ({"gpu_util_mean": 0.0, "gpus_idle": 4.0}, {"idle": 40}),
        ({"gpu_util_mean": 0.0, "gpus_idle": None}, {"idle": 40}),
        ({"gpu_util_mean": 0.0, "gpus_idle": 4.0, "state": "failed"}, {"idle": 40}),
        ({"gpu_util_mean": 30.0, "gpus_idle": 2.0}, {"partly_idle": 20, "used": 20}),
        # 10% over 4 GPUs is 40% of the one in use: that one is no low use.
        ({"gpu_util_mean": 10.0, "gpus_idle": 3.0}, {"partly_idle": 30, "used": 10}),
        ({"gpu_util_mean": 10.0, "gpus_idle": 1.0}, {"partly_idle": 10, "low_utilization": 30}),
        ({"gpu_util_mean": 14.9}, {"low_utilization": 40}),
        ({"gpu_util_mean": 15.0}, {"used": 40}),
        ({"gpu_util_mean": 5.0, "state": "failed"}, {"low_utilization": 40}),
        ({"state": "failed"}, {"failed": 40}),
        ({"state": "timeout", "gpus_idle": 1.0}, {"partly_idle": 10, "failed": 30}),
        ({"state": "node_fail"}, {"used": 40}),
        (UNKNOWN_JOB, {"unknown": 40}),
        ({**UNKNOWN_JOB, "state": "failed"}, {"unknown": 40}),
        ({"gpu_util_coverage": 0.5, "gpus_idle": 1.0},
         {"partly_idle": 10, "used": 10, "unknown": 20}),
        ({"gpu_util_coverage": 0.5, "gpus_idle": 2.0, "gpu_util_mean": 0.0},
         {"partly_idle": 20, "unknown": 20}),
        ({"gpu_util_coverage": 0.96, "gpus_idle": 4.0, "gpu_util_mean": 0.0},
         {"idle": 38.4, "unknown": 1.6}),
        ({"gpus_idle": None, "gpu_util_mean": 10.0}, {"low_utilization": 40}),
        ({"num_gpus": 0.0, **UNKNOWN_JOB}, {}),
        ({"duration_s": None}, {}),
    ],
)  # fmt: skip
def test_kinds_by_hand(job, expected):
    assert hours(kinds_of_waste(trace(job))) == [pytest.approx(expected)]


def test_failed_work_without_figures_is_said_beside():
    frame = kinds_of_waste(trace({**UNKNOWN_JOB, "state": "timeout"}, {"state": "timeout"}))
    assert frame["failed_unknown_gpu_h"].to_list() == [40, 0]


def test_long_limits_are_apart():
    limits = (31 * HOUR, 30 * HOUR, None)
    frame = kinds_of_waste(trace(*({LIMIT_COLUMN: limit} for limit in limits)))
    assert frame["is_long_limit"].to_list() == [True, False, None]
    assert frame["beyond_limit_gpu_h"].to_list() == [84, 80, 0]
    assert hours(frame) == [{"used": 40}] * 3


def of_series(**values):
    plain = {
        "covered_gpu_h": 40.0, "never_used_gpu_h": 0.0, "idle_begin_gpu_h": 0.0,
        "idle_end_gpu_h": 0.0, "gpu_util_mean": 60.0,
    }  # fmt: skip
    return pl.DataFrame([{"job_id": "0", **plain, **values}])


@pytest.mark.parametrize(
    ("job", "series", "expected"),
    [
        # The log knows the means, the series the ends.
        ({}, {"idle_end_gpu_h": 12.0, "idle_begin_gpu_h": 3.0}, {"idle_ends": 15, "used": 25}),
        # 10% on average, but all of it in the 8 hours that are left: 50% of them.
        ({"gpu_util_mean": 10.0}, {"idle_end_gpu_h": 32.0}, {"idle_ends": 32, "used": 8}),
        ({"gpus_idle": 2.0}, {"idle_end_gpu_h": 8.0},
         {"idle_ends": 8, "partly_idle": 20, "used": 12}),
        # An end of GPUs that the log calls idle counts once.
        ({"gpu_util_mean": 0.0, "gpus_idle": 4.0}, {"idle_end_gpu_h": 8.0}, {"idle": 40}),
        # The series alone.
        (UNKNOWN_JOB, {"never_used_gpu_h": 10.0}, {"partly_idle": 10, "used": 30}),
        (UNKNOWN_JOB, {"covered_gpu_h": 20.0, "never_used_gpu_h": 20.0, "gpu_util_mean": 0.0},
         {"partly_idle": 20, "unknown": 20}),
        (UNKNOWN_JOB, {"covered_gpu_h": None, "never_used_gpu_h": None, "gpu_util_mean": None,
                       "idle_end_gpu_h": None, "idle_begin_gpu_h": None}, {"unknown": 40}),
    ],
)  # fmt: skip
def test_series_by_hand(job, series, expected):
    assert hours(kinds_of_waste(trace(job), of_series(**series))) == [expected]


def test_what_rounding_leaves_is_not_unknown():
    """Sums of seconds differ in the last digits; a job that is covered has no unknown hours."""
    covered = np.nextafter(40.0, 0)
    frame = kinds_of_waste(trace(UNKNOWN_JOB), of_series(covered_gpu_h=covered, gpu_util_mean=50.0))
    assert frame["unknown_gpu_h"].to_list() == [0]
    assert frame["used_gpu_h"].to_list() == [40]


def test_jobs_that_no_series_covers_stay_as_they_are():
    log_of_two = trace({"job_id": "7", "gpus_idle": 1.0}, {"job_id": "0"})
    frame = kinds_of_waste(log_of_two, of_series(idle_end_gpu_h=4.0))
    assert hours(frame) == [{"partly_idle": 10, "used": 30}, {"idle_ends": 4, "used": 36}]


share = st.floats(0, 1)


@given(
    st.lists(st.tuples(st.integers(0, 8), share, share, share, st.sampled_from(
        ["completed", "failed", "timeout", "running"])), min_size=1, max_size=8),
    st.tuples(share, share, share, share),
)  # fmt: skip
def test_each_gpu_hour_is_in_one_kind(jobs, parts):
    rows = [
        {"num_gpus": float(gpus), "gpus_idle": idle * gpus, "gpu_util_coverage": covered,
         "gpu_util_mean": 100 * percent, "state": state}
        for gpus, idle, covered, percent, state in jobs
    ]  # fmt: skip
    covered, never, begin, end = (40 * part for part in parts)
    series = of_series(
        covered_gpu_h=covered, never_used_gpu_h=never, idle_begin_gpu_h=begin, idle_end_gpu_h=end
    )
    for frame in (kinds_of_waste(trace(*rows)), kinds_of_waste(trace(*rows), series)):
        assert (frame.select(pl.min_horizontal(ALL)).to_series() >= 0).all()
        total = frame.select(pl.sum_horizontal(ALL)).to_series()
        assert total.to_list() == pytest.approx(frame["held_gpu_h"].to_list())


def test_a_log_of_another_tool_may_have_the_mean_alone():
    jobs = trace({}, {"gpu_util_mean": 0.0}, {"gpu_util_mean": None})
    plain = Trace(
        jobs.jobs.drop("gpus_idle", "gpu_util_coverage", LIMIT_COLUMN),
        jobs.path, "", 3, jobs.provenance,
    )  # fmt: skip
    assert hours(kinds_of_waste(plain)) == [{"used": 40}, {"idle": 40}, {"unknown": 40}]


def test_a_requeued_job_counts_the_gpu_hours_of_its_runs(tmp_path):
    # 1 hour unknown, then 3 hours of 4 GPUs of which one idles.
    rows = [
        {"AdminComment": "", "State": "NODE_FAIL", "Start": "2026-01-10T08:00:00",
         "End": "2026-01-10T09:00:00", "Elapsed": "01:00:00"},
        {"AdminComment": summary([0.0, 80.0, 80.0, 80.0]), "Submit": "2026-01-10T09:00:00",
         "Start": "2026-01-10T09:00:00", "End": "2026-01-10T12:00:00", "Elapsed": "03:00:00"},
    ]  # fmt: skip
    jobs, *_ = ingest_text(tmp_path, log(*rows, header=HEADER + "|AdminComment"))
    jobs.write_parquet(tmp_path / "trace.parquet")
    requeued = read_trace(tmp_path / "trace.parquet", columns=COLUMNS, optional=OPTIONAL)
    (told,) = hours(kinds_of_waste(requeued))
    assert told == pytest.approx({"partly_idle": 3, "unknown": 4, "used": 9})


@pytest.fixture(scope="module")
def birch(tmp_path_factory):
    """Return the waste of the site with known truth, as we tell it, and with the truth."""
    if not DUMPS.is_dir():
        pytest.skip("the site with known truth is not there: ../shared/data/sitelab")
    path = tmp_path_factory.mktemp("birch") / "trace.parquet"
    ingest(
        [DUMPS / "sacct_jobstats.txt.gz"], path,
        choices=IngestOptions(time_zone="America/New_York"),
    )  # fmt: skip
    jobs = read_trace(path, columns=COLUMNS, optional=OPTIONAL)
    truth = pl.read_csv(SITELAB / "truth/waste.csv", schema_overrides={"job": pl.String})
    told = kinds_of_waste(jobs).with_columns(
        jobs.jobs["user"], is_known=jobs.jobs["gpu_util_mean"].is_not_null()
    )
    return told, told.join(truth.drop("user"), left_on="job_id", right_on="job", how="left")


def test_the_site_s_unused_gpus_are_told(birch):
    told, joined = birch
    ours = told["idle_gpu_h"].sum() + told["partly_idle_gpu_h"].sum()
    truth = joined.filter("is_known")["gpu_hours_on_unused_gpus"].sum()
    assert ours == pytest.approx(truth, rel=0.01) and truth > 30_000


def test_no_unknown_of_the_site_counts(birch):
    told, joined = birch
    unknown = told.filter(~pl.col("is_known"))
    assert unknown.select([column_of(kind) for kind in KINDS]).sum().row(0) == (0,) * len(KINDS)
    assert unknown["unknown_gpu_h"].sum() == pytest.approx(unknown["held_gpu_h"].sum())
    working = joined.filter(pl.col("reason").is_null())
    assert working["idle_gpu_h"].sum() + working["partly_idle_gpu_h"].sum() == 0


def test_the_site_s_ten_worst_users_are_in_order(birch):
    told, joined = birch
    unused = told.group_by("user").agg(pl.sum("idle_gpu_h") + pl.sum("partly_idle_gpu_h"))
    truth = joined.filter("is_known").group_by("user").agg(pl.sum("gpu_hours_on_unused_gpus"))
    ours, theirs = (
        frame.sort(frame.columns[1], descending=True)["user"].head(10).to_list()
        for frame in (unused, truth)
    )
    assert ours == theirs
