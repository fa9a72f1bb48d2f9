"""The one loop over scenarios and its engines: the same results, in order, wherever they run."""

import importlib.util
import json
import os
import secrets
import subprocess
import sys

import numpy as np
import pytest
from support_engine import Sent, fail, pid_and_sum, square, total
from support_traces import lab_trace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner import parallel
from gpuplan.planner.engine import ENGINES, Engine
from gpuplan.planner.parallel import run_all, usable_cores

EXTRAS = {"dask": "distributed", "ray": "ray"}
LARGE = np.arange(200_000)  # above the size from which processes map an array


def skip_without(engine):
    module = EXTRAS.get(engine)
    if module and importlib.util.find_spec(module) is None:
        pytest.skip(f"the extra gpuplan[{engine}] is not installed")


@pytest.fixture(scope="module")
def dask_address():
    """A real Dask cluster on this machine, in processes of its own."""
    skip_without("dask")
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster.scheduler_address


RAY_HEAD = """
import ray
ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
print(ray.get_runtime_context().gcs_address, flush=True)
input()
"""


@pytest.fixture
def ray_head():
    """A real Ray head on this machine, as its address and the environment that may use it.

    It has a token of its own, and ends when its standard input does.
    """
    skip_without("ray")
    allowed = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    command = [sys.executable, "-c", RAY_HEAD]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-3, text=True, env=allowed) as head:
        yield head.stdout.readline().strip(), allowed
        head.communicate("\n")


@pytest.mark.parametrize("workers", [1, 3, None])
def test_order_is_kept_and_progress_told(workers):
    shares = []
    found = run_all(
        lambda x: x * x, range(7), engine=Engine(workers=workers), progress=shares.append
    )
    assert found == [0, 1, 4, 9, 16, 25, 36]
    assert shares == [i / 7 for i in range(1, 8)]
    assert usable_cores() >= 1
    assert run_all(square, []) == []


@pytest.mark.parametrize("name", ENGINES[:2])
def test_an_error_in_a_scenario_comes_out(name):
    for workers in (1, 2):
        with pytest.raises(UsageError, match=r"item [01]"):
            run_all(fail, [0, 1], engine=Engine(name, workers))


def test_processes_share_arrays_and_leave_ours_alone():
    found = run_all(pid_and_sum, range(6), shared=(LARGE,), engine=Engine("processes", 2))
    assert [value for _, value, _ in found] == [total(i, LARGE) for i in range(6)]
    assert {kind for _, _, kind in found} == {"memmap"}  # mapped, not sent
    assert LARGE[0] == 0  # though every scenario wrote to its first element


def test_dask_sends_what_is_shared_once_to_a_worker(dask_address):
    shared = Sent(LARGE)
    found = run_all(
        pid_and_sum, range(12), shared=(shared,), engine=Engine("dask", 2, dask_address)
    )
    assert [value for _, value, _ in found] == [total(i, LARGE) for i in range(12)]
    loads = {}
    for pid, _, loaded in found:
        loads.setdefault(pid, set()).add(loaded)
    assert all(len(times) == 1 for times in loads.values()), "a worker was sent the array again"


SWEPT = ("--threshold", "0:1h:3", "--capacity", "4,none", "--price-ratio", "0.4,1")
AS_JSON = ("--output-format", "json", "--parallel", "2")


@pytest.mark.parametrize("name", ENGINES[:3])
def test_a_sweep_has_the_same_bytes_on_every_engine(name, gpuplan, tmp_path, request):
    asked = ("sweep", lab_trace(tmp_path / "lab.parquet"), *SWEPT, *AS_JSON)
    where = ("--address", request.getfixturevalue("dask_address")) if name == "dask" else ()
    code, out, err = gpuplan(*asked, "--engine", name, *where)
    assert code == 0, err
    assert json.loads(out)["results"]["jobs"] == 400
    if name != "threads":
        assert out == gpuplan(*asked)[1]


def test_a_sweep_has_the_same_bytes_on_a_ray_head(ray_head, gpuplan, tmp_path):
    address, allowed = ray_head
    asked = ("sweep", str(lab_trace(tmp_path / "lab.parquet")), *SWEPT, *AS_JSON)
    where = ("--engine", "ray", "--address", address)
    command = [sys.executable, "-m", "gpuplan.cli", *asked, *where]
    found = subprocess.run(command, capture_output=True, text=True, env=allowed, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout == gpuplan(*asked)[1]


@pytest.mark.parametrize("name", EXTRAS)
def test_a_cluster_of_its_own_is_started_where_there_is_no_address(name):
    skip_without(name)
    assert run_all(abs, [-1, 2, -3], engine=Engine(name, 1)) == [1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--engine", "processes", "--address", "tcp://localhost:1"], "needs --engine dask or ray"),
        (["--engine", "spark"], "expected one of threads, processes, dask, ray"),
    ],
)
def test_engines_that_cannot_be_meant_are_refused(gpuplan, tmp_path, arguments, problem):
    code, _, err = gpuplan("sweep", lab_trace(tmp_path / "lab.parquet"), *arguments)
    assert code == 2
    assert problem in err


def test_an_address_where_nobody_answers(gpuplan, tmp_path, monkeypatch):
    skip_without("dask")
    monkeypatch.setattr(parallel, "CONNECT_S", 0.5)
    code, out, err = gpuplan(
        *("sweep", lab_trace(tmp_path / "lab.parquet"), "--threshold", "60"),
        *("--engine", "dask", "--address", "tcp://127.0.0.1:1"),
    )
    assert (code, out) == (2, "")
    assert "--address tcp://127.0.0.1:1: no dask cluster answers there" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("engine", EXTRAS)
def test_a_missing_extra_is_named(engine, monkeypatch):
    monkeypatch.setitem(sys.modules, EXTRAS[engine], None)
    with pytest.raises(UsageError, match=rf"pip install 'gpuplan\[{engine}\]'"):
        run_all(square, [1], engine=Engine(engine))


def test_workers_of_another_version_are_refused():
    cluster = Engine("dask", address="tcp://there:8786")
    with pytest.raises(UsageError, match=r"its workers have gpuplan 0\.0\.9, this is"):
        parallel._check_versions(cluster, lambda: ["0.0.9", parallel._version()])

    def without():
        raise ModuleNotFoundError("No module named 'gpuplan'", name="gpuplan")

    with pytest.raises(UsageError, match="its workers cannot import gpuplan"):
        parallel._check_versions(cluster, without)
    parallel._check_versions(cluster, lambda: [parallel._version()])


def test_the_engine_is_no_part_of_the_result(gpuplan, tmp_path):
    lab = lab_trace(tmp_path / "lab.parquet")
    out = gpuplan("sweep", lab, "--threshold", "60", "--output-format", "json")[1]
    assert not {"engine", "address", "parallel"} & json.loads(out)["parameters"].keys()
