"""The sample site: ``python tests/support/support_slurm_site.py FOLDER`` writes its files.

Jobs of four weeks are drawn, scheduled by the twin under the rules of the files, and written as
sacct would write them; ties are broken otherwise than calibrate breaks them.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from gpuplan.analysis.job_table.notation import expand_hosts
from gpuplan.analysis.site.dumps import read_dump
from gpuplan.analysis.site.slurm_conf import read_slurm_conf
from gpuplan.planner.twin.settings import config_of, shuffled, site_of
from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.simulator import replay_site
from gpuplan.simkit.twin.site import SiteJob

JOBS, DAYS = 820, 28
BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
FIRST_ID = 41200
TEAMS = {"vision": ("ana", "ben", "cho"), "nlp": ("dia", "eli"), "bio": ("fay", "gus", "hal")}

CONF = """# Sample site: 4 nodes of 8 H100, 6 nodes of 4 A100, one login node
ClusterName=sample
SlurmctldHost=login1
Include nodes.conf
PartitionName=DEFAULT MaxTime=2-00:00:00 State=UP
PartitionName=h100 Nodes=hopper Default=YES MaxNodes=2
PartitionName=a100 Nodes=a[01-06]
PartitionName=debug Nodes=h[01-02] PriorityTier=2 PriorityJobFactor=10 MaxTime=60 MaxNodes=1
PartitionName=cpu Nodes=login1
prioritytype=priority/multifactor
PriorityWeightAge=1000
PriorityWeightFairshare=10000
PriorityWeightJobSize=500
PriorityWeightPartition=1000
PriorityWeightQOS=2000
PriorityMaxAge=3-0
PriorityDecayHalfLife=7-0
FairShareDampeningFactor=1
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=60,bf_window=2880,\\
bf_max_job_test=200,bf_resolution=120,defer_batch
SelectType=select/cons_tres
AccountingStorageEnforce=associations,limits,qos
"""
NODES = """NodeName=DEFAULT CPUs=64 RealMemory=515000 Sockets=2   # for all that follow
NodeName=h[01-04] Gres=gpu:h100:8(S:0-1) Weight=10
NodeName=a[01-06] Gres=gpu:a100:4 Weight=1
NodeName=login1 CPUs=16
NodeSet=hopper Nodes=h[01-04]
"""
ASSOC = """Cluster|Account|User|Share|ParentName|GrpTRES|MaxJobs|GrpJobs
sample|root||1||||
sample|root|root|1||||
sample|vision||40|root|gres/gpu=28||
sample|nlp||40|root|||
sample|bio||20|root|cpu=256,gres/gpu=12||
"""
QOS = """Name|Priority|GrpTRES|MaxTRESPU|MaxJobsPU|MaxWall
normal|0||gres/gpu=20||
high|1000||gres/gpu=8|2|1-00:00:00
"""
EVENTS = """NodeName|TimeStart|TimeEnd|State|Reason|User
a05|2026-03-12T08:00:00|2026-03-13T18:30:00|DRAIN|memory errors|root(0)
h03|2026-03-20T06:00:00|2026-03-20T20:00:00|DOWN*|not responding|slurm(64030)
"""


def write_site(folder: Path) -> None:
    """Write the log, the settings and the dumps of the sample site."""
    folder.mkdir(parents=True, exist_ok=True)
    users = "".join(
        f"sample|{team}|{user}|1|||{6 if user == 'ben' else ''}|\n"
        for team, members in TEAMS.items()
        for user in members
    )
    texts = {
        "slurm.conf": CONF, "nodes.conf": NODES, "assoc.txt": ASSOC + users, "qos.txt": QOS,
        "events.txt": EVENTS,
        "slurm.new.conf": CONF.replace("Nodes=a[01-06]", "Nodes=a[01-04]")
        .replace("PriorityWeightFairshare=10000", "PriorityWeightFairshare=2000"),
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    log = _log(folder)
    (folder / "sacct.txt").write_text(log, encoding="utf-8", newline="\n")
    packed = gzip.compress(with_jobstats(log).encode(), 9, mtime=0)
    (folder / "sacct_jobstats.txt.gz").write_bytes(packed)


def _jobs(rng: np.random.Generator) -> list[SiteJob]:
    origin = int(BEGIN.timestamp())
    day = np.sort(rng.uniform(0, DAYS, 3 * JOBS))
    busy = 1 + 0.7 * np.sin((day % 1 - 0.375) * 2 * np.pi)  # more by day than by night
    submit = day[rng.random(day.size) < busy / 1.7][:JOBS] * 86400
    people = [(team, user) for team, members in TEAMS.items() for user in members]
    odds = np.array([6, 8, 3, 8, 6, 2, 3, 1], float)
    jobs = []
    for i, second in enumerate(submit):
        team, user = people[rng.choice(len(people), p=odds / odds.sum())]
        part = str(rng.choice(["h100", "a100", "debug"], p=[0.42, 0.5, 0.08]))
        wide = {"h100": [1, 1, 2, 4, 8, 16], "a100": [1, 1, 1, 2, 4, 8], "debug": [1, 1, 2]}[part]
        gpus = int(rng.choice(wide))
        most = {"h100": 8, "a100": 4, "debug": 8}[part]
        nodes = max(1, gpus // most)
        run = int(np.clip(rng.lognormal(9.0, 1.5), 20, 40 * 3600))
        run = min(run, 3000) if part == "debug" else run
        limits = [3600, 4 * 3600, 12 * 3600, 86400, 2 * 86400]
        fits = [limit for limit in limits if limit >= run * rng.uniform(1, 1.6)] or [2 * 86400]
        limit = 3600 if part == "debug" else int(fits[0])
        high = bool(part != "debug" and gpus <= 4 and rng.random() < 0.06 and limit <= 86400)
        at = origin + int(second)
        cancel = at + int(rng.uniform(600, 20000)) if rng.random() < 0.03 else None
        hold = at + int(rng.uniform(600, 7200)) if rng.random() < 0.03 and cancel is None else None
        jobs.append(
            SiteJob(
                FIRST_ID + i, at, nodes, gpus // nodes, limit,
                0 if cancel is not None else min(run, limit), user, team, part,
                "high" if high else "normal", eligible=hold, cancel=cancel,
            )
        )  # fmt: skip
    return jobs


def _log(folder: Path) -> str:
    document = read_slurm_conf(folder / "slurm.conf")
    for name in ("assoc.txt", "qos.txt", "events.txt"):
        document.merge(read_dump(folder / name))
    jobs = _jobs(np.random.default_rng(26))
    people = sorted({(job.account, job.user) for job in jobs})
    site = site_of(document, people)
    run = replay_site(site, SiteJobs.of(jobs), shuffled(config_of(document), 7))
    lines = [
        "JobID|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|Timelimit"
        "|NNodes|ReqTRES|AllocTRES|Reason|NodeList"
    ]
    rng = np.random.default_rng(27)
    for i, job in enumerate(jobs):
        start, end = int(run.start[i]), int(run.end[i])
        gpus, kind = job.nodes * job.gpus, "a100" if job.partition == "a100" else "h100"
        tres = (
            f"billing={gpus},cpu={8 * gpus},gres/gpu:{kind}={gpus},gres/gpu={gpus},node={job.nodes}"
        )
        head = [str(job.id), job.user, job.account, job.partition, job.qos]
        times = [_time(job.submit), _time(job.ready)]
        limit = (
            f"{job.limit // 86400}-00:00:00"
            if job.limit % 86400 == 0
            else f"{job.limit // 3600:02d}:00:00"
        )
        if start < 0:
            if run.reason(i) != "cancelled":
                continue
            left = _time(int(job.cancel or 0))
            lines.append("|".join([*head, "CANCELLED by 1004", *times, "None", left, "0", limit,
                                   str(job.nodes), tres, "", "Priority", ""]))  # fmt: skip
            continue
        state = "TIMEOUT" if job.runtime == job.limit else str(
            rng.choice(["COMPLETED", "FAILED", "OUT_OF_MEMORY"], p=[0.85, 0.13, 0.02])
        )  # fmt: skip
        names = ",".join(site.nodes[node].name for node in run.nodes(i))
        lines.append("|".join([*head, state, *times, _time(start), _time(end), str(end - start),
                               limit, str(job.nodes), tres, tres, "None", names]))  # fmt: skip
        if i % 97 == 0:
            lines.append("|".join([f"{job.id}.batch", "", job.account, "", "", state, _time(start),
                                   _time(start), _time(start), _time(end), str(end - start), "",
                                   str(job.nodes), "", tres, "", names]))  # fmt: skip
    cpu = ["41100", "ana", "vision", "cpu", "normal", "COMPLETED", _time(jobs[0].submit),
           _time(jobs[0].submit), _time(jobs[0].submit + 5), _time(jobs[0].submit + 65), "60",
           "01:00:00", "1", "cpu=4,node=1", "cpu=4,node=1", "None", "login1"]  # fmt: skip
    lines.insert(1, "|".join(cpu))
    return "\n".join(lines) + "\n"


def with_jobstats(log: str) -> str:
    """Return a log with jobstats summaries in AdminComment: what its GPUs did is drawn."""
    rng = np.random.default_rng(7)
    header, *rows = log.splitlines()
    lines = [f"{header}|AdminComment"]
    lines += [f"{row}|{_summary(row.split('|'), rng)}" for row in rows]
    return "\n".join(lines) + "\n"


def _summary(cells: list[str], rng: np.random.Generator) -> str:
    run_s, nodes, gpus = int(cells[10]), expand_hosts(cells[16]), cells[14]
    if not nodes or "gres/gpu=" not in gpus or "." in cells[0]:
        return ""
    if run_s < 60:
        return "JS1:Short"
    kind = rng.choice(["used", "little", "hung", "one", "none"], p=[0.8, 0.07, 0.05, 0.06, 0.02])
    if kind == "none":
        return "JS1:None"
    each = int(gpus.partition("gres/gpu=")[2].split(",")[0]) // len(nodes)
    memory = (80 if nodes[0].startswith("h") else 40) * 2**30
    mean = rng.uniform(1, 14) if kind == "little" else rng.uniform(40, 97)
    used = 0 if kind == "hung" else int(memory * rng.uniform(0.05, 0.95))
    told = {}
    for place, node in enumerate(nodes):
        percents = [float(np.clip(mean + rng.normal(0, 2), 0.5, 100)) for _ in range(each)]
        if kind == "hung" or (kind == "one" and place):
            percents = [0.0] * each
        elif kind == "one":
            percents[1:] = [0.0] * (each - 1)
        told[node] = {
            "gpu_utilization": {str(gpu): round(each, 1) for gpu, each in enumerate(percents)},
            "gpu_used_memory": {str(gpu): used for gpu in range(each)},
            "gpu_total_memory": {str(gpu): memory for gpu in range(each)},
        }
    text = json.dumps({"gpus": each * len(nodes), "total_time": run_s, "nodes": told})
    return "JS1:" + base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def _time(second: int) -> str:
    return (datetime.fromtimestamp(0, UTC) + timedelta(seconds=second)).strftime(
        "%Y-%m-%dT%H:%M:%S"
    )


if __name__ == "__main__":
    write_site(Path(sys.argv[1]))
