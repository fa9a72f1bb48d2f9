"""``gpuplan report``: the studies of a trace, as files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import support_document as made

from gpuplan.cli.documents import study as results

FAST = ("--study", "characterize", "--study", "pareto", "--set", "pareto.budget=1.5x,2x")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.write_trace(tmp_path_factory.mktemp("trace") / "lab.parquet")


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_usual_studies_byte_for_byte_twice(gpuplan, trace, tmp_path):
    for name in ("one", "two"):
        code, out, err = gpuplan("report", trace, "-o", tmp_path / name, "-q")
        assert code == 0, err
    files = files_of(tmp_path / "one")
    assert files == files_of(tmp_path / "two")
    pictures = {"characterize", "pareto", "compare"}
    assert set(files) == {
        *("report.html", "report.md", "report.json", "junit.xml"),
        *(f"figures/{name}.{kind}" for name in pictures for kind in ("svg", "png")),
    }
    contract = json.loads(files["report.json"])
    assert [study["name"] for study in contract["studies"]] == [
        *("characterize", "pareto", "compare"),
    ]
    assert contract["inputs"][0]["rows"] == 120 and contract["time"] is None
    for study in contract["studies"]:
        assert study["name"] in out
        assert study["headline"].split(";")[0].encode() in files["report.md"]
    compared = contract["studies"][-1]["results"]["policies"]
    assert [one["policy"] for one in compared] == ["fifo", "easy", "srtf"]
    assert b"serverless" not in files["report.md"].lower()
    assert len(out.splitlines()) <= 45
    assert err.count("wrote") == 0
    assert files["report.html"].count(b'role="img"') == 3
    assert len(files["report.html"]) < 3_000_000


def test_pictures_are_drawn_only_where_a_form_shows_them(gpuplan, trace, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(results, "pictures_of", lambda name, _: drawn.append(name) or ())
    for forms, times in (("json,junit,md", 0), ("svg", 1), ("png,json", 2), ("html", 3)):
        words = ("--study", "characterize", "--formats", forms, "-o", tmp_path / "r", "-q")
        assert gpuplan("report", trace, *words)[0] == 0
        assert drawn == ["characterize"] * times


def test_a_log_that_tells_what_gpus_did_has_its_waste(gpuplan, trace, tmp_path):
    """Without a replay, unless a setting names waste; with the book and the jobs of all studies."""
    import polars as pl

    frame = pl.read_parquet(trace)
    use = {"gpu_util_mean": pl.lit(0.0), "gpus_idle": "num_gpus", "gpu_util_coverage": pl.lit(1.0)}
    told, silent = tmp_path / "told.parquet", tmp_path / "silent.parquet"
    frame.with_columns(**use).write_parquet(told)
    frame.with_columns(gpu_util_mean=pl.lit(None, pl.Float64)).write_parquet(silent)

    def studies(path, *words):
        code, _, err = gpuplan(
            "report", path, "-o", tmp_path / "r", "--formats", "json", "-q", "--price", "2", *words
        )
        assert code == 0, err
        contract = json.loads((tmp_path / "r" / "report.json").read_text())
        return {study["name"]: study["results"] for study in contract["studies"]}

    whole = studies(told)
    assert list(whole) == ["characterize", "pareto", "compare", "waste"]
    assert whole["waste"]["share"] == 1 and whole["waste"]["usd_per_month"] > 0
    assert whole["waste"]["counterfactual"] is None
    half = studies(told, "--sample", "60")["waste"]
    assert half["jobs"] < whole["waste"]["jobs"]
    assert "waste" not in studies(silent)
    assert "waste" not in studies(told, "--study", "characterize")
    named = studies(told, "--set", "waste.end_idle_after=1m")["waste"]
    assert named["counterfactual"]["end_idle_after_s"] == 60


def test_each_study_has_its_options_and_all_have_the_jobs(gpuplan, trace, tmp_path):
    folder = tmp_path / "r"
    code, _, err = gpuplan(
        *("report", trace, "-o", folder, *FAST, "--where", "num_gpus >= 2", "--title", "Lab"),
        *("--set", "characterize.top=3", "--set", "pareto.weight=user0=2", "--formats", "json"),
        *("--set", "characterize.fits=true", "--set", "pareto.class_by=user"),
    )
    assert code == 0, err
    assert list(files_of(folder)) == ["report.json"]
    contract = json.loads((folder / "report.json").read_text())
    first, second = (study["parameters"] for study in contract["studies"])
    assert contract["title"] == "Lab"
    assert first["where"] == second["where"] == "num_gpus >= 2"
    assert first["top"] == 3 and first["fits"] is True
    assert second["weights"] == {"user0": 2.0} and second["class_by"] == "user"
    assert [point["budget_x_load"] for point in contract["studies"][1]["results"]["points"]] == [
        *(pytest.approx(1.5), pytest.approx(2.0)),
    ]
    assert contract["studies"][1]["arguments"][0] == str(trace)


def test_a_study_of_the_log_as_recorded_says_so_beside_scaled_ones(gpuplan, trace, tmp_path):
    import polars as pl

    pl.read_parquet(trace).with_columns(queue_s=pl.lit(60.0)).write_parquet(tmp_path / "w.parquet")
    words = ("--study", "waits", "--study", "characterize", "--scale-interarrival", "0.5")
    code, _, err = gpuplan(
        "report", tmp_path / "w.parquet", "-o", tmp_path, *words, "--formats", "json"
    )
    note = "waits uses the log as recorded, without scale_interarrival"
    assert code == 0 and f"warning: {note}" in err
    assert json.loads((tmp_path / "report.json").read_text())["warnings"] == [note]


def test_gates_are_told_everywhere_before_the_program_ends(gpuplan, trace, tmp_path):
    folder = tmp_path / "r"
    code, out, err = gpuplan(
        *("report", trace, "-o", folder, "--study", "characterize"),
        *("--fail-if", "duration.p95 > 1s", "--fail-if", "characterize.jobs < 1"),
    )
    assert code == 1 and "gate tripped: duration.p95 > 1s" in err
    assert "1 of 2 gates failed." in out
    files = files_of(folder)
    assert b'failures="1"' in files["junit.xml"]
    assert files["report.md"].split(b"\n")[2] == b"**1 of 2 gates failed.**"
    assert b"1 of 2 gates failed." in files["report.html"]
    states = [gate["state"] for gate in json.loads(files["report.json"])["gates"]]
    assert states == ["failed", "passed"]


def test_a_gate_that_cannot_be_read_is_told_before_the_work(gpuplan, trace, tmp_path):
    for gate, said in (
        ("cost", "expected 'field operator value'"),
        ("characterize.duration.p95 > 4 parsecs", "no unit 'parsecs'"),
        ("charcterize.duration.p95 > 4h", "no study 'charcterize'; did you mean 'characterize'?"),
    ):
        code, out, err = gpuplan("report", trace, "-o", tmp_path / "r", "--fail-if", gate)
        assert code == 2 and said in err and "written" not in err and not out
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--study", "paretto"), "did you mean 'pareto'"),
        (("--study", "ingest"), "--study ingest: no such study"),
        (("--study", "pareto", "--study", "pareto"), "given twice"),
        (("--set", "pareto.budgett=2x"), "did you mean 'budget'"),
        (("--set", "pareto.budget"), "expected study.option=value"),
        (("--set", "ingest.map=a=b"), "no such study"),
        (("--set", "characterize.fits=yes"), "expected true or false"),
        (("--formats", "html,pdf"), "--formats pdf: unknown form"),
        (("--study", "pareto", "--prices", "builtin"), "--prices: the jobs do not name their GPU"),
        (("--set", "pareto.quiet=true"), "no option 'quiet'"),
    ],
)
def test_what_cannot_be_meant_is_told_before_the_work(gpuplan, trace, tmp_path, options, said):
    code, out, err = gpuplan("report", trace, "-o", tmp_path / "r", *options)
    assert code == 2 and said in err and not out
    assert not (tmp_path / "r").exists()


def test_the_time_is_told_only_where_it_is_asked_for(gpuplan, trace, tmp_path, monkeypatch):
    def time_and_text(*options):
        some = ("--study", "characterize", "--formats", "json,html,md,junit")
        code, _, err = gpuplan("report", trace, "-o", tmp_path, *some, *options)
        assert code == 0, err
        names = ("report.html", "report.md", "junit.xml")
        text = "".join((tmp_path / name).read_text() for name in names)
        return json.loads((tmp_path / "report.json").read_text())["time"], text

    assert time_and_text()[0] is None
    assert time_and_text("--time", "2026-01-31")[0] == "2026-01-31T00:00:00Z"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")
    time, text = time_and_text()
    assert time == "2026-01-01T00:00:00Z" and text.count(time) == 4
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "now")
    code, _, err = gpuplan("report", trace, "-o", tmp_path)
    assert code == 2 and "SOURCE_DATE_EPOCH=now" in err


def test_a_study_that_cannot_be_made_is_left_out_and_told(gpuplan, tmp_path):
    import polars as pl

    path = tmp_path / "cpu.parquet"
    frame = pl.read_parquet(made.write_trace(path)).with_columns(num_gpus=pl.lit(0.0))
    frame.write_parquet(path)
    code, out, err = gpuplan("report", path, "-o", tmp_path / "r")
    assert code == 0 and "characterize" in out
    assert "warning: without pareto: " in err
    contract = json.loads((tmp_path / "r" / "report.json").read_text())
    assert contract["studies"][0]["name"] == "characterize"
    assert contract["warnings"][0].startswith("without pareto: ")
    assert "without pareto" in (tmp_path / "r" / "report.md").read_text()
    code, _, err = gpuplan("report", path, "-o", tmp_path / "s", "--study", "pareto")
    assert code != 0 and "error: pareto: " in err and not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("setting", "expected", "said"),
    [
        ("pareto.budget=abc", 2, "error: pareto: --budget 'abc'"),
        ("sweep.threshold=30 parsecs", 2, "error: sweep: "),
        ("compare.policy=fifoo", 2, "error: compare: "),
        ("pareto.speedup=table:nofile.csv", 3, "nofile.csv"),
        ("pareto.budget=0.5x", 4, "error: pareto: "),
    ],
)
def test_a_study_that_is_configured_is_asked_for(gpuplan, trace, tmp_path, setting, expected, said):
    code, out, err = gpuplan("report", trace, "-o", tmp_path / "r", "--set", setting)
    assert code == expected and said in err and "without" not in err and not out
    assert not (tmp_path / "r").exists()


def test_a_trace_that_is_not_there(gpuplan, tmp_path):
    code, _, err = gpuplan("report", tmp_path / "no.parquet", "-o", tmp_path / "r")
    assert code == 3 and "no such file" in err and not (tmp_path / "r").exists()


def test_without_room_it_exits_3_and_leaves_nothing(trace, tmp_path):
    """The limit on the size of a file stands for a full disk: writing fails in the middle."""
    resource = pytest.importorskip("resource", reason="limits are of POSIX systems")
    folder = tmp_path / "r"
    done = subprocess.run(
        [sys.executable, "-m", "gpuplan.cli", "report", trace, "-o", folder, "-q", *FAST],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)),
    )
    assert done.returncode == 3, done.stderr
    assert "cannot be written" in done.stderr and "Traceback" not in done.stderr
    assert not folder.exists()


@pytest.mark.parametrize("made_before", [True, False])
def test_a_folder_that_may_not_be_written_in_exits_3(
    gpuplan, trace, tmp_path, monkeypatch, made_before
):
    """As where it is read-only, which would not stop root."""

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    folder = tmp_path / "r"
    if made_before:
        folder.mkdir()
    monkeypatch.setattr("gpuplan.analysis.storage.files.temporary_file", refuse)
    code, out, err = gpuplan("report", trace, "-o", folder)
    assert code == 3 and "cannot write here: Permission denied" in err and not out
    assert list(tmp_path.iterdir()) == ([folder] if made_before else [])


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_read_only_folder_exits_3(gpuplan, trace, tmp_path):
    tmp_path.chmod(0o555)
    code, _, err = gpuplan("report", trace, "-o", tmp_path / "r")
    tmp_path.chmod(0o755)
    assert code == 3 and "cannot be made: Permission denied" in err


def test_a_folder_that_is_a_file_exits_3(gpuplan, trace, tmp_path):
    (tmp_path / "r").write_text("mine")
    code, _, err = gpuplan("report", trace, "-o", tmp_path / "r")
    assert code == 3 and "r: is a file, not a folder\n  next: name" in err
    assert (tmp_path / "r").read_text() == "mine"


@pytest.mark.parametrize("name", ["=1+1", "@x/report", "-rf", "+1", "a\x1bb"])
def test_a_folder_with_a_name_that_is_more_than_a_text_is_not_made(
    gpuplan, trace, tmp_path, monkeypatch, name
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    scenario = tmp_path / "s.toml"
    scenario.write_text(f'workload.trace = "{trace}"\nstudy.characterize = {{}}')
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    for words in (("run", scenario), ("report", trace)):
        code, out, err = gpuplan(*words, f"--output={name}")
        assert (code, out) == (2, "") and "expected a name that no spreadsheet or shell" in err
    assert list(work.iterdir()) == []
    (work / "=1").mkdir()  # what is there may be written to
    assert gpuplan("report", trace, "--study", "characterize", "-o", "=1")[0] == 0
    assert (work / "=1" / "report.md").is_file()


def test_a_scenario_says_itself_what_is_studied(gpuplan, trace, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    scenario = tmp_path / "plan.toml"
    scenario.write_text(
        f'title = "Plan"\n[workload]\ntrace = "{trace}"\n'
        '[study.characterize]\n[study.tight]\ncommand = "pareto"\nbudget = "1.5x"\n'
        '[output]\ndir = "elsewhere"\nformats = ["json"]\n'
        '[gates]\nfail_if = ["tight.knee.mean_jct > 100d"]\n'
    )
    folder = tmp_path / "r"
    code, _, err = gpuplan(
        *("report", scenario, "-o", folder, "--set", "study.tight.budget=2x"),
        *("--fail-if", "characterize.duration.p95 > 1s", "--time", "2026-01-31"),
    )
    assert code == 1, err
    assert list(files_of(folder)) == ["report.json"]
    contract = json.loads((folder / "report.json").read_text())
    assert contract["title"] == "Plan" and contract["time"] == "2026-01-31T00:00:00Z"
    assert [study["name"] for study in contract["studies"]] == ["characterize", "tight"]
    assert contract["studies"][1]["parameters"]["budget"] == "2x"
    assert [gate["state"] for gate in contract["gates"]] == ["passed", "failed"]
    code, _, err = gpuplan("report", scenario, "-o", folder, "--study", "pareto")
    assert code == 2 and "already names the studies" in err


def test_a_reader_that_has_closed_the_pipe_is_no_error(trace, tmp_path):
    line = 'PY -m gpuplan.cli report "$0" -o "$1" -q --study characterize | true'
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line.replace("PY", sys.executable), trace, tmp_path / "r"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and done.stderr == ""
    assert (tmp_path / "r" / "report.html").exists()


def test_a_gate_on_the_change_since_an_earlier_report(gpuplan, trace, tmp_path):
    old, one = tmp_path / "old", tmp_path / "old.json"
    bill = ("--study", "bill", "--formats", "json", "-q")
    assert gpuplan("report", trace, "-o", old, *bill, "--set", "bill.price=1")[0] == 0
    assert gpuplan("bill", trace, "--price", "1", "-o", one, "-q")[0] == 0
    for baseline in (old / "report.json", one):  # of several studies, or of one command
        code, _, err = gpuplan(
            *("report", trace, "-o", tmp_path / "new", *bill, "--set", "bill.price=1.5"),
            *("--baseline", baseline, "--fail-if", "bill.usd_per_month > +40%"),
            *("--fail-if", "usd_per_month > +60%", "--fail-if", "bill.usd_per_month < $1"),
        )
        assert code == 1
        assert "+50.0%" in err and err.count("gate tripped") == 1
        gates = json.loads((tmp_path / "new" / "report.json").read_text())["gates"]
        assert sorted(gate["state"] for gate in gates) == ["failed", "passed", "passed"]


def test_a_baseline_of_another_study_leaves_the_change_unchecked(gpuplan, trace, tmp_path):
    old = tmp_path / "old.json"
    assert gpuplan("characterize", trace, "-o", old, "-q")[0] == 0
    code, _, err = gpuplan(
        *("report", trace, "-o", tmp_path / "new", "--study", "bill", "--set", "bill.price=1.5"),
        *("--formats", "json", "-q", "--baseline", old, "--fail-if", "bill.usd_per_month > +40%"),
    )
    assert code == 1 and "bill" in err and "gate tripped" not in err
    code, _, err = gpuplan(
        *("report", trace, "-o", tmp_path / "again", "--study", "bill", "--set", "bill.price=1"),
        *("-q", "--baseline", trace),
    )
    assert code == 3 and "is not JSON" in err and not (tmp_path / "again").exists()
