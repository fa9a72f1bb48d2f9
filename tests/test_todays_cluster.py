"""Policies are compared on today's cluster where no size is set and the log's jobs wait."""

import json

import pytest
from support_traces import write_trace
from support_waits import GPUS, write_waits

POLICIES = ("--policy", "fifo", "--policy", "sjf")


def study(gpuplan, *words):
    code, out, err = gpuplan(*words, "--output-format", "json")
    assert code == 0, err
    return json.loads(out)


def sizes(document):
    return {row["name"]: row["gpus"] for row in document["results"]["policies"]}


@pytest.fixture(scope="module")
def waiting(tmp_path_factory):
    return write_waits(tmp_path_factory.mktemp("waiting") / "log.parquet")


def test_schedulers_are_compared_on_the_gpus_of_the_log_where_its_jobs_wait(gpuplan, waiting):
    found = study(gpuplan, "compare", waiting, *POLICIES)
    assert sizes(found) == {"fifo": GPUS, "sjf": GPUS}
    waits = {row["name"]: row["p95_wait_s"] for row in found["results"]["policies"]}
    assert 0 < waits["sjf"] < waits["fifo"]
    note = f"fifo, sjf: the cluster has {GPUS} GPUs, the most that the log shows held at once"
    assert any(warning.startswith(note) for warning in found["warnings"])
    _, out, _ = gpuplan("compare", waiting, *POLICIES)
    assert "hardly matters" not in out


def test_one_policy_runs_on_them_too(gpuplan, waiting):
    found = study(gpuplan, "simulate", waiting, "--policy", "easy")
    assert found["results"]["gpus"] == GPUS
    assert found["results"]["fidelity"]["verdict"] == "agrees"
    assert any(
        warning.startswith("the cluster has 32 GPUs, the most") for warning in found["warnings"]
    )


def test_a_size_that_is_set_and_policies_that_rent_stay_as_they_are(gpuplan, waiting):
    set_size = study(gpuplan, "compare", waiting, *POLICIES, "--gpus", 40)
    assert set(sizes(set_size).values()) == {40}
    of_one = study(gpuplan, "compare", waiting, "--policy", "fifo:gpus=48", "--policy", "sjf")
    assert sizes(of_one) == {"fifo:gpus=48": 48, "sjf": GPUS}
    rented = study(gpuplan, "compare", waiting, "--policy", "recorded", "--policy", "fifo")
    assert sizes(rented)["recorded"] > GPUS == sizes(rented)["fifo"]
    nodes = study(gpuplan, "simulate", waiting, "--policy", "fifo", "--cluster", "x8")
    assert nodes["results"]["gpus"] > GPUS and nodes["results"]["mean_wait_s"] == 0


def test_changed_jobs_and_a_log_without_waits_take_as_many_gpus_as_they_need(
    gpuplan, waiting, tmp_path
):
    scaled = study(gpuplan, "compare", waiting, *POLICIES, "--scale-duration", 1.1)
    assert min(sizes(scaled).values()) > GPUS
    trace = write_trace(tmp_path / "t.parquet", range(50), [7200.0] * 50, queue_s=[60.0] * 50)
    assert set(sizes(study(gpuplan, "compare", trace, *POLICIES)).values()) == {50}


def test_two_policies_that_cost_more_cost_in_the_plural(gpuplan, waiting):
    words = ("--policy", "fifo:gpus=64", "--policy", "sjf:gpus=64", "--policy", "recorded")
    _, out, _ = gpuplan("compare", waiting, *words)
    assert "cost more and are no faster" in " ".join(out.split())


def test_fcfs_is_another_name_of_fifo(gpuplan, waiting):
    found = study(gpuplan, "simulate", waiting, "--policy", "fcfs")
    assert found["results"]["policy"] == "fifo"
