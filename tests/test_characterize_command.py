"""``gpuplan characterize``: what a person reads, what a program reads, the pictures."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import polars as pl
import pytest
from support_traces import frame, in_memory, write

from gpuplan.analysis.characterize import characterize
from gpuplan.analysis.job_table.schema import STATES, Provenance
from gpuplan.cli.tables.characterize_tables import headline


def workload(size=500):
    """A made-up trace with every column that the command shows."""
    rng = np.random.default_rng(5)
    return frame(
        np.cumsum(rng.exponential(600, size)).round(),
        queue_s=rng.exponential(100, size).round(),
        duration_s=rng.lognormal(6, 2, size).round(1),
        num_gpus=rng.choice([0.0, 0.5, 1.0, 2.0, 8.0, 64.0], size),
        state=rng.choice(STATES[:4], size),
        user=rng.choice([f"user {i:02}" for i in range(30)], size),
        job_class=rng.choice(["a class whose name is far too long to be shown", "b"], size),
    )


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("characterize") / "jobs.parquet"
    zone = Provenance(source_format="csv", time_zone="Europe/Berlin")
    return write(path, workload(), zone)


def lines_of(out):
    return out.splitlines()


def test_json_is_the_contract(gpuplan, trace):
    code, out, err = gpuplan("characterize", trace, "--output-format", "json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert list(document["results"]) == [
        "jobs", "cpu_only_jobs", "censored_jobs", "users", "span_s", "first_submit", "last_submit",
        "duration_s", "short_jobs", "duration_cdf", "gpu_time", "interarrival", "arrivals", "load",
        "gpu_counts", "states", "queue_s", "groups", "today", "waits",
    ]  # fmt: skip
    results = document["results"]
    assert results["jobs"] == 500 and results["users"] == 30
    assert list(results["duration_s"]) == ["jobs", "mean", "p50", "p90", "p95", "p99", "max", "min"]
    assert list(results["gpu_counts"][0]) == [
        "num_gpus", "jobs", "share_jobs", "gpu_hours", "share_gpu_hours",
    ]  # fmt: skip
    assert list(results["groups"]["user"]["rows"][0]) == [
        "name", "jobs", "share_jobs", "gpu_hours", "share_gpu_hours", "median_duration_s",
        "p90_duration_s", "mean_num_gpus", "mean_wait_s", "p50_wait_s", "p95_wait_s",
        "usd_per_month",
    ]  # fmt: skip
    assert len(results["arrivals"]["by_hour"]) == 24 and len(results["gpu_time"]["lorenz"]) <= 101
    assert document["parameters"]["top"] == 10
    assert "period" not in document["parameters"]
    assert document["inputs"][0]["rows"] == 500
    assert gpuplan("characterize", trace, "--output-format", "json")[1] == out


def test_csv_is_the_statistics_by_their_path_in_the_json(gpuplan, trace):
    rows = list(csv.DictReader(lines_of(gpuplan("characterize", trace, "-q", "--output-format",
                                                "csv")[1])))  # fmt: skip
    assert list(rows[0]) == ["statistic", "value", "unit"]
    results = json.loads(gpuplan("characterize", trace, "--output-format", "json")[1])["results"]
    for row in rows:
        value = results
        for key in row["statistic"].split("."):
            value = value[key]
        assert float(row["value"]) == value
    names = [row["statistic"] for row in rows]
    assert "duration_s.p95" in names and "queue_s.p90" in names and "users" in names


def test_text_has_every_table_and_fits_a_page(gpuplan, trace):
    code, out, _ = gpuplan("characterize", trace, "--top", "3", "--full")
    assert code == 0
    for title in ("What the workload is", "Over time (Europe/Berlin)", "GPUs per job", "States",
                  "Job classes: 2, by GPU time", "Users: 30, by GPU time"):  # fmt: skip
        assert title in lines_of(out)
    assert "Groups" not in out  # not recorded
    assert max(map(len, lines_of(out))) <= 100
    (others,) = (line for line in lines_of(out) if "27 others" in line)
    shares = [float(cell.rstrip("%")) for cell in others.split() if cell.endswith("%")]
    assert len(shares) == 2
    (long,) = (line for line in lines_of(out) if "a class whose" in line)
    assert "…" in long
    (median,) = (line for line in lines_of(out) if "P50 duration" in line)
    assert "min" in median or " s " in median
    (hours,) = (line for line in lines_of(out) if "arrivals, 0 to 23 h" in line)
    assert len(set(hours) & set("▁▂▃▄▅▆▇█")) > 1


def test_many_gpu_counts_are_folded(gpuplan, tmp_path):
    size = 40
    jobs = frame(range(size), duration_s=[36.0] * size, num_gpus=[1 + i / 100 for i in range(size)])
    out = gpuplan("characterize", write(tmp_path / "t.parquet", jobs), "--full")[1]
    assert "29 other counts" in out
    found = json.loads(
        gpuplan("characterize", tmp_path / "t.parquet", "--output-format", "json")[1]
    )
    assert len(found["results"]["gpu_counts"]) == size


def test_the_headline_says_what_the_workload_is():
    jobs = frame([0, 86400 * 10], duration_s=[1800.0, 5400.0], num_gpus=[1.0, 4.0])
    assert headline(characterize(in_memory(jobs))) == (
        "2 jobs over 10 d: half finish within 60 min, the longest 10% take 92% of the GPU time, "
        "0.0271 GPUs busy on average"
    )
    brief = frame([0, 60], duration_s=[3600.0, 3600.0], num_gpus=[1.0, 1.0])  # 120 over the span
    assert headline(characterize(in_memory(brief))).endswith("at most 2 GPUs busy at once")
    alone = frame([0], duration_s=[None], num_gpus=[1.0])
    assert headline(characterize(in_memory(alone))) == "1 job"


def test_each_gpu_type_has_a_row_and_its_own_price(gpuplan, tmp_path):
    # 1 GPU-hour on the A100 and 3 on the H100 in the 2.5 hours to the last end.
    jobs = frame([0, 3600], duration_s=[3600.0, 5400.0], num_gpus=[1.0, 2.0],
                 gpu_type=["A100", "H100"])  # fmt: skip
    path = write(tmp_path / "t.parquet", jobs)
    both = ("--price", "A100=1", "--price", "H100=4")
    code, out, err = gpuplan("characterize", path, *both)
    assert code == 0, err
    assert "75% of the GPU-hours are on H100, 25% on A100." in " ".join(out.split())
    assert out.count("\n") <= 45 and "GPUs held today, by type" in out
    today = json.loads(gpuplan("characterize", path, *both, "--output-format", "json")[1])[
        "results"
    ]["today"]
    assert [one["gpu_type"] for one in today["gpu_types"]] == ["H100", "A100"]
    assert [one["usd_per_month"] for one in today["gpu_types"]] == pytest.approx(
        [3 * 4 * 730.5 / 2.5, 730.5 / 2.5]
    )
    assert today["usd_per_month"] == pytest.approx(13 * 730.5 / 2.5)
    assert today["mean_wait_s"] is None and "the log has no waits" in out
    code, out, err = gpuplan("characterize", path, "--prices", "builtin", "--output-format", "json")
    assert code == 0, err
    a100, h100 = sorted(json.loads(out)["results"]["today"]["gpu_types"], key=lambda x: x["gpu_h"])
    assert 0 < a100["usd_per_gpu_h"] < h100["usd_per_gpu_h"]


def test_the_selection_and_the_options_take_effect(gpuplan, trace):
    def results(*options):
        return json.loads(gpuplan("characterize", trace, "--output-format", "json", *options)[1])

    plain = results()["results"]
    wide = results("--where", "num_gpus >= 8")["results"]
    assert {row["num_gpus"] for row in wide["gpu_counts"]} == {8, 64}
    double = results("--scale-interarrival", "0.5")
    assert double["parameters"]["scale_interarrival"] == 0.5
    load = double["results"]["load"]["mean_gpus"]
    assert load == pytest.approx(2 * plain["load"]["mean_gpus"])
    drawn = results("--sample", "50", "--seed", "3")
    assert drawn["results"]["jobs"] == 50 and "50 of 500" in drawn["warnings"][0]


def test_jobs_still_running_are_told_and_counted(gpuplan, tmp_path):
    jobs = frame([0, 60], duration_s=[60.0, 7200.0], num_gpus=[1.0, 4.0],
                 state=["completed", "running"])  # fmt: skip
    path = write(tmp_path / "t.parquet", jobs)
    _, out, err = gpuplan("characterize", path, "--full")
    assert "1 job still running with 8 GPU-hours so far" in err and "still running" in out
    _, out, _ = gpuplan("characterize", path, "--output-format", "json")
    found = json.loads(out)["results"]
    assert found["gpu_time"]["gpu_hours"] == pytest.approx(8 + 1 / 60)
    assert found["today"]["gpu_h"] == found["gpu_time"]["gpu_hours"]
    code, _, err = gpuplan("characterize", path, "--include-running")
    assert code == 2 and "leave it out" in err


def test_gates_read_the_statistics(gpuplan, trace):
    assert gpuplan("characterize", trace, "--fail-if", "duration_s.p95 > 1000d")[0] == 0
    code, _, err = gpuplan("characterize", trace, "--fail-if", "load.mean_gpus > 0.001")
    assert code == 1 and "load.mean_gpus is" in err
    assert gpuplan("characterize", trace, "--fail-if", "short_jobs.under_600s < 1%")[0] == 0


def test_a_trace_without_durations_says_what_supplies_them(gpuplan, tmp_path):
    jobs = frame([0, 60, 90], duration_s=[None] * 3, num_gpus=[1.0] * 3, job_class=["bert"] * 3)
    path = write(tmp_path / "t.parquet", jobs, Provenance(source_format="sia", relative_time=True))
    code, out, err = gpuplan("characterize", path, "--plot", tmp_path / "p.svg", "--full")
    assert code == 0 and "gpuplan pareto --speedup profile:..." in err
    assert lines_of(out)[0] == "3 jobs over 90 s."
    assert "Job classes: 1, by jobs" in lines_of(out)
    assert "P50 duration" not in out  # no row of dashes for what is not known
    drawn = (tmp_path / "p.svg").read_text()
    assert "no durations recorded" in drawn and "GPUs held over time" not in drawn  # one panel


def test_a_trace_without_gpus_has_no_table_of_them(gpuplan, tmp_path):
    code, out, _ = gpuplan("characterize", write(tmp_path / "t.parquet", DEGENERATE["no GPU"]))
    assert code == 0 and "GPUs per job" not in out


def test_the_row_of_gpus_held_says_that_it_is_a_mean(gpuplan, trace):
    _, out, _ = gpuplan("characterize", trace, "--full")
    assert "GPUs held, mean per " in out and "too many to be chance" in out
    assert "of the variation in arrivals repeats daily" in out


DEGENERATE = {
    "one job": frame([0], duration_s=[5.0], num_gpus=[1.0]),
    "at once": frame([0, 0], duration_s=[5.0, 9.0], num_gpus=[1.0, 1.0]),
    "no time": frame([0, 9], duration_s=[0.0, 0.0], num_gpus=[1.0, 1.0]),
    "no time at once": frame([0, 0], duration_s=[0.0, 0.0], num_gpus=[1.0, 1.0]),
    "no GPU": frame([0, 9], duration_s=[5.0, 9.0], num_gpus=[0.0, 0.0]),
    "equal": frame([0, 9], duration_s=[5.0, 5.0], num_gpus=[1.0, 1.0]),
    "fractions of a second": frame([0, 9], duration_s=[1e-4, 5e-4], num_gpus=[0.1, 0.1]),
    "decades": frame([0, 9], duration_s=[1e9, 3e9], num_gpus=[1.0, 1e7]),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_a_degenerate_trace_is_shown_in_every_form(gpuplan, tmp_path, name):
    path = write(tmp_path / "t.parquet", DEGENERATE[name])
    for form in ("table", "json", "md", "csv"):
        code, out, err = gpuplan("characterize", path, "--output-format", form, "--full")
        assert (code, err) == (0, ""), err
        assert out and "nan" not in out.lower()
    code, _, err = gpuplan("characterize", path, "-q", "--plot", tmp_path / "p.png")
    assert (code, err) == (0, "")


def test_the_picture_names_its_axes_and_curves(gpuplan, trace, tmp_path):
    code, _, err = gpuplan("characterize", trace, "--plot", tmp_path / "p.svg", "--full")
    assert (code, err) == (0, f"wrote {tmp_path / 'p.svg'}\n")
    drawn = (tmp_path / "p.svg").read_text()
    for text in ("How long jobs run", "duration", "jobs", "GPU time", "P50 ", "P90 ",
                 "GPUs held over time", "date (UTC)", "GPUs, mean of each",
                 "mean"):  # fmt: skip
        assert text in drawn, text


def test_the_curves_are_the_data():
    from gpuplan.cli.figures.workload import draw_workload

    result = characterize(in_memory(workload()))
    cdf, lorenz, load = draw_workload(result).axes
    smallest = [(point.share_jobs, point.share_gpu_hours) for point in result.gpu_time.lorenz]
    assert list(zip(*lorenz.lines[1].get_data(), strict=True)) == smallest
    jobs, held = (line.get_ydata() for line in cdf.lines[:2])
    assert jobs.tolist() == [point.share_jobs for point in result.duration_cdf]
    assert list(held) == [point.share_gpu_hours for point in result.duration_cdf]
    fill = load.patches[0]
    assert fill.get_data().values.tolist() == [entry.mean_gpus for entry in result.load.timeline]


def test_no_labels_of_the_picture_overlap():
    from gpuplan.cli.figures.workload import draw_workload

    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure = draw_workload(characterize(in_memory(workload())))
        figure.draw_without_rendering()
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in axes.texts]
        for i, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[:i])


def test_a_reader_that_leaves_early_is_not_an_error(trace):
    program = [sys.executable, "-m", "gpuplan.cli", "characterize", str(trace), "-q"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert (process.wait(timeout=60), process.stderr.read()) == (0, b"")


def test_a_missing_trace_exits_3(gpuplan, tmp_path):
    code, out, err = gpuplan("characterize", tmp_path / "no_such.parquet")
    assert (code, out) == (3, "")
    assert err == f"error: {tmp_path / 'no_such.parquet'}: no such file\n  next: check the path\n"


def test_philly_reads_well(gpuplan, shared, tmp_path):
    raw = pl.read_csv(shared / "data/philly/philly_jobs_a.csv.gz").drop_nulls("timestamp")
    path = Path(tmp_path / "philly.parquet")
    raw.select(
        pl.col("timestamp").str.to_datetime(time_unit="us").alias("submit_time"),
        pl.col("duration").alias("duration_s"),
        "num_gpus",
    ).write_parquet(path)
    out = gpuplan("characterize", path)[1]
    assert " ".join(out.split()).startswith(
        "Today: 193 GPUs on average (peak 817), 3.37 h of run time per job (the log has no waits). "
        "55,009 jobs over 106 d: half finish within 30 min, the longest 10% take 93% of the GPU "
        "time. "
    )
    assert out.count("\n") <= 45


def test_the_plain_command_does_without_scipy(trace):
    """Its import is slow, and only --fits and comparisons need it."""
    code = (
        "import sys; from gpuplan.cli.app.main import main; main(sys.argv[1:]);"
        "sys.exit('scipy' in sys.modules)"
    )
    program = [sys.executable, "-c", code, "characterize", str(trace), "-q"]
    assert subprocess.run(program, capture_output=True, timeout=60).returncode == 0


def test_intervals_in_text_and_csv(gpuplan, trace):
    code, out, _ = gpuplan("characterize", trace, "--ci", "90", "--resamples", "50")
    assert code == 0 and "90% interval" in out
    shown = next(line for line in lines_of(out) if "peak GPUs held" in line)
    assert " at least " in shown
    assert max(map(len, lines_of(out))) <= 100
    out = gpuplan("characterize", trace, "--ci", "90", "--output-format", "csv", "-q")[1]
    rows = {row["statistic"]: row for row in csv.DictReader(lines_of(out))}
    peak, users = rows["load.peak_gpus"], rows["users"]
    assert float(peak["low"]) <= float(peak["value"]) and peak["high"] == ""
    assert float(users["low"]) <= float(users["value"]) <= float(users["high"])


def test_a_log_in_which_nothing_completed_says_so(gpuplan, tmp_path):
    def text(*states):
        size = len(states)
        jobs = frame([60.0 * i for i in range(size)], duration_s=[600.0] * size,
                     num_gpus=[1.0] * size, state=list(states))  # fmt: skip
        return " ".join(gpuplan("characterize", write(tmp_path / "t.parquet", jobs))[1].split())

    failed = text(*["failed"] * 3, "timeout")
    assert "none completed (3 failed, 1 timeout), half end within 10 min" in failed
    for states in (["failed"] * 3 + ["completed"], ["unknown"] * 4, ["running"] * 4):
        assert "none completed" not in text(*states)


def test_the_gpus_held_while_jobs_arrive_are_told_from_those_of_the_whole_log(gpuplan, tmp_path):
    def row(duration_s):
        jobs = frame([3600.0 * i for i in range(48)], duration_s=[duration_s] * 48,
                     num_gpus=[1.0] * 48)  # fmt: skip
        out = gpuplan("characterize", write(tmp_path / "t.parquet", jobs))[1]
        return next(line for line in out.splitlines() if "P95 GPUs held" in line)

    assert row(86_400.0).endswith("enough 95% of the time while jobs arrive")
    assert row(3600.0).endswith("enough 95% of the time")
