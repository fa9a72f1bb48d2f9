"""Long kernels say how far they are and end when the user interrupts them."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from support_program import write_minutely

from gpuplan.planner import parallel
from gpuplan.simkit import watch
from gpuplan.simkit.watch import COUNT, STOP

JOBS = watch.MANY


def until_stopped(state):
    """A kernel that works until it is told to end."""
    state[COUNT] = JOBS // 4
    for _ in range(6000):
        if state[STOP]:
            return "ended"
        time.sleep(0.01)
    raise AssertionError("nobody ended the kernel")


def whole(state):
    state[COUNT] = JOBS
    return "whole"


def test_a_signal_reaches_the_thread_that_waits_for_a_kernel():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _interrupted()
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupted():
    threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        watch.watched(until_stopped, JOBS, "fifo")
    assert not watch._running


def test_all_kernels_end_together():
    threading.Timer(0.3, watch.stop_all).start()
    with pytest.raises(KeyboardInterrupt):
        watch.watched(until_stopped, JOBS, "fifo")


def test_a_long_kernel_says_how_many_jobs_are_done(monkeypatch, library_log):
    monkeypatch.setattr(watch, "SAY_S", 0.0)
    monkeypatch.setattr(watch, "LOOK_S", 0.01)

    def slow(state):
        state[COUNT] = JOBS // 2
        time.sleep(0.3)
        return whole(state)

    assert watch.watched(slow, JOBS, "sjf") == "whole"
    assert library_log.messages
    assert library_log.messages[0].startswith("50,000 of 100,000 jobs replayed (sjf) after")
    assert "s left" in library_log.messages[0]


def test_an_error_of_a_kernel_is_that_of_its_call():
    def broken(_):
        raise ValueError("too wide")

    with pytest.raises(ValueError, match="too wide"):
        watch.watched(broken, JOBS, "fifo")


def test_fewer_scenarios_run_at_a_time_where_each_takes_much(monkeypatch):
    monkeypatch.setattr(parallel, "usable_cores", lambda: 4)
    running, most, lock = [0], [0], threading.Lock()

    def scenario(_):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.05)
        with lock:
            running[0] -= 1

    parallel.run_all(scenario, range(6), bytes_each=parallel.MOST_BYTES)
    assert most == [1]
    parallel.run_all(scenario, range(6), bytes_each=parallel.MOST_BYTES // 2)
    assert most == [2]


WAITING = """
import sys, threading, time
import gpuplan.planner.compare as compare
import gpuplan.planner.parallel as parallel
from gpuplan.cli.app.console import run
from gpuplan.simkit import watch
real, done = compare._replayed, threading.Event()
def until_stopped(state):
    done.wait(120)
    time.sleep(0.5)  # until the first result is taken
    print("ready", flush=True)
    while not state[watch.STOP]:
        time.sleep(0.01)
def replayed(spec, *arguments):
    if spec.policy == "sjf":
        return watch.watched(until_stopped, watch.MANY, "sjf")
    try:
        return real(spec, *arguments)
    finally:
        done.set()
compare._replayed = replayed
parallel.usable_cores = lambda: 2
run()
"""


@pytest.mark.no_cover
def test_an_interrupt_shows_the_policies_that_are_done(tmp_path):
    trace = write_minutely(tmp_path / "trace.parquet")
    command = ("compare", trace, "--cluster", "8", "--policy", "fifo", "--policy", "sjf")
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, ""), err
    assert "done before the interrupt: fifo: $" in err and err.endswith("error: interrupted\n")
    assert time.monotonic() - begun < 60
