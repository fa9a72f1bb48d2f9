"""What CONTRIBUTING says of additions is enough: commands run each, in a copy with them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpuplan.simkit.cluster import parameters
from gpuplan.simkit.cluster.parameters import Cluster
from gpuplan.simkit.cluster.simulator import run_cluster
from gpuplan.simkit.workload import Workload

ROOT = Path(__file__).resolve().parents[1]
LOG = "job_id,submit_time,start_time,end_time,state,num_gpus\n" + "".join(
    f"j{i},2024-01-01 00:0{i}:00,2024-01-01 01:0{i}:00,2024-01-01 0{9 - i}:00:00,COMPLETED,2\n"
    for i in range(4)
)
POLICY = '''"""Every job on one GPU."""

import numpy as np

from gpuplan.planner.policies.rounds.decided import decided_policy
from gpuplan.planner.runs.settings import Setting


def decide(view, values):
    from gpuplan.simkit.rounds.decisions import Allocation

    width = np.zeros(view.running.size, np.int64)
    width[: min(sum(view.cluster.gpus), width.size)] = values["most"]
    return Allocation(width)


POLICY = decided_policy(
    "toy",
    "one GPU for each job",
    "nobody",
    decide,
    own={"most": Setting("count", "GPUs of a job", default=1, at_least=1, at_most=1)},
)
'''
FORMAT = '''"""A log of three columns."""

from gpuplan.analysis.log_formats.format import LogFormat, has_columns, need
from gpuplan.analysis.reading.plan import Field, ReadingPlan, number, text
from gpuplan.analysis.reading.times import seconds

COLUMNS = ("toy", "came", "ran", "cards")


def _plan(context):
    need(context, COLUMNS, "toy")
    return ReadingPlan(
        fields=(
            text("job_id", "toy", required=True),
            Field("submit_time", "came", seconds("came"), "seconds", required=True),
            number("duration", "ran", required=True),
            number("num_gpus", "cards", required=True),
        ),
        relative_time=True,
    )


TOY = LogFormat(
    name="toy",
    description="a toy",
    source="nobody",
    recognizes=lambda head: has_columns(head, COLUMNS),
    plan=_plan,
    columns=COLUMNS,
)
'''
LAW = """TOY = SpeedupLaw("toy", ("ALPHA",), Power, "k^ALPHA", "nobody", example="0.5")
BUILT_IN = (AMDAHL, USL, POWER, TOY)"""
ADDED = {  # files of CONTRIBUTING -> their text, or what is replaced in them
    "planner/policies/rounds/toy.py": POLICY,
    "planner/registry.py": {
        '    "equal": "rounds.equal",\n': '    "equal": "rounds.equal",\n    "toy": "rounds.toy",'
        "\n",
    },
    "cli/figures/palette.py": {
        '    "fifo": Look(': '    "toy": Look("#111111", SOLID),\n'
        '    "newest": Look("#222222", SOLID),\n    "fifo": Look(',
    },
    "analysis/log_formats/toy.py": FORMAT,
    "analysis/log_formats/registry.py": {
        "log_formats.wandb import": "log_formats.toy import TOY\n"
        "from gpuplan.analysis.log_formats.wandb import",
        "        WANDB_FORMAT,\n": "        TOY,\n        WANDB_FORMAT,\n",
    },
    "planner/speedup/law.py": {"BUILT_IN = (AMDAHL, USL, POWER)": LAW},
}
SCHEDULER = {  # in a copy of its own: it changes the sources of kernels, which compile anew
    "simkit/cluster/parameters.py": {
        '    "width",\n    "dur': '    "newest",\n    "width",\n    "dur'
    },
    "simkit/cluster/simulator.py": {
        '        case "width":': '        case "newest":\n'
        '            static = -workload.submit_us\n        case "width":'
    },
    "planner/policies/cluster_settings.py": {
        "SCHEDULERS: dict[str, Scheduler] = {\n": "SCHEDULERS: dict[str, Scheduler] = {\n"
        '    "newest": Scheduler("the newest first", "nobody", "newest"),\n'
    },
}


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    """Returns a function that runs a command of a copy with every addition but the scheduler."""
    return runner(tmp_path_factory.mktemp("copy"), ADDED)


def runner(folder, added):
    """Return a function that runs a command of a copy with these additions."""
    package = folder / "gpuplan"
    for part in ("cli", "analysis", "planner", "simkit"):
        shutil.copytree(ROOT / part, package / part)  # with the compiled kernels
    for path, change in added.items():
        file = package / path
        if isinstance(change, str):
            assert not file.exists()
            file.write_text(change, encoding="utf-8")
            continue
        text = file.read_text(encoding="utf-8")
        for before, after in change.items():
            assert before in text, (path, before)
            text = text.replace(before, after, 1)
        file.write_text(text, encoding="utf-8")
    (folder / "log.csv").write_text(LOG)
    (folder / "toy.csv").write_text("toy,came,ran,cards\na,0,60,1\nb,30,600,2\n")

    def run(*arguments):
        code = "from gpuplan.cli.app.console import run; run()"
        found = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments), "--output-format", "json", "-q"],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.returncode == 0, found.stderr
        return json.loads(found.stdout)["results"]

    return run


def test_every_file_that_an_addition_touches_is_named():
    text = " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
    for path in ADDED | SCHEDULER:
        folder, _, name = path.rpartition("/")
        named = path in text or (f"{folder}/" in text and ("toy.py" in path or f"`{name}`" in text))
        assert named or path.startswith("planner/policies/rounds/toy"), path


@pytest.mark.kernels
def test_a_policy(toys):
    rows = toys("compare", "log.csv", "--policy", "fifo", "--policy", "toy", "--cluster", 4)
    assert [row["policy"] for row in rows["policies"]] == ["fifo", "toy"]


def test_a_policy_is_listed_with_its_setting(toys):
    (row,) = toys("list", "policies", "toy")["policies"]
    assert next(one for one in row["settings"] if one["setting"] == "most")["default"] == 1


@pytest.mark.slow
@pytest.mark.kernels
def test_a_classic_scheduler(tmp_path):
    toys = runner(tmp_path, ADDED | SCHEDULER)
    rows = toys("compare", "log.csv", "--policy", "first-fit", "--policy", "newest", "--cluster", 2)
    first_fit, newest = rows["policies"]
    assert newest["mean_jct_s"] < first_fit["mean_jct_s"]  # the newest are the shortest


def test_a_log_format(toys):
    assert toys("characterize", "toy.csv")["jobs"] == 2


@pytest.mark.slow
def test_a_speedup_law(toys):
    found = toys("pareto", "log.csv", "--speedup", "toy:0.5", "--budget", "2x", "--no-replay")
    assert found["speedup"]["name"] == "toy:0.5"


def test_an_order_without_a_rule_is_refused(monkeypatch):
    monkeypatch.setattr(parameters, "ORDERS", (*parameters.ORDERS, "luck"))
    jobs = Workload.from_seconds([0], [1], [1], [1])
    with pytest.raises(ValueError, match="the order 'luck' has no rule in simkit/cluster/simulat"):
        run_cluster(jobs, Cluster(1, order="luck"))
    assert np.ptp(run_cluster(jobs, Cluster(1)).start_us) == 0
