"""Whole synthetic traces: like the original, never a copy of it, the same for the same seed."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import support_synth
import support_traces
from hypothesis import given, settings
from hypothesis import strategies as st
from support_synth import (
    bursty,
    poisson,
    regular,
    rows,
    synthetic,
    without_rhythm,
    working_hours,
    workload,
)

from gpuplan.analysis.characterize import characterize
from gpuplan.analysis.errors import InputError, OutputError, UsageError
from gpuplan.analysis.schema import CANONICAL, Provenance
from gpuplan.analysis.synth import PRESETS, Request, fit_model, preset_model, synthesize
from gpuplan.analysis.synth.compare import STATISTICS, Compared
from gpuplan.analysis.synth.published import PUBLISHED
from gpuplan.analysis.synth.store import read_model
from gpuplan.analysis.synth.write import RECORDED
from gpuplan.analysis.trace import read_trace

KEY = ["submit_time", "duration_s", "num_gpus"]


@pytest.fixture(scope="module")
def original():
    return workload()


def by_key(result):
    return {row.statistic.key: row for row in result.compared}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_statistic_is_within_its_tolerance(original, tmp_path, seed):
    result = synthetic(original, tmp_path / "t.parquet", seed=seed)
    judged = [row.summary() for row in result.compared if row.verdict is not None]
    assert not [row for row in judged if row["verdict"] != "within"]
    assert len(judged) >= 28


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_arrivals_without_rhythm_do_not_pass_for_the_original_s(tmp_path, seed):
    trace = workload(arrivals=working_hours)
    result = synthetic(trace, tmp_path / "t.parquet", seed=seed)
    assert by_key(result)["by_hour.distance"].verdict == "within"
    assert by_key(result)["by_weekday.distance"].verdict == "within"
    flat = synthesize(without_rhythm(fit_model(trace)), Request(6000, seed), tmp_path / "f.parquet")
    assert by_key(flat)["by_hour.distance"].verdict == "outside"
    assert by_key(flat)["by_weekday.distance"].verdict == "outside"
    assert by_key(flat)["arrivals.weekly_strength"].verdict == "outside"


def test_jobs_in_no_bursts_do_not_pass_for_bursty_ones(original, tmp_path):
    model = fit_model(original)
    calm = replace(model.arrivals, memory=(0.0,) * 4, scv=1.0, gap=None)
    result = synthesize(replace(model, arrivals=calm), Request(6000), tmp_path / "t.parquet")
    for key in ("interarrival.scv", "arrivals.hourly_dispersion", "arrivals.burst_share_jobs"):
        assert by_key(result)[key].verdict == "outside"


def test_what_a_few_jobs_decide_is_not_said_to_pass(tmp_path):
    found = synthesize(preset_model("seren"), Request(20_000), tmp_path / "t.parquet")
    row = by_key(found)["gpu_time_cdf.distance"]
    assert row.verdict == "too_few_data" and 0.05 == row.allowed < row.difference < row.explained
    assert row not in found.outside
    assert found.summary()["statistics_too_few_data"] >= 1


@pytest.mark.parametrize(
    ("difference", "explained", "few", "verdict"),
    [
        (0.05, 0.0, False, "within"),
        (-0.05, 0.2, False, "within"),
        (0.051, 0.0, False, "outside"),
        (-0.2, 0.2, False, "too_few_data"),
        (0.21, 0.2, False, "outside"),
        (0.0, 0.0, True, "too_few_data"),
    ],
)
def test_verdicts(difference, explained, few, verdict):
    row = Compared(STATISTICS[0], 0.0, difference, 0.05, explained, few)
    assert row.verdict == verdict
    assert Compared(STATISTICS[0], 0.0, difference, None).verdict is None


def test_what_is_compared_is_what_characterize_says(original, tmp_path):
    result = synthetic(original, tmp_path / "t.parquet")
    drawn = characterize(read_trace(tmp_path / "t.parquet")).summary()
    recorded = characterize(original).summary()
    for key, row in by_key(result).items():
        if key.split(".")[0] in ("duration_s", "interarrival", "queue_s", "short_jobs"):
            group, name = key.split(".")
            assert row.synthetic == pytest.approx(drawn[group][name])
            assert row.original == pytest.approx(recorded[group][name])
    top = by_key(result)["gpu_time.top10pct_longest_share"]
    assert top.synthetic == pytest.approx(drawn["gpu_time"]["top10pct_longest_share"])
    assert drawn["users"] == by_key(result)["users"].synthetic == 6


@pytest.mark.parametrize("arrivals", [poisson, regular, bursty])
def test_the_original_s_burstiness_comes_back_in_the_file(arrivals, tmp_path):
    trace = workload(3000, arrivals=arrivals)
    synthetic(trace, tmp_path / "t.parquet")
    drawn = characterize(read_trace(tmp_path / "t.parquet")).interarrival
    recorded = characterize(trace).interarrival
    assert drawn.scv == pytest.approx(recorded.scv, rel=0.1, abs=0.05)
    assert drawn.zero_share == pytest.approx(recorded.zero_share, abs=0.01)


def test_classes_and_widths_keep_their_shares_and_their_durations(original, tmp_path):
    synthetic(original, tmp_path / "t.parquet")

    def table(jobs):
        return (
            jobs.group_by("job_class", "num_gpus")
            .agg(
                pl.len().alias("jobs"),
                pl.col("duration_s").mean(),
                pl.col("duration_s").median().alias("p50"),
            )
            .sort("job_class", "num_gpus")
        )

    here, there = table(rows(tmp_path / "t.parquet")), table(original.jobs)
    assert here["jobs"].to_list() == there["jobs"].to_list()
    for name in ("duration_s", "p50"):
        np.testing.assert_allclose(here[name], there[name], rtol=0.06)


def test_what_goes_with_a_gpu_count_stays_with_it(original, tmp_path):
    synthetic(original, tmp_path / "t.parquet")
    pairs = rows(tmp_path / "t.parquet").select("num_gpus", "num_workers", "gpu_type").unique()
    recorded = original.jobs.select("num_gpus", "num_workers", "gpu_type").unique()
    assert pairs.join(recorded, on=pairs.columns, how="anti").is_empty()


def test_states_depend_on_the_duration(original, tmp_path):
    synthetic(original, tmp_path / "t.parquet")
    jobs = rows(tmp_path / "t.parquet")
    long, short = (
        jobs.filter(pl.col("duration_s") > 600),
        jobs.filter(pl.col("duration_s") <= 600),
    )
    assert (long["state"] == "completed").mean() == pytest.approx(0.2, abs=0.05)
    assert (short["state"] == "completed").mean() == pytest.approx(0.6, abs=0.05)


def test_users_have_habits(original, tmp_path):
    """Users' median durations differ, jobs in a row are of one user, activity is unequal."""
    synthetic(original, tmp_path / "t.parquet", jobs=20_000)
    jobs = rows(tmp_path / "t.parquet")
    activity = jobs["user"].value_counts(sort=True)["count"]
    assert activity[0] > 5 * activity[-1]
    again = (jobs["user"] == jobs["user"].shift()).mean()
    assert again > 0.75 > 0.35 > (activity / activity.sum()).pow(2).sum()
    logs = jobs.with_columns(pl.col("duration_s").add(1).log())
    spread = logs.group_by("user").agg(pl.col("duration_s").mean())["duration_s"].std()
    shuffled = logs.with_columns(pl.col("user").shuffle(seed=1))
    assert (
        spread > 3 * shuffled.group_by("user").agg(pl.col("duration_s").mean())["duration_s"].std()
    )
    assert set(jobs["group"].unique()) == {"group-1", "group-2"}
    assert not set(jobs["user"]) & set(original.jobs["user"])


def test_no_row_of_the_original_occurs_even_where_chance_would_make_one(tmp_path):
    """One duration, one width, a job every second: drawn freely, most rows would be recorded."""
    trace = workload(
        2000,
        arrivals=lambda rng, n: np.arange(n) * 1.0,
        duration_s=[30.0] * 2000,
        num_gpus=[1.0] * 2000,
        job_class=["Eval"] * 2000,
    )
    utc = Provenance(source_format="canonical", time_zone="UTC")
    trace = support_traces.in_memory(trace.jobs, utc)
    result = synthetic(trace, tmp_path / "t.parquet")
    drawn = rows(tmp_path / "t.parquet")
    assert drawn.join(trace.jobs, on=KEY, how="semi").is_empty()
    assert result.moved == drawn.filter(pl.col("duration_s") == 31).height > 1000
    ordinary = workload()
    synthetic(ordinary, tmp_path / "u.parquet")
    assert rows(tmp_path / "u.parquet").join(ordinary.jobs, on=KEY, how="semi").is_empty()


@pytest.mark.parametrize("job_class", ["Eval", None])
def test_no_row_without_a_duration_is_one_of_the_original(tmp_path, job_class):
    """A job every second, nothing else known: drawn freely, every row would be a recorded one."""
    count = 1000
    trace = workload(
        count,
        arrivals=lambda rng, n: np.arange(n) * 1.0,
        duration_s=[None] * count,
        state=["unknown"] * count,
        num_gpus=[1.0] * count,
        job_class=[job_class] * count,
    )
    utc = Provenance(source_format="canonical", time_zone="UTC")
    trace = support_traces.in_memory(trace.jobs, utc)
    result = synthetic(trace, tmp_path / "t.parquet")
    drawn = rows(tmp_path / "t.parquet")
    key = ["submit_time", "num_gpus", "job_class"]
    assert drawn.join(trace.jobs, on=key, how="semi", nulls_equal=True).is_empty()
    assert drawn["submit_time"].is_sorted() and drawn.height == count
    off = (drawn["submit_time"].dt.epoch("us") % 1_000_000 == 500_000).sum()
    assert result.moved == off > 900
    other = trace.jobs.with_columns(num_gpus=pl.lit(2.0))  # another width is another row
    recorded = other.select(RECORDED)
    free = synthesize(fit_model(trace), Request(count), tmp_path / "u.parquet", recorded=recorded)
    assert free.moved == 0


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(original, tmp_path):
    files = [tmp_path / f"{n}.parquet" for n in range(3)]
    for path, seed in zip(files, (7, 7, 8), strict=True):
        synthetic(original, path, seed=seed)
    first, second, third = (path.read_bytes() for path in files)
    assert first == second != third
    assert rows(files[0]).drop("job_id").equals(rows(files[2]).drop("job_id")) is False


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 400), st.integers(0, 5), st.one_of(st.none(), st.floats(0.01, 500)))
def test_any_number_of_jobs_in_any_length(tmp_path_factory, jobs, seed, days):
    path = tmp_path_factory.mktemp("synth") / "t.parquet"
    result = synthetic(workload(300), path, jobs=jobs, seed=seed, days=days)
    drawn = rows(path)
    assert drawn.height == jobs == drawn["job_id"].n_unique()
    assert drawn.schema == pl.Schema(CANONICAL)
    assert drawn["submit_time"].is_sorted()
    read_trace(path)  # keeps every rule of the schema
    if days is not None:
        assert result.span_s <= days * 86400


def test_a_preset_in_a_tenth_of_a_second_comes_all_at_once(tmp_path):
    result = synthesize(preset_model("kalos"), Request(3000, days=1e-6), tmp_path / "t.parquet")
    assert rows(tmp_path / "t.parquet")["submit_time"].n_unique() == 1
    assert "interarrival.scv" not in by_key(result)


def test_the_file_says_what_it_is(original, tmp_path):
    synthetic(original, tmp_path / "t.parquet", seed=3)
    told = read_trace(tmp_path / "t.parquet").provenance
    assert told.source_format == "synthetic" and told.time_zone == "+08:00"
    assert "none was recorded" in told.notes[0]
    assert "seed 3" in told.notes[1]
    assert told.rows_kept == original.jobs.height
    assert not told.relative_time


def test_running_jobs_run_past_the_last_submission(tmp_path):
    trace = workload(2000)
    late = pl.int_range(pl.len()) >= 1900
    trace = support_traces.in_memory(
        trace.jobs.with_columns(
            pl.when(late)
            .then(pl.lit("running"))
            .otherwise("state")
            .cast(CANONICAL["state"])
            .alias("state")
        ),
        support_synth.ZONE,
    )
    synthetic(trace, tmp_path / "t.parquet")
    drawn = rows(tmp_path / "t.parquet")
    running = drawn.filter(pl.col("state") == "running")
    assert 0 < running.height <= 100
    end_s = running["submit_time"].dt.epoch("us") / 1e6 + running["queue_s"] + running["duration_s"]
    snapshot_s = drawn["submit_time"].max().timestamp()
    assert (snapshot_s - end_s).is_between(0, 1).all()


def test_a_trace_without_durations(tmp_path):
    trace = workload(800, duration_s=[None] * 800, state=["unknown"] * 800)
    result = synthetic(trace, tmp_path / "t.parquet")
    drawn = rows(tmp_path / "t.parquet")
    assert drawn["duration_s"].null_count() == 800
    assert not any(key.startswith("duration_s") for key in by_key(result))
    assert by_key(result)["interarrival.scv"].verdict == "within"
    assert drawn["job_class"].n_unique() == 2


def test_never_started_jobs_stay_without_a_duration(tmp_path):
    rng = np.random.default_rng(0)
    never = rng.random(4000) < 0.2
    duration = np.where(never, None, np.rint(rng.exponential(300, 4000)))
    state = np.where(never, "not_started", "completed")
    trace = workload(4000, duration_s=list(duration), state=list(state))
    synthetic(trace, tmp_path / "t.parquet")
    drawn = rows(tmp_path / "t.parquet")
    assert drawn["duration_s"].null_count() / 4000 == pytest.approx(0.2, abs=0.03)
    assert (drawn["duration_s"].is_null() == (drawn["state"] == "not_started")).all()


def test_one_job_needs_a_length(tmp_path):
    trace = support_traces.in_memory(
        support_traces.frame([0], duration_s=[90.0], num_gpus=[4.0]), support_synth.ZONE
    )
    with pytest.raises(UsageError, match="--days"):
        synthetic(trace, tmp_path / "t.parquet", jobs=10)
    result = synthetic(trace, tmp_path / "t.parquet", jobs=1000, days=2)
    drawn = rows(tmp_path / "t.parquet")
    assert drawn["num_gpus"].unique().to_list() == [4.0]
    assert drawn["duration_s"].is_between(90, 91).all()  # 91 where all else would be recorded
    assert 86400 < result.span_s < 2 * 86400
    gaps = characterize(read_trace(tmp_path / "t.parquet")).interarrival
    assert gaps.scv == pytest.approx(1, abs=0.2)  # nothing but Poisson is known of one job
    synthetic(trace, tmp_path / "one.parquet", jobs=1)
    assert rows(tmp_path / "one.parquet").height == 1


def test_jobs_that_came_all_at_once_do_so_again(tmp_path):
    trace = workload(50, arrivals=lambda rng, n: np.zeros(n))
    synthetic(trace, tmp_path / "t.parquet", jobs=70)
    assert rows(tmp_path / "t.parquet")["submit_time"].n_unique() == 1


def test_a_source_without_a_calendar_stays_without(tmp_path):
    trace = workload(500)
    relative = Provenance(source_format="canonical", relative_time=True)
    trace = support_traces.in_memory(trace.jobs, relative)
    synthetic(trace, tmp_path / "t.parquet")
    read = read_trace(tmp_path / "t.parquet")
    assert read.provenance.relative_time and read.provenance.time_zone is None
    assert read.jobs["submit_time"][0].year == 1970


def test_fractional_gpus_and_many_classes(tmp_path):
    rng = np.random.default_rng(1)
    trace = workload(
        3000,
        num_gpus=list(rng.choice([0.25, 0.5, 1.0], 3000)),
        job_class=[f"c{n}" for n in rng.integers(0, 200, 3000)],
    )
    result = synthetic(trace, tmp_path / "t.parquet")
    drawn = rows(tmp_path / "t.parquet")
    assert set(drawn["num_gpus"].unique()) == {0.25, 0.5, 1.0}
    assert drawn["job_class"].n_unique() == 51  # fifty by name and the rest as one
    assert by_key(result)["duration_s.p50"].verdict == "within"


def test_a_stored_model_draws_the_same_jobs(original, tmp_path):
    model = fit_model(original)
    (tmp_path / "m.json").write_text(model.to_json())
    again = read_model(tmp_path / "m.json")
    assert again == model
    synthesize(model, Request(500), tmp_path / "a.parquet")
    synthesize(again, Request(500), tmp_path / "b.parquet")
    assert rows(tmp_path / "a.parquet").equals(rows(tmp_path / "b.parquet"))


def test_a_model_holds_no_row(original):
    text = fit_model(original).to_json()
    assert len(text) < 80_000  # of 6,000 jobs
    assert "u0" not in text and "g1" not in text


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "{",
        lambda text: "[]",
        lambda text: text.replace('"version": 1', '"version": 99'),
        lambda text: text.replace('"count": 6', '"count": 0'),
        lambda text: text.replace('"+08:00"', '"Mars/Base"'),
        lambda text: text.replace('"cells": [', '"cells": [], "other": ['),
        lambda text: text.replace('"share": 0', '"share": 9'),
        lambda text: text.replace('"exponent": ', '"exponent": "x", "e": '),
    ],
)
def test_a_damaged_model_is_refused(original, tmp_path, damage):
    (tmp_path / "m.json").write_text(damage(fit_model(original).to_json()))
    with pytest.raises(InputError, match=r"m\.json"):
        read_model(tmp_path / "m.json")


def test_a_failure_leaves_nothing(original, tmp_path):
    with pytest.raises(OutputError):
        synthetic(original, tmp_path / "no" / "t.parquet")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", PRESETS)
def test_presets_meet_what_is_published(name, tmp_path):
    model = preset_model(name)
    result = synthesize(model, Request(min(model.jobs, 60_000)), tmp_path / "t.parquet")
    assert not result.outside, [row.summary() for row in result.outside]
    drawn = characterize(read_trace(tmp_path / "t.parquet"))
    assert drawn.interarrival.scv == pytest.approx(model.arrivals.scv, rel=0.1)
    assert drawn.interarrival.zero_share == pytest.approx(model.arrivals.zero_share, abs=0.01)
    if name in ("wandb", "abc"):  # Allpass, section 2.2
        assert drawn.short[1] > 0.8
        assert drawn.gpu_time.top10pct_longest_share > 0.84


@pytest.mark.parametrize("name", ["kalos", "philly", "helios"])
def test_states_of_presets_hold_their_published_share_of_the_gpu_time(name, tmp_path):
    files = [tmp_path / f"{seed}.parquet" for seed in range(3)]  # a few long jobs decide
    for seed, path in enumerate(files):
        synthesize(preset_model(name), Request(100_000, seed, days=300), path)
    gpu_s = pl.col("duration_s") * pl.col("num_gpus")
    held = pl.concat(map(rows, files)).group_by("state").agg(gpu_s.sum().alias("gpu_s"))
    total = held["gpu_s"].sum()
    for state, share in PUBLISHED[name].states_by_time.items():
        found = held.filter(pl.col("state") == state)["gpu_s"].item() / total
        assert found == pytest.approx(share, abs=0.05)


def test_presets_follow_the_figures_of_acmetrace(shared, tmp_path):
    """Largest distance to the published CDFs: durations 1 point, GPU counts 0.2.

    GPU time of Seren, which few jobs decide, is off by 1 to 7 points from seed to seed (six were
    tried); that of the others by less.
    """
    time_points = {"seren": 8.0, "kalos": 0.5, "philly": 0.5, "helios": 3.0}
    folder = shared / "data" / "acmetrace"
    durations = pl.read_csv(folder / "cdf_gpu_job_duration.csv")
    counts = pl.read_csv(folder / "cdf_gpu_count.csv")
    for name in ("seren", "kalos", "philly", "helios"):
        synthesize(preset_model(name), Request(400_000, days=400), tmp_path / "t.parquet")
        jobs = rows(tmp_path / "t.parquet").sort("duration_s")
        here = np.searchsorted(jobs["duration_s"], durations["duration_s"], side="right") / 4000
        assert np.abs(here - durations[name.title()].to_numpy()).max() < 1.01
        weights = {"jobs": pl.len(), "gpu_time": (pl.col("duration_s") * pl.col("num_gpus")).sum()}
        for quantity, close in (("jobs", 0.2), ("gpu_time", time_points[name])):
            points = counts.filter(trace=name.title(), quantity=quantity)
            held = jobs.group_by("num_gpus").agg(weights[quantity].alias("w")).sort("num_gpus")
            share = np.concatenate([[0], np.cumsum(held["w"]) / held["w"].sum() * 100])
            at = np.searchsorted(held["num_gpus"], points["gpus"], side="right")
            assert np.abs(share[at] - points["cdf_percent"].to_numpy()).max() < close, quantity


def test_philly(shared, tmp_path, gpuplan):
    log = shared / "data" / "philly" / "philly_jobs_a.csv.gz"
    trace, out = tmp_path / "philly.parquet", tmp_path / "synth.parquet"
    assert gpuplan("ingest", log, "-o", trace)[0] == 0
    code, text, _ = gpuplan(
        *("synth", "--like", trace, "--jobs", 55_009, "--seed", 1, "-o", out),
        *("--output-format", "json"),
    )
    told = {row["statistic"]: row["verdict"] for row in json.loads(text)["results"]["compared"]}
    assert code == 0
    # GPUs held and the hours of bursts are known limits; every other statistic is met.
    limits = {"load.p95_gpus", "load.peak_gpus", "arrivals.burst_share_hours"}
    assert {key for key, verdict in told.items() if verdict not in (None, "within")} <= limits
    assert {"by_hour.distance", "by_weekday.distance", "arrivals.weekly_strength"} <= set(told)
    flat = synthesize(
        without_rhythm(fit_model(read_trace(trace))), Request(55_009, 1), tmp_path / "flat.parquet"
    )
    assert by_key(flat)["by_hour.distance"].verdict != "within"
    assert by_key(flat)["by_weekday.distance"].verdict != "within"
    recorded, drawn = (characterize(read_trace(path)).summary() for path in (trace, out))
    for path, close in (
        (("duration_s", "mean"), 0.05),
        (("duration_s", "p50"), 0.05),
        (("duration_s", "p90"), 0.05),
        (("duration_s", "p99"), 0.10),
        (("short_jobs", "under_60s"), 0.05),
        (("short_jobs", "under_600s"), 0.05),
        (("gpu_time", "gpu_hours"), 0.10),
        (("gpu_time", "top10pct_longest_share"), 0.02),
        (("interarrival", "mean_s"), 0.02),
        (("interarrival", "scv"), 0.10),
        (("interarrival", "zero_share"), 0.05),
    ):
        wanted, found = recorded, drawn
        for part in path:
            wanted, found = wanted[part], found[part]
        assert found == pytest.approx(wanted, rel=close), path
    for name in ("by_hour", "by_weekday"):  # a flat pattern is 15.0 and 17.3 points away
        wanted, found = (np.array(s["arrivals"][name]) / 55_009 for s in (recorded, drawn))
        assert np.abs(wanted - found).sum() / 2 < 0.05
        assert np.abs(wanted - 1 / wanted.size).sum() / 2 > 0.14
    mix = [[(row["num_gpus"], row["jobs"]) for row in s["gpu_counts"]] for s in (recorded, drawn)]
    assert mix[0] == mix[1]
    assert rows(out).join(rows(trace), on=KEY, how="semi").is_empty()


cell = st.fixed_dictionaries(
    {
        "submit_s": st.integers(0, 10**6) | st.sampled_from([0, 60, 3600]),
        "duration_s": st.none() | st.sampled_from([0.0, 1.0, 30.5, 1e7]) | st.floats(0, 1e9),
        "queue_s": st.none() | st.sampled_from([0.0, 7.0]) | st.floats(0, 1e6),
        "num_gpus": st.sampled_from([0.0, 0.5, 1.0, 8.0, 2048.0]),
        "user": st.none() | st.sampled_from("ab"),
        "group": st.none() | st.sampled_from("xy"),
        "job_class": st.none() | st.sampled_from(["Eval", ""]),
        "state": st.sampled_from(["completed", "running", "not_started", "unknown"]),
    }
)


@settings(max_examples=30, deadline=None)
@given(st.lists(cell, min_size=1, max_size=40), st.integers(1, 60), st.booleans())
def test_any_trace_can_be_imitated(tmp_path_factory, drawn, jobs, calendar):
    columns = {name: [row[name] for row in drawn] for name in drawn[0]}
    columns |= {"num_workers": [1] * len(drawn), "attempts": [1] * len(drawn)}
    frame = support_traces.frame(columns.pop("submit_s"), **columns)
    told = support_synth.ZONE if calendar else Provenance("canonical", relative_time=True)
    trace = support_traces.in_memory(frame, told)
    path = tmp_path_factory.mktemp("any") / "t.parquet"
    result = synthetic(trace, path, jobs=jobs, days=3)
    read = read_trace(path)
    assert read.rows == jobs
    characterize(read)
    timed = read.jobs["duration_s"].drop_nulls()
    assert timed.is_empty() or timed.max() <= 1.2e9
    assert all(row.synthetic == row.synthetic for row in result.compared)
    (path.parent / "m.json").write_text(result.model.to_json())
    assert read_model(path.parent / "m.json") == result.model


def test_more_cells_than_a_model_keeps(tmp_path):
    trace = workload(4000, num_gpus=list(np.arange(4000) % 2500 / 100))
    synthetic(trace, tmp_path / "t.parquet")
    drawn = rows(tmp_path / "t.parquet")
    assert 900 < drawn.select("num_gpus", "job_class").n_unique() <= 1000
    assert set(drawn["num_gpus"]) <= set(trace.jobs["num_gpus"])
