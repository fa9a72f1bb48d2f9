"""Runs of dstack and applications of YuniKorn, worked out by hand."""

import pytest
from support_kubernetes import DAY, at, jobs_of, span

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.job_table.reject_limit import Limit


def submission(number, start, end, status="done", gpus=8, **more):
    instance = {"name": "p5", "resources": {"gpus": [{"name": "H100", "memory_mib": 81559}] * gpus}}
    return {
        "submission_num": number,
        "submitted_at": at(start),
        "finished_at": None if end is None else at(end),
        "status": status,
        "job_provisioning_data": {"backend": "aws", "price": 98.3, "instance_type": instance},
        **more,
    }


def run(name="r", *nodes, status="done", **more):
    return {
        "id": f"id-{name}",
        "project_name": "p",
        "user": "ada",
        "submitted_at": at(0),
        "status": status,
        "cost": 12.5,
        "run_spec": {"run_name": name, "configuration": {"type": "task", "env": {"A": "s3cret"}}},
        "jobs": [{"job_submissions": list(node)} for node in nodes],
        **more,
    }


def listing(*runs):
    return {"project": "p", "runs": list(runs)}


def test_a_run_of_two_nodes(tmp_path):
    jobs, _ = jobs_of(tmp_path, listing(run("r", [submission(0, 5, 90)], [submission(0, 6, 100)])))
    job = jobs["r"]
    assert span(job) == (0, 5, 100)
    assert (job["num_gpus"], job["num_workers"], job["gpu_type"]) == (16, 2, "H100-80GB")
    assert (job["price"], job["cost"], job["user"], job["group"]) == (98.3, 12.5, "ada", "p")
    assert (job["state"], job["job_class"]) == ("completed", "task")


def test_submissions_are_attempts(tmp_path):
    lost = submission(0, 5, 50, "failed", termination_reason="interrupted_by_no_capacity")
    jobs, _ = jobs_of(tmp_path, listing(run("r", [lost, submission(1, 60, 100)])))
    job = jobs["r"]
    assert [r["state"] for r in job["runs"]] == ["preempted", "completed"]
    assert (job["attempts"], job["duration_s"], job["requeue_s"]) == (2, 85, 10)


def test_runs_that_are_no_jobs(tmp_path):
    waits = run("w", [submission(0, 1, None, job_provisioning_data=None)], status="submitted")
    never = run("n", [submission(0, 1, 9, job_provisioning_data=None)], status="failed")
    cpu = run("c", [submission(0, 1, 9, gpus=0)])
    runs = run("x", [submission(0, 1, None, "running")], status="running")
    jobs, done = jobs_of(tmp_path, listing(waits, never, cpu, runs))
    assert {name: job["state"] for name, job in jobs.items()} == {"x": "running"}
    assert done.left_out == {"without_gpus": 1, "pending": 1, "never_provisioned": 1}


def test_a_run_that_cannot_be_read_is_set_aside_without_its_text(tmp_path):
    odd = run("odd", [submission("first", 1, 9)])
    jobs, done = jobs_of(
        tmp_path, listing(odd, run("r", [submission(0, 1, 9)])), limit=Limit.of("100%")
    )
    assert (list(jobs), done.rejected_by_reason) == (["r"], {"unreadable": 1})


@pytest.mark.parametrize("text", ['{"runs": [], "run_spec": 1}', '{"runs": 3, "run_spec": {}}'])
def test_a_listing_without_runs_is_refused(tmp_path, text):
    with pytest.raises(InputError, match="dstack ps -a --json"):
        jobs_of(tmp_path, text)


def application(name="a", *, usage=None, log=None, **more):
    log = log or [("New", 0), ("Accepted", 1), ("Running", 10), ("Completed", 110)]
    return {
        "applicationID": name,
        "queueName": "root.team",
        "user": "ada",
        "submissionTime": int(DAY * 1e9),
        "finishedTime": int((DAY + 110) * 1e9),
        "startTime": int((DAY + 5) * 1e3),
        "applicationState": log[-1][0],
        "stateLog": [{"time": int((DAY + t) * 1e9), "applicationState": state} for state, t in log],
        "resourceUsage": {"p4d.24xlarge": usage or {"nvidia.com/gpu": 790, "vcore": 10}},
        **more,
    }


def test_an_application_starts_when_it_runs_and_its_gpus_are_a_mean(tmp_path):
    jobs, done = jobs_of(tmp_path, [application()])
    job = jobs["a"]
    assert span(job) == pytest.approx((0, 10, 110))
    assert (job["num_gpus"], job["gpu_type"]) == (8, "A100-40GB")
    assert (job["queue"], job["group"], job["state"]) == ("root.team", "team", "completed")
    assert any("are a mean" in note for note in done.notes)


def test_a_mean_that_is_near_no_whole_number_stays(tmp_path):
    jobs, _ = jobs_of(tmp_path, [application(usage={"nvidia.com/gpu": 250})])
    assert jobs["a"]["num_gpus"] == pytest.approx(2.5)


def test_older_states_and_applications_that_are_no_jobs(tmp_path):
    old = application("old", log=[("Starting", 20), ("Completed", 110)])
    never = application("never", log=[("Rejected", 3)], startTime=0)
    cpu = application("cpu", usage={"vcore": 10})
    jobs, done = jobs_of(tmp_path, [old, never, cpu, old])
    assert span(jobs["old"])[1] == pytest.approx(20)
    assert list(jobs) == ["old"]
    assert done.left_out == {"without_gpus": 1, "never_provisioned": 1}
