"""Runs of dstack and applications of YuniKorn, worked out by hand."""

import json

import polars as pl
import pytest
from support_kubernetes import DAY, at, container, jobs_of, listed, pod, span, texts

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


def test_replicas_that_come_and_go_hold_what_runs_at_one_time(tmp_path):
    """Each replica of a service counts its own submissions, all from 0."""
    first, second, third = (submission(0, *times) for times in ((0, 50), (20, 60), (100, 130)))
    jobs, _ = jobs_of(tmp_path, listing(run("r", [first], [second], [third])))
    job = jobs["r"]
    assert [(r["gpus"], r["nodes"]) for r in job["runs"]] == [(16, 2), (8, 1)]
    assert (job["num_gpus"], job["duration_s"], job["requeue_s"]) == (8, 60 + 30, 40)


def test_a_replica_that_is_lost_does_not_hold_its_gpus_twice(tmp_path):
    lost = submission(0, 0, 50, "failed", termination_reason="interrupted_by_no_capacity")
    jobs, _ = jobs_of(
        tmp_path, listing(run("r", [lost, submission(1, 60, 100)], [submission(0, 0, 100)]))
    )
    job = jobs["r"]
    assert (job["num_gpus"], job["num_workers"], job["duration_s"]) == (16, 2, 100)
    assert (job["attempts"], job["state"], job["runs"]) == (2, "completed", None)


def test_a_run_in_two_listings_counts_once_as_the_last_one_has_it(tmp_path):
    early = run("r", [submission(0, 5, None, "running")], status="running", id="1")
    late = run("r", [submission(0, 5, 90)], id="1")
    jobs, _ = jobs_of(tmp_path, listing(early), listing(late))
    assert {name: (job["state"], span(job)) for name, job in jobs.items()} == {
        "r": ("completed", (0, 5, 90))
    }


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


def test_an_application_without_an_id_is_refused(tmp_path):
    nameless = application()
    del nameless["applicationID"]
    message = r"json:2: column 'applicationID'.*; 2 of 3 rows cannot be used \(2 missing\)"
    with pytest.raises(InputError, match=message):
        jobs_of(tmp_path, [application(), nameless, nameless])


@pytest.mark.parametrize("name", ["submissionTime", "finishedTime", "startTime"])
def test_an_application_whose_time_has_400_digits_is_refused(tmp_path, name):
    # Without a start in its log, the start of the application itself counts.
    far = application("far", log=[("New", 0), ("Completed", 110)], **{name: 10**400})
    with pytest.raises(InputError, match=r"json:2: .*1 of 2 rows cannot be used \(1 unreadable\)"):
        jobs_of(tmp_path, [application(), far])


def test_options_of_kubernetes_are_for_its_logs(gpuplan, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("name,time,application,num_replicas,batch_size\nj,5,bert,1,32\n")
    out = tmp_path / "t.parquet"
    code, _, err = gpuplan("ingest", log, "-o", out, "--include-cpu")
    assert code == 2
    assert "are for logs of Kubernetes, not sia" in err


def test_options_of_kubernetes_on_the_command_line(gpuplan, tmp_path):
    tpu = {"containers": [container(4, "google.com/tpu")], "nodeName": "n"}
    (tmp_path / "k.json").write_text(json.dumps(listed(pod("a", labels={"who": "ada"}, spec=tpu))))
    out = tmp_path / "t.parquet"
    options = ("--gpu-resource", "google.com/tpu", "--user-label", "who", "--include-cpu")
    code, shown, err = gpuplan(
        "ingest", tmp_path / "k.json", "-o", out, *options, "--output-format", "json"
    )
    assert code == 0, err
    document = json.loads(shown)
    assert document["parameters"]["gpu_resource"] == ["google.com/tpu"]
    assert document["results"]["span"]["first_submit"] == at(0)
    assert document["results"]["left_out"] == {}
    (job,) = pl.read_parquet(out).rows(named=True)
    assert (job["num_gpus"], job["user"]) == (4, "ada")
    code, _, err = gpuplan("ingest", tmp_path / "k.json", "-o", out, "--metric", "x")
    assert code == 2
    assert "must be NAME=FILE" in err


def test_a_log_is_read_in_place_of_a_trace(gpuplan, tmp_path):
    (tmp_path / "k.json").write_text(json.dumps(listed(*(pod(f"p{i}") for i in range(3)))))
    code, shown, err = gpuplan("characterize", tmp_path / "k.json", "--output-format", "json")
    assert code == 0, err
    assert json.loads(shown)["inputs"][0]["log"]["source_format"] == "kube"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("kueue", ("--gang", "job")),
        ("kueue", ("--node-types", "nodes.json")),
        ("kueue", ("--metric", "kube_pod_created=dump.json")),
        ("kube", ("--metric", "kube_pod_created=dump.json")),
        ("dstack", ("--user-label", "user")),
        ("yunikorn", ("--user-label", "user")),
    ],
)
def test_options_that_a_format_does_not_read_are_refused(gpuplan, tmp_path, name, options):
    path = tmp_path / "dump.json"
    path.write_text(texts()[name][2])
    (tmp_path / "nodes.json").write_text("{}")
    if options[1] == "nodes.json":
        options = (options[0], tmp_path / "nodes.json")
    code, _, err = gpuplan("ingest", path, "-o", tmp_path / "t.parquet", *options)
    assert code == 2 and f"{options[0]} does not apply to {name} logs; leave it out" in err


@pytest.mark.parametrize("name", ["kube", "kueue", "kube_metrics"])
def test_a_label_that_no_object_has_is_told(tmp_path, name):
    for label, is_told in (("nosuch", True), (None, False)):
        options = {"user_label": label} if label else {}
        _, done = jobs_of(tmp_path, texts()[name][2], name=texts()[name][1], options=options)
        assert any("'nosuch' of --user-label" in note for note in done.notes) is is_told


@pytest.mark.parametrize(("name", "said"), [("kueue", "ResourceFlavors"), ("kube", "the nodes")])
def test_the_advice_for_unknown_types_is_of_the_format(tmp_path, name, said):
    text = texts()[name][2].replace('"h100"', '""').replace("nvidia.com/gpu.product", "other")
    _, done = jobs_of(tmp_path, text, name=texts()[name][1])
    notes = [note for note in done.notes if note.startswith("jobs whose GPU type")]
    assert notes and all(said in note and "--node-types" not in note for note in notes)
