"""Several GPU types: by hand, against all paths over (type, width), and laws."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
import support_boa as oracle

from gpuplan.analysis.base.errors import InfeasibleError, InputError, UsageError
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.elastic.job_classes import COLUMNS, ClassWorkload
from gpuplan.planner.frontier.model.exact import solve_frontier
from gpuplan.planner.frontier.model.gpu_types import (
    classes_on_types,
    solve_types,
    workloads_by_type,
)
from gpuplan.planner.speedup.functions import concave_hull
from gpuplan.planner.speedup.registry import load_speedup


def workload(*classes):
    return ClassWorkload(classes, horizon_h=1.0, jobs=1, rescale_origin="option", notes=())


def one_class(work_h, widths, speedup, **fields):
    args = (np.array(work_h), np.array(widths), np.array(speedup))
    return JobClass("a", fields.pop("rate_per_h", 1.0), *args, **fields)


def random_types(rng, *, classes, epochs, widths, rescale_h, types=2):
    """Workloads of like classes on some GPU types, with prices."""
    found = {}
    for t in range(types):
        found[f"g{t}"] = [
            oracle.random_class(rng, str(i), epochs=epochs, widths=widths, rescale_h=rescale_h)
            for i in range(classes)
        ]
    rates = [c.rate_per_h for c in found["g0"]]
    workloads = {
        name: workload(*(replace(c, rate_per_h=r) for c, r in zip(some, rates, strict=True)))
        for name, some in found.items()
    }
    return workloads, {name: float(rng.uniform(0.3, 4)) for name in workloads}


def test_two_types_by_hand():
    # One hour on a T4 at $0.5/h; an A100 at $2/h takes a third of it on one GPU, s(2) = 1.6.
    # (dollars, hours): T4 (0.5, 1); A100 x 1 (2/3, 1/3); A100 x 2 (2 x 2 / 4.8, 1 / 4.8).
    t4 = one_class([1.0], [1.0], [[1.0]])
    a100 = one_class([1 / 3], [1.0, 2.0], [[1.0, 1.6]])
    frontier = solve_types(
        {"T4": workload(t4), "A100": workload(a100)}, {"A100": 2.0, "T4": 0.5, "H100": 9.0}
    )
    np.testing.assert_allclose(frontier.budgets, [0.5, 2 / 3, 4 / 4.8])
    np.testing.assert_allclose(frontier.mean_jct_s, [3600, 1200, 750])
    half = frontier.at_budget(0.5 + 1 / 12)
    rows = [(w.gpu_type, w.width, w.rounded) for w in half.widths]
    assert rows == [("T4", 1, True), ("A100", 1, False)]
    assert frontier.gpus_of(half) == pytest.approx({"T4": 0.5, "A100": 1 / 6})
    assert half.used == pytest.approx(0.5 + 1 / 12)
    assert half.marginal_jct_s == pytest.approx(2400 * 6)
    assert frontier.at_target_jct(1200).used == pytest.approx(2 / 3)
    assert frontier.gpus_of(frontier.knee())["A100"] == pytest.approx(1 / 3)
    frame = half.to_frame("budget_usd_per_h")
    assert frame["gpu_type"].to_list() == ["T4", "A100"]
    assert frame.columns[0] == "budget_usd_per_h"
    with pytest.raises(InfeasibleError, match=r"\$0\.4/h .* mix of T4, A100: the least is \$0\.50"):
        frontier.at_budget(0.4)
    with pytest.raises(InfeasibleError, match=r"least is 750\.0 s, from \$0\.83"):
        frontier.at_target_jct(10)


def test_a_cap_holds_over_types():
    # As above; 40 min on average: half of the jobs on the A100.
    t4 = one_class([1.0], [1.0], [[1.0]], cap_h=2 / 3)
    a100 = one_class([1 / 3], [1.0, 2.0], [[1.0, 1.6]])
    frontier = solve_types({"T4": workload(t4), "A100": workload(a100)}, {"T4": 0.5, "A100": 2.0})
    least = frontier.at_budget(frontier.min_budget)
    assert least.used == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert frontier.gpus_of(least) == pytest.approx({"T4": 0.5, "A100": 1 / 6})
    with pytest.raises(
        InfeasibleError, match=r"the time of a on any mix of T4, A100: .*\$0\.5834/h"
    ):
        frontier.at_budget(0.5)


def test_a_change_of_type_is_a_rescale():
    # Epoch 1 is as quick on both, epoch 2 ten times as quick on B: two hours on A cost $2.
    # A, A: 2.1 h; A, B: 1 + 0.1 + 0.1 + 0.1 = 1.3 h, 1.1 + 0.2 x 2 = $1.5; B, B: 1.2 h, $2.4.
    a = one_class([1.0, 1.0], [1.0], [[1.0], [1.0]], rescale_h=0.1)
    b = one_class([1.0, 0.1], [1.0], [[1.0], [1.0]], rescale_h=0.1)
    frontier = solve_types({"A": workload(a), "B": workload(b)}, {"A": 1.0, "B": 2.0})
    np.testing.assert_allclose(frontier.budgets, [1.5, 2.4])
    np.testing.assert_allclose(frontier.mean_jct_s, 3600 * np.array([1.3, 1.2]))
    assert frontier.gpus_of(frontier.at_budget(1.5)) == pytest.approx({"A": 1.1, "B": 0.2})


def test_random_instances_against_all_paths_over_types_and_widths():
    rng = np.random.default_rng(21)
    for case in range(200):
        workloads, prices = random_types(
            rng,
            classes=int(rng.integers(1, 3)),
            epochs=int(rng.integers(1, 4)),
            widths=int(rng.integers(1, 4)),
            rescale_h=[0.0, 0.02, 0.5][case % 3],
            types=int(rng.integers(1, 4)),
        )
        frontier = solve_types(workloads, prices)
        hours = frontier.mean_jct_s / 3600 * frontier.rate_per_h
        for mu in np.concatenate([frontier.edge_slope, 10.0 ** rng.uniform(-3, 3, 4)]):
            expected = oracle.brute_force_dual(frontier.classes, mu)
            found = (hours + mu * frontier.budgets).min()
            assert found == pytest.approx(expected, rel=1e-9)
        # The candidates are those of each type: time and dollars of the types' own classes.
        (merged, *_), t = frontier.classes, 0
        for name, one in workloads.items():
            own, columns = one.classes[0], slice(t, t + one.classes[0].widths.size)
            np.testing.assert_allclose(
                merged.work_h[:, None] / merged.speedup[:, columns],
                own.work_h[:, None] / own.speedup,
                rtol=1e-12,
            )
            assert set(merged.gpu_types[columns]) == {name}
            np.testing.assert_allclose(merged.slopes[columns], prices[name] * own.widths)
            t = columns.stop


def test_budgets_against_the_linear_program():
    rng = np.random.default_rng(22)
    for rescale_h in (0.0, 0.2):
        workloads, prices = random_types(rng, classes=2, epochs=2, widths=3, rescale_h=rescale_h)
        typed = solve_types(workloads, prices)
        low, high = typed.min_budget, typed.saturation_budget
        budgets = np.linspace(low * 1.0001, high, 6)
        plans = [typed.at_budget(b) for b in budgets]
        np.testing.assert_allclose(
            [p.mean_jct_s for p in plans],
            oracle.brute_force_jct_s(typed.classes, budgets),
            rtol=1e-7,
        )
        for plan in plans:  # the dollars of the GPUs held are the dollars spent
            spent = sum(prices[name] * gpus for name, gpus in typed.gpus_of(plan).items())
            assert spent == pytest.approx(plan.used, rel=1e-9)


def test_laws_of_types_and_prices():
    rng = np.random.default_rng(23)
    for case in range(40):
        workloads, prices = random_types(
            rng, classes=2, epochs=2, widths=4, rescale_h=[0.0, 0.1][case % 2], types=3
        )
        every = solve_types(workloads, prices)
        fewer = solve_types({name: workloads[name] for name in ("g0", "g1")}, prices)
        # Another type never hurts: at each budget of the smaller choice, the larger is as quick.
        assert every.min_budget <= fewer.min_budget * (1 + 1e-12)
        budgets = np.linspace(fewer.min_budget, fewer.saturation_budget, 5)
        for budget in budgets:
            ours = every.at_budget(budget).mean_jct_s
            assert ours <= fewer.at_budget(budget).mean_jct_s * (1 + 1e-9)
        dear = solve_types(workloads, {name: 3 * price for name, price in prices.items()})
        np.testing.assert_allclose(dear.budgets, 3 * every.budgets, rtol=1e-9)
        np.testing.assert_allclose(dear.mean_jct_s, every.mean_jct_s, rtol=1e-9)
        # A type twice under two names is one type; at $1 it is the frontier in GPUs.
        twice = {"x": workloads["g0"], "y": workloads["g0"]}
        same = solve_types(twice, {"x": 1.0, "y": 1.0})
        plain = solve_frontier(workloads["g0"].classes)
        for budget in np.linspace(plain.min_budget, plain.saturation_budget, 5):
            assert same.at_budget(budget * (1 + 1e-12)).mean_jct_s == pytest.approx(
                plain.at_budget(budget * (1 + 1e-12)).mean_jct_s, rel=1e-9
            )


def test_what_a_caller_or_user_cannot_ask():
    a = one_class([1.0], [1.0], [[1.0]])
    for prices, said in (({"T4": 1.0}, "'A' has no price"), ({"A": 0.0}, r"costs \$0/h")):
        with pytest.raises(UsageError, match=said):
            classes_on_types({"A": workload(a)}, prices)
    with pytest.raises(ValueError, match="rescaling"):
        classes_on_types(
            {"A": workload(a), "B": workload(replace(a, rescale_h=1.0))}, {"A": 1.0, "B": 1.0}
        )
    with pytest.raises(ValueError, match="cost per hour"):
        replace(a, cost_per_h=np.array([0.0]))
    with pytest.raises(ValueError, match="GPU type"):
        replace(a, gpu_types=("T4", "A100"))


@pytest.fixture
def trace(tmp_path):
    """Make a trace of (hours after the start, seconds, GPUs, class) and read it."""

    def make(*jobs):
        start = datetime(2026, 1, 1, tzinfo=UTC)
        rows = [
            {
                "submit_time": start + timedelta(hours=hours), "duration_s": seconds,
                "num_gpus": float(gpus), "job_class": job_class, "state": "completed",
            }
            for hours, seconds, gpus, job_class in jobs
        ]  # fmt: skip
        path = tmp_path / "trace.parquet"
        pl.DataFrame(rows, schema_overrides={"duration_s": pl.Float64}).write_parquet(path)
        return read_trace(path, columns=COLUMNS)

    return make


def test_a_profile_of_several_types(trace):
    model = load_speedup("profile:sia")
    assert list(model.types) == ["T4", "RTX2080Ti", "A100"]
    assert model.of("bert") == load_speedup("profile:t4").of("bert")
    assert "those of T4, the first" in model.notes[-1]
    with pytest.raises(UsageError, match="no GPU 'H100'; it has T4, RTX2080Ti, A100"):
        model.on("H100")
    jobs = trace((0, None, 1, "bert"), (1, None, 1, "yolov3"), (2, None, 1, "bert"))
    by_type = workloads_by_type(jobs, model, ClassOptions(horizon_s=3 * 3600))
    work = {
        name: {c.name: float(c.work_h.sum()) for c in one.classes} for name, one in by_type.items()
    }
    assert work["T4"]["bert"] == 4.51119
    assert work["A100"]["bert"] == pytest.approx(0.79401, rel=1e-9)
    assert work["RTX2080Ti"]["yolov3"] == pytest.approx(20.3677, rel=1e-9)  # slower than a T4
    # Per job bert costs $2.37, $3.28 or $1.99 on one T4, RTX2080Ti or A100; yolov3 $5.43 or more.
    frontier = solve_types(by_type, {"T4": 0.526, "RTX2080Ti": 1.5, "A100": 2.5})
    least = frontier.at_budget(frontier.min_budget)
    where = {(row.job_class, row.gpu_type) for row in least.widths}
    assert where == {("bert", "A100"), ("yolov3", "T4")}
    alone = solve_types({"T4": by_type["T4"]}, {"T4": 0.526})
    budget = alone.min_budget
    assert frontier.at_budget(budget).mean_jct_s < alone.at_budget(budget).mean_jct_s


@pytest.mark.parametrize(
    ("cluster", "gpu_type"), [("aws", "T4"), ("rtx", "RTX2080Ti"), ("dgx", "A100")]
)
def test_the_profile_is_the_hull_of_what_was_measured(shared, cluster, gpu_type):
    folder = shared / "data" / "boa-profiles"
    text = pl.read_csv(folder / "speedup.csv.gz", infer_schema=False)
    measured = text.filter(pl.col("progress") == "whole", pl.col("gpu_type") == cluster)
    sizes = pl.read_csv(folder / "job_sizes.csv").filter(pl.col("gpu_type") == cluster)
    model = load_speedup("profile:sia").on(gpu_type)
    assert set(model.classes) == set(sizes["app"])
    for size in sizes.iter_rows(named=True):
        profile = model.of(size["app"])
        assert profile.work_h == pytest.approx(size["hours_1gpu_calibrated"], rel=1e-5)
        assert profile.rescale_s == size["rescale_time_s"]
        points = measured.filter(pl.col("app") == size["app"], pl.col("in_profile") == "True")
        points = points.select(pl.col("num_gpus", "speedup").cast(pl.Float64)).sort("num_gpus")
        curve = concave_hull(points["num_gpus"].to_numpy(), points["speedup"].to_numpy())
        (known,) = profile.epochs
        assert known.widths == curve.widths
        np.testing.assert_allclose(known.speedups, curve.speedups, rtol=1e-5)


def test_a_trace_recorded_on_another_type(trace):
    # 1 h on an A100 is 4.51119 / 0.79401 h on a T4.
    jobs = trace((0, 3600, 1, "bert"), (1, 3600, 1, "bert"))
    by_type = workloads_by_type(jobs, load_speedup("profile:sia"), recorded_on="A100")
    assert list(by_type) == ["A100", "T4", "RTX2080Ti"]
    work = {name: float(one.classes[0].work_h[0]) for name, one in by_type.items()}
    assert work["A100"] == 1
    assert work["T4"] == pytest.approx(4.51119 / 0.79401)


def test_a_law_on_types_that_differ_in_speed(trace):
    jobs = trace((0, 3600, 4, "a"), (1, 3600, 4, "a"))
    law = load_speedup("power:0.5").with_types({"T4": 1.0, "A100": 2.5})
    by_type = workloads_by_type(jobs, law, ClassOptions(max_width=8))
    assert by_type["T4"].classes[0].work_h.tolist() == [2.0]
    assert by_type["A100"].classes[0].work_h == pytest.approx([0.8])
    assert by_type["A100"].classes[0].widths.tolist() == list(range(1, 9))
    with pytest.raises(UsageError, match="has no GPU types"):
        workloads_by_type(jobs, load_speedup("power:0.5"))
    band = load_speedup("power:0.4..0.6").with_types({"T4": 1.0, "A100": 2.5})
    assert [list(end.types) for end in band.ends] == [["T4", "A100"]] * 2


def test_a_table_with_gpu_types(trace, tmp_path):
    # Epoch 1 runs twice, epoch 2 four times as fast on an A100; b was tried on a T4 alone.
    path = tmp_path / "speed.csv"
    rows = [
        "T4,a,0,1,10,0.5", "T4,a,0,2,15,0.5", "T4,a,1,1,20,0.5", "T4,b,0,1,7,1",
        "A100,a,0,1,20,0.5", "A100,a,1,1,80,0.5", "A100,a,1,2,120,0.5",
    ]  # fmt: skip
    header = "gpu_type,job_class,epoch,num_gpus,throughput,work_share"
    path.write_text("\n".join([header, *rows]) + "\n")
    model = load_speedup(str(path))
    assert list(model.types) == ["T4", "A100"]
    assert model.on("A100").of("a").shares == pytest.approx((2 / 3, 1 / 3))
    assert model.on("A100").of("b") is None
    jobs = trace((0, 7200, 1, "a"), (1, 7200, 1, "a"), (2, 3600, 1, "b"))
    by_type = workloads_by_type(jobs, model)
    assert by_type["T4"].classes[0].work_h.tolist() == [1, 1]
    (a,) = by_type["A100"].classes
    assert a.work_h == pytest.approx([0.5, 0.25])
    (merged, alone) = classes_on_types(by_type, {"T4": 1.0, "A100": 3.0})
    assert merged.gpu_types == ("T4", "T4", "A100", "A100")
    np.testing.assert_allclose(merged.speedup, [[1, 1.5, 2, 2], [1, 1, 4, 6]])
    assert merged.slopes.tolist() == [1, 2, 3, 6]
    assert alone.gpu_types == ("T4",)
    path.write_text("\n".join([header, *rows[:5]]) + "\n")
    with pytest.raises(InputError, match=r"csv:6: .*has 1 epochs on A100"):
        load_speedup(str(path))
    path.write_text("\n".join([header, *rows, ",a,0,9,1,1"]) + "\n")
    with pytest.raises(InputError, match=r"csv:9: column 'gpu_type': an empty cell"):
        load_speedup(str(path))
    path.write_text("\n".join([header, *rows, rows[0]]) + "\n")
    with pytest.raises(InputError, match="one row per GPU type, class, epoch"):
        load_speedup(str(path))
