"""Compare the rules of Kueue and KAI with golden cases: ``python tests/golden_kueue.py FILES...``.

A file holds ``cases`` (victims, cycles and shares of Kueue; divisions and rounds of KAI) or one
replay. Every difference is printed; the exit code is 1 where there is any. Only the installed
package is needed.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "support"))

from golden_files import check_files
from golden_moment import HeldQuota, QuotaMoment
from support_quota_state import KaiJob, as_jobs, fair_shares, kai_state

from gpuplan.simkit.heap import sections
from gpuplan.simkit.quota import kai_columns as col
from gpuplan.simkit.quota.kai_kernel import CLOCK, PAST_COLUMNS, ROW_COLUMNS, run_kai
from gpuplan.simkit.quota.kai_round import settle
from gpuplan.simkit.quota.kai_site import KaiQueue
from gpuplan.simkit.quota.simulator import REASONS, replay_quota
from gpuplan.simkit.quota.site import (
    PodSet,
    Quota,
    QuotaCohort,
    QuotaFlavor,
    QuotaQueue,
    QuotaSite,
)


def quota(description):
    """Return a quota from its JSON object."""
    keys = ("nominal", "borrowing_limit", "lending_limit")
    return Quota(*(description.get(key) for key in keys))


def queue_of(row):
    """Return a queue from its JSON object; that of a replay has one flavor and GPUs."""
    groups = row.get("groups")
    if groups is None:
        groups = [{"flavors": [{"name": row["flavor"], "quotas": {"gpu": row}}]}]
    preemption, search = row["preemption"], row.get("flavor_fungibility") or {}
    borrow = preemption["borrow_within_cohort"] or {}
    threshold = borrow.get("threshold", borrow.get("max_priority_threshold"))
    return QuotaQueue(
        row["name"],
        tuple(
            tuple(
                QuotaFlavor(
                    flavor["name"],
                    {name: quota(amount) for name, amount in flavor["quotas"].items()},
                )
                for flavor in group["flavors"]
            )
            for group in groups
        ),
        row["cohort"],
        row["weight"],
        row["strategy"],
        preemption["within_queue"],
        preemption["reclaim_within_cohort"],
        borrow.get("policy", "Never"),
        threshold,
        **search,
    )


def site_of(document, config):
    """Return the site of a case or a replay."""
    cohorts = [
        QuotaCohort(
            row["name"],
            row["parent"],
            row["weight"],
            {(cell["flavor"], cell["resource"]): quota(cell) for cell in row["quotas"]},
        )
        for row in document["cohorts"]
    ]
    return QuotaSite(
        tuple(map(queue_of, document["queues"])),
        tuple(cohorts),
        config["fair_sharing"],
        tuple(config.get("fair_strategies", ("final", "initial"))),
        config.get("priority_sorting_within_cohort", True),
        config.get("recompute_overlapping_targets", True),
    )


def jobs_of(rows, queues):
    """Return the workloads of a case."""
    uids = sorted(row["uid"] for row in rows)
    shapes = [
        tuple(
            PodSet(pods["requests_per_pod"], pods["count"], pods.get("min_count"))
            for pods in row["pods"]
        )
        for row in rows
    ]
    created = [round(row["created_s"] * 1000) for row in rows]
    columns = {
        "queue": [queues.index(row["queue"]) for row in rows],
        "priority": [row["priority"] for row in rows],
        "submit": created,
        "created": created,
        "run": [1] * len(rows),
        "pods": list(range(len(rows))),
        "uid": [uids.index(row["uid"]) for row in rows],
    }
    return as_jobs(columns, shapes)


def moment_of(case):
    """Return the moment of a case and the rows of its workloads: running, then others."""
    running = case.get("running", [])
    rows = running + ([case["incoming"]] if "incoming" in case else case.get("pending", []))
    queues = [row["name"] for row in case["queues"]]
    kinds = {json.dumps(row["pods"], sort_keys=True): row for row in rows}
    jobs = jobs_of(rows, queues)
    order = list(kinds)
    jobs.pods[:] = [order.index(json.dumps(row["pods"], sort_keys=True)) for row in rows]
    shapes = jobs_of(list(kinds.values()), queues).shapes
    jobs = type(jobs)(
        jobs.queue, jobs.priority, jobs.submit, jobs.created, jobs.run, jobs.pods, jobs.uid, shapes
    )
    held = {
        i: HeldQuota(
            tuple(
                {(row["flavors"][name], name): amount for name, amount in row["usage"].items()}
                for row in workload["admission"]
            ),
            round(workload["reserved_s"] * 1000),
            workload["evicted"],
        )
        for i, workload in enumerate(running)
    }
    moment = QuotaMoment(site_of(case, case["config"]), jobs, held, round(case["now_s"] * 1000))
    return moment, rows


def preempted(rows, victims):
    """Return victims as the golden cases write them."""
    return sorted([rows[w]["name"], REASONS[reason]] for w, reason in victims)


def kueue_victims(case):
    """Return what the case expects, and what the rules say."""
    moment, rows = moment_of(case)
    incoming = case["incoming"]
    usage = [
        {
            (flavor, name): pods["count"] * pods["requests_per_pod"][name]
            for name, flavor in incoming["flavors"][pods["name"]].items()
        }
        for pods in incoming["pods"]
    ]
    needed = {tuple(pair) for pair in incoming["needs_preemption"]}
    victims = moment.victims(len(rows) - 1, usage, needed)
    return sorted(case["expected"]["preempted"]), preempted(rows, victims)


def kueue_cycle(case):
    """Return what the case expects, and what the rules say."""
    moment, rows = moment_of(case)
    first = len(case["running"])
    result = moment.cycle(list(range(first, len(rows))))

    def by_queue(workloads):
        queues = {}
        for w in workloads:
            queues.setdefault(rows[w]["queue"], []).append(rows[w]["name"])
        return {name: sorted(names) for name, names in sorted(queues.items())}

    admitted = [
        [
            rows[w]["name"],
            rows[w]["queue"],
            [
                {"name": rows[w]["pods"][i]["name"], "count": count, "flavors": flavors}
                for i, (count, flavors) in enumerate(pods)
            ],
        ]
        for w, pods in result.admitted.items()
    ]
    got = {
        "admitted": sorted(admitted, key=lambda row: row[0]),
        "preempted": preempted(rows, result.evicted),
        "left_active": by_queue(result.active),
        "left_inadmissible": by_queue(result.parked),
    }
    want = dict(case["expected"])
    want["admitted"] = sorted(want["admitted"], key=lambda row: row[0])
    want["preempted"] = sorted(want["preempted"])
    for key in ("left_active", "left_inadmissible"):
        want[key] = {name: sorted(names) for name, names in sorted(want[key].items())}
    return want, got


def kueue_share(case):
    """Return what the case expects, and what the rules say."""
    moment, _ = moment_of(case)
    for row in case["usage"]:
        queue = moment.names.nodes.index(row["queue"])
        moment.add_usage(queue, row["flavor"], row["resource"], row["amount"])
    got = []
    for row in case["expected"]["shares"]:
        within = range(moment.names.queues, len(moment.names.nodes))
        nodes = within if row["is_cohort"] else range(moment.names.queues)
        node = next(i for i in nodes if moment.names.nodes[i] == row["node"])
        infinite, number, resource, borrowing = moment.share(node)
        rounded = "infinite" if infinite else math.ceil(number)
        got.append(
            row | {"rounded_share": rounded, "dominant_resource": resource, "borrowing": borrowing}
        )
    return case["expected"]["shares"], got


def kueue_replay(document):
    """Return what the replay expects by job, and what the rules say."""
    rows = sorted(document["jobs"], key=lambda row: row["id"])
    queues = [row["name"] for row in document["queues"]]
    sizes = sorted({row["gpus"] for row in rows})
    columns = {
        "queue": [queues.index(row["queue"]) for row in rows],
        "priority": [row["priority"] for row in rows],
        "submit": [row["submit"] for row in rows],
        "created": [row["submit"] for row in rows],
        "run": [row["run"] for row in rows],
        "pods": [sizes.index(row["gpus"]) for row in rows],
        "uid": list(range(len(rows))),
    }
    jobs = as_jobs(columns, [(PodSet({"gpu": size}),) for size in sizes])
    run = replay_quota(site_of(document, document), jobs, grace_s=document["grace_s"])
    got = {row["id"]: {"starts": [], "ends": [], "evictions": []} for row in rows}
    cells = (run.job.tolist(), run.start_s.tolist(), run.end_s.tolist(), run.reason.tolist())
    for w, start, end, reason in zip(*cells, strict=True):
        job = got[rows[w]["id"]]
        job["starts"].append(start)
        job["ends"].append(end)
        if reason >= 0:
            job["evictions"].append([end, REASONS[reason]])
    return document["expected"], got


def kai_queue(row):
    """Return a queue of KAI from its JSON object."""
    names = ("name", "priority", "deserved", "limit", "over_quota_weight", "created")
    return KaiQueue(parent=row.get("parent"), **{name: row[name] for name in names})


def kai_fair_share(case):
    """Return what the case expects, and what the rules say."""
    queues = [kai_queue(row) for row in case["queues"]]
    requested = [row["requested"] for row in case["queues"]]
    shares = fair_shares(queues, requested, case["total"], case["k"])
    want = case["expected"]["fair_share"]
    got = {queue.name: share for queue, share in zip(queues, shares.tolist(), strict=True)}
    near = all(math.isclose(want[name], got[name], abs_tol=1e-9) for name in want)
    return want, want if near else got


def kai_round(state):
    """Decide one round, with the kernel of the replay; the states of tasks tell what."""
    nobody, places = np.zeros(0, np.int64), np.zeros((len(state.tasks), 1), np.int64)
    run_kai(
        state, np.zeros(CLOCK, np.int64), np.zeros((len(state.queues) + 1, PAST_COLUMNS)),
        np.zeros((1, ROW_COLUMNS), np.int64), (sections([len(places)]), places),
        (nobody, nobody, np.zeros((1, 3), np.int64)), (1, 0, 1, -1), (0.0, 0.0, 0),
    )  # fmt: skip


def kai_rounds(case):
    """Return what the case expects, and what the rules say."""
    jobs = [
        KaiJob(
            row["name"],
            row["queue"],
            int(row["gpus_per_task"]),
            tuple(task["node"] for task in row["tasks"]),
            row["min_tasks"],
            row["priority"],
            row["preemptible"],
            row["created"],
        )
        for row in case["jobs"]
    ]
    nodes = {name: int(gpus) for name, gpus in case["nodes"].items()}
    state = kai_state(nodes, [kai_queue(row) for row in case["queues"]], jobs)
    for turn in range(case["rounds"] + 5):
        kai_round(state)
        settle(state)
        active = dict(
            zip([job.name for job in jobs], state.jobs[:, col.JOB_ACTIVE].tolist(), strict=True)
        )
        if turn == case["rounds"] - 1:
            first = active
    states = {
        job.name: "Running"
        if first[job.name] >= job.min_tasks
        else "Pending"
        if first[job.name] == 0
        else "Partly"
        for job in jobs
    }
    if active != first:
        states["later"] = active
    return case["expected"]["states"], states


KINDS = {
    "kai_fair_share": kai_fair_share,
    "kai_rounds": kai_rounds,
    "preempt": kueue_victims,
    "cycle": kueue_cycle,
    "share": kueue_share,
    "kueue_replay": kueue_replay,
}


def differences(path):
    """Yield one line per difference of a file."""
    document = json.loads(path.read_text(encoding="utf-8"))
    for case in document.get("cases", [document]):
        want, got = KINDS[case["kind"]](case)
        if want == got:
            continue
        if case["kind"] == "kueue_replay":
            for job in sorted(want.keys() | got.keys()):
                if want.get(job) != got.get(job):
                    yield f"{case['id']}: job {job}: expected {want.get(job)}, got {got.get(job)}"
        else:
            yield f"{case['id']} ({case['what']}): expected {want}, got {got}"


def main(paths):
    """Print the differences of all files; returns the exit code."""
    return check_files(paths, differences, __doc__.splitlines()[0])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
