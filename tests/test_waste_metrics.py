"""``gpuplan waste --metrics``: idle ends, energy, coverage, and clocks that differ."""

import numpy as np
import polars as pl
import pytest
import support_metrics
from support_traces import START, write_trace
from support_waste import answer

from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.waste.kinds import kinds_of_waste
from gpuplan.analysis.waste.series import read_metrics
from gpuplan.planner.studies.waste import COLUMNS
from gpuplan.planner.waste.remedies import END, job_waste

pytestmark = pytest.mark.compiled
HOUR = 3600.0


@pytest.fixture
def watched(tmp_path):
    """Samples of node n1: job a works for 3 of 10 h and then idles, b never works, c unseen."""
    jobs = support_metrics.trace(
        ("a", "n1", 0, 10 * 3600, 1.0), ("b", "n1", 11 * 3600, 21 * 3600, 1.0),
        ("c", "n2", 0, 10 * 3600, 1.0),
    ).jobs.with_columns(group=pl.Series(["x", "x", "y"]))  # fmt: skip
    path = tmp_path / "t.parquet"
    jobs.write_parquet(path)

    def engine(at):
        return 0.8 if at < 3 * 3600 else 0.0

    series = tmp_path / "series.json"
    series.write_text(support_metrics.answer(
        support_metrics.series(
            support_metrics.ENGINE, "n1", 0, support_metrics.every(60, 0, 21 * 3600, engine)
        ),
        support_metrics.series(
            support_metrics.POWER, "n1", 0, support_metrics.every(60, 0, 21 * 3600, 100)
        ),
    ))  # fmt: skip
    return path, series


def test_series_tell_idle_ends_energy_and_what_they_cover(gpuplan, watched):
    path, series = watched
    words = [str(path), "--metrics", str(series), "--usd-per-kwh", "0.2", "--kg-co2-per-kwh", "0.4"]
    results = answer(gpuplan, *words)
    hours = {kind["name"]: kind["gpu_h"] for kind in results["kinds"]}
    assert hours["idle_ends"] == pytest.approx(7, abs=0.1)
    assert hours["idle"] == pytest.approx(10, abs=0.1)
    assert hours["unknown"] == pytest.approx(10, abs=0.1)
    assert results["known_share"] == pytest.approx(2 / 3, abs=0.01)
    assert (results["metrics"]["nodes"], results["metrics"]["gpus"]) == (1, 1)
    assert results["metrics"]["covered_share"] == pytest.approx(2 / 3, abs=0.01)
    energy = results["energy"]
    assert energy["kwh"] == pytest.approx(2.0, abs=0.02)  # 100 W for 20 h
    assert energy["usd"] == pytest.approx(0.2 * energy["kwh"])
    assert energy["kg_co2"] == pytest.approx(0.4 * energy["kwh"])
    groups = {row["name"]: row["kwh"] for row in energy["groups"]}
    assert groups == pytest.approx({"x": 1.0, "y": 1.0}, abs=0.02)
    _, out, err = gpuplan("waste", *words)
    assert out.startswith("Use is known for 66.7% of 30 GPU-hours; of these 17 GPU-hours")
    assert "--metrics cover 1 GPU of 1 node" in " ".join(err.split())


def _forty_jobs(tmp_path, hours_off):
    """Return a log of a node whose times are off by some hours, and series of the node."""
    rng = np.random.default_rng(2)
    starts, lengths, at = [], [], 0
    for _ in range(40):
        length, pause = (int(x) * 60 for x in rng.integers(60, 360, 2))
        starts.append(at)
        lengths.append(length)
        at += length + pause
    spans = [(begin, begin + length) for begin, length in zip(starts, lengths, strict=True)]

    def busy(time):
        return 90 * any(begin <= time < end for begin, end in spans)

    begin = support_metrics.T0 - START.timestamp() - hours_off * HOUR
    path = write_trace(
        tmp_path / f"log{hours_off}.parquet", [begin + each for each in starts],
        [float(each) for each in lengths], [1.0] * 40, queue_s=[0.0] * 40,
        user=["ann", "bob"] * 20, node_list=["n1"] * 40,
    )  # fmt: skip
    points = support_metrics.every(60, -3600, at + 3600, busy)
    series = tmp_path / "series.json"
    series.write_text(support_metrics.answer(
        support_metrics.series(support_metrics.UTIL, "n1", 0, points)
    ))  # fmt: skip
    return path, series


def test_clocks_that_differ_are_in_the_answer_and_nobody_is_mailed(gpuplan, tmp_path):
    path, series = _forty_jobs(tmp_path, hours_off=1)
    words = [str(path), "--metrics", str(series)]
    assert answer(gpuplan, *words)["metrics"]["clock_later_h"] == 1
    assert answer(gpuplan, *words)["counterfactual"] is None
    _, out, err = gpuplan("waste", *words)
    assert "no waits are replayed: metrics that do not fit" in " ".join(err.split())
    text = " ".join(out.split())
    assert text.startswith("The clocks of the log and of the metrics seem 1 h apart")
    assert "wait from" not in text and "Or keep" not in text
    code, _, err = gpuplan("waste", *words, "--mail", str(tmp_path / "texts"))
    assert code == 3 and "clocks" in err and "--time-zone" in err
    assert not (tmp_path / "texts").exists()
    path, series = _forty_jobs(tmp_path, hours_off=0)
    words = [str(path), "--metrics", str(series), "--mail", str(tmp_path / "texts")]
    assert answer(gpuplan, *words)["metrics"]["clock_later_h"] is None
    assert (tmp_path / "texts").is_dir()


def test_dollars_of_a_log_known_in_part_are_those_of_the_log(gpuplan, watched):
    path, series = watched
    words = [str(path), "--metrics", str(series), "--price", "2", "--no-replay"]
    _, out, _ = gpuplan("waste", *words)
    assert "17 GPU-hours (85.0%) do nothing: $34.0" in " ".join(out.split())
    header = next(line for line in out.splitlines() if "GPU-hours  of those known" in line)
    assert header.endswith(" $")
    (idle,) = (line for line in out.splitlines() if "no GPU of the job used" in line)
    assert float(idle.split("$")[1]) == pytest.approx(20, abs=0.1)  # 10 GPU-hours
    assert "No job waited for such GPUs meanwhile." in " ".join(out.split())


def test_an_idle_end_is_cut_and_a_begin_is_not(watched):
    """a: 7 h idle at the end, so its run becomes 5 h; b: never works, 2 h; c: unknown, as it is."""
    path, series = watched
    trace = read_trace(path, columns=COLUMNS, optional=("node_list",))
    summary = read_metrics([series], trace).jobs
    removed = job_waste(trace, kinds_of_waste(trace, summary), summary, 7200.0)
    left = dict(zip(trace.jobs["job_id"], removed.run_s - removed.cut_s, strict=True))
    assert left == pytest.approx({"a": 5 * HOUR, "b": 2 * HOUR, "c": 10 * HOUR}, abs=300)
    assert removed.jobs_of(END) == 2


def test_a_job_of_which_some_nodes_have_figures_is_not_called_idle(gpuplan, tmp_path):
    """16 GPUs of 4 nodes for 10 h; the series are of one node, which does nothing."""
    path, series = tmp_path / "t.parquet", tmp_path / "series.json"
    jobs = support_metrics.trace(("99", "n[1-4]", 0, 10 * 3600, 16.0)).jobs
    jobs.with_columns(user=pl.lit("eve")).write_parquet(path)
    points = support_metrics.every(300, 0, 10 * 3600, 0)
    series.write_text(support_metrics.answer(
        *(support_metrics.series(support_metrics.UTIL, "n1", gpu, points) for gpu in range(4))
    ))  # fmt: skip
    words = [str(path), "--metrics", str(series), "--no-replay", "--mail", str(tmp_path / "mail")]
    hours = {kind["name"]: kind["gpu_h"] for kind in answer(gpuplan, *words)["kinds"]}
    assert (hours["idle"], hours["partly_idle"], hours["unknown"]) == pytest.approx((0, 40, 120))
    text = (tmp_path / "mail" / "eve.txt").read_text()
    assert "40.0 of 160.0 GPU-hours (40.0 with figures); of the GPUs with figures, some" in text
    assert "no GPU" not in text


@pytest.mark.parametrize("watched_nodes, idle_gpus", [(4, 4), (2, 0)])
def test_a_job_known_in_part_is_not_shrunk(tmp_path, watched_nodes, idle_gpus):
    """16 GPUs of 4 nodes for 10 h, those of the first idle: two nodes unseen may use theirs."""
    path, series = tmp_path / "t.parquet", tmp_path / "series.json"
    support_metrics.trace(("99", "n[1-4]", 0, 10 * 3600, 16.0)).jobs.write_parquet(path)
    series.write_text(support_metrics.answer(*(
        support_metrics.series(
            support_metrics.UTIL, f"n{node}", gpu,
            support_metrics.every(300, 0, 10 * 3600, 0 if node == 1 else 80),
        )
        for node in range(1, watched_nodes + 1)
        for gpu in range(4)
    )))  # fmt: skip
    trace = read_trace(path, columns=COLUMNS, optional=("node_list",))
    kinds = kinds_of_waste(trace, summary := read_metrics([series], trace).jobs)
    assert kinds["partly_idle_gpu_h"].to_list() == pytest.approx([40], abs=0.5)
    assert job_waste(trace, kinds, summary, 7200.0).idle_gpus.tolist() == [idle_gpus]


def test_nobody_is_told_of_a_job_by_metrics_of_another_cluster(gpuplan, tmp_path):
    path, series = tmp_path / "t.parquet", tmp_path / "series.json"
    jobs = support_metrics.trace(("1", "n1", 0, 10 * 3600, 1.0)).jobs
    jobs.with_columns(user=pl.lit("eve"), gpu_type=pl.lit("A100")).write_parquet(path)
    points = support_metrics.every(300, 0, 10 * 3600, 0)
    series.write_text(support_metrics.answer(
        support_metrics.series(support_metrics.UTIL, "n1", 0, points, modelName="NVIDIA L4")
    ))  # fmt: skip
    words = [str(path), "--metrics", str(series), "--no-replay"]
    code, _, err = gpuplan("waste", *words, "--mail", str(tmp_path / "mail"))
    assert code == 3 and "n1: NVIDIA L4, in the log A100" in err
    assert "next: name series of the cluster of the log" in err
    assert not (tmp_path / "mail").exists()
    _, _, err = gpuplan("waste", *words)
    assert "other GPUs than the log on 1 node" in err
    _, _, err = gpuplan("waste", *words[:-1])
    assert "no waits are replayed: metrics that do not fit" in " ".join(err.split())
    assert answer(gpuplan, *words[:-1])["counterfactual"] is None


def test_series_without_power_tell_no_energy(gpuplan, tmp_path):
    path, series = _forty_jobs(tmp_path, hours_off=0)
    _, _, err = gpuplan("waste", path, "--metrics", series, "--usd-per-kwh", "0.2")
    assert "energy is not known: --metrics have no power" in " ".join(err.split())
