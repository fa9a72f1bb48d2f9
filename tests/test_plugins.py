"""What installed packages add: found, checked, and reported where it cannot be used."""

import json
import os
import subprocess
import sys

import pytest
import support_plugins as support

from gpuplan.analysis.log_formats.registry import FORMATS
from gpuplan.analysis.plugins import PluginError, PluginWarning, report_problems_to
from gpuplan.analysis.storage.cache import key_of
from gpuplan.cli.options import completion
from gpuplan.planner.speedup.registry import load_speedup

GOOD = """
from gpuplan.analysis.log_formats.format import LogFormat, has_columns, need
from gpuplan.analysis.reading.plan import Field, ReadingPlan, number
from gpuplan.analysis.reading.times import seconds

COLUMNS = ("at", "ran", "cards")

def plan(context):
    need(context, COLUMNS, "acme")
    return ReadingPlan(
        fields=(
            Field("submit_time", "at", seconds("at"), "seconds", True),
            number("duration_s", "ran"),
            number("num_gpus", "cards", required=True),
        ),
        relative_time=True,
    )

def make(name="acme", **other):
    usual = {"recognizes": lambda head: has_columns(head, COLUMNS), "plan": plan}
    usual |= {"description": "Acme's log", "source": "Acme"}
    return LogFormat(name=name, columns=COLUMNS, **(usual | other))

def fail(*arguments):
    raise ZeroDivisionError("by hand")

ACME = make()
GREEDY = make("greedy", recognizes=fail)
HALF = make("half", recognizes=lambda head: None, plan=fail)
WRONG = make("wrong", recognizes=lambda head: None, plan=lambda context: 7)
SLURM = make("slurm")
NAMELESS = make("nameless", description=None)
OTHER_NAME = make("other")
NO_CALL = make("no-call", plan="plan")
"""
LAW = """
import numpy as np
from gpuplan.planner.speedup.functions import SpeedupFormula
from gpuplan.planner.speedup.law import SpeedupLaw

def formula(of):
    class Formula(SpeedupFormula):
        def __init__(self, *parameters):
            self.parameters = parameters
        def from_one(self, gpus):
            return of(gpus, *self.parameters)
    return Formula

def law(name, of, parameters=("A",)):
    return SpeedupLaw(name, parameters, formula(of), "a law", "us")

def rocky(gpus):
    if (gpus == 5).any():
        raise ZeroDivisionError("five")
    return gpus ** 0.5

ROOT = law("root", lambda gpus, a: gpus ** (1 / a))
PLAIN = law("plain", lambda gpus: gpus ** 0.5, ())
SUPER = law("super", lambda gpus: gpus ** 1.2, ())
TWO = law("two", lambda gpus: 2 * gpus, ())
ROCKY = law("rocky", rocky, ())
"""
POLICY = """
from dataclasses import replace
import numpy as np
from gpuplan.planner.policies.rounds.decided import decided_policy
from gpuplan.planner.policies.rounds.equal import POLICY as EQUAL
from gpuplan.planner.runs.settings import Setting

def in_order(view, settings):
    from gpuplan.simkit.rounds.decisions import Allocation
    free = sum(view.cluster.gpus)
    ahead = np.arange(view.running.size) * settings["most"]
    return Allocation(np.clip(free - ahead, 0, settings["most"]))

def fail(view, settings):
    raise ZeroDivisionError("by hand")

def too_much(view, settings):
    from gpuplan.simkit.rounds.decisions import Allocation
    return Allocation(np.full(view.running.size, 60))

def decided(name, decide):
    own = {"most": Setting("count", "most GPUs of a job", default=2)}
    return decided_policy(name, "jobs in order", "us", decide, own=own)

IN_ORDER = decided("in-order", in_order)
FAILS = decided("fails", fail)
TOO_MUCH = decided("too-much", too_much)
OUT_OF_RANGE = replace(
    EQUAL, name="out-of-range", settings={"most": Setting("count", "", at_least=1, default=0)}
)
FIFO = decided("fifo", in_order)
FIXED = decided("fixed", in_order)
"""
LOG = "at,ran,cards\n0,60,1\n30,600,2\n"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Returns a function that installs a package: its name, code and entry points."""
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(str(site))

    def installed(name, code, *points, version="1.0"):
        support.write_package(site, name, code, points, version)
        support.forget()
        return site

    yield installed
    support.drop_modules(site)
    support.forget()


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "acme.csv"
    path.write_text(LOG)
    return path


def test_a_format_of_a_package_is_detected_listed_and_forced(install, gpuplan, log, tmp_path):
    install("acme-gpus", GOOD, ("log_formats", "acme", "ACME"), version="2.1")
    for options in ((), ("--source-format", "acme")):
        code, _, err = gpuplan("ingest", log, "-o", tmp_path / "t.parquet", *options)
        assert code == 0, err
    rows = json.loads(gpuplan("list", "formats", "--output-format", "json")[1])["results"]
    packages = {row["name"]: row["package"] for row in rows["formats"]}
    assert packages["acme"] == "acme-gpus 2.1" and packages["slurm"] is None
    assert "acme" in completion.log_formats()
    code, _, err = gpuplan("ingest", log, "-o", tmp_path / "t.parquet", "--source-format", "acmee")
    assert code == 2 and "did you mean acme?" in err


def test_completion_and_known_names_load_nothing(install, gpuplan, log, tmp_path):
    install("broken-gpus", "raise ImportError('no')", ("log_formats", "acme", "ACME"))
    assert "acme" in completion.log_formats() and "broken_gpus" not in sys.modules
    assert FORMATS["slurm"].name == "slurm" and "broken_gpus" not in sys.modules


@pytest.mark.parametrize(
    ("code", "point", "says"),
    [
        ("import nowhere_at_all", "acme", "cannot be loaded: ModuleNotFoundError"),
        ("raise SystemExit(3)", "acme", "cannot be loaded: SystemExit"),
        ("ACME = 7", "acme", "of type int, expected gpuplan.analysis.log_formats.format.LogFormat"),
        (GOOD.replace("ACME =", "ACHE ="), "acme", "cannot be loaded: AttributeError"),
        (GOOD, "other.name", "calls itself 'acme'"),
        (GOOD + "ACME = NAMELESS", "nameless", "its description is not a text"),
        (GOOD + "ACME = NO_CALL", "no-call", "its plan is not a function"),
        (GOOD, "Acme", "names are of a-z"),
    ],
)
def test_what_cannot_be_used_is_told_and_everything_else_goes_on(
    install, gpuplan, tmp_path, code, point, says
):
    install("broken-gpus", code, ("log_formats", point, "ACME"))
    code, out, err = gpuplan("list", "formats")
    assert code == 0 and "slurm" in out
    (warning,) = (line for line in err.splitlines() if line.startswith("warning"))
    assert says in warning and "broken-gpus 1.0" in warning
    assert f"entry point {point} = broken_gpus:ACME in gpuplan.log_formats" in warning
    log = tmp_path / "jobs.csv"
    log.write_text("job_id,submit_time,duration_s,num_gpus\na,2026-01-01T00:00:00Z,60,1\n")
    code, _, err = gpuplan("ingest", log, "-o", tmp_path / "t.parquet")
    assert code == 0 and err.count("broken-gpus 1.0") == 1, err
    wanted = ("--source-format", point)
    code, _, err = gpuplan("ingest", log, "-o", tmp_path / "t.parquet", *wanted)
    assert code == 3 and says in err and "pip uninstall broken-gpus" in err
    code, _, err = gpuplan("list", "speedups")
    assert code == 0 and "broken-gpus" not in err


def test_a_format_that_fails_in_detection_stops_no_other(install, gpuplan, log, tmp_path):
    install("acme-gpus", GOOD, ("log_formats", "acme", "ACME"), ("log_formats", "greedy", "GREEDY"))
    code, _, err = gpuplan("ingest", log, "-o", tmp_path / "t.parquet")
    assert code == 0, err
    assert err.count("'greedy' of the package acme-gpus 1.0 fails in recognizes") == 1


@pytest.mark.parametrize(
    ("name", "says"),
    [("half", "fails in plan: ZeroDivisionError: by hand"), ("wrong", "returns 7 from plan")],
)
def test_a_format_that_fails_is_named(install, gpuplan, log, tmp_path, name, says):
    install("acme-gpus", GOOD, ("log_formats", name, name.upper()))
    code, _, err = gpuplan("ingest", log, "-o", tmp_path / "t.parquet", "--source-format", name)
    assert code == 3 and says in err and "acme-gpus 1.0" in err and "internal error" not in err


def test_a_built_in_name_cannot_be_taken(install, gpuplan, log, tmp_path):
    install("acme-gpus", GOOD, ("log_formats", "slurm", "SLURM"))
    code, out, err = gpuplan("list", "formats", "--output-format", "json")
    assert code == 0 and err.count("is left out: a built-in one has that name") == 1
    formats = json.loads(out)["results"]["formats"]
    assert [one["package"] for one in formats if one["name"] == "slurm"] == [None]
    forced = ("--source-format", "slurm")
    code, _, err = gpuplan("ingest", log, "-o", tmp_path / "t.parquet", *forced)
    assert "is left out" in err  # the one that is used is the built-in one
    assert list(completion.log_formats()).count("slurm") == 1


def test_a_name_of_two_packages_is_refused(install, gpuplan):
    install("acme-gpus", GOOD, ("log_formats", "acme", "ACME"))
    install("bcme-gpus", GOOD, ("log_formats", "acme", "ACME"))
    assert "acme" not in set(FORMATS)
    with pytest.raises(PluginError, match=r"bcme-gpus 1.0 has the name of one of acme-gpus 1.0"):
        FORMATS["acme"]


def test_without_a_terminal_it_is_a_warning_of_python(install):
    install("broken-gpus", "raise ImportError('no')", ("log_formats", "acme", "ACME"))
    report_problems_to(None)
    with pytest.warns(PluginWarning, match="broken-gpus 1.0"):
        assert len(FORMATS) == len(FORMATS.built_in)


def test_a_law_of_a_package_is_a_law(install, gpuplan):
    points = [("speedups", name, name.upper()) for name in ("root", "plain", "super")]
    install("laws", LAW, *points)
    assert load_speedup("root:2").law.at(4.0) == 2
    assert load_speedup("root:2..4").ends[1].name == "root:4"
    assert load_speedup("plain").name == "plain"
    assert set(completion.speedups()) >= {"root", "plain", "super", "power:0.8", "profile:t4"}
    assert "root:A" in gpuplan("list", "speedups")[1]


@pytest.mark.parametrize("name", ["plain", "super"])
def test_a_law_of_a_package_plans(install, gpuplan, hours, name):
    install("laws", LAW, ("speedups", name, name.upper()))
    options = ("--speedup", name, "--sensitivity", "--output-format", "json")
    code, out, err = gpuplan("pareto", hours, *options)
    assert code == 0, err
    assert json.loads(out)["results"]["speedup"]["name"] == name


@pytest.mark.parametrize(
    ("name", "says"),
    [("two", "ValueError: s(1) is 2; it must be 1"), ("rocky", "fails: ZeroDivisionError: five")],
)
def test_a_law_that_fails_is_named(install, gpuplan, hours, name, says):
    install("laws", LAW, ("speedups", name, name.upper()))
    code, _, err = gpuplan("pareto", hours, "--speedup", name, "--no-replay")
    assert code == 3 and says in err and "laws 1.0" in err and "internal error" not in err


@pytest.mark.parametrize("name", ["power", "table"])
def test_a_law_cannot_take_a_name_that_means_something(install, gpuplan, hours, name):
    install("laws", LAW.replace('"root"', f'"{name}"'), ("speedups", name, "ROOT"))
    code, out, err = gpuplan("list", "speedups")
    assert code == 0 and "is left out" in err and "a law" not in out


def test_results_are_kept_by_the_versions_of_packages(install):
    before = key_of("studies", name="pareto")
    install("laws", LAW, ("speedups", "root", "ROOT"))
    assert key_of("studies", name="pareto") != before


def test_help_looks_up_no_entry_points(tmp_path):
    program = (
        "import sys; from gpuplan.cli.app.main import main; code = main(['--help']); "
        "from gpuplan.analysis import plugins; print(code, plugins._entry_points.cache_info())"
    )
    support.write_package(tmp_path / "site", "bad", "1 / 0", [("policies", "fifo", "X")])
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert said.stdout.splitlines()[-1].startswith("0 CacheInfo(hits=0, misses=0")
    assert said.stderr == ""


def test_a_policy_of_a_package_is_a_policy(install, gpuplan, hours, tmp_path):
    install("sched", POLICY, ("policies", "in-order", "IN_ORDER"))
    assert "in-order" in completion.policies() and "in-order" in completion.baselines()
    rows = json.loads(gpuplan("list", "policies", "--output-format", "json")[1])["results"]
    (row,) = (row for row in rows["policies"] if row["policy"] == "in-order")
    assert row["package"] == "sched 1.0" and "most" in {one["setting"] for one in row["settings"]}
    options = ("--policy", "fifo", "--policy", "in-order:most=1", "--cluster", "8")
    plot = ("--plot", tmp_path / "p.svg", "--output-format", "json")
    code, out, err = gpuplan("compare", hours, *options, *plot)
    assert code == 0, err
    found = {one["policy"]: one for one in json.loads(out)["results"]["policies"]}
    assert found["in-order"]["mean_jct_s"] == pytest.approx(3600, rel=0.1)  # a GPU for each job
    code, _, err = gpuplan("simulate", hours, "--policy", "in-ordr")
    assert code == 2 and "did you mean in-order?" in err


def test_a_policy_of_a_package_is_a_baseline(install, gpuplan, hours, tmp_path):
    install("sched", POLICY, ("policies", "in-order", "IN_ORDER"))
    options = ("--baseline", "in-order", "--plot", tmp_path / "p.svg", "--output-format", "json")
    code, out, err = gpuplan("pareto", hours, *options)
    assert code == 0, err
    assert {one["baseline"] for one in json.loads(out)["results"]["baselines"]} == {"in-order"}
    assert "in-order" in (tmp_path / "p.svg").read_text()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fails", "fails in run: ZeroDivisionError: by hand"),
        ("too-much", "fails in run: ValueError: "),
        ("out-of-range", "the default of its setting most: most must be at least 1 and at most "),
    ],
)
def test_a_policy_that_fails_is_named(install, gpuplan, hours, name, says):
    install("sched", POLICY, ("policies", name, name.upper().replace("-", "_")))
    code, _, err = gpuplan("simulate", hours, "--policy", name, "--set", "cluster=8")
    assert code == 3 and says in err and "sched 1.0" in err and "internal error" not in err
    assert gpuplan("simulate", hours, "--policy", "fifo", "--set", "cluster=8")[0] == 0


@pytest.mark.parametrize("name", ["fifo", "fixed"])
def test_a_policy_cannot_take_a_built_in_name_or_an_old_one(install, gpuplan, name):
    install("sched", POLICY, ("policies", name, name.upper()))
    code, out, err = gpuplan("list", "policies")
    assert code == 0 and "is left out: a built-in one has that name" in err
    assert "jobs in order" not in out


@pytest.mark.slow
def test_a_policy_of_a_package_runs_in_other_processes(tmp_path, hours):
    support.write_package(tmp_path / "site", "sched", POLICY, [("policies", "fails", "FAILS")])
    program = "import sys; from gpuplan.cli.app.main import main; sys.exit(main(sys.argv[1:]))"
    options = ("--policy", "fails", "--policy", "fifo", "--engine", "processes")
    done = subprocess.run(
        [sys.executable, "-c", program, "compare", str(hours), "--cluster", "8", *options],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        check=False,
    )
    assert done.returncode == 3 and "sched 1.0 fails in run: ZeroDivisionError" in done.stderr
