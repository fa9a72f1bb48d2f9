"""What a dump or a YAML file says reaches the replay: partial admission, thresholds, taints."""

import json

import pytest
from support_kueue import GPU, cluster_queue, local_queue, workload, write_list, write_yaml

from gpuplan.analysis.quota.kueue_site import read_quota_site
from gpuplan.analysis.quota.workloads import read_kueue_log
from gpuplan.planner.quota.model import quota_model
from gpuplan.planner.quota_twin.cases import replay_level
from gpuplan.planner.quota_twin.levels import FAIR
from gpuplan.planner.quota_twin.log_workload import quota_workload
from gpuplan.simkit.quota.site import DEFAULT_GRACE_S

pytestmark = pytest.mark.compiled
EVICTED = 10 + DEFAULT_GRACE_S
"""When what comes at 10 s starts, in the place of an evicted job."""


@pytest.fixture(params=[write_list, write_yaml])
def write(request):
    """How the objects of the site are written: as kubectl prints them, and as YAML."""
    return request.param


def starts(tmp_path, write, site, jobs):
    """Return when each job starts last in a replay, seconds after the first submission."""
    document = read_quota_site(write(tmp_path / "site.any", site))
    log = read_kueue_log(write_list(tmp_path / "jobs.json", jobs))
    model = quota_model(document)
    work = quota_workload(log, document, model, warmup_s=0)
    run = replay_level(model.site, work.quota, FAIR).run
    last = {}
    for job, start in sorted(zip(run.job.tolist(), run.start_s.tolist(), strict=True)):
        last[work.job_ids[job].partition("/")[2]] = start - int(work.quota.submit[0])
    return last, dict(work.left_out)


def queue(name, nominal, **spec):
    return [cluster_queue(f"{name}-cq", nominal, **spec), local_queue(name, f"{name}-cq")]


def partly(job, least):
    """The job with the fewest pods that it takes."""
    job["spec"]["podSets"][0]["minCount"] = least
    return job


def test_the_fewest_pods_of_a_workload_are_enough(tmp_path, write):
    # A workload of four pods finds three GPUs: with minCount 2 it starts with three of them.
    site = queue("a", 4)
    small = workload("small", "a", 0, 0, 1000)
    wide = workload("wide", "a", 10, 1000, 2000, count=4)
    assert starts(tmp_path, write, site, [small, wide])[0] == {"small": 0, "wide": 1000}
    assert starts(tmp_path, write, site, [small, partly(wide, 2)])[0] == {"small": 0, "wide": 10}
    assert starts(tmp_path, write, site, [small, partly(wide, 4)])[0] == {"small": 0, "wide": 1000}


def borrower(threshold):
    """Three queues of which the first may evict jobs of others while it borrows."""
    borrow = {"policy": "LowerPriority"}
    if threshold is not None:
        borrow["maxPriorityThreshold"] = threshold
    preemption = {"reclaimWithinCohort": "LowerPriority", "borrowWithinCohort": borrow}
    return [*queue("a", 4, preemption=preemption), *queue("b", 4), *queue("c", 8)]


@pytest.mark.parametrize(
    ("threshold", "start"), [(None, EVICTED), (150, EVICTED), (149, 1000), (0, 1000)]
)
def test_who_borrows_evicts_up_to_the_threshold(tmp_path, write, threshold, start):
    # b borrows 4 of its 8 GPUs; a wants 12 of the 16, 8 of them borrowed, and may take them from
    # jobs below its own priority of 200, and not above the threshold.
    jobs = [
        workload("b1", "b", 0, 0, 1000, gpus=8, priority=150),
        workload("a1", "a", 10, 1000, 2000, gpus=12, priority=200),
    ]
    assert starts(tmp_path, write, borrower(threshold), jobs)[0]["a1"] == start


def fair(*strategies):
    """The configuration of a controller with fair sharing by these strategies."""
    text = json.dumps({
        "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
        "fairSharing": {"enable": True, "preemptionStrategies": list(strategies)},
    })  # fmt: skip
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kueue-manager-config"},
            "data": {"controller_manager_config.yaml": text}}  # fmt: skip


@pytest.mark.parametrize(
    ("strategies", "start"),
    [
        (["LessThanOrEqualToFinalShare"], 1000),
        (["LessThanInitialShare"], EVICTED),
        (["LessThanOrEqualToFinalShare", "LessThanInitialShare"], EVICTED),
    ],
)
def test_strategies_of_fair_sharing_decide_who_evicts(tmp_path, write, strategies, start):
    # b borrows all 16 GPUs of c with one job; a wants 12. Its share would be 12/16: below that of b
    # before the eviction (16/16), and above that of b after it (0).
    any_of_cohort = {"reclaimWithinCohort": "Any"}
    site = [*queue("a", 0, preemption=any_of_cohort), *queue("b", 0), *queue("c", 16)]
    jobs = [
        workload("b1", "b", 0, 0, 1000, gpus=16), workload("a1", "a", 10, 1000, 2000, gpus=12)
    ]  # fmt: skip
    assert starts(tmp_path, write, [*site, fair(*strategies)], jobs)[0]["a1"] == start


def tainted(name, effect):
    """A flavor whose nodes have a taint."""
    taints = [{"key": "for", "value": "tests", "effect": effect}]
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor",
            "metadata": {"name": name}, "spec": {"nodeTaints": taints}}  # fmt: skip


@pytest.mark.parametrize(
    ("effect", "toleration", "start"),
    [
        ("NoExecute", None, 1000),
        ("NoExecute", {"key": "for", "operator": "Exists"}, 10),
        ("NoExecute", {"key": "for", "value": "tests", "effect": "NoSchedule"}, 1000),
        ("NoExecute", {"key": "for", "value": "others"}, 1000),
        ("NoSchedule", None, 1000),
        ("PreferNoSchedule", None, 10),
    ],
)
def test_pods_keep_off_nodes_whose_taint_they_do_not_tolerate(
    tmp_path, write, effect, toleration, start
):
    # Two flavors of 8 GPUs, the first with a taint: without it the second job has one to itself.
    site = [*queue("a", 0, flavors={"kept": 8, "free": 8}), tainted("kept", effect)]
    jobs = [workload(f"j{i}", "a", 10 * i, 0 if not i else 1000, 1000 * (i + 1), gpus=8)
            for i in range(2)]  # fmt: skip
    for job in jobs:
        job["spec"]["podSets"][0]["template"]["spec"]["tolerations"] = (
            [] if toleration is None else [toleration]
        )
        job["status"]["admission"]["podSetAssignments"][0]["flavors"] = {GPU: "free"}
    assert starts(tmp_path, write, site, jobs)[0]["j1"] == start
