"""No command writes over a file that it reads, nor two outputs into one file."""

import inspect
from pathlib import Path

import numpy as np
import pytest
import typer
from support_prices import HEADER
from support_traces import write_trace

from gpuplan.cli.app.lazy import COMMANDS, module_of
from gpuplan.cli.documents.study_command import study_command

SCENARIO = """
[workload]
trace = "t.parquet"
[study.characterize]
"""
READS = {
    "bill": {"contracts", "invoice", "trace", "twin"},
    "calibrate": {"trace", "sacctmgr", "scontrol", "site", "slurm_conf", "sshare"},
    "characterize": {"contracts", "trace"},
    "compare": {"contracts", "trace", "checkpoints", "site"},
    "diff": {"old", "new"},
    "eta": {"queue", "trace", "twin"},
    "forecast": {"contracts", "trace"},
    "ingest": {"node_types", "sources", "throughputs"},
    "pareto": {"contracts", "trace"},
    "plan": {"contracts", "keep", "spot_availability", "trace"},
    "options": {"contracts", "trace", "twin"},
    "prices": {"sources"},
    "profile": {"tables"},
    "report": {"baseline", "contracts", "source", "cache"},
    "run": {"source", "cache"},
    "share": {"functions", "trace"},
    "simulate": {"contracts", "trace", "checkpoints", "site"},
    "size": {"contracts", "trace", "twin"},
    "sweep": {"contracts", "trace", "checkpoints"},
    "synth": {"like", "model"},
    "waits": {"trace", "twin"},
    "waste": {"contracts", "metrics", "profile", "trace", "twin"},
    "whatif": {"contracts", "after", "before", "kueue_site", "slurm_conf", "trace", "twin"},
}
WRITES = {
    "bill": {"contracts_out", "out", "plot"},
    "calibrate": {"out", "plot"},
    "characterize": {"out", "plot"},
    "compare": {"out", "plot", "timeline"},
    "demo": {"out"},
    "diff": {"out", "junit"},
    "eta": {"out", "plot"},
    "forecast": {"out", "plot"},
    "ingest": {"output"},
    "init": {"path"},
    "list": {"out"},
    "options": {"out", "plot"},
    "pareto": {"out", "plot"},
    "plan": {"out", "plot"},
    "prices": {"output", "plot"},
    "profile": {"out", "plot"},
    "report": {"out"},
    "run": {"out"},
    "share": {"out", "plot"},
    "simulate": {"out", "plot", "timeline"},
    "size": {"out", "plot"},
    "sweep": {"out", "plot", "timeline"},
    "synth": {"output", "save_model"},
    "waits": {"out", "plot"},
    "waste": {"mail", "out", "plot"},
    "whatif": {"out", "plot"},
}
"""Options and arguments of every command that are paths."""
PLAIN = {"compare": ("--policy", "fifo"), "sweep": (), "simulate": ("--policy", "fifo")}


def test_every_path_that_a_command_takes_is_known_here_as_read_or_written():
    found = {}
    for name in COMMANDS:
        app = typer.Typer()
        (study_command(name) or module_of(name)).register(app)
        (command,) = app.registered_commands
        hints = inspect.signature(command.callback).parameters
        paths = {name for name, one in hints.items() if "pathlib.Path" in str(one.annotation)}
        if paths:
            found[command.name] = paths
    assert found == {name: READS.get(name, set()) | WRITES[name] for name in WRITES}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Inputs of every kind, and links to them."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    write_trace(tmp_path / "t.parquet", np.sort(rng.uniform(0, 3600, 20)), rng.uniform(9, 99, 20))
    Path("link.parquet").symlink_to("t.parquet")
    Path("log.csv").write_text("job_id,submit_time,duration_s,num_gpus\na,2024-01-01,60,1\n")
    Path("p.csv").write_text(f"{HEADER}\n2024-03-01T00:00:00Z,vast,A100,,marketplace,1,\n")
    for name in ("c.parquet", "c.csv"):
        Path(name).write_text("job_class,checkpoint_s,restore_s\n*,1,1\n")
    Path("s.csv").write_text("job_class,num_gpus,throughput\nall,1,1\nall,2,1.5\n")
    Path("s.toml").write_text(SCENARIO)
    for name, target in (("report.json", "t.parquet"), ("junit.xml", "s.toml")):
        Path("r", "figures").mkdir(parents=True, exist_ok=True)
        Path("r", name).symlink_to(f"../{target}")
    Path("r", "figures", "sweep.png").symlink_to("../../c.csv")
    return tmp_path


OVER = [
    *(
        (name, "t.parquet", *PLAIN[name], *output)
        for name in PLAIN
        for output in (("--timeline", "t.parquet"), ("--timeline", "link.parquet"))
    ),
    *(
        (name, "t.parquet", *more, "--timeline", "c.parquet")
        for name in PLAIN
        for more in (("--checkpoints", "c.parquet"), ("--prices", "c.parquet"))
    ),
    *((name, "t.parquet", "-o", "x.parquet", "--timeline", "./x.parquet") for name in PLAIN),
    ("pareto", "t.parquet", "--speedup", "table:s.csv", "-o", "s.csv"),
    ("characterize", "t.parquet", "-o", "x.json", "-o", "x.json"),
    ("ingest", "log.csv", "--throughputs", "c.parquet", "-o", "c.parquet"),
    (
        *("compare", "t.parquet", "--policy", "gavel", "--cluster", "A=8,B=8"),
        *("--throughputs", "pollux:s.csv", "-o", "s.csv"),
    ),
    ("ingest", "t.parquet", "-o", "link.parquet"),
    ("prices", "p.csv", "t.parquet", "-o", "t.parquet"),
    ("synth", "--like", "t.parquet", "--jobs", "9", "-o", "x.parquet", "--save-model", "t.parquet"),
    ("synth", "--preset", "kalos", "--jobs", "9", "-o", "x.parquet", "--save-model", "x.parquet"),
    ("diff", "s.toml", "c.csv", "--junit", "c.csv"),
    ("report", "t.parquet", "--study", "characterize", "-o", "r", "--formats", "json"),
    ("report", "s.toml", "-o", "r", "--formats", "junit"),
    ("report", "s.toml", "-o", "r", "--formats", "html,json"),
    ("report", "t.parquet", "--set", "sweep.checkpoints=c.csv", "-o", "r", "--formats", "png"),
    ("run", "s.toml", "-o", "r"),
]


@pytest.mark.parametrize("words", OVER, ids=" ".join)
def test_an_input_is_never_written_over(gpuplan, folder, words):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    code, _, err = gpuplan(*words)
    assert code == 3, err
    assert "write to another file" in err or "two outputs go to this file" in err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_folder_of_reports_is_written_again(gpuplan, folder):
    words = ("report", "t.parquet", "--study", "characterize", "-o", "again")
    for _ in range(2):
        assert gpuplan(*words)[0] == 0
    assert Path("again", "figures", "characterize.png").is_file()


ALL_OR_NONE = [
    ("characterize", "t.parquet", "-o", "a.md", "--plot", "a.svg"),
    ("simulate", "t.parquet", "--policy", "fifo", "--timeline", "a.parquet", "-o", "a.csv"),
    ("sweep", "t.parquet", "--timeline", "a.parquet", "--resamples", "0", "-o", "b.parquet"),
    ("compare", "t.parquet", "--policy", "fifo", "--timeline", "a.parquet"),
    ("diff", "old.json", "new.json", "--junit", "a.xml"),
    ("list", "formats", "-o", "a.md"),
]


def files_in(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def full_disk(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("words", ALL_OR_NONE, ids=" ".join)
def test_all_files_of_a_command_are_written_or_none(gpuplan, folder, words, monkeypatch):
    for name in ("old.json", "new.json"):
        assert gpuplan("characterize", "t.parquet", "-o", name)[0] == 0
    Path("a.json").write_text("older")
    before = files_in(folder)
    with monkeypatch.context() as patch:
        patch.setattr("gpuplan.cli.documents.emit.as_json", full_disk)
        code, _, err = gpuplan(*words, "-o", "a.json")
    assert code == 3 and "a.json: cannot be written: No space left on device" in err
    assert "wrote" not in err
    assert files_in(folder) == before
    assert gpuplan(*words, "-o", "a.json")[0] == 0
    assert {path.name for path in {*files_in(folder)} - {*before}} == {
        word for word in words if word.startswith(("a.", "b."))
    }


def test_a_time_line_that_cannot_be_written_leaves_no_result(gpuplan, folder, monkeypatch):
    before = files_in(folder)
    monkeypatch.setattr("gpuplan.analysis.storage.parquet.write_parquet", full_disk)
    words = ("simulate", "t.parquet", "--policy", "fifo", "--timeline", "a.parquet")
    code, _, err = gpuplan(*words, "-o", "a.md", "--plot", "a.svg")
    assert code == 3 and "a.parquet: cannot be written: No space left on device" in err
    assert files_in(folder) == before


def test_a_table_of_prices_and_its_picture_are_written_or_neither(gpuplan, folder, monkeypatch):
    before = files_in(folder)
    words = ("prices", "p.csv", "-o", "x.parquet", "--plot", "x.svg")
    with monkeypatch.context() as patch:
        patch.setattr("gpuplan.cli.figures.style.save", full_disk)
        code, _, err = gpuplan(*words)
    assert code == 3 and "x.svg: cannot be written: No space left on device" in err
    assert files_in(folder) == before
    with monkeypatch.context() as patch:
        patch.setattr("gpuplan.analysis.prices.ingest.write_parquet", full_disk)
        code, _, err = gpuplan(*words)
    assert code == 3 and "x.parquet: cannot be written: No space left on device" in err
    assert files_in(folder) == before
    code, _, err = gpuplan(*words)
    assert code == 0 and "wrote x.svg" in err
    assert {path.name for path in {*files_in(folder)} - {*before}} == {"x.parquet", "x.svg"}


def test_a_pipe_that_cannot_be_written_leaves_no_file(gpuplan, folder):
    before = files_in(folder)
    Path("full.md").symlink_to("/dev/full")
    for words in (("-o", "full.md", "-o", "a.json"), ("-o", "a.json", "-o", "full.md")):
        code, _, err = gpuplan("characterize", "t.parquet", *words)
        assert code == 3 and "full.md: cannot be written: No space left on device" in err
        assert {path.name for path in files_in(folder)} == {path.name for path in before}


SUFFIXES = [
    (("synth", "--like", "t.parquet", "--jobs", "3", "-o", "x.parquet"), "--save-model", ".json"),
    (("diff", "old.json", "new.json", "-o", "x.md"), "--junit", ".xml"),
    (("simulate", "t.parquet", "--policy", "fifo", "-o", "x.md"), "--timeline", ".parquet"),
]


@pytest.mark.parametrize(("words", "option", "suffix"), SUFFIXES, ids=str)
def test_a_file_of_one_form_has_the_suffix_of_the_form(gpuplan, folder, words, option, suffix):
    # The inputs of diff do not exist: the name is refused before any work.
    before = files_in(folder)
    for name in ("m.txt", f"m{suffix}.gz", "m"):
        code, _, err = gpuplan(*words, option, name)
        assert code == 2, err
        assert f"{option} {name}: expected a name that ends in {suffix}" in err
    assert files_in(folder) == before
