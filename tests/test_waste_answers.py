"""What ``gpuplan waste`` says of waits: remedies apart from limits, verdicts, and freed GPUs."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from support_traces import write_trace
from support_waste import answer, use

from gpuplan.cli.formats.waste_text import _without
from gpuplan.planner.site.fidelity import AGREES, Fidelity
from gpuplan.planner.waste.remedies import ALL, END, LIMITS, SHRINK, JobWaste
from gpuplan.planner.waste.results import RemedyEffect, counterfactual_of
from gpuplan.planner.waste.site_replays import todays_targets

pytestmark = pytest.mark.compiled
HOUR = 3600.0


def test_waits_of_today_hold_in_each_partition_of_the_nodes():
    """On short queues of one partition more nodes would not show in the waits of all jobs."""
    names = np.array(["h100"] * 2 + ["a100"] * 3 + ["l40s"], object)
    work = SimpleNamespace(
        scored=np.array([True] * 5 + [False]),
        recorded_wait=np.array([0, 100, 1000, 2000, 3000, 9000]),
        names=lambda by: names,
    )
    targets = todays_targets(work, ("h100", "l40s"))
    assert [(target.group, target.limit) for target in targets] == [
        (None, 1220), (None, pytest.approx(2800)),
        (("partition", "h100"), 50), (("partition", "h100"), pytest.approx(95)),
    ]  # fmt: skip


def waste_of(cut, idle, loose):
    return JobWaste(np.full(2, 100.0), np.array(cut), np.array(idle), np.array(loose))


def test_limits_are_no_part_of_the_waste():
    none, some = ([0, 0], [False, False]), ([0, 3], [False, True])
    assert waste_of([0.0, 5.0], *none).replayed() == ((END,), END)
    assert waste_of([0.0, 5.0], none[0], some[1]).replayed() == ((END, LIMITS), END)
    assert waste_of([0.0, 5.0], some[0], some[1]).replayed() == ((END, SHRINK, LIMITS, ALL), ALL)
    assert waste_of([0.0, 0.0], none[0], some[1]).replayed() == ((LIMITS, ALL), ALL)
    assert waste_of([0.0, 0.0], *none).replayed() == ((), ALL)
    assert waste_of([0.0, 0.0], none[0], some[1]).jobs_of(ALL) == 0


def effect(name, mean_h, p95_h, verdict="shorter", mean_verdict="shorter"):
    return RemedyEffect(
        name, 3, (4 + mean_h) * HOUR, (10 + p95_h) * HOUR, mean_h * HOUR, p95_h * HOUR,
        HOUR / 2, HOUR / 2, mean_verdict, verdict,
    )  # fmt: skip


def waits_of(*effects):
    return counterfactual_of(
        effects, rules="easy", jobs=100, pairs=6, end_idle_after_s=2 * HOUR, months=2.0,
        today_s=(4 * HOUR, 10 * HOUR), fidelity=Fidelity(AGREES, "", "easy", 4, 100),
    )  # fmt: skip


def test_waits_that_grow_longer_are_not_too_small_to_tell():
    longer = ("longer", "longer")
    waits = waits_of(effect(END, 1, 2, *longer), effect(ALL, 1, 2, *longer))
    assert " ".join(_without(waits)) == (
        "Ending idle jobs after 2 h lengthens the P95 wait from 10 h to 12 h (error 30 min)."
    )
    of_mean = ("too small to tell", "longer")
    waits = waits_of(effect(END, 1, 0.2, *of_mean), effect(ALL, 1, 0.2, *of_mean))
    assert "lengthens the mean wait from 4 h to 5 h" in " ".join(_without(waits))
    waits = waits_of(
        effect(END, 1, 2, *longer), effect(SHRINK, -2, -3), effect(ALL, -1, -1)
    )  # fmt: skip
    assert "alone (3 jobs) lengthens the P95 wait to 12 h" in " ".join(_without(waits))


def test_hours_that_jobs_would_wait_less_are_in_the_answer():
    """100 jobs wait 1 h less in 2 months."""
    waits = waits_of(effect(END, -1, -2), effect(ALL, -1, -2))
    assert waits.wait_h_saved_per_month == 50
    assert "Jobs would wait 50 h less a month in all." in " ".join(_without(waits))
    assert "less a month" not in " ".join(_without(replace(waits, wait_h_saved_per_month=None)))


def test_limits_are_neither_in_the_effect_nor_in_freed_gpus(gpuplan, tmp_path):
    """Jobs use all of their GPUs, with limits of 100 times their run time: nothing is wasted."""
    path = write_trace(
        tmp_path / "t.parquet", np.repeat(np.arange(20) * 10, 2) * HOUR, [8 * HOUR, HOUR] * 20,
        [3.0, 2.0] * 20, queue_s=[0.0, 8 * HOUR] * 20, limit_s=[800 * HOUR, 100 * HOUR] * 20,
        **use([90.0] * 40, [0.0] * 40),
    )  # fmt: skip
    results = answer(gpuplan, str(path), "--cluster", "4", "--policy", "easy")
    assert results["long_limits"]["jobs"] == 40
    waits = results["counterfactual"]
    assert [row["name"] for row in waits["remedies"]] == [LIMITS, ALL]
    assert (waits["effect_s"], waits["verdict"], waits["freed"]) == (0, "no change", [])


def two_idlers(path):
    """Every 10 h two idle jobs hold 2 GPUs each for 8 h, and a third waits for one of them."""
    count = 15
    return write_trace(
        path, np.repeat(np.arange(count) * 10, 3) * HOUR, [8 * HOUR, 8 * HOUR, HOUR] * count,
        [2.0] * 3 * count, queue_s=[0.0, 0.0, 8 * HOUR] * count,
        **use([0.0, 0.0, 90.0] * count, [2.0, 2.0, 0.0] * count),
    )  # fmt: skip


def test_a_cluster_below_what_jobs_held_says_nothing_of_waits(gpuplan, tmp_path):
    path = two_idlers(tmp_path / "t.parquet")
    assert answer(gpuplan, str(path), "--cluster", "4")["counterfactual"]["verdict"] == "shorter"
    waits = answer(gpuplan, str(path), "--cluster", "2")["counterfactual"]
    assert waits["fidelity"]["verdict"] == "contradicts"
    assert (waits["verdict"], waits["freed"]) == ("unknown", [])
    _, out, err = gpuplan("waste", path, "--cluster", "2")
    assert "P95 wait from" not in out
    assert "4 GPUs held at once, more than the 2 of --cluster" in " ".join(err.split())


def test_an_effect_above_the_wait_is_none():
    """Jobs wait 4 h and cannot wait 5 h less."""
    waits = waits_of(effect(END, -5, -9), effect(ALL, -5, -9))
    assert (waits.fidelity.verdict, waits.verdict) == ("contradicts", "unknown")
    assert "is not known" in " ".join(_without(waits))
    assert waits_of(effect(END, -4, -9), effect(ALL, -4, -9)).fidelity.verdict == AGREES


def test_idle_ends_that_summaries_cannot_see_are_not_known(gpuplan, tmp_path):
    path = two_idlers(tmp_path / "t.parquet")
    out = " ".join(gpuplan("waste", path, "--no-replay")[1].split())
    assert out.startswith("At least 480 GPU-hours")
    assert "idle for over 2 h at start or end: not known (needs --metrics) - -" in out
    waits = waits_of(effect(END, -1, -2), effect(SHRINK, -1, -2), effect(ALL, -2, -4))
    alone = "alone (3 jobs that never used a GPU) cuts"
    assert alone in " ".join(_without(waits, is_without_series=True))
    assert alone not in " ".join(_without(waits))


def test_a_stated_memory_far_from_the_measured_one_is_refused(gpuplan, tmp_path):
    """Summaries have 40 GB: 80 and 0.001 are slips, 42 is not."""
    path = write_trace(
        tmp_path / "t.parquet", [0, 0], [10 * HOUR] * 2, [1.0, 1.0], gpu_type=["A100"] * 2,
        **use([10.0, 10.0], [0.0, 0.0]), gpu_mem_used_gib=[3.0, 3.0],
        gpu_mem_total_gib=[40e9 / 2**30] * 2,
    )  # fmt: skip
    for size in ("80", "0.001"):
        err = answer(gpuplan, str(path), "--no-replay", "--gpu-memory", f"A100={size}", code=2)
        assert f"--gpu-memory A100={size}: the log has GPUs of 40 GB" in err
    assert answer(gpuplan, str(path), "--no-replay", "--gpu-memory", "A100=42")["right_size"]


def test_hours_and_dollars_of_a_smaller_gpu_are_of_one_month(gpuplan, tmp_path):
    """In 20 h one of 2 jobs could have 1/7: as many hours and dollars as 36 such spans have."""
    path = write_trace(
        tmp_path / "t.parquet", [0, 0], [20 * HOUR] * 2, [1.0, 1.0], gpu_type=["A100"] * 2,
        **use([10.0, 10.0], [0.0, 0.0]), gpu_mem_used_gib=[3.0, None],
        gpu_mem_total_gib=[40e9 / 2**30] * 2,
    )  # fmt: skip
    (row,) = answer(gpuplan, str(path), "--no-replay", "--price", "2")["right_size"]
    hours = row["saved_gpu_h_per_month"]
    _, _, err = gpuplan("waste", path, "--no-replay", "--price", "2")
    err = " ".join(err.split())
    assert f"({hours:,.0f} GPU-hours less, ${2 * hours:,.0f}" in err.replace(".00", "")
    assert "1 job without full figures of memory and use (20 GPU-hours, " in err


def test_parquet_has_the_right_size_of_each_job(gpuplan, tmp_path):
    """10% of 40 GB: a seventh would do for one job; of the other memory is not known."""
    path, out = tmp_path / "t.parquet", tmp_path / "w.parquet"
    write_trace(
        path, [0, 0, 0], [20 * HOUR] * 3, [1.0] * 3, gpu_type=["A100"] * 3,
        **use([10.0, 10.0, 99.0], [0.0] * 3), gpu_mem_used_gib=[3.0, None, 36.0],
        gpu_mem_total_gib=[40e9 / 2**30] * 3,
    )  # fmt: skip
    assert gpuplan("waste", path, "--no-replay", "-o", out)[0] == 0
    rows = pl.read_parquet(out)
    assert rows["right_size"].to_list() == ["1g.5gb", None, None]
    assert rows["saved_gpu_h"].to_list() == [pytest.approx(20 * 6 / 7), None, 0]


@pytest.fixture
def unseen(tmp_path):
    """A log of 30 days without any figures of use: 1 of 3 jobs failed, 1 ran into its limit."""
    return write_trace(
        tmp_path / "t.parquet", [0, 0, 29 * 24 * HOUR], [10 * HOUR, 20 * HOUR, 24 * HOUR],
        [2.0, 1.0, 5.0], user=["ann", "bob", "bob"], queue_s=[0.0] * 3,
        state=pl.Series(["failed", "timeout", "completed"]),
    )  # fmt: skip


def test_failed_work_is_told_without_figures_of_use(gpuplan, unseen):
    """2 x 10 + 20 of 160 GPU-hours failed at $3; what needs figures is not known, and not 0."""
    results = answer(gpuplan, str(unseen), "--price", "3", "--no-replay")
    kinds = {kind["name"]: kind for kind in results["kinds"]}
    failed = kinds["failed"]
    assert (failed["jobs"], failed["gpu_h"], failed["usd"]) == pytest.approx((2, 40, 120))
    assert failed["share"] == pytest.approx(40 / 160)
    assert kinds["unknown"]["gpu_h"] == pytest.approx(120)
    assert (results["unknown_gpu_h"], results["unknown_jobs"]) == (pytest.approx(160), 3)
    for name in ("idle", "idle_ends", "partly_idle", "low_utilization"):
        assert [kinds[name][key] for key in ("share", "usd", "usd_per_month")] == [None] * 3
    assert (results["usd"], results["usd_per_month"]) == (None, None)
    users = {row["name"]: row for row in results["users"]}
    assert (users["ann"]["failed_gpu_h"], users["bob"]["failed_gpu_h"]) == pytest.approx((20, 20))
    code, out, _ = gpuplan("waste", unseen, "--price", "3", "--no-replay")
    said = " ".join(out.split())
    assert code == 0
    # 40 GPU-hours at $3 in 720 h, and 730.5 h are a month.
    assert "2 jobs that failed or timed out held 40 of them (25.0%): $121.75 a month." in said
    assert "no GPU of the job used: not known - - -" in said
    assert "failed or timed out 2 40 25.0% of all $120.00" in said
    assert "$0.00" not in said


def test_dollars_of_a_table_are_of_its_gpu_hours(gpuplan, tmp_path):
    """60 d, 4 idle GPUs for 10 h at $3: $120 of 40 GPU-hours, and $60.88 of a month, said so."""
    path = write_trace(
        tmp_path / "t.parquet", [0, 59 * 24 * HOUR], [10 * HOUR, 24 * HOUR], [4.0, 1.0],
        queue_s=[0.0, 0.0], **use([0.0, 90.0], [4.0, 0.0]), user=["ann", "bob"],
    )  # fmt: skip
    code, out, _ = gpuplan("waste", path, "--price", "3", "--no-replay")
    assert code == 0
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert "kind jobs GPU-hours of those known $ $ per month" in rows
    assert "no GPU of the job used 1 40 62.5% $120.00 $60.88" in rows
    assert any(row.startswith("ann 1 1 40 40 100.0%") and "$120.00 $60.88" in row for row in rows)
    results = answer(gpuplan, str(path), "--price", "3", "--no-replay")
    assert (results["usd"], results["usd_per_month"]) == pytest.approx((120, 60.875))
