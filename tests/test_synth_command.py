"""``gpuplan synth``: what it prints, what it writes, how it fails."""

import json

import pytest
import support_synth
import support_traces
from support_traces import write_trace

from gpuplan.analysis.trace.trace import read_trace


@pytest.fixture
def trace(tmp_path):
    return support_traces.write(
        tmp_path / "trace.parquet", support_synth.workload(1500).jobs, support_synth.ZONE
    )


def test_the_json_says_what_was_asked_and_how_near_it_is(gpuplan, trace, tmp_path):
    out = tmp_path / "synth.parquet"
    code, text, err = gpuplan(
        "synth", "--like", trace, "--jobs", 1400, "--seed", 5, "--output-format", "json", "-o", out
    )
    document = json.loads(text)
    assert code == 0
    assert document["command"] == "synth"
    assert document["inputs"][0]["path"] == str(trace) and document["inputs"][0]["rows"] == 1500
    assert document["parameters"]["jobs"] == 1400 and document["parameters"]["seed"] == 5
    rows = {row["statistic"]: row for row in document["results"]["compared"]}
    mean = rows["duration_s.mean"]
    assert mean["difference"] == pytest.approx(mean["synthetic"] - mean["original"])
    assert (mean["verdict"] == "within") == (abs(mean["difference"]) <= mean["allowed"])
    verdicts = [row["verdict"] for row in rows.values()]
    for verdict in ("within", "outside", "too_few_data"):
        assert document["results"][f"statistics_{verdict}"] == verdicts.count(verdict)
    assert document["results"]["statistics_compared"] == len(verdicts) - verdicts.count(None)
    outside = verdicts.count("outside")
    assert ("outside" in err) == bool(outside)
    assert read_trace(out).rows == 1400


def test_the_table_names_what_is_outside_and_still_succeeds(gpuplan, tmp_path):
    # 1,500 jobs in 7 minutes cannot keep 5 % zero gaps on a clock of whole seconds.
    out = tmp_path / "synth.parquet"
    bursty = support_traces.write(
        tmp_path / "b.parquet", support_synth.workload(1500).jobs, support_synth.ZONE
    )
    dense = ["synth", "--like", bursty, "--jobs", 1500, "--days", 0.005, "-o", out]
    code, text, err = gpuplan(*dense)
    assert code == 0 and "NO" in text
    assert "warning: outside their tolerance:" in err and "zero gaps" in err
    assert gpuplan(*dense, "--fail-if", "statistics_outside > 0")[0] == 1


def test_one_job_meets_nothing(gpuplan, tmp_path):
    out = tmp_path / "synth.parquet"
    code, text, err = gpuplan("synth", "--preset", "seren", "--jobs", 1, "-o", out)
    assert code == 0 and "outside" not in err
    message = " ".join(text.split())
    assert "0 of 9 statistics within their tolerance, 9 with too few data to tell" in message
    assert "yes" not in text and "too few data" in text


def test_a_preset_says_what_it_assumes(gpuplan, tmp_path):
    out = tmp_path / "synth.parquet"
    code, text, _ = gpuplan("synth", "--preset", "abc", "--jobs", 5000, "-o", out)
    assert code == 0
    assert "Assumptions" in text and "not published" in text and "all jobs" in text
    notes = read_trace(out).provenance.notes
    assert any("preset abc" in note for note in notes)


def test_the_start_is_a_local_day_and_the_length_is_kept(gpuplan, tmp_path):
    out = tmp_path / "synth.parquet"
    arguments = ["--jobs", 500, "--days", 2, "--start", "2026-03-02", "-o", out]
    assert gpuplan("synth", "--preset", "kalos", *arguments)[0] == 0
    submit = read_trace(out).jobs["submit_time"]
    assert submit[0].isoformat() >= "2026-03-01T16:00:00"  # midnight at +08:00
    assert submit[-1].isoformat() < "2026-03-03T16:00:00"
    assert (submit[-1] - submit[0]).total_seconds() > 1.9 * 86400


def test_a_saved_model_draws_the_same_jobs(gpuplan, trace, tmp_path):
    first, second, model = (tmp_path / n for n in ("a.parquet", "b.parquet", "m.json"))
    arguments = ["--jobs", 400, "--seed", 2]
    assert gpuplan("synth", "--like", trace, *arguments, "-o", first, "--save-model", model)[0] == 0
    assert gpuplan("synth", "--model", model, *arguments, "-o", second)[0] == 0
    assert read_trace(first).jobs.equals(read_trace(second).jobs)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "one of --like, --preset and --model; found none"),
        (["--preset", "kalos", "--like", "trace.parquet"], 2, "found --like and --preset"),
        (["--preset", "borg"], 2, "expected one of abc, gfs, helios, kalos, philly, seren, wandb"),
        (["--preset", "kalos", "--jobs", 0], 2, "--jobs"),
        (["--preset", "kalos", "--days", 0], 2, "--days must be above 0"),
        (["--preset", "kalos", "--days", "nan"], 2, "--days must be a finite number"),
        (["--preset", "kalos", "--seed", -1], 2, "--seed"),
        (["--preset", "kalos", "--start", "soon"], 2, "--start"),
        (["--preset", "kalos", "--start", "9999-12-31"], 2, "past the year 9798"),
        (["--preset", "kalos", "--start", "0001-01-01"], 2, "before 2 January of the year 1"),
        (["--preset", "seren", "--start", "0001-01-01"], 2, "choose a later --start"),
        (["--preset", "wandb", "--jobs", 1000000], 2, "give the length with --days"),
        (["--preset", "kalos", "--fail-if", "x ="], 2, "--fail-if"),
        (["--preset", "kalos", "-o", "out.csv"], 2, ".parquet"),
        (["--preset", "kalos", "-o", "no/out.parquet"], 3, "does not exist"),
        (["--preset", "kalos", "--save-model", "out.parquet"], 3, "two outputs go to this file"),
        (["--like", "absent.parquet"], 3, "no such file"),
        (["--like", "text.csv"], 3, "unrecognized log format"),
        (["--model", "text.csv"], 3, "a model that gpuplan synth"),
        (["--like", "out.parquet"], 3, "is the input"),
    ],
)
def test_mistakes_are_told(gpuplan, tmp_path, monkeypatch, arguments, code, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.csv").write_text("a,b\n1,2\n")
    before = sorted(tmp_path.iterdir())
    values = {"--jobs": 100, "-o": "out.parquet"}
    values |= dict(zip(arguments[::2], arguments[1::2], strict=True))
    found, _, err = gpuplan("synth", *(part for pair in values.items() for part in pair))
    assert found == code
    assert says in " ".join(err.split())
    assert "Traceback" not in err
    assert sorted(tmp_path.iterdir()) == before


def test_the_help_ends_with_an_example(gpuplan):
    code, text, _ = gpuplan("synth", "--help")
    assert code == 0 and "Example:\n  gpuplan synth --preset kalos" in text


def test_a_model_that_cannot_be_saved_leaves_no_trace(gpuplan, trace, tmp_path, monkeypatch):
    from gpuplan.analysis.synth.model import WorkloadModel

    def full(model):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(WorkloadModel, "to_json", full)
    out, model = tmp_path / "s.parquet", tmp_path / "m.json"
    code, _, err = gpuplan("synth", "--like", trace, "--jobs", 50, "-o", out, "--save-model", model)
    assert code == 3 and "No space left" in err
    assert [path.name for path in tmp_path.iterdir()] == [trace.name]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("days", ["1e-300", "1e-12"])
def test_a_trace_may_last_no_time(gpuplan, tmp_path, days):
    out, model = tmp_path / "s.parquet", tmp_path / "m.json"
    like = write_trace(tmp_path / "t.parquet", [i * 700.0 for i in range(400)], [60.0] * 400)
    code, _, err = gpuplan(
        *("synth", "--like", like, "--jobs", 20, "--days", days, "-o", out, "--save-model", model)
    )
    assert code == 0, err
    code, _, err = gpuplan("synth", "--model", model, "--jobs", 20, "--days", days, "-o", out)
    assert code == 0, err
