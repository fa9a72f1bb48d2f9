"""No command writes over a file that it reads, nor two outputs into one file."""

import importlib
import inspect
import pkgutil
from pathlib import Path

import numpy as np
import pytest
import typer
from support_prices import HEADER
from support_traces import write_trace

import gpuplan.cli.commands

SCENARIO = """
[workload]
trace = "t.parquet"
[study.characterize]
"""
READS = {
    "characterize": {"trace"},
    "compare": {"trace", "checkpoints"},
    "diff": {"old", "new"},
    "ingest": {"sources", "throughputs"},
    "pareto": {"trace"},
    "prices": {"sources"},
    "report": {"source", "cache"},
    "run": {"source", "cache"},
    "simulate": {"trace", "checkpoints"},
    "sweep": {"trace", "checkpoints"},
    "synth": {"like", "model"},
}
WRITES = {
    "characterize": {"out", "plot"},
    "compare": {"out", "plot", "timeline"},
    "demo": {"out"},
    "diff": {"out", "junit"},
    "ingest": {"outs"},
    "init": {"path"},
    "list": {"out"},
    "pareto": {"out", "plot"},
    "prices": {"outs", "plot"},
    "report": {"out"},
    "run": {"out"},
    "simulate": {"out", "plot", "timeline"},
    "sweep": {"out", "plot", "timeline"},
    "synth": {"outs", "save_model"},
}
"""Options and arguments of every command that are paths."""
PLAIN = {"compare": ("--policy", "fifo"), "sweep": (), "simulate": ("--policy", "fifo")}


def test_every_path_that_a_command_takes_is_known_here_as_read_or_written():
    found = {}
    for module in pkgutil.iter_modules(gpuplan.cli.commands.__path__):
        app = typer.Typer()
        importlib.import_module(f"gpuplan.cli.commands.{module.name}").register(app)
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
    code, _, told = gpuplan(*words)
    assert code == 3, told
    assert "write to another file" in told or "two outputs go to this file" in told
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_folder_of_reports_is_written_again(gpuplan, folder):
    words = ("report", "t.parquet", "--study", "characterize", "-o", "again")
    for _ in range(2):
        assert gpuplan(*words)[0] == 0
    assert Path("again", "figures", "characterize.png").is_file()
