"""The command line itself: start-up, errors, exit codes, the two output streams."""

import io
import json
import os
import re
import subprocess
import sys
import time

import pytest
from support_program import started, write_minutely

from gpuplan.cli.app import console, messages
from gpuplan.cli.app.lazy import COMMANDS

HEAVY = ("polars", "numba", "cvxpy", "matplotlib", "scipy", "pyarrow", "numpy")


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return write_minutely(tmp_path_factory.mktemp("trace") / "trace.parquet")


def test_help_imports_nothing_heavy():
    program = (
        "import sys\nfrom gpuplan.cli.app.main import main\nmain(sys.argv[1:])\n"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    for arguments in (["--help"], ["pareto", "--help"]):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
        )
        assert done.stderr.strip() == "[]"
        assert "Usage: gpuplan" in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(gpuplan, command):
    code, out, _ = gpuplan(command, "--help")
    assert code == 0
    assert f"Example: gpuplan {command}" in " ".join(out.split())


def test_usage_errors_exit_2_with_one_message_and_the_next_step(gpuplan, trace):
    for arguments in (
        ("no-such-command",),
        ("characterize",),
        ("characterize", trace, "--no-such-option"),
        ("characterize", trace, "--sample", "0"),
        ("characterize", trace, "--scale-duration", "-1"),
        ("characterize", trace, "--where", "no_such_column > 1"),
        ("characterize", trace, "--where", "num_gpus + 1"),
        ("characterize", trace, "-o", "result.xlsx"),
        ("characterize", trace, "--plot", "result.pdf"),
        ("characterize", trace, "--fail-if", "jobs is many"),
        ("characterize", trace, "--fail-if", "no_such_field > 1"),
    ):
        code, _, err = gpuplan(*arguments)
        assert (code, "Traceback" in err) == (2, False), arguments
        assert err.count("error: ") == 1


@pytest.mark.parametrize(
    "command", [("prices", "p.csv"), ("ingest", "l.csv"), ("synth", "--jobs", 9)]
)
def test_a_second_output_does_not_silently_replace_the_first(gpuplan, tmp_path, command):
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    code, out, err = gpuplan(*command, "-o", files[0], "-o", files[1])
    assert (code, out) == (2, "") and "--output is given 2 times" in err
    assert list(tmp_path.glob("*.parquet")) == []


def test_a_missing_input_exits_3_and_names_the_near_one(gpuplan, trace):
    code, out, err = gpuplan("characterize", trace.with_name("trac.parquet"))
    assert (code, out) == (3, "")
    assert "no such file" in err and f"did you mean {trace}" in err
    code, _, err = gpuplan("characterize", "https://example.com/jobs.csv")
    assert (
        code == 3 and "error: https://example.com/jobs.csv: is a URL; gpuplan reads files\n" in err
    )


def test_a_log_of_no_known_format_is_told_how_to_be_read(gpuplan, tmp_path):
    log = tmp_path / "jobs.csv"
    log.write_text("a,b\n1,2\n")
    code, _, err = gpuplan("characterize", log)
    assert code == 3
    assert "unrecognized log format" in err and "--map submit_time=COLUMN" in err


def test_stdout_is_the_result_and_stderr_the_talk(gpuplan, trace, tmp_path):
    out_file = tmp_path / "result.json"
    code, out, err = gpuplan("characterize", trace, "--output-format", "json", "-o", out_file)
    assert code == 0
    document = json.loads(out)
    assert document == json.loads(out_file.read_text())
    assert list(document) == [
        "schema_version",
        "command",
        "inputs",
        "parameters",
        "results",
        "warnings",
        "gpuplan_version",
    ]
    assert document["inputs"][0]["rows"] == 400
    assert f"wrote {out_file}" in err
    assert gpuplan("characterize", trace, "-q", "-o", out_file)[2].count("wrote") == 0


def test_the_same_seed_gives_the_same_bytes(gpuplan, trace):
    arguments = ("characterize", trace, "--sample", "100", "--output-format", "json", "--seed")
    first, again, other = (gpuplan(*arguments, seed)[1] for seed in (7, 7, 8))
    assert first == again != other


def test_gates_exit_1_after_the_result_is_shown(gpuplan, trace):
    code, out, err = gpuplan("characterize", trace, "--fail-if", "jobs > 399")
    assert code == 1
    assert "gate tripped: jobs > 399" in err and out
    assert gpuplan("characterize", trace, "--fail-if", "duration.max > 1h")[0] == 0


def test_the_backend_of_a_notebook_does_not_matter(trace, tmp_path):
    picture = tmp_path / "picture.svg"
    process = started(
        *("characterize", trace, "--plot", picture),
        env={**os.environ, "MPLBACKEND": "module://no_such_backend"},
    )
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert picture.exists()


def test_a_bug_is_one_message_and_a_traceback_only_on_request(gpuplan, trace, monkeypatch):
    import gpuplan.planner.studies.characterize as module

    def broken(*_arguments, **_options):
        raise AssertionError("an invariant of ours")

    monkeypatch.setattr(module, "read_trace", broken)
    code, _, err = gpuplan("characterize", trace)
    assert code == 70
    assert "internal error" in err and "--debug" in err and "Traceback" not in err
    assert "Traceback" in gpuplan("characterize", trace, "--debug")[2]


def test_an_input_is_never_written_over(gpuplan, trace):
    content = trace.read_bytes()
    code, out, err = gpuplan("simulate", trace, "-o", trace)
    assert (code, out) == (3, "")
    assert "is the input" in err
    assert trace.read_bytes() == content


def test_verbose_says_what_the_work_took(gpuplan, trace):
    assert re.search(
        r"characterize took \d+\.\d\d s", gpuplan("characterize", trace, "--verbose")[2]
    )
    assert "took" not in gpuplan("characterize", trace)[2]


def test_progress_is_silent_where_no_terminal_watches(capfd):
    with messages.progress("working") as advance:
        advance(0.5)
    assert capfd.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("after_s", "shown"), [(0.0, True), (60.0, False)])
def test_progress_shows_on_a_terminal_after_a_while(monkeypatch, after_s, shown):
    watched = Terminal()
    monkeypatch.setattr("sys.stderr", watched)
    monkeypatch.setattr(messages, "SHOW_AFTER_S", after_s)
    with messages.progress("counting sheep") as advance:
        if shown:  # by another thread, and before any share is known
            while "counting sheep" not in watched.getvalue():
                time.sleep(0.01)
        advance(0.5)
        advance(1.0)
    assert ("counting sheep" in watched.getvalue()) is shown


def test_quiet_silences_progress_and_notes(monkeypatch):
    watched = Terminal()
    monkeypatch.setattr("sys.stderr", watched)
    monkeypatch.setattr(messages, "SHOW_AFTER_S", 0.0)
    monkeypatch.setattr(messages.manners, "quiet", True)
    with messages.progress("counting sheep") as advance:
        advance(1.0)
    messages.note("a note")
    assert watched.getvalue() == ""
    messages.warn("trouble")
    assert watched.getvalue() == "warning: trouble\n"


def test_the_demo_runs_the_main_job(gpuplan, tmp_path):
    folder = tmp_path / "demo"
    code, out, err = gpuplan("demo", "-o", folder)
    assert code == 0, err
    commands = [line.split()[2] for line in out.splitlines() if line.startswith("$ gpuplan ")]
    assert commands == ["ingest", "characterize", "pareto", "sweep"]
    pictures = {"workload.svg", "frontier.svg", "sweep.svg"}
    assert {path.name for path in folder.iterdir()} == {"seren.parquet", *pictures}


def test_a_demo_that_cannot_write_says_so(gpuplan, tmp_path):
    (tmp_path / "demo").write_text("in the way")
    code, _, err = gpuplan("demo", "-o", tmp_path / "demo")
    assert code == 3
    assert "cannot be made" in err


def test_control_characters_of_a_file_do_not_reach_the_terminal(gpuplan, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("\x1b[31mred,b\x08,c\n1,2,3\n")
    code, _, err = gpuplan("ingest", log, "-o", tmp_path / "t.parquet", "--map", "num_gpus=c")
    assert code == 3 and "found ?[31mred, b?, c" in err
    assert all(c.isprintable() for c in err.replace("\n", ""))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--scale-duration", "two"], "--scale-duration must be a number, got 'two'"),
        (["--seed", "1.5"], "--seed must be a whole number, got '1.5'"),
        (["--top", "0"], "--top must be at least 1, got '0'"),
        (
            ["--top", "-1"],
            "--top must be at least 1, got '-1'\n  next: gpuplan characterize --help",
        ),
        (["--output-format", "foo"], "--output-format 'foo': expected one of table, json, md, csv"),
        (["--output-format", "jsn"], "expected one of table, json, md, csv (did you mean json?)"),
        (
            ["--since", "May"],
            "--since 'May': not a valid time; expected one such as 2026-01-31, "
            "2026-01-31T08:30:00, 2026-01-31T08:30:00+01:00, 2026-01 (UTC unless it has an offset)",
        ),
        (["--wher", "x"], "No such option: --wher (did you mean --where?)"),
        (["--price"], "--price needs a value\n  next: gpuplan characterize --help"),
        (["--full=yes"], "'--full' does not take a value.\n  next: gpuplan characterize --help"),
    ],
)
def test_a_wrong_value_is_told_in_plain_words(gpuplan, trace, options, says):
    code, _, err = gpuplan("characterize", trace, *options)
    assert code == 2 and says in err


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["list", "formts"], "KIND 'formts': expected one of formats, policies, speedups, methods"),
        (["init", "a.toml", "b"], "unexpected argument: b; values with spaces, < or > need quotes"),
        (
            ["synth", "--preset", "seren", "-o", "t.parquet", "--jobs", "99999999999"],
            "--jobs must be at most 100,000,000, got '99999999999'",
        ),
    ],
)
def test_a_wrong_argument_is_told_in_plain_words(gpuplan, command, says):
    code, _, err = gpuplan(*command)
    assert code == 2 and says in err


def test_a_command_is_not_quiet_because_one_before_it_was(gpuplan):
    gpuplan("list", "formats", "--quiet", "--debug")
    assert messages.manners.quiet and messages.manners.debug
    code, _, err = gpuplan("list", "--no-such-option")
    assert (code, messages.manners.quiet) == (2, False) and "Traceback" not in err


def test_linear_algebra_has_one_thread_unless_the_user_says_otherwise(monkeypatch):
    for name in ("OMP_NUM_THREADS", *console.THREADS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "3")
    console.limit_threads()
    assert [os.environ[name] for name in console.THREADS] == ["1", "3", "1"]
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    console.limit_threads()
    assert "OPENBLAS_NUM_THREADS" not in os.environ


@pytest.mark.skipif(sys.platform == "win32", reason="limits are of POSIX systems")
def test_a_limit_on_virtual_memory_is_an_error_of_the_user(trace):
    import resource

    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (1_024_000_000, 1_024_000_000))

    commands = (("characterize", trace), ("ingest", trace), ("compare", trace, "--policy", "fifo"))
    for arguments, code in (*((one, 3) for one in commands), (("characterize", "--help"), 0)):
        done = subprocess.run(
            [sys.executable, "-m", "gpuplan.cli", *map(str, arguments)],
            capture_output=True,
            text=True,
            preexec_fn=limited,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert ("virtual memory is limited to 1,024 MB (ulimit -v)" in done.stderr) == (code == 3)


def test_memory_that_runs_out_is_no_bug_of_ours(gpuplan, trace, monkeypatch):
    def without_room(*_, **__):
        raise MemoryError("Unable to allocate 8.00 GiB")

    monkeypatch.setattr("gpuplan.planner.studies.characterize.characterize", without_room)
    code, _, err = gpuplan("characterize", trace)
    assert code == 3 and "out of memory (Unable to allocate 8.00 GiB)" in err
