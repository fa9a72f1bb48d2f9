"""A signal at any moment ends a run with its code, in one line, and leaves no partial file."""

import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from gpuplan.analysis.ingest.parallel_read import MAX_WORKERS, in_order

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
SIGNALLED = """
from gpuplan.cli.app.console import answer_signals, run
answer_signals()
print("ready", flush=True)
run()
"""
ROWS = 60_000


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.csv"
    rows = (
        f"j{i},2024-01-01T{i // 3600:02}:{i // 60 % 60:02}:{i % 60:02},60,1" for i in range(ROWS)
    )
    path.write_text("\n".join(["job_id,submit_time,duration_s,num_gpus", *rows]))
    return path


def started(*words: object, program: str = SIGNALLED, **options) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("seed", range(10))
def test_a_signal_at_any_moment(log, tmp_path, seed):
    rng = random.Random(seed)
    number = (signal.SIGINT, signal.SIGTERM)[seed % 2]
    process = started(
        *("ingest", log, "-o", tmp_path / "out.parquet", "-q"),
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    time.sleep(rng.uniform(0, 1.5))
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    left = [path.name for path in tmp_path.iterdir()]
    assert "Traceback" not in err
    if process.returncode == 0:  # it was quicker
        assert (err, left) == ("", ["out.parquet"])
    else:
        assert (process.returncode, err) == (CODES[number], "error: interrupted\n")
        assert [name for name in left if name != "out.parquet"] == []


@pytest.mark.parametrize("number", CODES)
def test_a_signal_while_importing(tmp_path, number):
    (tmp_path / "typer.py").write_text(
        "print('importing', flush=True)\nimport time\ntime.sleep(60)"
    )
    process = started("--help", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert process.stdout.readline() == "importing\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (CODES[number], "error: interrupted\n")


BUSY = """
import sys, time
from pathlib import Path
import gpuplan.analysis.trace.trace as trace
from gpuplan.analysis.storage.files import atomic_output

class Finalized:
    def __del__(self):
        print("ready", flush=True)
        time.sleep(60)

def busy(*_, **__):
    with atomic_output(Path(sys.argv[-1])) as partial:
        partial.write_text("half")
        {how}

trace.read_trace = busy
sys.argv[1:] = ["characterize", sys.argv[1], "-o", sys.argv[2]]
from gpuplan.cli.app.console import run
run()
"""


def test_a_signal_that_meets_a_finalizer_is_not_lost(lab, tmp_path):
    how = "Finalized(); time.sleep(60)"
    process = started(lab, tmp_path / "out.json", program=BUSY.format(how=how))
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (143, "error: interrupted\n")
    assert not list(tmp_path.iterdir())


def test_a_second_signal_ends_what_the_first_did_not(lab, tmp_path):
    how = """
        while True:
            try:
                print("ready", flush=True)
                time.sleep(60)
            except KeyboardInterrupt:
                continue"""
    process = started(lab, tmp_path / "out.json", program=BUSY.format(how=how))
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "error: interrupted\n")
    assert not list(tmp_path.iterdir())


def test_a_signal_that_the_caller_ignores_is_ignored(lab, tmp_path):
    process = started(
        *(lab, tmp_path / "out.json"),
        program=BUSY.format(how='print("ready", flush=True); sys.stdin.read()'),
        stdin=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (143, "error: interrupted\n")


def test_work_in_order_may_be_closed_by_one_of_its_own_threads():
    troubles, begun, closed = [], threading.Event(), threading.Event()

    def work(number: int) -> None:
        if number:
            begun.wait(60)
            try:
                results.close()
            except BaseException as error:
                troubles.append(error)
            closed.set()

    results = in_order(work, range(2 * MAX_WORKERS))
    next(results)
    begun.set()
    assert closed.wait(60)
    assert [str(error) for error in troubles if "already executing" not in str(error)] == []
