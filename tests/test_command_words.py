"""Words that cannot be meant are refused before any work, whatever the command."""

import os
from pathlib import Path

import pytest

from gpuplan.analysis.base.errors import InputError, OutputError
from gpuplan.analysis.storage.cache import hashes_of
from gpuplan.analysis.storage.files import check_writable, existing_file

LATIN_1 = os.fsdecode(b"caf\xe9")
LONG = "x" * 300
LOG = "job_id,submit_time,duration_s,num_gpus\na,2024-01-01,60,1\n"
PLAIN = {
    "characterize": ("characterize", "t.parquet"),
    "pareto": ("pareto", "t.parquet", "--speedup", "power:0.8"),
    "sweep": ("sweep", "t.parquet"),
    "simulate": ("simulate", "t.parquet", "--policy", "fifo"),
    "compare": ("compare", "t.parquet"),
    "report": ("report", "t.parquet", "--study", "characterize"),
    "diff": ("diff", "r.json", "r.json"),
    "ingest": ("ingest", "log.csv"),
    "prices": ("prices", "log.csv"),
    "synth": ("synth", "--preset", "kalos", "--jobs", "9"),
    "run": ("run", "s.toml"),
    "init": ("init",),
    "list": ("list", "formats"),
    "demo": ("demo",),
}
WRITTEN = [
    *((name, "--output", name in ("ingest", "prices", "synth")) for name in PLAIN
      if name not in ("init",)),
    *((name, "--plot", False) for name in ("characterize", "pareto", "sweep", "prices")),
    *((name, "--timeline", True) for name in ("sweep", "simulate", "compare")),
    ("diff", "--junit", False),
    ("synth", "--save-model", False),
]  # fmt: skip
READ = [
    ("characterize",), ("pareto",), ("sweep",), ("simulate",), ("compare",), ("run",),
    ("report", "-o", "r"), ("diff", "r.json"), ("ingest", "-o", "x.parquet"),
    ("prices", "-o", "x.parquet"), ("synth", "--jobs", "9", "-o", "x.parquet", "--like"),
    ("synth", "--jobs", "9", "-o", "x.parquet", "--model"), (*PLAIN["sweep"], "--checkpoints"),
    (*PLAIN["sweep"], "--prices"), (*PLAIN["characterize"], "--prices"),
    ("ingest", "log.csv", "-o", "x.parquet", "--throughputs"),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path, lab, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("t.parquet").symlink_to(lab)
    Path("log.csv").write_text(LOG)
    Path("r.json").write_text("{}")
    Path("s.toml").write_text('[workload]\ntrace = "t.parquet"\n[study.characterize]\n')
    Path("loop").symlink_to("loop")
    Path("one").symlink_to("two")
    Path("two").symlink_to("one")
    return tmp_path


@pytest.fixture
def idle(folder, monkeypatch):
    """No trace or log can be read: what is refused is refused before."""
    from gpuplan.analysis.reading import inputs
    from gpuplan.planner.studies import characterize, pareto, replay, synth

    def read(*_arguments, **_options):
        raise AssertionError("read before the outputs were checked")

    for study in (characterize, pareto, replay, synth):
        monkeypatch.setattr(study, "read_trace", read)
    monkeypatch.setattr(inputs, "_take", read)
    return folder


@pytest.mark.parametrize(("name", "option", "is_parquet"), WRITTEN)
def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    gpuplan, idle, name, option, is_parquet
):
    suffix = ".svg" if option == "--plot" else ".parquet" if is_parquet else ".json"
    out = () if option == "--output" or name not in ("synth", "prices") else ("-o", "x.parquet")
    before = sorted(os.listdir())
    for path, code in (
        ("", 2),
        (f"a\0{suffix}", 2),
        (f"{LATIN_1}{suffix}", 2),
        (f"{LONG}/a{suffix}", 3),
        (f"{LONG}{suffix}", 3),
        (f"loop/a{suffix}", 3),
        (f"one/a{suffix}", 3),
        (f"log.csv/a{suffix}", 3),
    ):
        found, _, err = gpuplan(*PLAIN[name], *out, f"{option}={path}")
        assert (found, err.count("error: ")) == (code, 1), (path[:20], err)
        err.encode()
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("words", READ, ids=" ".join)
def test_an_input_that_cannot_be_read_is_refused(gpuplan, folder, words):
    for path in ("", "a\0b", LONG, f"{LONG}/t.parquet", "loop", "loop/t.parquet", "one"):
        code, out, err = gpuplan(*words, path)
        if path not in ("", "a\0b") and "--throughputs" in words:
            assert code == 2 and "records no steps" in err
        else:
            assert (code, out) == (2 if path in ("", "a\0b") else 3, ""), (path[:20], err)


@pytest.mark.parametrize(
    "words",
    [
        (*PLAIN["characterize"], "--where"),
        (*PLAIN["characterize"], "--fail-if"),
        (*PLAIN["characterize"], "--since"),
        (*PLAIN["report"], "-o", "r", "--title"),
        (*PLAIN["report"], "-o", "r", "--set"),
        (*PLAIN["sweep"], "--against"),
        (*PLAIN["ingest"], "-o", "x.parquet", "--map"),
        (*PLAIN["ingest"], "-o", "x.parquet", "--time-zone"),
        ("run", "s.toml", "--set"),
        ("characterize",),
        ("list",),
    ],
    ids=" ".join,
)
def test_text_that_is_not_utf_8_or_has_a_nul_is_refused(gpuplan, idle, words):
    for text in (LATIN_1, "a\0b"):
        code, out, err = gpuplan(*words, text)
        assert (code, out) == (2, ""), err
        assert "must be UTF-8, got 'caf\\xe9'" in err or "must not have a NUL byte" in err


def test_a_log_may_have_any_name(gpuplan, folder):
    Path(f"{LATIN_1}.csv").write_text(LOG)
    code, out, err = gpuplan(
        "ingest", f"{LATIN_1}.csv", "-o", "x.parquet", "--output-format", "json"
    )
    assert code == 0 and "caf\\\\xe9.csv" in out, err


def test_a_folder_of_any_name_may_be_worked_in(gpuplan, folder, monkeypatch):
    odd = folder / LATIN_1
    odd.mkdir()
    (odd / "log.csv").write_text(LOG)
    monkeypatch.chdir(odd)
    assert gpuplan("ingest", "log.csv", "-o", "t.parquet")[0] == 0
    code, _, err = gpuplan("characterize", "t.parquet", "-o", "r.json", "--plot", "r.svg")
    assert code == 0, err
    assert sorted(path.name for path in odd.iterdir()) == [
        "log.csv", "r.json", "r.svg", "t.parquet"
    ]  # fmt: skip


def test_the_library_refuses_such_paths_too(folder):
    for name in ("a\0b", LONG, "loop/x", "one"):
        with pytest.raises(InputError):
            existing_file(Path(name))
        with pytest.raises(OutputError):
            check_writable(Path(name))
        assert hashes_of(f"--prices={name}") == {}


def test_a_scenario_with_such_a_path_is_refused(gpuplan, folder):
    text = Path("s.toml").read_text()
    for path in (r"a\u0000b", LONG, "loop/t.parquet", ""):
        Path("s.toml").write_text(text.replace("t.parquet", path))
        code, _, err = gpuplan("run", "s.toml")
        assert code in (2, 3) and "error: " in err, (path[:20], err)
    Path("s.toml").write_text(text + '[output]\ndir = "a\\u0000b"\n')
    assert gpuplan("run", "s.toml")[0] in (2, 3)


def test_what_the_system_refuses_is_no_bug(gpuplan, folder, monkeypatch):
    import gpuplan.planner.studies.characterize as study

    def failing(*_arguments, **_options):
        raise OSError(5, "Input/output error", "/data/t.parquet")

    monkeypatch.setattr(study, "read_trace", failing)
    code, _, err = gpuplan("characterize", "t.parquet")
    assert (code, err) == (3, "error: /data/t.parquet: Input/output error\n")
