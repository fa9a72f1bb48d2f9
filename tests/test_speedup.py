"""Speedup functions: laws, measured curves, tables, and the names that the option takes."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.planner.speedup import t4
from gpuplan.planner.speedup.functions import (
    Amdahl,
    MeasuredSpeedup,
    Power,
    Usl,
    concave_hull,
    measured_curve,
)
from gpuplan.planner.speedup.model import ClassProfile
from gpuplan.planner.speedup.registry import list_speedups, load_speedup

LAWS = [Amdahl(0.05), Usl(0.02, 0.001), Power(0.8), Amdahl(0.0), Power(1.0)]
GRID = np.array([0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 8.0, 64.0, 512.0])


@pytest.mark.parametrize("law", [*LAWS, t4.CLASSES["cifar10"].epochs[0]])
def test_speedup_functions_start_at_one_rise_and_are_concave(law):
    assert law.at(np.array([1.0])) == pytest.approx([1.0])
    np.testing.assert_allclose(law.at(GRID[:2]), GRID[:2])  # a part of a GPU does that part
    s = law.at(np.arange(1.0, 200.0))
    assert (np.diff(s) >= -1e-12).all()
    assert (np.diff(s, 2) <= 1e-9).all()


def test_laws_by_hand():
    assert Amdahl(0.1).at(np.array([4.0])) == pytest.approx([4 / 1.3])
    assert Power(0.5).at(np.array([16.0])) == pytest.approx([4])
    assert Usl(0.1, 0.01).at(np.array([4.0])) == pytest.approx([4 / (1 + 0.3 + 0.12)])


def test_usl_is_held_at_its_peak():
    law = Usl(0.0, 0.01)  # peak at sqrt(1 / 0.01) = 10
    assert law.peak == pytest.approx(10)
    assert law.at(np.array([50.0])) == law.at(np.array([10.0])) == pytest.approx(10 / 1.9)
    assert Usl(0.1, 0.0).peak == np.inf
    assert Usl(1.0, 0.5).at(np.array([9.0])) == pytest.approx([1.0])


def test_hull_of_a_measured_curve():
    # A hole at 3 GPUs, a fall at 8: neither is kept.
    gpus, speed = np.array([1.0, 2, 3, 4, 8]), np.array([1.0, 1.8, 1.9, 3.0, 2.5])
    assert concave_hull(gpus, speed) == MeasuredSpeedup((1.0, 2.0, 4.0), (1.0, 1.8, 3.0))
    curve = concave_hull(gpus, speed)
    assert curve.at(np.array([3.0, 4.0, 100.0])) == pytest.approx([2.4, 3.0, 3.0])
    assert curve.widest == 4


def test_hull_above_linear_has_no_vertex_at_one_gpu():
    curve = concave_hull(np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.1, 3.0]))
    assert curve.widths == (2.0, 4.0)
    assert curve.at(np.array([0.5, 1.0, 2.0])) == pytest.approx([0.5, 1.0, 2.1])


@given(st.lists(st.floats(0.1, 50), min_size=1, max_size=12))
def test_hull_is_concave_rising_and_above_every_point(speeds):
    gpus, speed = np.arange(1.0, len(speeds) + 1), np.array(speeds)
    curve = concave_hull(gpus, speed)
    points = np.array([(0.0, 0.0), *zip(curve.widths, curve.speedups, strict=True)])
    slopes = np.diff(points[:, 1]) / np.diff(points[:, 0])
    assert (slopes > 0).all() and (np.diff(slopes) < 0).all()
    assert (np.interp(gpus, *points.T) >= speed * (1 - 1e-9)).all()


def test_a_measured_curve_is_exact_where_it_was_measured():
    # A hole at 3 GPUs, a fall at 8, better than linear at 2: all as measured, straight in between.
    gpus, speed = np.array([1.0, 2, 3, 4, 8]), np.array([1.0, 2.4, 1.9, 3.0, 2.5])
    curve = measured_curve(gpus, speed)
    assert curve.at(gpus).tolist() == speed.tolist()
    between = curve.at(np.array([0.5, 1.5, 6.0, 100.0]))
    assert between == pytest.approx([0.5, 1.7, 2.75, 2.5])
    assert (curve.narrowest, curve.widest) == (1, 8)


@given(
    st.lists(st.tuples(st.integers(1, 4), st.floats(0.1, 50)), min_size=1, max_size=12),
    st.integers(1, 3),
)
def test_a_measured_curve_is_never_below_both_neighbors(steps, first):
    gpus = np.cumsum([float(step) for step, _ in steps]) + first - steps[0][0]
    speed = np.array([s for _, s in steps])
    curve = measured_curve(gpus, speed)
    assert curve.at(gpus) == pytest.approx(speed, rel=1e-12)
    inside = np.linspace(gpus[0], gpus[-1], 50)
    left = np.clip(np.searchsorted(gpus, inside, side="right") - 1, 0, gpus.size - 1)
    right = np.minimum(left + 1, gpus.size - 1)
    low, high = np.minimum(speed[left], speed[right]), np.maximum(speed[left], speed[right])
    found = curve.at(inside)
    assert (found >= low * (1 - 1e-12)).all() and (found <= high * (1 + 1e-12)).all()


def test_published_measurements_are_exact_at_every_width(shared, tmp_path):
    # Real profiles are neither monotone nor concave: a hole at 5 to 8 GPUs, the hop between nodes.
    raw = pl.read_csv(
        shared / "data/boa-profiles/speedup.csv.gz", schema_overrides={"progress": pl.String}
    ).filter(progress="0", gpu_type="aws")
    table = raw.select(
        pl.col("app").alias("job_class"), "num_gpus", pl.col("goodput_it_per_s").alias("throughput")
    )
    table.write_csv(tmp_path / "t.csv")
    model = load_speedup(str(tmp_path / "t.csv"))
    below_hull = 0
    for (name,), rows in table.group_by("job_class"):
        rows = rows.sort("num_gpus")
        gpus, rate = rows["num_gpus"].to_numpy().astype(float), rows["throughput"].to_numpy()
        curve = model.of(name).epochs[0]
        np.testing.assert_allclose(curve.at(gpus), rate / rate[0] * gpus[0], rtol=1e-12)
        assert curve.candidates(None).tolist() == np.arange(gpus[0], gpus[-1] + 1).tolist()
        hull = concave_hull(gpus, rate / rate[0] * gpus[0]).at(gpus)
        below_hull += int((curve.at(gpus) < hull * (1 - 1e-9)).sum())
    assert below_hull > 100


def test_candidates():
    assert Power(0.8).candidates(None).tolist() == list(range(1, 65))
    assert Power(0.8).candidates(3).tolist() == [1, 2, 3]
    curve = MeasuredSpeedup((1.0, 4.0, 10.0), (1.0, 3.0, 5.0))
    assert curve.candidates(None).tolist() == list(range(1, 11))
    assert curve.candidates(6).tolist() == [1, 2, 3, 4, 5, 6]
    assert curve.candidates(64).tolist() == list(range(1, 11))
    assert MeasuredSpeedup((2.0,), (2.1,)).candidates(None).tolist() == [1, 2]
    assert MeasuredSpeedup((2.0,), (2.1,)).candidates(1).tolist() == [1]
    assert MeasuredSpeedup((1.0, 2.5), (1.0, 2.0)).candidates(None).tolist() == [1, 2, 2.5]


def test_no_candidate_is_narrower_than_what_was_measured():
    # A model that needs 4 GPUs to fit: no start is so dear that 1 GPU becomes a choice.
    curve = measured_curve(np.array([4.0, 8.0]), np.array([4.0, 6.0]))
    assert curve.candidates(None).tolist() == [4, 5, 6, 7, 8]
    assert curve.candidates(6).tolist() == [4, 5, 6]
    assert curve.candidates(2).tolist() == []
    part = measured_curve(np.array([2.5, 4.0]), np.array([2.5, 3.0]))
    assert part.candidates(None).tolist() == [2.5, 3, 4]
    measured_on_one = concave_hull(np.array([1.0, 4.0]), np.array([1.0, 5.0]))
    assert measured_on_one.widths == (4.0,)
    assert measured_on_one.candidates(None).tolist() == [1, 2, 3, 4]


def test_whole_job_over_epochs():
    # Half of the work at s(4) = 2, half at s(4) = 4: 1 / (0.5/2 + 0.5/4) = 8/3.
    profile = ClassProfile((Power(0.5), Power(1.0)), (0.5, 0.5))
    assert profile.at(np.array([1.0, 4.0])) == pytest.approx([1.0, 8 / 3])


def test_load_speedup_by_name(tmp_path):
    assert load_speedup("amdahl:0.1").law.epochs == (Amdahl(0.1),)
    assert load_speedup("usl:0.1,0.001").law.epochs == (Usl(0.1, 0.001),)
    model = load_speedup("profile:t4")
    assert model.of("bert").work_h == 4.51119
    assert model.of("llama") is None
    band = load_speedup("power:0.6..0.9")
    assert band.name == "power:0.75"
    assert [end.name for end in band.ends] == ["power:0.6", "power:0.9"]
    assert load_speedup("power:0.8").ends is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("linear", "expected one of amdahl:SIGMA"),
        ("", "'': expected one of amdahl:SIGMA"),
        ("power", "--speedup 'power': expected power:ALPHA, for example power:0.8"),
        ("power:0.5,0.5", "expected power:ALPHA"),
        ("power:fast", "'fast' must be a number"),
        ("power:0", "between"),
        ("power:nan", "'nan' must be finite"),
        ("power:0.5..inf", "must be finite"),
        ("power:1.2", "between"),
        ("amdahl:-0.1", "SIGMA must be between 0 and 1"),
        ("usl:0.1,2", "KAPPA must be between"),
        ("power:0.9..0.6", "low to high"),
        ("profile:h100", "expected one of t4"),
        ("profile:", "expected one of t4"),
    ],
)
def test_names_that_mean_nothing(text, said):
    with pytest.raises(UsageError, match=said):
        load_speedup(text)


def test_everything_listed_can_be_loaded():
    values = {"SIGMA": "0.1", "KAPPA": "0.001", "ALPHA": "0.8"}
    for source in list_speedups():
        assert source.description and source.source and source.as_of
        text = source.name
        for name, value in values.items():
            text = text.replace(name, value)
        if "FILE" not in text:
            assert load_speedup(text).name == text


def write(tmp_path, *lines):
    path = tmp_path / "speed.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_table_of_throughputs(tmp_path):
    path = write(
        tmp_path,
        "job_class,num_gpus,throughput",
        "a,1,50",
        "a,4,150",
        "a,2,95",
        "b, 2 ,10",
        "b,4,16",
    )
    model = load_speedup(str(path))
    assert model.of("a").epochs == (MeasuredSpeedup((1.0, 2.0, 4.0), (1.0, 1.9, 3.0)),)
    # Nobody measured b on one GPU: linear up to 2 GPUs, then 16/5.
    assert model.of("b").epochs[0].at(np.array([1.0, 2.0, 4.0])) == pytest.approx([1, 2, 3.2])
    assert len(model.notes) == 1 and "b was not measured on 1 GPU" in model.notes[0]
    assert model.of("b").epochs[0].narrowest == 2
    assert load_speedup(f"table:{path}").classes == model.classes


def test_a_table_that_is_better_than_linear_somewhere_keeps_its_points(tmp_path):
    rows = ["a,1,100", "a,2,300", "a,4,610", "a,8,1230"]
    curve = load_speedup(str(write(tmp_path, "job_class,num_gpus,throughput", *rows)))
    at = curve.of("a").epochs[0].at(np.array([1.0, 2, 3, 4, 8, 9]))
    assert at == pytest.approx([1, 3, 4.55, 6.1, 12.3, 12.3])


def test_a_class_is_planned_from_the_least_width_of_all_its_epochs(tmp_path):
    rows = ["a,0,1,10", "a,0,4,30", "a,1,2,10", "a,1,4,15"]
    model = load_speedup(str(write(tmp_path, "job_class,epoch,num_gpus,throughput", *rows)))
    assert model.of("a").narrowest == 2
    assert len(model.notes) == 1 and "linear up to 2 GPUs, and fewer are not" in model.notes[0]


def test_table_with_epochs_and_shares(tmp_path):
    rows = ["a,0,1,10,.25", "a,0,2,12,.25", "a,1,1,10,.75", "a,1,2,19,.75"]
    path = write(tmp_path, "job_class,epoch,num_gpus,throughput,work_share", *rows)
    profile = load_speedup(str(path)).of("a")
    assert profile.shares == (0.25, 0.75)
    assert [curve.speedups for curve in profile.epochs] == [(1.0, 1.2), (1.0, 1.9)]
    rows = [row.rsplit(",", 1)[0] for row in rows]
    path = write(tmp_path, "job_class,epoch,num_gpus,throughput", *rows)
    assert load_speedup(str(path)).of("a").shares == (0.5, 0.5)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["job_class,num_gpus", "a,1"], r"no column throughput; found job_class, num_gpus"),
        (["job_class,num_gpus,throughput"], "has no rows"),
        (["job_class,num_gpus,throughput", "a,1,2", "a,x,2"], "csv:3: column 'num_gpus': found"),
        (["job_class,num_gpus,throughput", "a,0.5,2"], r"csv:2: column 'num_gpus': found '0.5'"),
        (["job_class,num_gpus,throughput", "a,1,0"], r"csv:2: column 'throughput': found '0'"),
        (["job_class,num_gpus,throughput", "a,1,inf"], r"column 'throughput': found 'inf'"),
        (["job_class,num_gpus,throughput", "a,1,"], r"column 'throughput': an empty cell"),
        (["job_class,num_gpus,throughput", ",1,2"], r"csv:2: column 'job_class': an empty cell"),
        (
            ["job_class,num_gpus,throughput", "a,1,2", "b,1,2", "a,1,3"],
            r"csv:4: column 'num_gpus': found '1'; expected one row per class, epoch and GPU count",
        ),
        (["job_class,num_gpus,throughput,epoch", "a,1,2,0.5"], r"column 'epoch': found '0.5'"),
        (
            ["job_class,num_gpus,throughput,work_share", "a,1,2,1", "a,2,3,2"],
            r"csv:3: column 'work_share': found '2'; expected the same share",
        ),
        (
            ["job_class,num_gpus,throughput,epoch,work_share", "a,1,2,0,0.5", "a,1,2,1,0.6"],
            r"csv:2: column 'work_share': the shares of class 'a' add up to 1.1; expected",
        ),
        (["job_class,num_gpus,throughput", "a,1e9,2"], r"found '1e9'; expected GPUs, 1 to 1,000,0"),
        (["job_class,num_gpus,throughput", "a,1,2,3,4"], "is not a CSV table"),
        (["job_class,num_gpus,throughput,1 , 1", "a,1,2,3,4"], "csv:1: the column '1' is there tw"),
    ],
)  # fmt: skip
def test_a_bad_table_is_refused_with_its_place(tmp_path, lines, said):
    path = write(tmp_path, *lines)
    with pytest.raises(InputError, match=said):
        load_speedup(str(path))


def test_a_column_that_is_not_needed_may_have_any_name(tmp_path):
    rows = ["a,1,10,7", "a,2,19,8"]
    for name in ("row", "index", "literal"):
        path = write(tmp_path, f"job_class,num_gpus,throughput,{name}", *rows)
        assert load_speedup(str(path)).of("a").epochs[0].speedups == (1.0, 1.9)
    path = write(tmp_path, "job_class,num_gpus,throughput,row", "a,1,10,7", "a,x,19,8")
    with pytest.raises(InputError, match="csv:3: column 'num_gpus'"):
        load_speedup(str(path))


@pytest.mark.timeout(60)  # where each of the names is looked for among all, it takes minutes
def test_a_table_of_very_many_columns_is_read(tmp_path):
    path = write(tmp_path, "job_class,num_gpus,throughput" + "," * 100_000, "a,1,10", "a,2,19")
    assert load_speedup(str(path)).of("a").epochs[0].speedups == (1.0, 1.9)


def test_a_missing_or_binary_table(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_speedup("nowhere.csv")
    path = tmp_path / "x.csv"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(InputError):
        load_speedup(str(path))
    path.write_bytes(b"")
    with pytest.raises(InputError):
        load_speedup(str(path))


def test_a_profile_is_well_formed():
    for profile in t4.CLASSES.values():
        curve = profile.epochs[0]
        points = np.array([(0.0, 0.0), *zip(curve.widths, curve.speedups, strict=True)])
        slopes = np.diff(points[:, 1]) / np.diff(points[:, 0])
        assert (slopes > 0).all() and (np.diff(slopes) < 0).all()
        assert profile.work_h > 0 and profile.rescale_s > 0
    with pytest.raises(ValueError, match="as many"):
        MeasuredSpeedup((1.0,), ())
