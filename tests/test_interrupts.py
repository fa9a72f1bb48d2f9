"""Signals, closed pipes and closed streams end a command in order."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support_program import started, write_minutely

from gpuplan import sample_traces
from gpuplan.cli.app.lazy import COMMANDS


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return write_minutely(tmp_path_factory.mktemp("trace") / "trace.parquet")


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    """The settings of the sample site."""
    from gpuplan.cli.app.main import main

    site = Path(sample_traces.__file__).parent / "slurm_site"
    path = tmp_path_factory.mktemp("twin") / "twin.toml"
    words = (site / "sacct.txt", "--slurm-conf", site / "slurm.conf", "-q", "-o", path)
    assert main(["calibrate", *map(str, words)]) == 0
    return path


WHOLE = {  # every command as it is used, with a result on standard output
    "ingest": ("LOG", "-o", "DIR/t.parquet"),
    "prices": ("PRICES", "-o", "DIR/p.parquet"),
    "characterize": ("TRACE",),
    "pareto": ("TRACE", "--no-replay"),
    "plan": ("TRACE", "--on-demand", "1.29"),
    "sweep": ("TRACE", "--sample", "20", "--threshold", "60"),
    "simulate": ("TRACE", "--sample", "20", "--policy", "fifo"),
    "compare": ("TRACE", "--sample", "20", "--policy", "fifo", "--policy", "sjf"),
    "calibrate": ("SITE/sacct.txt", "--slurm-conf", "SITE/slurm.conf"),
    "options": ("SITE/sacct.txt", "--twin", "TWIN", "--option", "scale-load 1.1"),
    "whatif": ("SITE/sacct.txt", "--twin", "TWIN", "--add-nodes", "1"),
    "eta": ("SITE/sacct.txt", "--twin", "TWIN", "--gpus", "8", "--limit", "4h"),
    "waits": ("SITE/sacct.txt",),
    "waste": ("SITE/sacct.txt",),
    "report": ("TRACE", "--study", "characterize", "-o", "DIR/report"),
    "diff": ("RESULT", "RESULT"),
    "synth": ("--like", "TRACE", "--jobs", "20", "-o", "DIR/s.parquet"),
    "init": ("DIR/plan.toml",),
    "run": ("DIR/plan.toml", "--list"),
    "list": ("policies",),
    "profile": ("PROFILE", "--slo", "100ms"),
    "share": ("SHARED",),
    "bill": ("TRACE", "--price", "1.29"),
    "forecast": ("LOG", "--horizon", "1h"),
    "size": ("TRACE", "--target", "mean_wait <= 1h"),
    "demo": ("--help",),
}


KUEUE = {  # the same on a dump of Kueue
    "calibrate": ("KUEUE",),
    "whatif": ("KUEUE", "--site", "KUEUE", "--set", "clusterqueue.team-a.nominalQuota=16"),
    "simulate": ("KUEUE", "--policy", "kueue", "--site", "KUEUE"),
}


@pytest.mark.parametrize("name", KUEUE)
def test_a_closed_pipe_is_not_an_error_on_kueue(gpuplan, monkeypatch, name):
    dump = Path(sample_traces.__file__).parent / "kueue" / "workloads.json"
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        code, _, err = gpuplan(name, *(str(dump) if word == "KUEUE" else word
                                       for word in KUEUE[name]))  # fmt: skip
    assert code == 0, err
    assert "Traceback" not in err and "error" not in err.lower().replace("mean error", "")


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.usefixtures("few_forecasts")
def test_a_closed_pipe_is_not_an_error(gpuplan, trace, twin, tmp_path, monkeypatch, name):
    samples = Path(sample_traces.__file__).parent
    result = tmp_path / "result.json"
    if "RESULT" in WHOLE[name]:
        assert gpuplan("characterize", trace, "-q", "-o", result)[0] == 0
    site = samples / "slurm_site"
    if name == "run":
        assert gpuplan("init", tmp_path / "plan.toml")[0] == 0
    known = {
        "TRACE": trace,
        "TWIN": twin,
        "RESULT": result,
        "LOG": samples / "seren.csv",
        "PRICES": samples / "gpu_prices.csv",
        "PROFILE": samples / "service_profile.csv",
        "SHARED": samples / "shared_instances.csv",
    }
    words = [
        str(known.get(word, word)).replace("DIR", str(tmp_path)).replace("SITE", str(site))
        for word in WHOLE[name]
    ]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        code, _, err = gpuplan(name, *words)
    assert code == 0, err
    assert "Traceback" not in err and "Error" not in err and "error" not in err


def waiting(trace, out):
    """A run that waits inside its work, with a partial output open."""
    program = (
        "import gpuplan.analysis.trace.trace as t, time\n"
        "from pathlib import Path\n"
        "from gpuplan.analysis.storage.files import atomic_output\n"
        "def wait(*a, **k):\n"
        f"    with atomic_output(Path({str(out)!r})) as partial:\n"
        "        partial.write_text('half')\n"
        "        print('ready', flush=True)\n"
        "        for _ in range(600):\n"  # a signal just before a sleep is answered after it
        "            time.sleep(0.1)\n"
        "t.read_trace = wait\n"
        "from gpuplan.cli.app.console import run\nrun()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, "characterize", str(trace)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_the_run_in_order_without_a_partial_file(trace, tmp_path, number, code):
    process = waiting(trace, tmp_path / "out.json")
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert err.strip() == "error: interrupted"
    assert not list(tmp_path.iterdir())


def test_an_interrupt_while_importing_is_told_in_one_line(tmp_path):
    slow = "print('importing', flush=True)\nimport time\ntime.sleep(60)\n"
    (tmp_path / "typer.py").write_text(slow)
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuplan.cli", "--help"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "error: interrupted\n")


def test_an_interrupt_that_meets_code_run_by_exec_exits_as_any_other(trace):
    program = (
        "import gpuplan.analysis.trace.trace as t\n"
        "t.read_trace = lambda *a, **k: exec('raise KeyboardInterrupt')\n"
        "from gpuplan.cli.app.console import run\nrun()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, "characterize", trace], capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (130, "error: interrupted\n")


def test_an_interrupt_that_a_kernel_met_is_an_interrupt(gpuplan, trace, monkeypatch):
    import gpuplan.planner.studies.characterize as module

    def kernel(*_arguments, **_options):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise SystemError("returned a result with an exception set") from error

    monkeypatch.setattr(module, "read_trace", kernel)
    assert gpuplan("characterize", trace)[0] == 130


def test_a_closed_standard_output_is_not_an_error(trace):
    done = subprocess.run(
        f"{sys.executable} -m gpuplan.cli characterize {trace} --full >&-",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_help_into_a_closed_pipe_is_not_an_error():
    reader, writer = os.pipe()
    os.close(reader)
    process = started("pareto", "--help", stdout=writer)
    os.close(writer)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
