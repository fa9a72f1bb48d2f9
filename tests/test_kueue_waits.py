"""Why workloads of Kueue wait: before and after the reservation of quota; by hand."""

import json

import pytest
from support_kueue import (
    GPU,
    cluster_queue,
    condition,
    local_queue,
    stamp,
    teams,
    workload,
    write_list,
)

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.history.reasons import reason_groups
from gpuplan.cli.commands.waits import show
from gpuplan.planner.requests.waits import WaitsRequest
from gpuplan.planner.studies.waits import waits

HOUR = 3600
SITE = [cluster_queue("team-a-cq", 8, None), local_queue("team-a", "team-a-cq")]


def checked(name, submit, reserved, admitted, end, **more):
    """Return a workload whose quota was reserved before it was admitted."""
    made = workload(name, "team-a", submit, admitted, end, **more)
    made["status"]["conditions"][0]["lastTransitionTime"] = stamp(reserved)
    return made


def answered(tmp_path, *workloads, site=SITE, **more):
    path = write_list(tmp_path / "kueue.json", [*workloads, *site])
    return waits(WaitsRequest(trace=path, **more))


def by_name(answer):
    return {row.name: row.wait_h for row in answer.results.summary.reasons}


def test_waits_before_and_after_the_reservation_are_told_apart(tmp_path):
    # a holds all 8 GPUs for 4 h. b comes at 1 h, has quota at 5 h (an hour after GPUs are free),
    # and is admitted at 7 h: 3 h for free GPUs, 1 h for another reason, 2 h for its admission.
    a = checked("a", 0, 0, 0, 4 * HOUR, gpus=8)
    b = checked("b", HOUR, 5 * HOUR, 7 * HOUR, 9 * HOUR, gpus=8)
    answer = answered(tmp_path, a, b)
    admission = "admission after the reservation of quota"
    assert by_name(answer) == {"for free GPUs": 3, "for another reason": 1, admission: 2}
    summary = answer.results.summary
    assert summary.mean_wait_s == 3 * HOUR and summary.mean_reservation_wait_s == 2 * HOUR
    assert summary.full_cluster_share == pytest.approx(0.5)
    text = show(answer).headline
    assert "2 h until quota is reserved, 60 min from then to admission" in text
    assert "in 33% quota was reserved already" in text and "quotas may have held" in text
    assert sum(sum(row.wait_h.values()) for row in answer.results.timeline) == pytest.approx(6)


def test_kueues_last_reason_counts_until_the_reservation(tmp_path):
    # A watch: b waits for quota from 1 h on, has it at 5 h, and is admitted at 7 h.
    def version(number, *conditions, event="MODIFIED", admission=None):
        made = workload("b", "team-a", HOUR, gpus=8)
        made["metadata"]["resourceVersion"] = str(number)
        made["status"] = {"conditions": list(conditions)}
        if admission is not None:
            made["status"]["admission"] = admission
        return {"type": event, "object": made}

    waiting = condition("QuotaReserved", HOUR, "WaitingForQuota", status="False")
    got = condition("QuotaReserved", 5 * HOUR)
    admitted = condition("Admitted", 7 * HOUR)
    ended = condition("Finished", 9 * HOUR, "Succeeded")
    given = workload("b", "team-a", 0, 1, gpus=8)["status"]["admission"]
    a = {"type": "ADDED", "object": checked("a", 0, 0, 0, 4 * HOUR, gpus=8)}
    events = [
        a, version(1, waiting, event="ADDED"), version(2, got, admission=given),
        version(3, got, admitted, admission=given),
        version(4, got, admitted, ended, admission=given),
    ]  # fmt: skip
    path = tmp_path / "watch.json"
    path.write_text("\n".join(json.dumps(event, indent=2) for event in events))
    answer = waits(WaitsRequest(trace=path))
    summary = answer.results.summary
    assert summary.basis == "recorded reasons"
    hours = {name: hour for name, hour in by_name(answer).items() if hour}
    assert hours == {"quota in use": 4, "admission after the reservation of quota": 2}
    assert summary.too_small_share == pytest.approx(3 / 6)  # 3 h with too few GPUs free
    view = show(answer)
    assert "Kueue's last reason" in view.answer[0].title and "Slurm" not in view.headline
    assert "admission checks and other reasons of Kueue held 33%" in view.headline


def test_what_still_waits_is_listed_by_kueues_reason(tmp_path):
    a = checked("a", 0, 0, 0, 4 * HOUR, gpus=8)
    b, c, d = (
        workload(name, "team-a", at, gpus=4)
        for name, at in zip("bcd", (0, 1800, 3600), strict=True)
    )
    for made in (b, c):
        made["status"]["conditions"] = [
            condition("QuotaReserved", 3600, "WaitingForQuota", status="False")
        ]
    c["status"]["conditions"].append(condition("Evicted", 7200, "Preempted"))
    answer = answered(tmp_path, a, b, c, d)
    quota, none = answer.results.waiting
    assert (quota.name, quota.meaning, quota.jobs, quota.gpus) == (
        "WaitingForQuota", "quota in use", 2, 8
    )  # fmt: skip
    assert quota.longest_wait_s == 4 * HOUR  # b, to the end of the dump; c since its eviction
    assert quota.mean_wait_s == 3 * HOUR
    assert (none.name, none.jobs, none.gpus) == ("none recorded", 1, 4)
    assert any("waits" in table.title for table in show(answer).answer)


def test_settings_of_kueue_tell_how_many_gpus_there_are(tmp_path, kueue_twin):
    a = checked("a", 0, 0, 0, 4 * HOUR, gpus=4)
    b = checked("b", HOUR, 4 * HOUR, 4 * HOUR, 5 * HOUR, gpus=4)
    peak = answered(tmp_path, a, b, site=teams()).results.summary.gpu_types[0]
    stated = answered(tmp_path, a, b, site=teams(), twin=kueue_twin).results.summary
    assert (peak.gpus, peak.source) == (40, "quotas in the dump")
    assert (stated.gpu_types[0].gpus, stated.gpu_types[0].source) == (40, "quotas of --twin")
    assert stated.full_cluster_share == 0  # 36 of 40 GPUs were free


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ("within = 0.97\nlevel = 'quotas'", "but the quotas of --twin explain them: replayed under "
         "these, 97% of jobs start within 5 min or 20% of their recorded wait."),
        ("within = 0.5\nexplains_waits = false", "and the quotas of --twin do not explain them: "
         "replayed under these, 50% of jobs"),
        ("within = 0.97\nlevel = 'fifo'", "the quotas of --twin do not explain them"),
        ("level = 'quotas'", "so quotas may have held jobs as well."),
    ],
)  # fmt: skip
def test_settings_of_kueue_tell_what_their_quotas_explain(tmp_path, kueue_twin, found, words):
    text = kueue_twin.read_text()
    kueue_twin.write_text(f"{text[: text.index('[calibration]')]}[calibration]\n{found}\n")
    answer = answered(tmp_path, checked("a", 0, HOUR, HOUR, 2 * HOUR), twin=kueue_twin)
    assert words in show(answer).headline


def test_settings_of_another_kind_of_site_are_refused(tmp_path, kueue_twin):
    slurm = tmp_path / "slurm.toml"
    slurm.write_text(
        "[node.n1]\ngpus = 8\n[partition.gpu]\nNodes = 'n1'\n[calibration]\nlevel = 'easy'\n"
    )
    with pytest.raises(InputError, match=r"Slurm site.*kueue log") as raised:
        answered(tmp_path, checked("a", 0, 0, 0, 60), twin=slurm)
    assert "next: gpuplan calibrate" in str(raised.value) and raised.value.exit_code == 3
    log = tmp_path / "jobs.csv"
    log.write_text("job_id,submit_time,start_time,end_time,num_gpus\n1,0,10,20,1\n2,0,20,30,1\n")
    with pytest.raises(InputError, match="is of a site of Kueue"):
        waits(WaitsRequest(trace=log, twin=kueue_twin))
    with pytest.raises(UsageError, match=r"--real: tells rules of Slurm.*\n  next: "):
        answered(tmp_path, checked("a", 0, 0, 0, 60), twin=kueue_twin, real=True)


@pytest.fixture
def kueue_twin(tmp_path):
    """Settings of a site of Kueue."""
    from gpuplan.analysis.quota.kueue_site import read_quota_site
    from gpuplan.analysis.quota.twin_text import quota_twin_text

    path = tmp_path / "twin.toml"
    site = read_quota_site(write_list(tmp_path / "site.json", teams()))
    path.write_text(quota_twin_text(site, {"level": "borrowing"}))
    assert GPU in path.read_text()
    return path


@pytest.mark.parametrize(
    ("reason", "group"),
    [
        ("WaitingForQuota", "quota"),
        ("WaitingForPreemptedWorkloads", "quota"),
        ("Pending", "pending"),
        ("PendingEvaluation", "pending"),
        ("ExceedsMaxQuota", "unfit"),
        ("NoMatchingFlavor", "unfit"),
        ("Misconfigured", "unfit"),
        ("TopologyPlacementFailed", "topology"),
        ("WaitingForPodsReady", "pods_ready"),
        ("AdmissionChecks", "admission"),
        ("Suspended", "held"),
    ],
)
def test_what_waits_by_each_reason_of_kueue(tmp_path, reason, group):
    running = checked("a", 0, 0, 0, 4 * HOUR, gpus=8)
    waiting = workload("b", "team-a", 0, gpus=4)
    waiting["status"]["conditions"] = [condition("QuotaReserved", HOUR, reason, status="False")]
    (row,) = answered(tmp_path, running, waiting).results.waiting
    assert (row.name, row.meaning, row.jobs) == (reason, reason_groups()[group].title, 1)
