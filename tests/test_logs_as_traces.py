"""Commands take a log where they take a trace: same answers as after ingest, kept in the cache."""

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.ingest import kept_logs
from gpuplan.analysis.ingest.kept_logs import each_log_once
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.job_table.log_options import LogOptions
from gpuplan.analysis.job_table.reject_limit import Limit
from gpuplan.analysis.trace.selection import Selection

STUDIES = {
    "characterize": (),
    "pareto": ("--no-replay",),
    "simulate": ("--policy", "fifo", "--gpus", "64"),
    "compare": ("--policy", "fifo", "--policy", "srtf", "--gpus", "64"),
    "sweep": ("--threshold", "60,600"),
}
HEADER = "JobID|User|Account|State|Submit|Start|End|ElapsedRaw|AllocTRES"


def sacct(path: Path, jobs: int = 60, bad: int = 0) -> Path:
    """Write a dump of ``sacct``; the last ``bad`` of its jobs have an unreadable GPU count."""
    rows = [HEADER]
    for i in range(jobs):
        hour, gpus = i % 20, "many" if i >= jobs - bad else str(1 + i % 4)
        day = f"2026-01-{5 + i // 20:02}T{hour:02}"
        times = f"{day}:00:00|{day}:10:00|{day}:{20 + i % 30}:00|{60 * (10 + i % 30)}"
        rows.append(f"{100 + i}|u{i % 5}|lab|COMPLETED|{times}|cpu=4,gres/gpu={gpus}")
    path.write_text("\n".join([*rows, ""]), encoding="utf-8")
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """The folder of the traces of logs, of this test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "gpuplan" / "logs"


@pytest.fixture
def log(tmp_path, cache) -> Path:
    """A log with jobs of three days."""
    return sacct(tmp_path / "sacct.txt")


def results(gpuplan, command: str, trace: object, *more: object):
    options = (*STUDIES[command], *more, "--output-format", "json")
    code, out, err = gpuplan(command, trace, *options)
    assert code == 0, err
    document = json.loads(out)
    del document["inputs"]
    return document, err


@pytest.mark.parametrize("command", STUDIES)
def test_a_log_gives_the_answer_of_its_trace(gpuplan, log, tmp_path, command):
    assert gpuplan("ingest", log, "-o", tmp_path / "t.parquet", "-q")[0] == 0
    direct, err = results(gpuplan, command, log)
    assert direct == results(gpuplan, command, tmp_path / "t.parquet")[0]
    assert err.count(f"{log} is a slurm log: 60 jobs, ingested into the cache") == 1


def test_a_report_of_a_log_is_the_one_of_its_trace(gpuplan, log, tmp_path, monkeypatch):
    """Standard input can be read only once, and two studies need it."""
    trace = tmp_path / "sacct.parquet"
    assert gpuplan("ingest", log, "-o", trace, "-q")[0] == 0
    studies = ("--study", "characterize", "--study", "simulate", "--formats", "json")
    studies += ("--set", "simulate.policy=fifo", "--set", "simulate.gpus=64")
    found = []
    for source in (trace, "-"):
        with log.open("rb") as stream:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
            code, _, err = gpuplan("report", source, "-o", tmp_path / "r", *studies)
        assert code == 0, err
        assert err.count("is a slurm log") == (source != trace)
        document = json.loads((tmp_path / "r" / "report.json").read_text())
        found.append([one["results"] for one in document["studies"]])
    assert found[0] == found[1] and len(found[0]) == 2


def test_a_synthetic_trace_is_like_a_log(gpuplan, log, tmp_path):
    assert gpuplan("ingest", log, "-o", tmp_path / "t.parquet", "-q")[0] == 0
    for name, like in (("a", log), ("b", tmp_path / "t.parquet")):
        out = tmp_path / f"{name}.parquet"
        code, _, err = gpuplan("synth", "--like", like, "--jobs", 50, "-o", out)
        assert code == 0, err
    assert pl.read_parquet(tmp_path / "a.parquet").equals(pl.read_parquet(tmp_path / "b.parquet"))


def test_a_scenario_takes_a_log_as_its_trace(gpuplan, log, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('[workload]\ntrace = "sacct.txt"\n[study.characterize]\n', encoding="utf-8")
    code, out, err = gpuplan("run", plan, "--output-format", "json")
    assert code == 0, err
    direct = results(gpuplan, "characterize", log)[0]["results"]
    assert json.loads(out)["studies"][0]["results"] == direct


@pytest.mark.parametrize("kind", ["gzip", "folder", "zip"])
def test_packed_logs_and_folders(gpuplan, log, tmp_path, kind):
    expected = results(gpuplan, "characterize", log)[0]
    folder = tmp_path / "logs"
    folder.mkdir()
    log.rename(folder / "sacct.txt")
    source = folder
    if kind == "gzip":
        source = tmp_path / "sacct.gz"
        source.write_bytes(gzip.compress((folder / "sacct.txt").read_bytes()))
    elif kind == "zip":
        source = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", folder))
    assert results(gpuplan, "characterize", source)[0] == expected
    assert "from the cache" in results(gpuplan, "characterize", source)[1]


def test_a_second_run_reads_the_cache(gpuplan, log, cache, monkeypatch):
    first, err = results(gpuplan, "characterize", log)
    assert "ingested into" in err
    monkeypatch.setattr(kept_logs.LogReader, "write", None)  # any use of it would fail
    again, err = results(gpuplan, "characterize", log)
    assert again == first and "60 jobs, from the cache" in err
    assert len(list(cache.glob("*.parquet"))) == 1
    os.utime(log, (0, 0))  # the content counts, not the time of the file
    assert "from the cache" in results(gpuplan, "pareto", log)[1]


def test_what_a_trace_depends_on_makes_another_entry(log, cache):
    read_trace(log)
    read_trace(log, Selection(log=LogOptions(time_zone="Europe/Berlin")))
    read_trace(log, Selection(log=LogOptions(source_format="slurm")))
    read_trace(log, Selection(log=LogOptions(max_rejects=Limit.of("5"))))
    assert len(list(cache.glob("*.parquet"))) == 4
    before = read_trace(log)
    sacct(log, jobs=61)
    assert (before.rows, read_trace(log).rows) == (60, 61)


@pytest.mark.parametrize("damage", ["trace", "entry", "no trace", "no rejects"])
def test_a_damaged_entry_is_made_anew(gpuplan, log, cache, damage):
    sacct(log, jobs=200, bad=1)
    first, _ = results(gpuplan, "characterize", log)
    (entry,) = cache.glob("*.json")
    trace = entry.with_suffix(".parquet")
    if damage == "trace":
        trace.write_bytes(trace.read_bytes()[:-20] + b"x" * 20)
    elif damage == "entry":
        entry.write_text("{}", encoding="utf-8")
    elif damage == "no trace":
        trace.unlink()
    else:
        trace.with_suffix(".rejects.parquet").unlink()
    again, err = results(gpuplan, "characterize", log)
    assert again == first and "ingested into" in err
    assert "from the cache" in results(gpuplan, "characterize", log)[1]


def test_a_cache_that_takes_nothing(gpuplan, log, tmp_path, monkeypatch):
    expected, _ = results(gpuplan, "characterize", log)
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    found, err = results(gpuplan, "characterize", log)
    assert found == expected and err.count("warning: not cached: ") == 1
    assert "60 jobs, ingested\n" in err
    bad = sacct(tmp_path / "bad.txt", bad=6)
    code, _, err = gpuplan("characterize", bad)
    assert code == 3 and "6 of 60 rows cannot be used" in err
    assert "gpuplan ingest keeps the rows that cannot be used" in err and ".rejects" not in err
    code, _, err = gpuplan("characterize", bad, "--max-rejects", "10%")
    assert code == 0 and "6 of 60 rows set aside" in err and ".rejects" not in err


def test_bad_rows_are_set_aside_and_counted(gpuplan, tmp_path, cache):
    log = sacct(tmp_path / "sacct.txt", jobs=200, bad=2)
    for done in ("ingested into", "from the cache"):
        code, out, err = gpuplan("characterize", log, "--output-format", "json")
        assert code == 0 and done in err
        assert "2 of 200 rows set aside (2 unreadable) in " in err
    account = json.loads(out)["inputs"][0]["log"]
    assert account["rejected_by_reason"] == {"unreadable": 2}
    assert (account["rows_read"], account["rows_kept"]) == (200, 198)
    rejects = Path(err.splitlines()[0].rpartition(" in ")[2])
    assert pl.read_parquet(rejects)["row"].to_list() == [200, 201]


def test_the_limit_of_rejects_holds(gpuplan, tmp_path, cache):
    log = sacct(tmp_path / "sacct.txt", jobs=60, bad=6)
    code, _, err = gpuplan("characterize", log)
    assert code == 3 and "6 of 60 rows cannot be used" in err
    assert gpuplan("ingest", log, "-o", tmp_path / "t.parquet")[0] == 3
    assert gpuplan("characterize", log, "--max-rejects", "10%")[0] == 0
    assert gpuplan("characterize", log)[0] == 3  # also after a run that allowed more


def test_options_for_a_log(gpuplan, tmp_path, cache):
    table = tmp_path / "jobs.csv"
    rows = [f"2026-01-05T{hour:02}:00:00,{60 * hour + 60},2" for hour in range(20)]
    table.write_text("\n".join(["at,ran,gpus", *rows]), encoding="utf-8")
    assert gpuplan("characterize", table)[0] == 3
    named = ("--map", "submit_time=at", "--map", "duration_s=ran", "--map", "num_gpus=gpus")
    code, out, err = gpuplan("characterize", table, *named, "--output-format", "json")
    assert code == 0, err
    assert json.loads(out)["results"]["jobs"] == 20
    assert gpuplan("report", table, "-o", tmp_path / "r", "--study", "characterize", *named)[0] == 0
    assert gpuplan("characterize", table, *named, "--time-zone", "Mars/Olympus")[0] == 2
    assert gpuplan("characterize", table, "--map", "submit_time")[0] == 2


def test_errors_name_the_log_and_not_its_trace(log, cache):
    with pytest.raises(InputError, match=r"sacct\.txt: none of its 60 jobs is left"):
        read_trace(log, Selection(where="num_gpus > 1000"))
    with pytest.raises(InputError, match="no such file"):
        read_trace(log.with_name("absent.txt"))
    with pytest.raises(UsageError, match="--source-format"):
        read_trace(log, Selection(log=LogOptions(source_format="absent")))


def test_each_log_once(log, cache):
    with each_log_once():
        before = read_trace(log)
        sacct(log, jobs=61)
        assert read_trace(log).sha256 == before.sha256
    assert read_trace(log).rows == 61


def test_the_cache_is_bounded(log, cache, monkeypatch):
    old = []
    for jobs in (61, 62, 63):
        sacct(log, jobs)
        read_trace(log)
        old = [path for path in cache.glob("*.parquet") if path not in old] + old
    for age, path in enumerate(old):  # the newest first
        os.utime(path, (1e9 - age, 1e9 - age))
    size = max(path.stat().st_size for path in old)
    monkeypatch.setattr(kept_logs, "MOST_BYTES", 2 * size + size // 2)
    sacct(log, 64)
    read_trace(log)
    left = set(cache.glob("*.parquet"))
    assert old[0] in left and not left & set(old[1:]) and len(left) == 2
    assert {path.stem for path in cache.glob("*.json")} == {path.stem for path in left}


def test_runs_at_once_do_not_disturb_each_other(log, cache):
    command = [sys.executable, "-m", "gpuplan.cli", "characterize", str(log)]
    command += ["--output-format", "json"]
    runs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)
    ]
    said = [run.communicate()[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0] and said[0] == said[1]
    assert len(list(cache.glob("*.parquet"))) == 1 and not list(cache.glob("*.partial*"))


def test_philly_as_it_is_published(gpuplan, shared, cache, tmp_path):
    log = shared / "data" / "philly" / "philly_jobs_a.csv.gz"
    assert gpuplan("ingest", log, "-o", tmp_path / "t.parquet", "-q")[0] == 0
    direct, _ = results(gpuplan, "characterize", log)
    assert direct == results(gpuplan, "characterize", tmp_path / "t.parquet")[0]


def test_a_line_break_in_the_name_of_a_log_starts_no_line(gpuplan, tmp_path, cache):
    log = sacct(tmp_path / "a\nwarning: b.txt")
    code, _, err = gpuplan("characterize", log)
    assert code == 0 and "a?warning: b.txt is a slurm log" in err
    assert not any(line.startswith("warning: b") for line in err.splitlines())
