"""Fixtures that every test may use."""

import gc
import logging
import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings

from gpuplan.cli.app.console import limit_threads

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
LONGEST = {"schemas", "twin"}
"""Subjects of tests that take longest, in CPU time."""

# Oracles and generators that several tests use; with importlib mode tests are not a package.
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tests")]

limit_threads()  # as the command line does, before a test loads NumPy

# Kernels that compile make many objects and few cycles: looking for these less often saves a tenth.
gc.set_threshold(100_000, 20, 20)

# The same examples each time: a run says something of the change, not of its luck. Of laws that
# held for months 50 examples find what 100 do; the slow tests say how many theirs take.
settings.register_profile("same", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("same")


def pytest_configure():
    from support_untraced import untrace_rewriting

    # Programs that tests start inherit what is ignored, as in a job that a script put in the
    # background; what is caught here has its default there.
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)

    untrace_rewriting()


def pytest_collection_modifyitems(config, items):
    """Measure line coverage where it is cheap, and compile each kernel once.

    A law runs many examples; a line that only they reach is not tested on purpose. Lines of kernels
    are counted in a second run, as plain Python. So the first run has no coverage of either, which
    makes them faster. Files that compile or take long come first, so that all workers end together.
    """
    is_plain = os.environ.get("NUMBA_DISABLE_JIT") == "1"
    by_test = getattr(config.option, "cov_context", None)  # make mutants asks which tests reach it
    for item in [] if is_plain or by_test else items:
        marks = {mark.name for mark in item.iter_markers()}
        is_law = is_hypothesis_test(getattr(item, "obj", None))
        if is_law or ("kernels" in marks and "compiled" not in marks):
            item.add_marker("no_cover")
    compiles = {family_of(item.nodeid) for item in items if item.get_closest_marker("kernels")}
    sizes = Counter(family_of(item.nodeid) for item in items)

    def rank(item):
        family = family_of(item.nodeid)
        is_short, is_quick = family not in LONGEST, family not in compiles
        return (is_short, is_quick, -sizes[family], family, item.path.name)

    items.sort(key=rank)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Let every other worker read the files from the last to the first.

    The first run rewrites the assertions of each file and keeps them: two workers that meet in the
    middle do half of that each. The order of the tests is the same in both.
    """
    report = yield
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    if isinstance(collector, pytest.Dir) and int(worker) % 2:
        report.result.reverse()
    return report


def family_of(nodeid: str) -> str:
    """Return the subject of a file of tests: the first word of its name.

    Files of one subject replay the same kernels, so one worker runs them all. Those of the golden
    results need the results of the same commands as those of the schemas, and those of the docs
    the same kernels.
    """
    family = Path(nodeid.partition("::")[0]).stem.removeprefix("test_").partition("_")[0]
    return {"golden": "schemas", "docs": "schemas"}.get(family, family)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give each worker one subject after the other, in the order of collection."""
    from xdist.scheduler import LoadScopeScheduling

    class BySubject(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return family_of(nodeid)

    if config.getvalue("dist") != "load":
        return None
    config.option.loadscopereorder = False
    return BySubject(config, log)


def pytest_collection_finish():
    from support_untraced import untrace_slow_parts

    if sys.gettrace() is not None:
        untrace_slow_parts()
    if (style := sys.modules.get("gpuplan.cli.figures.style")) is not None:
        style.DPI = 60  # a tenth of all CPU time goes to dots that no test looks at
    gc.freeze()  # thousands of tests live to the end of the run


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Keep the traces of logs out of the cache of whoever runs the tests."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


@pytest.fixture(scope="session", autouse=True)
def traced_ingest():
    """Let line coverage see ingest: polars pulls its rows from a thread Python did not start."""
    if threading.gettrace() is None:
        yield
        return
    from gpuplan.analysis.ingest.trace_reading import Reading

    pull = Reading._jobs

    def traced(self):
        sys.settrace(threading.gettrace())  # None where a test has no coverage
        yield from pull(self)

    Reading._jobs = traced
    yield
    Reading._jobs = pull


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real traces and golden results; a test that takes it skips without it."""
    if not SHARED.is_dir():
        pytest.skip("the folder of real traces (../shared) is not here")
    return SHARED


@pytest.fixture(scope="session")
def company(shared: Path) -> Path:
    """The company of known truth; a test that takes it skips without it."""
    folder = shared / "data" / "company"
    if not folder.is_dir():
        pytest.skip("the company of known truth (../shared/data/company) is not here")
    return folder


@pytest.fixture(autouse=True)
def own_manners():
    """Let no test be quiet, verbose or debugging because one before it was."""
    yield
    if (messages := sys.modules.get("gpuplan.cli.app.messages")) is not None:
        messages.manners.reset()


@pytest.fixture
def library_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch):
    """Return what the library logs, also if a command ran before and kept its log from the root's.

    pytest 9 listens to a logger that does not propagate, and pytest 8 does not; each message once.
    """
    log = logging.getLogger("gpuplan")
    monkeypatch.setattr(log, "disabled", False)
    caplog.set_level(logging.INFO, "gpuplan")
    is_missed = not log.propagate and caplog.handler not in log.handlers
    if is_missed:
        log.addHandler(caplog.handler)
    yield caplog
    if is_missed:
        log.removeHandler(caplog.handler)


@pytest.fixture
def gpuplan(capfd: pytest.CaptureFixture[str]):
    """Run a command line in this process; returns (exit code, stdout, stderr)."""
    from gpuplan.cli.app.main import main

    def run(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return code, out, err

    return run


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """A trace of two days of a lab, which tests only read."""
    from support_traces import lab_trace

    return lab_trace(tmp_path_factory.mktemp("lab") / "lab.parquet")


@pytest.fixture
def newtrace(tmp_path):
    """A trace with the job classes of newTrace, without durations."""
    from support_pareto import write_newtrace

    return write_newtrace(tmp_path)


@pytest.fixture
def hours(tmp_path):
    """A trace of 100 jobs of an hour, one every half hour."""
    from support_pareto import write_hours

    return write_hours(tmp_path)


@pytest.fixture
def seren(gpuplan, tmp_path):
    """The sample like Seren's log that comes with gpuplan, as a trace."""
    from support_pareto import write_seren

    return write_seren(gpuplan, tmp_path)


@pytest.fixture
def few_forecasts(monkeypatch):
    """Tell how good forecasts of starts are by fewer jobs, with fewer replays of each."""
    from gpuplan.planner.studies import eta

    monkeypatch.setattr(eta, "ALL_JOBS", 80)
    monkeypatch.setattr(eta, "QUICK_JOBS", 24)
    monkeypatch.setattr(eta, "QUICK_REPLAYS", 10)


@pytest.fixture
def few_resamples(monkeypatch):
    """Say how sure a plan is by fewer resamples, where a test looks at other things."""
    from gpuplan.planner.plan.uncertainty import plan_intervals

    monkeypatch.setitem(plan_intervals.__kwdefaults__, "resamples", 4)


@pytest.fixture
def tiny_blocks(monkeypatch):
    """Blocks and chunks of a few bytes, so that small logs have many."""
    from gpuplan.analysis.reading import delimited, records, source

    monkeypatch.setattr(source, "HEAD_BYTES", 80)
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 50)
    monkeypatch.setattr(records, "CHUNK_BYTES", 7)
    monkeypatch.setattr(records, "ROWS_PER_BATCH", 2)
