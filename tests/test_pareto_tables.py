"""What people read of gpuplan pareto: its tables and files."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from support_pareto import FREE, results

from gpuplan.planner.frontier.model.format_gpus import show_gpus


def test_the_fullest_table_is_whole(gpuplan, hours, tmp_path):
    # Dollars, weights and a range of laws at once.
    path = tmp_path / "two.parquet"
    frame = pl.read_parquet(hours).with_row_index("row")
    frame.with_columns(job_class=pl.format("c{}", pl.col("row") % 2)).drop("row").write_parquet(
        path
    )
    asked = ("--speedup", "power:0.5..0.7", "--weight", "c1=3", "--price", "2000", *FREE)
    _, out, _ = gpuplan("pareto", "--full", path, *asked)
    point = results(gpuplan, path, *asked)["points"][0]
    assert point["rounded_mean_jct_s"] == pytest.approx(3600)
    first = next(line for line in out.splitlines() if line.strip().startswith("2.00"))
    assert first.split()[-2:] == ["60", "min"]  # the last column
    assert max(map(len, out.splitlines())) <= 100
    _, out, _ = gpuplan("pareto", "--full", path, *asked, "--output-format", "csv")
    assert "utilization" in out.splitlines()[0]


def test_widths_of_a_few_budgets_stand_side_by_side(gpuplan, newtrace):
    asked = (
        "pareto",
        "--full",
        newtrace,
        "--speedup",
        "profile:t4",
        "--rescale",
        "0",
        "--horizon",
        "48h",
    )
    _, out, err = gpuplan(*asked, "--budget", "93.5,120,200")
    heads = next(line for line in out.splitlines() if "job class" in line)
    assert heads.split()[-6:] == ["at", "93.50", "at", "120.00", "at", "200.00"]
    assert "epochs" not in out  # every class has one
    assert "100.6%" in out and "an efficiency above 100% is possible" in err
    _, out, err = gpuplan(*asked, "--budget", "150:200:6")
    assert "GPUs per job at the budget, 150.00 GPUs" in out  # the nearest to the knee
    assert "above 100%" not in err


def test_the_widest_job_is_told(gpuplan, hours):
    assert "extra GPUs buy nothing at up to 64 GPUs per job." in " ".join(
        gpuplan("pareto", "--full", hours, *FREE)[1].split()
    )
    _, out, _ = gpuplan("pareto", "--full", hours, *FREE, "--max-width", "16")
    assert "at up to 16 GPUs per job" in " ".join(out.split())
    _, out, _ = gpuplan("pareto", "--full", hours, *FREE, "--max-width", "1")
    assert "at up to 1 GPU per job" in " ".join(out.split())
    assert results(gpuplan, hours, *FREE, "--max-width", "16")["max_gpus_per_job"] == 16


def test_a_full_table_is_cut_nowhere(gpuplan, hours):
    asked = (hours, *FREE, "--speedup", "power:0.6..0.9", "--budget", "1.1x", "--target-jct", "10m")
    _, out, _ = gpuplan("pareto", "--full", *asked)
    row = next(line for line in out.splitlines() if "JCT 10 min" in line)
    assert row.endswith(" min") and "…" not in out
    assert "efficiency" in out


def test_table_says_what_people_need(gpuplan, newtrace):
    code, out, err = gpuplan(
        "pareto", "--full", newtrace, "--speedup", "profile:t4", "--budget", "150"
    )
    assert code == 0
    assert "You need at least" in " ".join(out.split())
    assert "GPUs per job at the budget" in out
    assert "imagenet" in out
    assert "to avoid splitting, use the first" in " ".join(out.split())
    assert " efficiency " in out
    assert max(map(len, out.splitlines())) <= 100
    assert "--rescale" not in err  # the profile measured it


def test_many_classes_and_epochs_in_the_table(gpuplan, tmp_path):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    names = [f"c{i % 20}" for i in range(60)]
    frame = pl.DataFrame(
        {"submit_time": [start + timedelta(hours=i) for i in range(60)], "job_class": names}
    ).with_columns(duration_s=pl.lit(3600.0), num_gpus=pl.lit(1.0))
    frame.write_parquet(tmp_path / "t.parquet")
    lines = ["job_class,epoch,num_gpus,throughput"]
    for name in sorted(set(names)):
        lines += [f"{name},0,1,10", f"{name},0,2,11", f"{name},1,1,10", f"{name},1,2,20"]
    (tmp_path / "s.csv").write_text("\n".join(lines) + "\n")
    code, out, err = gpuplan(
        *("pareto", tmp_path / "t.parquet", "--speedup", tmp_path / "s.csv", *FREE),
        *("--budget", "1x", "--full"),
    )
    assert code == 0, err
    assert "15 of 20 classes" in " ".join(out.split())
    assert " 1 " in out and " 2 " in out  # the two epochs differ


@pytest.mark.parametrize(
    "value", [0.000012345, 0.00123456, 1.0000001, 2.534567, 146.69001, 12345.6]
)
def test_gpus_are_rounded_up_and_can_be_told_apart(value):
    shown = float(show_gpus(value).replace(",", ""))
    assert value <= shown <= value * 1.0011
    assert show_gpus(shown) == show_gpus(value)


def test_files(gpuplan, hours, tmp_path):
    for suffix in ("svg", "png", "json", "md", "csv", "txt", "parquet"):
        path = tmp_path / f"out.{suffix}"
        code, _, err = gpuplan(
            "pareto", "--full", hours, *FREE, "--speedup", "amdahl:0.02", "-o", path
        )
        assert code == 0, err
        assert path.stat().st_size > 100
    rows = pl.read_parquet(tmp_path / "out.parquet")
    assert rows.columns == [
        "budget_gpus",
        "job_class",
        "epoch",
        "width",
        "share",
        "rounded",
        "gpu_type",
    ]
    assert "best trade-off" in (tmp_path / "out.svg").read_text()
