"""What less would do for jobs: fewer GPUs, a part of one, a cheaper type."""

import polars as pl
import pytest
import support_metrics
from support_traces import write_trace
from support_waste import answer, use

from gpuplan.analysis.base.time_units import MONTH_H

pytestmark = pytest.mark.compiled
HOUR = 3600.0
GIB_PER_GB = 1e9 / 2**30


def test_parts_of_gpus_that_would_do(gpuplan, tmp_path):
    """A slice must have a quarter more memory and compute than the job used."""
    util = [10.0, 20.0, 10.0, 90.0, 10.0, 10.0, None, 40.0]
    path = write_trace(
        tmp_path / "t.parquet", [0] * 8, [10 * HOUR] * 8, [1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0],
        gpu_type=["A100-80GB"] * 6 + ["A100-80GB", "L40S"], **use(util, [0.0] * 6 + [None, 0.0]),
        gpu_mem_used_gib=pl.Series([7.0, 7.0, 29.0, 7.0, 7.0, None, 7.0, 7.0]),
        gpu_mem_total_gib=pl.Series([74.5] * 7 + [None]),
    )  # fmt: skip
    words = [str(path), "--price", "2", "--no-replay"]
    rows = answer(gpuplan, *words)["right_size"]
    # Two GPUs, 90%, no memory, nothing known, and L40S of unknown memory do not count.
    assert [(row["slice"], row["jobs"], row["gpu_h"]) for row in rows] == [
        ("1g.10gb", 1, 10), ("2g.20gb", 1, 10), ("3g.40gb", 1, 10),
    ]  # fmt: skip
    saved = [row["saved_gpu_h"] for row in rows]
    assert saved == pytest.approx([10 * 6 / 7, 10 * 2 / 3, 10 / 2])
    stated = answer(gpuplan, *words, "--gpu-memory", "L40S=48")["right_size"]
    (half,) = (row for row in stated if row["gpu_type"] == "L40S")
    assert (half["slice"], half["saved_gpu_h"]) == ("1/2", 5)
    assert half["usd_per_month"] == pytest.approx(5 * 2 / 10 * MONTH_H)


def test_memory_of_a_type_that_no_job_has(gpuplan, tmp_path):
    typed = write_trace(
        tmp_path / "typed.parquet", [0], [HOUR], [1.0], gpu_type=["L40S"], **use([20.0], [0.0])
    )
    err = answer(gpuplan, str(typed), "--gpu-memory", "A100=80", code=2)
    assert "no job has such a GPU; the log has L40S" in err
    answer(gpuplan, str(typed), "--gpu-memory", "L40S=48", "--no-replay")
    untyped = write_trace(tmp_path / "untyped.parquet", [0], [HOUR], **use([20.0], [0.0]))
    answer(gpuplan, str(untyped), "--gpu-memory", "A100=80", "--no-replay")
    code, _, err = gpuplan(
        "waste", typed, "--gpu-memory", "A100=80", "--price", "L40S=1,A100=2", "--no-replay"
    )
    assert code == 2 and "at $2 it is not cheaper" in err and "--price A100=USD" in err


def measured(path, *rates, percents=(25, 50, 100)):
    """Write a table of seconds and items per second of batch 8 on shares of a GPU."""
    rows = [f"8,{at},{8 / rate},{rate}" for at, rate in zip(percents, rates, strict=True)]
    path.write_text("\n".join(rows) + "\n")
    return path


def single(path, util, used_gb, **columns):
    """Write a trace of jobs of 10 h on one A100 of 80 GB, with percents of use and memory used."""
    count = len(util)
    columns = {"gpu_type": ["A100-80GB"] * count, **columns}
    known = [0.0 if each is not None else None for each in util]
    return write_trace(
        path, [0] * count, [10 * HOUR] * count, columns.pop("gpus", [1.0] * count),
        **use(util, columns.pop("idle", known)),
        gpu_mem_used_gib=pl.Series(
            [None if each is None else each * GIB_PER_GB for each in used_gb], dtype=pl.Float64
        ),
        gpu_mem_total_gib=pl.Series([80 * GIB_PER_GB] * count), **columns,
    )  # fmt: skip


def test_a_table_says_how_fast_a_class_is_on_a_part(gpuplan, tmp_path):
    """Full speed on half the GPU, 90% on 3/7: 3g.40gb holds 10 / 0.9 / 2 GPU-hours of 10.

    The use of 90% alone would rule out each part; the class without a table stays as it was.
    """
    log = single(
        tmp_path / "t.parquet", [90.0, 90.0, 30.0], [30.0, 30.0, 30.0],
        job_class=["bert", "gpt", "gpt"],
    )  # fmt: skip
    at_3_of_7 = 0.9 * 100
    slope = (100 - at_3_of_7) / (50 - 300 / 7)  # so that 3/7 of the GPU gives 90
    table = measured(tmp_path / "bert.csv", 100 - slope * 25, 100, 100)
    words = [str(log), "--price", "2", "--no-replay"]
    before = answer(gpuplan, *words)["right_size"]
    assert [(row["slice"], row["jobs"], row["measured_jobs"]) for row in before] == [
        ("3g.40gb", 1, 0)
    ]
    results = answer(gpuplan, *words, "--profile", str(table))
    (row,) = results["right_size"]
    assert (row["way"], row["slice"], row["jobs"], row["measured_jobs"]) == (
        "part",
        "3g.40gb",
        2,
        1,
    )
    assert row["speed"] == pytest.approx(0.9)
    assert row["saved_gpu_h"] == pytest.approx(10 * (1 - 1 / 0.9 / 2) + 5)
    assert row["saved_gpu_h_per_month"] == pytest.approx(row["saved_gpu_h"] / 10 * MONTH_H)
    assert row["usd_per_month"] == pytest.approx(2 * row["saved_gpu_h_per_month"])
    assert results["right_size_coverage"]["measured_jobs"] == 1
    err = " ".join(gpuplan("waste", *words, "--profile", table)[2].split())
    assert "whether 1 job would be as fast on a part of a GPU is not known" in err


def test_a_slow_class_gets_no_part(gpuplan, tmp_path):
    """Speed in proportion to the share: under 80% of it on each part, whatever its use was."""
    log = single(tmp_path / "t.parquet", [5.0], [4.0], job_class=["bert"])
    table = measured(tmp_path / "bert.csv", 25, 50, 100)
    assert answer(gpuplan, str(log), "--no-replay")["right_size"][0]["slice"] == "1g.10gb"
    results = answer(gpuplan, str(log), "--no-replay", "--profile", str(table))
    assert results["right_size"] == []
    assert results["right_size_coverage"]["jobs"] == 1


def test_functions_ask_for_the_share_that_they_need(gpuplan, tmp_path):
    """A service at a request of 25% takes 2/7, and lasts as long there, half as fast or not."""
    log = single(tmp_path / "t.parquet", [90.0], [4.0], job_class=["chat"])
    measured(tmp_path / "rates.csv", 40, 60, 100)
    functions = tmp_path / "functions.toml"
    functions.write_text(
        '[[functions]]\nname = "chat"\nprofile = "rates.csv"\nrequest = 0.25\nbatch = 8\n'
        "slo_s = 1.0\n"
    )
    words = [str(log), "--no-replay", "--profile", str(functions)]
    (row,) = answer(gpuplan, *words)["right_size"]
    assert row["slice"] == "2g.20gb"
    assert row["saved_gpu_h"] == pytest.approx(10 * 2 / 3)
    assert row["speed"] == pytest.approx((40 + 20 * (200 / 7 - 25) / 25) / 100)
    text = functions.read_text().replace("slo_s", 'kind = "training"\n#').replace("batch", "#")
    functions.write_text(text)
    (row,) = answer(gpuplan, *words)["right_size"]
    assert row["saved_gpu_h"] == pytest.approx(10 * (1 - 1 / row["speed"] / 3))


def test_a_cheaper_type_must_do_at_a_speed_as_low_as_its_price(gpuplan, tmp_path):
    """L40S costs 40% of A100: 30% use with room is 37.5%, 33% is over 40%; 39 GB need 48.75."""
    log = single(
        tmp_path / "t.parquet", [30.0, 33.0, 30.0, 30.0], [30.0, 30.0, 39.0, 30.0],
        gpus=[4.0, 4.0, 4.0, 4.0], idle=[0.0, 0.0, 0.0, 1.0],
    )  # fmt: skip
    words = [str(log), "--price", "A100=2,L40S=0.8", "--gpu-memory", "L40S=48", "--no-replay"]
    rows = answer(gpuplan, *words)["right_size"]
    told = {row["way"]: row for row in rows}
    assert set(told) == {"fewer GPUs", "cheaper type"}
    cheaper, fewer = told["cheaper type"], told["fewer GPUs"]
    assert (cheaper["slice"], cheaper["jobs"], cheaper["gpu_h"]) == ("L40S", 1, 40)
    assert cheaper["saved_gpu_h"] == 0
    assert cheaper["usd_per_month"] == pytest.approx(40 * 1.2 / 10 * MONTH_H)
    assert (fewer["slice"], fewer["jobs"], fewer["saved_gpu_h"]) == ("GPUs in use", 1, 10)
    err = gpuplan("waste", *words)[2]
    assert "slower in proportion to its price" in " ".join(err.split())


def test_each_job_counts_once_with_what_saves_most(gpuplan, tmp_path):
    """Memory of 30 GB: half the A100 saves 1 dollar an hour, an L40S at 0.7 dollars 1.3."""
    log = single(tmp_path / "t.parquet", [20.0], [30.0])
    words = [str(log), "--gpu-memory", "L40S=48", "--no-replay", "--price"]
    for usd, way in ((0.7, "cheaper type"), (1.2, "part")):
        (row,) = answer(gpuplan, *words, f"A100=2,L40S={usd}")["right_size"]
        assert row["way"] == way
        assert row["usd_per_month"] == pytest.approx(10 * max(2 - usd, 1) / 10 * MONTH_H)


def test_what_is_not_known_is_counted_and_said(gpuplan, tmp_path):
    """Use unknown, memory unknown, both known; a job that never uses its GPU is in neither."""
    log = single(
        tmp_path / "t.parquet", [None, 50.0, 50.0, 0.0], [10.0, None, 10.0, 10.0],
        idle=[None, 0.0, 0.0, 1.0],
    )  # fmt: skip
    told = answer(gpuplan, str(log), "--no-replay")["right_size_coverage"]
    assert told == {
        "jobs": 1, "gpu_h": 10, "unknown_jobs": 2, "unknown_gpu_h": 20, "measured_jobs": 0
    }  # fmt: skip
    err = " ".join(gpuplan("waste", log, "--no-replay")[2].split())
    assert "whether less would do is not known of 2 jobs without full figures" in err


def test_memory_may_be_in_the_series(gpuplan, tmp_path):
    """9 GB of an A100 of 80 GB at 10%: with room a slice of 20 GB."""
    jobs = support_metrics.trace(("a", "n1", 0, 10 * 3600, 1.0)).jobs
    path = tmp_path / "t.parquet"
    jobs.with_columns(gpu_type=pl.lit("A100-80GB")).write_parquet(path)
    series = tmp_path / "series.json"
    series.write_text(support_metrics.answer(*(
        support_metrics.series(name, "n1", 0, support_metrics.every(60, 0, 36000, value))
        for name, value in (
            (support_metrics.ENGINE, 0.1), (support_metrics.FB, 9e9 / 2**20)
        )
    )))  # fmt: skip
    words = [str(path), "--metrics", str(series), "--gpu-memory", "A100=80", "--no-replay"]
    (row,) = answer(gpuplan, *words)["right_size"]
    assert (row["slice"], row["jobs"]) == ("2g.20gb", 1)
    assert row["saved_gpu_h"] == pytest.approx(10 * 2 / 3)


@pytest.mark.parametrize(
    ("name", "text", "code", "told"),
    [
        ("gpt.csv", "8,50,0.1,80\n8,100,0.05,160\n", 2, "no job is of class gpt; the log has bert"),
        ("bert.csv", "8,50,fast,80\n", 3, "bert.csv:1: column 'latency_s': found 'fast'"),
        ("bert.csv", "8,150,0.1,80\n", 3, "percent of the SMs, above 0 and at most 100"),
        ("bert.csv", "", 3, "bert.csv: has no rows"),
        ("f.toml", "x = 1\n", 3, "f.toml: has no functions"),
    ],
)
def test_tables_that_cannot_be_used(gpuplan, tmp_path, name, text, code, told):
    log = single(tmp_path / "t.parquet", [20.0], [30.0], job_class=["bert"])
    (tmp_path / name).write_text(text)
    words = [str(log), "--no-replay", "--profile", str(tmp_path / name)]
    assert told in answer(gpuplan, *words, code=code)


def test_two_tables_of_one_class(gpuplan, tmp_path):
    log = single(tmp_path / "t.parquet", [20.0], [30.0], job_class=["bert"])
    tables = [measured(tmp_path / name, 1, 2, 3) for name in ("bert.csv", "bs_sm_bert.csv")]
    words = [word for table in tables for word in ("--profile", str(table))]
    assert "class 'bert' is measured twice" in answer(gpuplan, str(log), *words, code=2)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ("8,25,0.1,80\n", "measures 25% of the SMs alone; expected a whole GPU (100%)"),
        ("8,100,0.1,80\n", "and at least one smaller share"),
        ("8,25,0.1,80\n8,50,0.05,160\n", "measures 25%, 50% of the SMs alone"),
        ("8,25,0.05,160\n8,50,0.07,110\n8,100,0.1,80\n", "has 50% less throughput at 100% of the"),
    ],
)
def test_tables_that_do_not_tell_the_speed_on_a_part(gpuplan, tmp_path, rows, problem):
    log = single(tmp_path / "t.parquet", [20.0], [30.0], job_class=["bert"])
    (tmp_path / "bert.csv").write_text(rows)
    words = [str(log), "--no-replay", "--profile", str(tmp_path / "bert.csv")]
    told = " ".join(answer(gpuplan, *words, code=3).split())
    assert "bert.csv" in told and problem in told


def test_noise_of_a_measurement_is_no_fall(gpuplan, tmp_path):
    """10% less on the whole GPU than on half of it: the half is as fast."""
    log = single(tmp_path / "t.parquet", [20.0], [30.0], job_class=["bert"])
    table = measured(tmp_path / "bert.csv", 60, 100, 90)
    (row,) = answer(gpuplan, str(log), "--no-replay", "--profile", str(table))["right_size"]
    assert row["measured_jobs"] == 1 and row["speed"] <= 1


@pytest.mark.parametrize(
    ("tensor", "slices"),
    [(None, []), (0.0, []), (0.6, []), (0.1, [("2g.20gb", 1)]), (0.3, [("3g.40gb", 1)])],
)
def test_a_busy_gpu_whose_tensor_cores_are_not_may_be_smaller(gpuplan, tmp_path, tensor, slices):
    """9 GB of an A100 at 90%: by this alone no slice would do; tensor cores at 0 tell nothing."""
    jobs = support_metrics.trace(("a", "n1", 0, 10 * 3600, 1.0)).jobs
    path = tmp_path / "t.parquet"
    jobs.with_columns(gpu_type=pl.lit("A100-80GB")).write_parquet(path)
    values = {
        support_metrics.ENGINE: 0.9, support_metrics.FB: 9e9 / 2**20,
        support_metrics.TENSOR: tensor,
    }  # fmt: skip
    series = tmp_path / "series.json"
    series.write_text(support_metrics.answer(*(
        support_metrics.series(name, "n1", 0, support_metrics.every(60, 0, 36000, value))
        for name, value in values.items() if value is not None
    )))  # fmt: skip
    words = [str(path), "--metrics", str(series), "--gpu-memory", "A100=80", "--no-replay"]
    rows = answer(gpuplan, *words)["right_size"]
    assert [(row["slice"], row["tensor_jobs"]) for row in rows] == slices
    err = " ".join(gpuplan("waste", *words)[2].split())
    assert ("1 job of these keep GPUs in use but hardly their tensor cores" in err) == bool(slices)
