"""Dumps and settings of Kueue that cannot be used: what was found, and what to do."""

import json

import pytest
from support_kueue import cluster_queue, cohort, local_queue, workload, write_list

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.quota.kueue_site import read_quota_site
from gpuplan.analysis.quota.schema import read_quota_settings
from gpuplan.analysis.quota.workloads import read_kueue_log
from gpuplan.planner.quota.model import total_gpus
from gpuplan.planner.quota_twin.changes import combined_changes, read_quota_change
from gpuplan.planner.quota_twin.what_if import check_quota_groups

SITE = [cluster_queue("team-a-cq", 8, None), local_queue("team-a", "team-a-cq")]


def dump(tmp_path, change):
    """Write a dump of two workloads, the second one changed; returns its path."""
    good, odd = (workload(name, "team-a", 0, 10, 20) for name in ("good", "odd"))
    change(odd)
    return write_list(tmp_path / "k.json", [good, odd, *SITE])


def pods(made):
    return made["spec"]["podSets"][0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda made: pods(made).update(count=-3), "team-a/odd: found -3 pods"),
        (lambda made: pods(made).update(count=10**18), "found 10{18} pods, expected 0 to"),
        (lambda made: pods(made).update(count=10**400), "found 10+ pods, expected 0 to"),
        (lambda made: made["spec"].update(priority=2**62), "found the priority .* 32 bits"),
        (
            lambda made: pods(made)["template"]["spec"]["containers"][0]["resources"].update(
                requests={"cpu": "1e30"}
            ),
            "requests too much cpu",
        ),
        (lambda made: made["metadata"].update(creationTimestamp="soon"), "creationTimestamp"),
    ],
)
def test_impossible_workloads_are_refused_by_name(tmp_path, change, said):
    with pytest.raises(InputError, match=rf"Workload .*{said}(.|\n)*next: kubectl get"):
        read_kueue_log(dump(tmp_path, change))


def test_null_lists_are_empty(tmp_path):
    def change(made):
        made["status"]["conditions"] = made["spec"]["podSets"] = None
        made["status"]["admission"]["podSetAssignments"] = None

    log = read_kueue_log(dump(tmp_path, change))
    assert log.jobs["job_id"].to_list() == ["team-a/good"] and sum(log.left_out.values()) == 1


def test_a_bad_quota_is_named_beside_a_queue_without_any():
    resource = {"name": "nvidia.com/gpu", "nominalQuota": "1990-01-01"}
    flavors = [{"name": "h100", "resources": [resource]}]
    bad = {"resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": flavors}]}
    queues = {"a": {"resourceGroups": []}, "b": bad}
    key = r"clusterqueue\.b\.resourceGroups\[0\]\.flavors\[0\]\.resources\[0\]\.nominalQuota"
    with pytest.raises(UsageError, match=f"{key}: found '1990-01-01', expected an amount"):
        read_quota_settings({"clusterqueue": queues})


def test_a_ring_of_cohorts_says_what_to_take_out(tmp_path):
    path = write_list(tmp_path / "s.json", [*SITE, cohort("p", "q"), cohort("q", "p")])
    with pytest.raises(InputError, match=r"p -> q -> p.*\n  next: take spec.parentName"):
        read_quota_site(path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"limit": "8E"}, r"borrowingLimit is too large; expected an amount up to"),
        ({"lend": 10**20 - 1}, r"lendingLimit is too large; expected an amount up to"),
        ({"nominal": "1e400"}, r"nominalQuota: found '1e400', expected an amount such as"),
        ({"fairSharing": {"weight": "1e400"}}, r"weight: found '1e400', expected an amount such"),
    ],
)
def test_amounts_that_no_cluster_has_are_refused(tmp_path, changes, said):
    nominal = changes.pop("nominal", 8)
    queue = cluster_queue("team-a-cq", nominal, None, **changes)
    with pytest.raises(InputError, match=rf"ClusterQueue team-a-cq: .*{said}"):
        read_quota_site(write_list(tmp_path / "s.json", [queue, SITE[1]]))


def test_a_workload_at_the_end_of_time_is_dated(tmp_path):
    made = [workload(f"w{i}", "team-a", 10 * i, 10 * i + 1, 10 * i + 9) for i in range(4)]
    made[-1]["metadata"]["creationTimestamp"] = "9999-12-31T23:59:59-12:00"
    for condition in made[-1]["status"]["conditions"]:
        condition["lastTransitionTime"] = "9999-12-31T23:59:59-12:00"
    with pytest.raises(InputError, match=r"w3: 2.53402e\+11 s after 1970, expected a time within"):
        read_kueue_log(write_list(tmp_path / "k.json", [*made, *SITE]))


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "ClusterName=x\n", "- just a text\n"])
def test_other_files_as_a_site_say_what_to_give(tmp_path, text):
    path = tmp_path / "site.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=r"objects of Kubernetes.*\n  next: kubectl get"):
        read_quota_site(path)


def test_aliases_that_grow_say_what_to_do(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 8)]
    path = tmp_path / "site.yaml"
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"too large.*\n  next: write objects without aliases"):
        read_quota_site(path)


def test_amounts_and_levels_that_are_none(tmp_path):
    site = read_quota_site(write_list(tmp_path / "s.json", SITE))
    change = read_quota_change("set", "clusterqueue.team-a-cq.nominalQuota=1e99")
    with pytest.raises(UsageError, match="found '1e99', expected an amount up to"):
        change.changed(site)
    for value in ("9999999999", "+10000000"):
        change = read_quota_change("set", f"clusterqueue.team-a-cq.nominalQuota={value}")
        with pytest.raises(UsageError, match="expected a number of GPUs up to 10,000,000"):
            change.changed(site)
    less = read_quota_change("set", "clusterqueue.team-a-cq.nominalQuota=-3").changed(site)[0]
    group = less.tables["clusterqueue"]["team-a-cq"]["resourceGroups"][0]
    assert group["flavors"][0]["resources"][0]["nominalQuota"] == "5"
    with pytest.raises(UsageError, match=r"got 'events'\n  next: gpuplan calibrate"):
        check_quota_groups("queue", "events")


def test_a_local_queue_of_no_queue_is_refused(tmp_path):
    objects = [*SITE, cluster_queue("team-b-cq", 8, None)]
    site = read_quota_site(write_list(tmp_path / "s.json", objects))
    key = "localqueue.team-a/main.clusterQueue"
    with pytest.raises(UsageError, match=r"no clusterqueue ghost; expected one of team-a-cq, team"):
        read_quota_change("set", f"{key}=ghost").changed(site)
    with pytest.raises(UsageError, match=r"no clusterqueue team-c-cq \(did you mean team-"):
        read_quota_change("set", f"{key}=team-c-cq").changed(site)
    changed = read_quota_change("set", f"{key}=team-b-cq").changed(site)[0]
    assert changed.settings.localqueue["team-a/main"].clusterQueue == "team-b-cq"


def test_a_change_beyond_any_cluster_is_refused(tmp_path):
    site = read_quota_site(write_list(tmp_path / "s.json", SITE))
    change = read_quota_change("set", "clusterqueue.team-a-cq.nominalQuota=-1e400")
    with pytest.raises(UsageError, match="found '-1e400', expected an amount such as"):
        change.changed(site)


def test_a_key_is_set_once_where_changes_are_made_together(tmp_path):
    def together(*texts):
        return combined_changes([read_quota_change("set", text) for text in texts])

    key = "clusterqueue.team-a-cq.nominalQuota"
    with pytest.raises(UsageError, match=rf"--set {key}=8: the key is set twice"):
        together(f"{key}=24", f"{key}=8")
    site = read_quota_site(write_list(tmp_path / "s.json", SITE))
    assert total_gpus(together(f"{key}=24", f"{key}=+8").changed(site)[0]) == 32


@pytest.mark.parametrize(
    ("texts", "ring"),
    [
        (["cohort.p.parentName=q"], "p -> q -> p"),
        (["cohort.p.parentName=p"], "p -> p"),
        (["cohort.r.parentName=p", "cohort.p.parentName=r"], "p -> r -> p"),
    ],
)
def test_changes_that_put_cohorts_in_a_ring_are_refused(tmp_path, texts, ring):
    objects = [*SITE, cohort("p"), cohort("q", "p"), cohort("r")]
    site = read_quota_site(write_list(tmp_path / "s.json", objects))
    change = combined_changes([read_quota_change("set", text) for text in texts])
    with pytest.raises(UsageError, match=rf"--set {texts[0]}.*ring, {ring};(.|\n)*next: give"):
        change.changed(site)


@pytest.mark.parametrize("name", ["team-a-cq", "team-a"])
def test_a_byte_that_is_no_text_is_told_with_its_object(tmp_path, name):
    site = [{**SITE[0], "spec": {**SITE[0]["spec"], "note": "@"}}, SITE[1]]
    if name == "team-a":
        site = [SITE[0], {**SITE[1], "spec": {**SITE[1]["spec"], "note": "@"}}]
    path = write_list(tmp_path / "k.json", [workload("good", "team-a", 0, 10, 20), *site])
    path.write_bytes(path.read_bytes().replace(b"@", b"\x93"))
    with pytest.raises(InputError, match=r"Queue \S+: found a byte 0x93"):
        read_kueue_log(path)
    with pytest.raises(InputError, match=r"Queue \S+: found a byte 0x93"):
        read_quota_site(path)


def test_a_queue_without_flavors_has_no_quota_to_change(gpuplan, tmp_path):
    path = dump(tmp_path, lambda made: None)
    document = json.loads(path.read_text())
    empty = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue"}
    spec = {"resourceGroups": [{"coveredResources": []}]}
    document["items"].append({**empty, "metadata": {"name": "empty"}, "spec": spec})
    path.write_text(json.dumps(document))
    code, _, err = gpuplan("whatif", path, "--set", "clusterqueue.empty.nominalQuota=16")
    assert code == 2
    assert "clusterqueue empty has no quota of GPUs to change" in err
