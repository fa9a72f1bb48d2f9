"""Several traces side by side: two-sample statistics, the command's forms, intervals, fits."""

import csv
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from support_traces import frame, in_memory, write

from gpuplan.analysis.characterize import characterize
from gpuplan.analysis.compare import compare, ks_two_sample
from gpuplan.analysis.portrait import PortraitOptions, portray
from gpuplan.cli.compare_tables import trace_names
from gpuplan.cli.units import show_between, show_duration, show_number, show_share


@pytest.mark.filterwarnings("ignore:ks_2samp")  # of its p-value, which is not looked at
@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=40),
    st.lists(st.integers(0, 12), min_size=1, max_size=40),
)
def test_the_distance_is_that_of_scipy(first, second):
    one, two = np.sort(np.array(first, float)), np.sort(np.array(second, float))
    distance, at, p = ks_two_sample(one, two)
    found = stats.ks_2samp(one, two)
    assert distance == pytest.approx(found.statistic, abs=1e-12)
    assert abs((one <= at).mean() - (two <= at).mean()) == pytest.approx(distance)
    n, m = one.size, two.size
    assert p == pytest.approx(stats.kstwobign.sf(distance * (n * m / (n + m)) ** 0.5))


def test_the_limit_law_is_near_the_exact_one_for_large_samples():
    rng = np.random.default_rng(0)
    one, two = np.sort(rng.normal(size=1500)), np.sort(rng.normal(0.06, 1, size=2500))
    assert ks_two_sample(one, two)[2] == pytest.approx(stats.ks_2samp(one, two).pvalue, rel=0.15)


def test_a_pair_worked_by_hand():
    first = in_memory(frame([0, 60], duration_s=[10.0, 30.0], num_gpus=[1.0, 8.0]))
    second = in_memory(frame([0, 60, 90], duration_s=[30.0, 50.0, 70.0], num_gpus=[0.0, 1.0, 1.0]))
    duration, gap, gpus = compare([first, second], ["a", "b"])
    assert (duration.first, duration.second, duration.quantity) == ("a", "b", "duration_s")
    # Up to 10 s: 1/2 and 0; up to 30 s: 1 and 1/3.
    assert (duration.ks, duration.ks_at) == (pytest.approx(2 / 3), 30)
    assert (duration.median_first, duration.median_second) == (20, 50)
    assert (duration.median_ratio, duration.median_difference) == (2.5, 30)
    assert duration.ratio_ci is None
    assert (gap.quantity, gap.median_first, gap.median_second) == ("gap_s", 60, 45)
    assert (gpus.quantity, gpus.ks, gpus.ks_at) == ("num_gpus", 0.5, 1)  # no CPU job in it


def test_what_a_trace_lacks_is_none():
    first = in_memory(frame([0], duration_s=[None], num_gpus=[0.0]))
    second = in_memory(frame([0, 1], duration_s=[1.0, 2.0], num_gpus=[1.0, 1.0]))
    for pair in compare([first, second], ["a", "b"]):
        assert pair.ks is None and pair.median_ratio is None
    zero = in_memory(frame([0, 0], duration_s=[0.0, 0.0], num_gpus=[1.0, 1.0]))
    duration = compare([zero, second], ["a", "b"])[0]
    assert duration.median_ratio is None and duration.median_difference == 1.5


def lab(size, median_s, seed):
    rng = np.random.default_rng(seed)
    return frame(
        np.cumsum(rng.exponential(600, size)).round(),
        duration_s=rng.lognormal(np.log(median_s), 1.5, size).round(1),
        num_gpus=rng.choice([1.0, 2.0, 8.0], size),
        queue_s=[None] * size,
    )


def test_intervals_of_the_ratio_cover_it_and_traces_draw_apart():
    options = PortraitOptions(ci=95)
    traces = [in_memory(lab(3000, 300, 7)), in_memory(lab(3000, 900, 8))]
    drawn = [portray(trace, options, position=i).intervals for i, trace in enumerate(traces)]
    duration, gap, _ = compare(traces, ["a", "b"], intervals=drawn)
    low, high = duration.ratio_ci
    assert 2 < low < 3 < high < 4
    low, high = duration.difference_ci
    assert low < 600 < high
    assert gap.ratio_ci is None
    same = [portray(traces[0], options, position=i).intervals for i in range(2)]
    itself = compare([traces[0]] * 2, ["a", "b"], intervals=same)[0]
    assert itself.ks == 0 and itself.p_value == 1 and itself.median_ratio == 1
    assert itself.ratio_ci[0] < 1 < itself.ratio_ci[1]  # not the same draws twice


def test_names_are_short_where_they_differ(tmp_path):
    one, two = tmp_path / "x" / "t.parquet", tmp_path / "y" / "t.parquet"
    assert trace_names([one, tmp_path / "u.parquet"]) == ["t", "u"]
    assert trace_names([one, two]) == [str(one), str(two)]
    assert trace_names([one, one]) == [f"{one} (1)", f"{one} (2)"]


def test_ranges_name_a_shared_unit_once():
    assert show_between(9540, 15120, show_duration) == "2.65 to 4.2 h"
    assert show_between(60, 15120, show_duration) == "60 s to 4.2 h"
    assert show_between(0.05, 0.111, show_share) == "5.0 to 11.1%"
    assert show_between(0.9, 2, show_number) == "0.9 to 2"


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    return [
        write(folder / "short.parquet", lab(400, 60, 1)),
        write(folder / "long.parquet", lab(300, 7200, 2)),
        write(folder / "none.parquet", frame([0, 5], duration_s=[None] * 2, num_gpus=[1.0] * 2)),
    ]


def results_of(gpuplan, *arguments):
    code, out, err = gpuplan("characterize", *arguments, "--output-format", "json")
    assert code == 0, err
    return json.loads(out)


def test_several_traces_are_listed_with_what_each_is_alone(gpuplan, traces):
    document = results_of(gpuplan, *traces, "--where", "num_gpus >= 2 or duration_s is null")
    results = document["results"]
    assert list(results) == ["traces", "comparison"]
    assert [trace["name"] for trace in results["traces"]] == ["short", "long", "none"]
    assert [source["rows"] for source in document["inputs"]] == [400, 300, 2]
    alone = results_of(gpuplan, traces[1], "--where", "num_gpus >= 2")["results"]
    assert results["traces"][1] == {"name": "long", **alone}
    pairs = [(p["first"], p["second"], p["quantity"]) for p in results["comparison"]]
    assert len(pairs) == 9 and pairs[0] == ("short", "long", "duration_s")
    assert results["comparison"][0]["median_ratio"] > 50
    assert any(warning.startswith("none: no job has a duration") for warning in
               document["warnings"])  # fmt: skip


def test_the_text_has_a_column_per_trace_and_fits_a_page(gpuplan, traces):
    code, out, _ = gpuplan("characterize", *traces[:2], "--fits", "--ci", "90", "--resamples", "50")
    assert code == 0 and max(map(len, out.splitlines())) <= 100
    assert out.startswith("half of the jobs finish within ")
    (median,) = (line for line in out.splitlines() if line.startswith(" P50 duration"))
    assert median.count("to") == 2
    for title in ("The workloads side by side", "Models of least AIC", "How far apart"):
        assert title in out
    assert out.count("lognormal with median") >= 2
    rows = list(csv.DictReader(gpuplan("characterize", *traces[:2], "--output-format",
                                       "csv")[1].splitlines()))  # fmt: skip
    assert list(rows[0]) == ["statistic", "short", "long", "unit"]
    assert rows[0] == {"statistic": "jobs", "short": "400", "long": "300", "unit": "jobs"}


def test_the_curves_of_the_picture_are_the_distributions(traces, tmp_path, gpuplan):
    from gpuplan.cli.figures.compare import draw_comparison

    results = [characterize(in_memory(lab(400, 60, 1))), characterize(in_memory(lab(300, 7200, 2)))]
    jobs, held = draw_comparison(["short", "long"], results).axes
    for axes, key in ((jobs, "share_jobs"), (held, "share_gpu_hours")):
        for line, result in zip(axes.lines, results, strict=True):
            drawn = line.get_ydata()[1:-1]
            assert list(drawn) == [getattr(point, key) for point in result.cdf]
    assert gpuplan("characterize", *traces, "--plot", tmp_path / "p.svg", "-q")[0] == 0
    drawn = (tmp_path / "p.svg").read_text()
    for text in ("short, P50 ", "long, P50 ", "Where the GPU time is", "How long jobs run"):
        assert text in drawn
    assert "none, P50" not in drawn


def test_one_trace_keeps_its_results_and_gains_what_is_asked_for(gpuplan, traces):
    plain = results_of(gpuplan, traces[0])["results"]
    assert "fits" not in plain and "ci" not in plain
    document = results_of(gpuplan, traces[0], "--fits", "--ci", "95", "--seed", "4")
    results = document["results"]
    fits, ci = results.pop("fits"), results.pop("ci")
    assert results == plain
    assert document["parameters"]["fits"] is True and document["parameters"]["ci"] == 95
    assert fits["duration_s"]["chosen"] == fits["duration_s"]["models"][0]["model"] == "lognormal"
    assert list(fits) == ["duration_s", "gap_s"]
    assert list(ci) == ["level", "resamples", "block_jobs", "statistics"]
    low, high = ci["statistics"]["duration_s.p50"]
    assert low < plain["duration_s"]["p50"] < high
    assert ci["statistics"]["queue_s.mean"] is None
    again = results_of(gpuplan, traces[0], "--fits", "--ci", "95", "--seed", "4")["results"]
    assert (again["fits"], again["ci"]) == (fits, ci)
    assert results_of(gpuplan, traces[0], "--ci", "95", "--seed", "5")["results"]["ci"] != ci


def test_intervals_stand_beside_the_values(gpuplan, traces):
    out = gpuplan("characterize", traces[0], "--ci", "95")[1]
    assert "95% interval" in out and max(map(len, out.splitlines())) <= 100
    rows = list(csv.DictReader(gpuplan("characterize", traces[0], "--ci", "95", "--output-format",
                                       "csv")[1].splitlines()))  # fmt: skip
    assert list(rows[0]) == ["statistic", "value", "low", "high", "unit"]
    mean = next(row for row in rows if row["statistic"] == "duration_s.mean")
    assert float(mean["low"]) < float(mean["value"]) < float(mean["high"])


def test_the_models_are_named_and_drawn(gpuplan, traces, tmp_path):
    code, out, _ = gpuplan("characterize", traces[0], "--fits", "--plot", tmp_path / "p.svg")
    assert code == 0 and max(map(len, out.splitlines())) <= 100
    assert "Models of durations, 400 values: lognormal with median" in out
    drawn = (tmp_path / "p.svg").read_text()
    for text in ("How the models follow the tail", "jobs that run longer", "lognormal"):
        assert text in drawn
    code, out, _ = gpuplan("characterize", traces[2], "--fits", "--plot", tmp_path / "n.png")
    assert code == 0 and "no fit: 0 positive values are too few" in " ".join(out.split())


@pytest.mark.parametrize("form", ["table", "json", "md", "csv"])
def test_degenerate_traces_are_compared_in_every_form(gpuplan, tmp_path, form):
    paths = [
        write(tmp_path / "one.parquet", frame([0], duration_s=[5.0], num_gpus=[1.0])),
        write(tmp_path / "zero.parquet", frame([0, 9], duration_s=[0.0, 0.0], num_gpus=[0.0, 1.0])),
        write(tmp_path / "eq.parquet", frame([0] * 20, duration_s=[5.0] * 20, num_gpus=[1.0] * 20)),
    ]
    for chosen in (paths, paths[:1], paths[1:2], paths[2:]):
        options = ("--fits", "--ci", "95", "--output-format", form)
        code, out, err = gpuplan("characterize", *chosen, *options, "--plot", tmp_path / "p.png")
        assert code == 0, err
        assert out and "Traceback" not in err and " nan" not in out.lower()


def test_wrong_options_are_told_before_the_work(gpuplan, traces):
    code, out, err = gpuplan("characterize", "no_such.parquet", "--ci", "95", "--resamples", "10")
    assert (code, out) == (2, "") and "--resamples 10 is too few for --ci 95" in err
    code, out, err = gpuplan("characterize", "no_such.parquet", "--resamples", "200")
    assert (code, out) == (2, "") and "--resamples: needs --ci" in err
    code, _, err = gpuplan("characterize", *traces * 3)
    assert code == 2 and "9 traces: at most 6" in err
    assert gpuplan("characterize", traces[0], "no_such.parquet")[0] == 3
    code, _, err = gpuplan("characterize", *traces[:2], "--fail-if", "comparison.ks > 0.5")
    assert code == 1 and "comparison.ks is" in err
