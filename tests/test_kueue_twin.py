"""The twin of a site of Kueue: levels that explain a dump, and what changes do to waits."""

import json
import subprocess

import numpy as np
import pytest
from support_kueue import (
    ANYONE,
    cluster_queue,
    cohort,
    condition,
    fair_sharing,
    local_queue,
    replayed_dump,
    teams,
    workload,
    write_list,
    write_yaml,
)
from support_quota_state import as_jobs
from support_schemas import SAMPLES

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.quota.kueue_site import read_quota_site, read_quota_twin
from gpuplan.analysis.quota.twin_text import quota_twin_text
from gpuplan.analysis.quota.workloads import read_kueue_log
from gpuplan.planner.quota.model import quota_model
from gpuplan.planner.quota.use import site_use
from gpuplan.planner.quota_twin.calibrate import calibrate_quotas
from gpuplan.planner.quota_twin.changes import read_quota_change
from gpuplan.planner.quota_twin.levels import ADDED, LEVELS, level_site
from gpuplan.planner.quota_twin.log_workload import quota_workload
from gpuplan.simkit.quota.simulator import replay_quota
from gpuplan.simkit.quota.site import PodSet

pytestmark = pytest.mark.compiled


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    """A dump that all rules but fair sharing made."""
    return replayed_dump(tmp_path_factory.mktemp("kueue") / "kueue.json", teams())


@pytest.mark.parametrize("level", LEVELS)
def test_the_rules_that_made_a_log_explain_it_best(level, tmp_path):
    site = teams(fair=True)
    log = read_kueue_log(replayed_dump(tmp_path / "k.json", site, level=level, seed=5))
    found = calibrate_quotas(log, log.site)
    errors = {score.name: score.mae_s for score in found.levels}
    assert errors[level] == 0 and min(errors.values()) == 0
    assert [score.name for score in found.levels] == list(LEVELS) == list(ADDED)
    assert found.chosen == level and found.within == 1.0


def test_rules_that_a_site_does_not_have_are_skipped(tmp_path):
    site = [cluster_queue("team-a-cq", 8, None), local_queue("team-a", "team-a-cq")]
    jobs = [workload(f"j{i}", "team-a", i * 60, i * 60, i * 60 + 50) for i in range(40)]
    log = read_kueue_log(write_list(tmp_path / "k.json", [*site, *jobs]))
    found = calibrate_quotas(log, log.site)
    assert found.skipped_levels.keys() == {"borrowing", "preemption", "fair"}
    assert found.chosen == "quotas"  # stated, and as good as first in, first out
    assert "no configuration of the controller is given" in found.skipped_levels["fair"]
    assert any("get configmap kueue-manager-config -n kueue-system" in note for note in found.notes)


def test_a_configuration_that_is_appended_to_a_dump_tells_of_fair_sharing(tmp_path):
    site = [cluster_queue("team-a-cq"), local_queue("team-a", "team-a-cq")]
    jobs = [workload(f"j{i}", "team-a", i * 60, i * 60, i * 60 + 50) for i in range(40)]
    path = write_list(tmp_path / "k.json", [*site, *jobs])
    config = fair_sharing()
    for turns, told in ((": {}", None), (": {enable: false}", "does not turn fair sharing on")):
        data = {key: text.replace(": {}", turns) for key, text in config["data"].items()}
        both = tmp_path / "both.json"
        both.write_text(path.read_text() + "\n" + json.dumps(config | {"data": data}))
        log = read_kueue_log(both)
        found = calibrate_quotas(log, log.site)
        assert told is None or told in found.skipped_levels["fair"]
        assert ("fair" in found.skipped_levels) == (told is not None)
        assert not any("configmap" in note for note in found.notes)


def test_the_jobs_that_are_scored_are_counted(tmp_path):
    # Of 15 jobs the first is of the first tenth, and one was evicted before the start that is kept.
    site = [cluster_queue("team-a-cq", 8, None), local_queue("team-a", "team-a-cq")]
    jobs = [workload(f"j{i}", "team-a", i * 600, i * 600, i * 600 + 50) for i in range(15)]
    for each, scored, why in (((), 14, ""), ([("Preempted", 1)], 13, "nor 1 that was evicted")):
        jobs[9] = workload("j9", "team-a", 5400, 5400, 5450, evictions=each)
        log = read_kueue_log(write_list(tmp_path / "k.json", [*site, *jobs]))
        work = quota_workload(log, log.site, quota_model(log.site), warmup_s=300)
        assert int(work.scored.sum()) == scored
        (note,) = [note for note in work.notes if note.startswith("waits are of")]
        assert note.startswith(f"waits are of {scored} of 15 jobs: the first one, of the warm-up,")
        assert why in note


def test_what_a_dump_tells(tmp_path):
    stuck = workload("stuck", "team-a", 5, 6)
    stuck["status"]["conditions"].append(condition("Evicted", 7, "Preempted"))
    lost = workload("lost", "team-a", 10, 20, 80)
    del lost["status"]["admission"]
    off = workload("off", "team-a", 3)
    off["spec"]["active"] = False
    cpu = workload("cpu", "team-a", 3, 4, 5)
    cpu["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"] = {}
    del cpu["status"]["admission"]
    old = workload("old", "team-a", 30, 40, 90, reason="Failed")
    old["apiVersion"] = "kueue.x-k8s.io/v1beta1"
    objects = [
        workload("done", "team-a", 0, 10, 70, gpus=2, count=3, priority=7),
        workload("runs", "team-a", 20, 30),
        workload("waits", "team-a", 40),
        workload("never", "team-a", 1, None, 50),
        workload("again", "team-a", 5, 60, 100, evictions=[("Preempted", 2), ("Other", 1)]),
        stuck, lost, off, cpu, old, *teams(),
    ]  # fmt: skip
    log = read_kueue_log(write_list(tmp_path / "k.json", objects))
    rows = {row["job_id"].split("/")[1]: row for row in log.jobs.iter_rows(named=True)}
    first = rows["done"]["submit"]
    assert rows.keys() == {"done", "runs", "again", "lost", "old"}
    assert (rows["done"]["gpus"], rows["done"]["priority"], rows["done"]["run_s"]) == (6, 7, 60)
    assert rows["runs"]["state"] == "running" and rows["runs"]["run_s"] == 70  # to second 100
    assert (rows["again"]["attempts"], rows["again"]["preemptions"]) == (4, 2)
    assert not rows["again"]["is_first"] and rows["done"]["is_first"]
    assert rows["lost"]["cluster_queue"] is None and rows["old"]["state"] == "failed"
    assert log.left_out == {
        "still waiting": 1, "never admitted": 1, "deactivated": 1, "without GPUs": 1,
        "evicted, and neither admitted again nor finished": 1,
    }  # fmt: skip
    work = quota_workload(log, log.site, quota_model(log.site), warmup_s=0)
    assert work.names("queue").tolist() == ["team-a-cq"] * 5  # that of `lost` by its LocalQueue
    assert work.excluded == {"evicted (the dump keeps only the last start)": 1}
    assert work.recorded_start.min() == first + 10


def test_a_watch_stream_tells_every_start(tmp_path):
    one = workload("w", "team-a", 0, 100)
    gone = workload("w", "team-a", 0, 100)
    gone["status"]["conditions"] = [
        condition("QuotaReserved", 500, "Pending", "False"), condition("Evicted", 500, "Preempted")
    ]  # fmt: skip
    again = workload("w", "team-a", 0, 900, 1300, evictions=[("Preempted", 1)])
    for version, thing in enumerate((one, gone, again), 5):
        thing["metadata"]["resourceVersion"] = str(version)
    events = [{"type": "MODIFIED", "object": thing} for thing in (one, gone, again)]
    rest = [{"type": "ADDED", "object": thing} for thing in teams()]
    path = tmp_path / "watch.json"
    path.write_text("\n".join(json.dumps(event, indent=1) for event in events + rest))
    row = read_kueue_log(path).jobs.row(0, named=True)
    assert (row["start"] - row["submit"], row["run_s"], row["is_first"]) == (100, 400, True)


def test_selectors_taints_and_affinity_choose_flavors(tmp_path):
    def flavor(name, **spec):
        return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor",
                "metadata": {"name": name}, "spec": spec}  # fmt: skip

    taint = {"key": "spot", "value": "true", "effect": "NoSchedule"}
    site = [
        cluster_queue("team-a-cq", flavors={"h100": 8, "a100": 8, "spot": 8}),
        flavor("h100", nodeLabels={"gpu": "h100"}),
        flavor("a100", nodeLabels={"gpu": "a100"}),
        flavor("spot", nodeLabels={"gpu": "a100"}, nodeTaints=[taint]),
        local_queue("team-a", "team-a-cq"),
    ]
    terms = [{"matchExpressions": [{"key": "gpu", "operator": "NotIn", "values": ["h100"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pods = {
        "plain": {},
        "h": {"nodeSelector": {"gpu": "h100", "other": "x"}},
        "tolerant": {"tolerations": [{"key": "spot", "operator": "Exists"}]},
        "affine": {"affinity": {"nodeAffinity": required}},
    }
    jobs = []
    for name, spec in pods.items():
        jobs.append(workload(name, "team-a", 0, 1, 9, flavor="a100"))
        jobs[-1]["spec"]["podSets"][0]["template"]["spec"] |= spec
    log = read_kueue_log(write_list(tmp_path / "k.json", [*site, *jobs]))
    work = quota_workload(log, log.site, quota_model(log.site))
    allowed = {
        name.split("/")[1]: work.quota.shapes[at][0].flavors
        for name, at in zip(work.job_ids, work.quota.pods, strict=True)
    }
    assert allowed == {
        "plain": {"h100", "a100"}, "h": {"h100"}, "tolerant": None, "affine": {"a100"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "check"),
    [
        ("set", "clusterqueue.team-a-cq.nominalQuota=24", lambda s: s.nominal("team-a-cq") == 24),
        ("set", "clusterqueue.team-a-cq.nominalQuota=+8", lambda s: s.nominal("team-a-cq") == 24),
        ("set", "clusterqueue.team-a-cq.nominalQuota.default=8",
         lambda s: s.nominal("team-a-cq") == 8),
        ("set", "clusterqueue.team-a-cq.default=4", lambda s: s.nominal("team-a-cq") == 4),
        ("set", "clusterqueue.team-b-cq.borrowingLimit=none",
         lambda s: s.quota("team-b-cq").borrowing_limit is None),
        ("set", "clusterqueue.team-a-cq.lendingLimit=2",
         lambda s: s.quota("team-a-cq").lending_limit == 2),
        ("set", "clusterqueue.team-a-cq.weight=3", lambda s: s.queue("team-a-cq").weight == 3),
        ("set", "clusterqueue.team-a-cq.preemption.withinClusterQueue=Never",
         lambda s: s.queue("team-a-cq").within_queue == "Never"),
        ("set", "clusterqueue.team-a-cq.cohort=other",
         lambda s: s.queue("team-a-cq").cohort == "other"),
        ("set", "clusterqueue.team-a-cq.stopPolicy=Hold", lambda s: s.nominal("team-a-cq") == 0),
        ("set", "cohort.all.nominalQuota=5",
         lambda s: [q.nominal for c in s.site.cohorts for q in c.quotas.values()] == [5]),
        ("set", "controller.fairSharing.enable=true", lambda s: s.site.fair_sharing),
        ("add-nodes", "2", lambda s: [s.nominal(f"team-{n}-cq") for n in "abc"] == [23, 22, 11]),
        ("add-nodes", "default=1@team-c-cq", lambda s: s.nominal("team-c-cq") == 16),
        ("remove-nodes", "1", lambda s: sum(s.nominal(f"team-{n}-cq") for n in "abc") == 32),
    ],
)  # fmt: skip
def test_changes_change_what_they_say(name, value, check, tmp_path):
    class Seen:
        def __init__(self, site):
            self.site = site

        def queue(self, name):
            return next(queue for queue in self.site.queues if queue.name == name)

        def quota(self, name):
            return self.queue(name).groups[0][0].quotas["nvidia.com/gpu"]

        def nominal(self, name):
            return self.quota(name).nominal

    document = read_quota_site(write_list(tmp_path / "s.json", teams()))
    before = quota_twin_text(document, {})
    changed, _ = read_quota_change(name, value).changed(document)
    assert check(Seen(quota_model(changed).site))
    assert not check(Seen(quota_model(document).site))
    assert quota_twin_text(document, {}) == before


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("set", "clusterqueue.team-x.nominalQuota=3", "no clusterqueue team-x"),
        ("set", "queue.team-a-cq.nominalQuota=3", "expected one of clusterqueue, cohort, "),
        ("set", "clusterqueue.team-a-cq.nominalQuota=many", "expected an amount such as 8"),
        ("set", "clusterqueue.team-a-cq.nominalQuota=-99", "expected at least 0"),
        ("set", "clusterqueue.team-a-cq.borrowingLimit=+4", "unlimited today"),
        ("set", "clusterqueue.team-a-cq.nominalQuota.h100=3", "no quota of h100; expected"),
        ("set", "clusterqueue.team-a-cq.reclaim=Any", "has no reclaim; expected one of"),
        ("set", "clusterqueue.team-a-cq.preemption.reclaimWithinCohort=any",
         "found 'any' (did you mean Any?)"),
        ("set", "nominalQuota", "must be like clusterqueue.team-a.nominalQuota=16"),
        ("add-nodes", "h100=2", "no flavor h100; expected TYPE=N with one of default"),
        ("add-nodes", "2@nobody", "nobody has no quota of default"),
        ("remove-nodes", "9", "takes 72 GPUs of default, the quotas have 40"),
        ("limit", "user=3", "is for Slurm sites"),
    ],
)  # fmt: skip
def test_changes_that_cannot_be_made(name, value, told, tmp_path):
    document = read_quota_site(write_list(tmp_path / "s.json", teams()))
    with pytest.raises(UsageError) as error:
        read_quota_change(name, value).changed(document)
    assert told in str(error.value)


def test_twin_toml_is_the_same_site(tmp_path):
    objects = [*teams(fair=True), cohort("all", "root", 2), cohort("root")]
    document = read_quota_site(write_list(tmp_path / "s.json", objects))
    path = tmp_path / "twin.toml"
    path.write_text(quota_twin_text(document, {"level": "fair", "within": 0.5}))
    again, calibration = read_quota_twin(path)
    assert quota_model(again).site == quota_model(document).site
    assert quota_model(again).of_local == quota_model(document).of_local
    assert (calibration.level, calibration.within) == ("fair", 0.5)


def test_who_borrows_from_whom_by_hand(tmp_path):
    # 8 + 4 GPUs. b holds 12 from 0 to 100: 4 within, 8 above, all of a's. a comes at 100, and b is
    # evicted: it holds on to 130, then a runs 100 s within its 8, while 4 GPUs of b are idle and
    # its job waits: for its own queue, so that is no idle quota while others wait. At 230 b runs
    # its 1000 s, 4 GPUs within and 8 above.
    site = quota_model(
        read_quota_site(
            write_list(
                tmp_path / "s.json",
                [cluster_queue("a", 8, preemption=ANYONE), cluster_queue("b", 4)],
            )
        )
    ).site
    columns = {"queue": [1, 0], "priority": [0, 0], "submit": [0, 100], "created": [0, 100],
               "run": [1000, 100], "pods": [0, 1], "uid": [0, 1]}  # fmt: skip
    jobs = as_jobs(columns, [(PodSet({"nvidia.com/gpu": 12}),), (PodSet({"nvidia.com/gpu": 8}),)])
    use = site_use("today", replay_quota(site, jobs))
    a, b = use.queues
    hours = 1 / 3600
    assert (a.within_gpu_h, a.above_gpu_h) == pytest.approx((800 * hours, 0))
    assert (b.within_gpu_h, b.above_gpu_h) == pytest.approx((4520 * hours, 9040 * hours))
    assert a.lent_gpu_h == pytest.approx(9040 * hours) and b.lent_gpu_h == 0
    assert (a.preemptions_caused, a.preemptions_suffered) == (1, 0)
    assert (b.preemptions_caused, b.preemptions_suffered) == (0, 1)
    assert b.lost_gpu_h == pytest.approx(1200 * hours) and a.lost_gpu_h == 0
    assert a.idle_gpu_h == 0 and b.idle_gpu_h == 0
    assert [(loan.borrower, loan.lender) for loan in use.loans] == [("b", "a")]
    assert [(row.by, row.of, row.count) for row in use.evictions] == [("a", "b", 1)]


def test_gpu_hours_are_those_of_the_runs(dump):
    log = read_kueue_log(dump)
    model = quota_model(log.site)
    work = quota_workload(log, log.site, model)
    for level in LEVELS[1:]:
        site = level_site(model.site, level)
        run = replay_quota(site, work.quota)
        until = run.accounts().span_s[1]
        use = site_use("today", run)
        held = run.end_s - run.start_s + np.where(run.reason >= 0, run.grace_s, 0)
        whole = float((held * work.gpus[run.job]).sum()) / 3600
        assert sum(q.within_gpu_h + q.above_gpu_h for q in use.queues) == pytest.approx(whole)
        lent = sum(loan.gpu_h for loan in use.loans)
        above = sum(q.above_gpu_h for q in use.queues)
        assert lent == pytest.approx(above, abs=0.5)  # loans under 0.05 GPU-hours are left out
        for queue in use.queues:
            most = queue.nominal_gpus * (until - int(work.quota.submit.min())) / 3600
            assert queue.within_gpu_h + queue.lent_gpu_h + queue.idle_gpu_h <= most + 1e-6
        if level in ("quotas", "borrowing"):
            assert not use.evictions


def run_json(gpuplan, *words):
    code, out, err = gpuplan(*words, "--output-format", "json")
    return code, json.loads(out) if out else None, err


def test_calibrate_and_whatif_as_in_the_issue(gpuplan, dump, tmp_path):
    twin = tmp_path / "twin.toml"
    code, _, err = gpuplan("calibrate", dump, "-o", twin)
    assert code == 0, err
    change = "clusterqueue.team-a-cq.nominalQuota=+16"
    code, document, err = run_json(gpuplan, "whatif", dump, "--twin", twin, "--set", change)
    assert code == 0, err
    results = document["results"]
    assert results["level"] == "preemption" and results["by"] == "queue"
    (effect,) = results["changes"]
    assert effect["verdict"] == "shorter" and effect["error_s"] > 0
    assert [group["name"] for group in effect["groups"]] == [
        "all jobs", "team-a-cq", "team-b-cq", "team-c-cq"
    ]  # fmt: skip
    today, changed = (
        {row["queue"]: row for row in results["queues"] if row["case"] == case}
        for case in ("today", f"set {change}")
    )
    assert changed["team-a-cq"]["nominal_gpus"] == today["team-a-cq"]["nominal_gpus"] + 16
    assert results["loans"] and results["evictions"]
    same = "clusterqueue.team-a-cq.nominalQuota=16"
    code, document, err = run_json(gpuplan, "whatif", dump, "--twin", twin, "--set", same)
    (effect,) = document["results"]["changes"]
    assert (effect["effect_s"], effect["verdict"]) == (0, "no change")
    assert "the site is set so already" in err


def test_a_change_of_rules_that_are_not_replayed_is_refused(gpuplan, dump):
    words = ("whatif", dump, "--set", "clusterqueue.team-a-cq.weight=3")
    code, _, err = gpuplan(*words, "--level", "preemption")
    assert code == 0, err  # without fair sharing a weight is no rule at all
    lower = ("--set", "clusterqueue.team-a-cq.preemption.reclaimWithinCohort=Never")
    code, _, err = gpuplan("whatif", dump, *lower, "--level", "borrowing")
    assert code == 2 and "changes rules of the level preemption" in err
    assert "next: --level preemption" in err
    code, _, err = gpuplan("whatif", dump, *lower, "--level", "easy")
    assert code == 2 and "fifo, quotas, borrowing, preemption, fair" in err
    code, _, err = gpuplan("whatif", dump, "--max-time", "1d")
    assert code == 2 and "is for Slurm sites" in err


def git(folder, *words):
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def test_a_quota_change_as_a_pull_request(gpuplan, dump, tmp_path):
    repository = tmp_path / "repo"
    site = repository / "kueue"
    site.mkdir(parents=True)
    git(repository, "init", "-b", "main")
    write_yaml(site / "queues.yaml", teams())
    git(repository, "add", ".")
    git(repository, "commit", "-m", "today")
    smaller = teams()
    smaller[0] = cluster_queue("team-a-cq", 4, preemption=ANYONE)
    smaller[1] = cluster_queue("team-b-cq", 8, limit=8, preemption=ANYONE)
    write_yaml(site / "queues.yaml", smaller)
    comment = tmp_path / "comment.md"
    gate = ("--fail-if", "p95_wait_growth[any team] > 20%")
    words = ("whatif", dump, "--site", site, "--before", "main", *gate, "-o", comment)
    code, _, err = gpuplan(*words)
    assert code == 1 and "gate tripped" in err
    assert "gets longer" in comment.read_text() or "get longer" in comment.read_text()
    write_yaml(site / "queues.yaml", teams())
    code, out, err = gpuplan(*words)
    assert code == 0, err
    assert "no wait changes" in out + comment.read_text()
    before = tmp_path / "before"
    before.mkdir()
    write_yaml(before / "q.yaml", smaller)
    code, out, err = gpuplan("whatif", dump, "--site", site, "--before", before)
    assert code == 0 and "shorter" in out, err
    code, _, err = gpuplan("whatif", dump, "--site", site, "--before", "nowhere")
    assert code == 2 and "no commit of the repository" in err and "git fetch origin nowhere" in err
    code, _, err = gpuplan("whatif", dump, "--before", "main", "--add-nodes", "1")
    assert code == 2 and "--before: needs one --site" in err


def test_options_of_the_other_scheduler_are_refused(gpuplan, dump, tmp_path):
    code, _, err = gpuplan("calibrate", dump, "--infer")
    assert code == 2 and "--infer" in err and "is of Kueue" in err
    only = write_list(tmp_path / "w.json", [workload("a", "team-a", 0, 1, 2)])
    code, _, err = gpuplan("calibrate", only)
    assert code == 3 and "has Workloads and no ClusterQueue" in err
    other = write_list(tmp_path / "o.json", [cluster_queue("x", 8)])
    code, _, err = gpuplan("calibrate", dump, "--site", other)
    assert code == 3 and "no Workload is of a queue of the site" in err


def test_the_wait_after_the_reservation_is_told_apart(tmp_path):
    jobs = [workload(f"j{i}", "team-a", i * 60, i * 60, i * 60 + 50) for i in range(10)]
    for job in jobs:
        job["status"]["conditions"][1]["lastTransitionTime"] = job["status"]["conditions"][2][
            "lastTransitionTime"
        ]  # admitted 50 s after the reservation
    log = read_kueue_log(write_list(tmp_path / "k.json", [*teams(), *jobs]))
    work = quota_workload(log, log.site, quota_model(log.site))
    assert any("waited 50 s more on average for their admission" in note for note in work.notes)
    assert (work.recorded_wait == 0).all()


def test_a_twin_of_kueue_is_not_one_of_slurm(gpuplan, dump, tmp_path):
    twin = tmp_path / "twin.toml"
    assert gpuplan("calibrate", dump, "-o", twin)[0] == 0
    code, _, err = gpuplan("options", dump, "--twin", twin, "--option", "add-nodes a100=4")
    assert code == 3 and "is of a site of Kueue" in err and "next: gpuplan whatif" in err
    change = "set clusterqueue.team-a.nominalQuota=9"
    code, _, err = gpuplan("options", dump, "--twin", twin, "--option", change)
    assert code == 3 and "is of a site of Kueue" in err and "unknown key" not in err
    assert "kubectl" not in gpuplan("options", "--help-all")[1]


def test_a_damaged_twin_is_of_no_product(gpuplan, tmp_path):
    twin = tmp_path / "twin.toml"
    twin.write_text("x = = 1\n")
    log = SAMPLES / "slurm_site" / "sacct.txt"
    code, _, err = gpuplan("whatif", log, "--twin", twin, "--add-nodes", "2")
    assert code == 3 and "gpuplan calibrate LOG" in err and "ueue" not in err
