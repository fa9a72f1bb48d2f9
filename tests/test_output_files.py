"""Files of a result: refused before the work, written whole, in the form of their names."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpuplan.analysis.base.errors import OutputError, UsageError
from gpuplan.cli.options.outputs import check_output
from gpuplan.cli.options.shared_options import Output


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (Output(out=["r.xlsx"]), "ends in one of .json, .md, .csv, .txt"),
        (Output(out=["r"]), "--output r: has no suffix; expected a name that ends in"),
        (Output(out=["r.parquet"]), "cannot write '.parquet' files"),
        (Output(out=["r.png"]), "cannot write '.png' files"),
        (Output(plot=["p.png"]), "this command has no picture"),
        (Output(fail_if=["jobs"]), "expected 'field operator value'"),
    ],
)
def test_what_cannot_be_made_is_refused_before_the_work(output, message):
    from pathlib import Path

    output = replace(
        output,
        out=[Path(p) for p in output.out or ()],
        plot=[Path(p) for p in output.plot or ()],
    )
    with pytest.raises(UsageError) as caught:
        check_output(output, picture=False, rows=False)
    assert message in str(caught.value)


def test_the_same_outputs_are_fine_where_the_command_has_them():

    for name in ("r.parquet", "r.PNG", "r.svg", "r.json"):
        check_output(Output(out=[Path(name)], plot=[Path("p.svg")]), picture=True, rows=True)
    with pytest.raises(UsageError, match=r"expected \.svg or \.png"):
        check_output(Output(plot=[Path("p.pdf")]), picture=True, rows=True)


@pytest.fixture
def folder(tmp_path):
    """A folder with an input, names of it through both kinds of link, and a folder."""
    (tmp_path / "in.csv").write_text("x")
    (tmp_path / "soft.csv").symlink_to("in.csv")
    os.link(tmp_path / "in.csv", tmp_path / "hard.csv")
    (tmp_path / "folder.csv").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("out", "plot", "message"),
    [
        (["nodir/r.json"], [], "the folder .*nodir does not exist"),
        (["r.json"], ["nodir/p.svg"], "the folder .*nodir does not exist"),
        (["folder.csv"], [], "is a folder"),
        (["in.csv"], [], r"in\.csv: is the input; write to another file"),
        (["./in.csv"], [], "is the input"),
        (["folder.csv/../in.csv"], [], "is the input"),
        (["soft.csv"], [], r"soft\.csv: is the input .*in\.csv; write"),
        (["hard.csv"], [], r"hard\.csv: is the input .*in\.csv; write"),
        (["r.json", "r.json"], [], "two outputs go to this file"),
        (["p.svg"], ["p.svg"], "two outputs go to this file"),
        (["r.json"], ["p.svg", "folder.csv/../p.svg"], "two outputs go to this file"),
        (["other.csv"], [], "two outputs go to this file"),
    ],
)
def test_files_that_cannot_be_written_are_refused_before_the_work(folder, out, plot, message):
    before = sorted(folder.iterdir())
    output = Output(out=[folder / p for p in out], plot=[folder / p for p in plot])
    with pytest.raises(OutputError, match=message) as caught:
        check_output(
            output,
            picture=True,
            rows=True,
            inputs=[None, "power:0.8", folder / "in.csv", folder / "absent.parquet"],
            more_files=[folder / "other.csv", None],
        )
    assert caught.value.exit_code == 3
    assert sorted(folder.iterdir()) == before


def test_asking_whether_a_file_can_be_written_leaves_it_as_it_is(folder):
    (folder / "old.json").write_text("old")
    new = [folder / "old.json", folder / "new.json"]
    check_output(Output(out=new), picture=False, rows=False, inputs=[folder / "in.csv"])
    assert (folder / "old.json").read_text() == "old"
    assert not (folder / "new.json").exists()


WRITE = "from gpuplan.cli.documents.emit import write_stdout; write_stdout('é─\\n' * 100_000)"


def test_what_the_encoding_lacks_is_written_in_utf_8():
    done = subprocess.run(
        [sys.executable, "-c", WRITE],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.stdout.decode("utf-8").startswith("é─\n")
    assert done.stderr == b""


def test_a_reader_that_leaves_early_is_not_an_error():
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.read(3)
    process.stdout.close()
    assert (process.wait(timeout=60), process.stderr.read()) == (0, b"")
    process.stderr.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_a_full_disk_is_told():
    program = (
        "from gpuplan.cli.documents.emit import write_stdout\n"
        "from gpuplan.analysis.base.errors import OutputError\n"
        "import sys\n"
        "try:\n    write_stdout('x')\nexcept OutputError as e:\n    print(e, file=sys.stderr)"
    )
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (
        0,
        "standard output cannot be written: No space left on device\n",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["characterize", "t.parquet", "-o", "no/r.json"], "folder no does not exist"),
        (["simulate", "t.parquet", "--plot", "no/p.svg"], "folder no does not exist"),
        (["sweep", "t.parquet", "--plot", "p.svg", "-o", "no/r.json"], "folder no does not exist"),
        (["pareto", "t.parquet", "-o", "s.csv", "--speedup", "s.csv"], "s.csv: is the input"),
        (["pareto", "t.parquet", "-o", "t.parquet"], "t.parquet: is the input"),
        (["sweep", "t.parquet", "-o", "./t.parquet"], "t.parquet: is the input"),
        (["prices", "s.csv", "-o", "p.parquet", "--plot", "no/p.svg"], "folder no does not exist"),
        (["prices", "s.csv", "-o", "no/p.parquet"], "folder no does not exist"),
        (["list", "formats", "-o", "no/r.json"], "folder no does not exist"),
    ],
)
def test_commands_refuse_files_before_they_read_anything(
    gpuplan, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.csv").write_text("x")  # neither is what the command reads: it never gets there
    (tmp_path / "t.parquet").write_text("x")
    code, out, err = gpuplan(*arguments)
    assert (code, out) == (3, "")
    assert message in err
    assert (tmp_path / "s.csv").read_text() == (tmp_path / "t.parquet").read_text() == "x"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_result_goes_to_every_file_named(gpuplan, tmp_path):
    files = [tmp_path / "a.json", tmp_path / "b.csv"]
    assert gpuplan("list", "speedups", *(part for file in files for part in ("-o", file)))[0] == 0
    assert all(file.read_text() for file in files)


@pytest.mark.parametrize(
    ("command", "has", "lacks"),
    [
        ("list", [".json", ".txt"], ["--plot", "--fail-if", ".parquet", ".svg"]),
        ("characterize", ["--plot", "--fail-if", ".svg"], [".parquet (rows)"]),
        ("pareto", ["--plot", "--fail-if", ".svg", ".parquet (rows)"], []),
    ],
)
def test_help_offers_what_works(gpuplan, command, has, lacks):
    code, text, _ = gpuplan(command, "--help-all")
    text = " ".join(text.split())
    assert code == 0
    assert all(word in text for word in has)
    assert not any(word in text for word in lacks)
