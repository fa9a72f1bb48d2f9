"""A disk that fills costs no old output, leaves no partial one, and gets a message that says so."""

import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

OUTPUTS = [
    ("ingest", "log.csv", "-o", "out.parquet"),
    ("characterize", "t.parquet", "-o", "out.json"),
    ("characterize", "t.parquet", "--plot", "out.svg"),
    ("characterize", "t.parquet", "--plot", "out.png"),
    ("synth", "--preset", "kalos", "--jobs", "5000", "-o", "out.parquet"),
    ("synth", "--preset", "kalos", "--jobs", "9", "-o", "x.parquet", "--save-model", "out.json"),
    ("report", "t.parquet", "-o", ".", "--study", "characterize"),
    ("init", "out.toml", "--force"),
    ("list", "policies", "-o", "out.json"),
]


@contextmanager
def small_files(size: int):
    """Let no file grow beyond this many bytes, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("words", OUTPUTS, ids=" ".join)
def test_an_output_without_room_leaves_what_was_there(gpuplan, lab, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    Path("t.parquet").symlink_to(lab)
    rows = "".join(f"j{i},2024-01-01,{60 + i},1\n" for i in range(4000))
    Path("log.csv").write_text(f"job_id,submit_time,duration_s,num_gpus\n{rows}")
    for name in ("out.parquet", "out.json", "out.svg", "out.png", "out.toml", "report.html"):
        Path(name).write_text("old")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with small_files(500 if words[0] == "init" else 2500):
        code, _, err = gpuplan(*words, "-q")
    assert code == 3, err
    assert "cannot be written" in err or "No space" in err
    after = {path: path.read_bytes() for path in tmp_path.rglob("*")}
    after.pop(tmp_path / "x.parquet", None)  # the trace is whole before the model is written
    assert after == before


def test_a_scenario_runs_where_its_cache_is_full(gpuplan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    from gpuplan.analysis.base.errors import OutputError
    from gpuplan.cli.scenario import running

    made = running._made

    def without_room(workload, cache):
        if cache.folder == tmp_path / "cache":
            with workload.places.located():
                raise OutputError("t.parquet: cannot be written: No space left on device")
        return made(workload, cache)

    monkeypatch.setattr(running, "_made", without_room)
    Path("s.toml").write_text(
        '[workload]\nsynth = { preset = "kalos", jobs = 30 }\n[study.characterize]\n'
    )
    code, out, err = gpuplan("run", "s.toml", "--cache", "cache")
    assert code == 0 and "30 jobs" in out, err
    assert "warning: not cached: " in err and "No space left" in err


@pytest.mark.parametrize(
    ("words", "stream", "code"),
    [
        (("list", "formats"), "stdout", 3),
        (("--version",), "stdout", 3),
        (("pareto", "--help"), "stdout", 3),
        (("list", "formats"), "stderr", 0),
        (("list", "nonsense"), "stderr", 2),
    ],
)
def test_a_standard_stream_without_room(words, stream, code):
    with open("/dev/full", "w") as full:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: full}
        done = subprocess.run([sys.executable, "-m", "gpuplan.cli", *words], **streams, text=True)
    assert done.returncode == code
    if stream == "stdout":
        assert "No space left on device" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_told_before_the_work(gpuplan, tmp_path):
    tmp_path.chmod(0o500)
    code, _, err = gpuplan("synth", "--preset", "kalos", "--jobs", 9, "-o", tmp_path / "x.parquet")
    tmp_path.chmod(0o700)
    assert code == 3 and "Permission denied" in err
