"""A small site and its log, written as sacct and squeue write them."""

import datetime
import json

HEADING = (
    "JobID|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|Timelimit|"
    "ReqNodes|NNodes|ReqTRES|AllocTRES|Priority|Reason|Flags|Reservation|NodeList|SubmitLine"
)
MONDAY = 1_759_276_800  # 2025-10-01T00:00 UTC
DAY = 86400
TWIN = """
[node."n[1-2]"]
gpus = 4
type = "a100"

[partition.gpu]
Nodes = "n[1-2]"
MaxTime = "2-00:00:00"

[partition.short]
Nodes = "n2"
MaxTime = "04:00:00"
PriorityTier = 5

[qos.normal]
[qos.normal.MaxTRESPU]
gpu = 6

[qos.large]

[backfill]
AccountingStorageEnforce = "limits"

[calibration]
level = "events"
"""


def clock(second):
    return datetime.datetime.fromtimestamp(second, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")


def span(seconds):
    days, rest = divmod(seconds, DAY)
    text = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text


def row(ident, submit, start, end, *, gpus=1, nodes=1, limit=3600, hosts="", user="ann",
        account="lab", partition="gpu", qos="normal", reason="None", now=None, eligible=None,
        line=None, state=None):  # fmt: skip
    """A row of sacct; ``start`` None for a waiting job, ``end`` None for one not over."""
    if state is None:
        state = "PENDING" if start is None else "RUNNING" if end is None else "COMPLETED"
    ran = 0 if start is None else (now if end is None else end) - start
    tres = f"billing={gpus},gres/gpu:a100={gpus},gres/gpu={gpus},node={nodes}"
    line = line or f"sbatch -p {partition} -N {nodes} --gres=gpu:{gpus // nodes} job.sh"
    eligible = submit if eligible is None else eligible
    cells = (
        ident, user, account, partition, qos, state, clock(submit),
        "Unknown" if eligible < 0 else clock(eligible),
        "Unknown" if start is None else clock(start), "Unknown" if end is None else clock(end),
        ran, span(limit), nodes, nodes, tres, "" if start is None else tres, 1, reason, "", "",
        hosts or "None assigned", line,
    )  # fmt: skip
    return "|".join(map(str, cells))


def write_log(path, rows):
    path.write_text("\n".join([HEADING, *rows]) + "\n")
    return path


def write_twin(path, text=TWIN):
    path.write_text(text)
    return path


def past_jobs(until, *, days=28, every=7200, shares=(1.0,), limit=3600, user="ann", first=1):
    """Jobs of 1 GPU that ran shares of their limit in turn, one every two hours."""
    rows = []
    for i, submit in enumerate(range(until - days * DAY, until - limit, every)):
        end = submit + int(shares[i % len(shares)] * limit)
        name = f"{first + i}"
        rows.append(row(name, submit, submit, end, limit=limit, hosts="n1", user=user))
    return rows


def squeue_text(jobs):
    """The queue as ``squeue -a -o`` writes it; jobs are keyword arguments of `row`, as dicts."""
    lines = ["JOBID|USER|ACCOUNT|PARTITION|QOS|STATE|SUBMIT_TIME|START_TIME|TIME|TIME_LIMIT|NODES|"
             "TRES_PER_NODE|PRIORITY|REASON|NODELIST"]  # fmt: skip
    for job in jobs:
        is_on = job["start"] is not None
        lines.append(
            "|".join(
                map(
                    str,
                    (
                        job["ident"], job["user"], "lab", "gpu", "normal",
                        "RUNNING" if is_on else "PENDING", clock(job["submit"]),
                        clock(job["start"]) if is_on else "N/A",
                        span(job["now"] - job["start"]) if is_on else "0:00", span(job["limit"]),
                        job["nodes"], f"gres/gpu:{job['gpus'] // job['nodes']}", 100,
                        "None" if is_on else "Priority", job["hosts"] if is_on else "",
                    ),
                )
            )
        )  # fmt: skip
    return "\n".join(lines) + "\n"


def squeue_json(jobs, now):
    """The queue as ``squeue --json`` writes it."""

    def number(value):
        return {"set": value is not None, "infinite": False, "number": value or 0}

    objects = [
        {
            "job_id": int(job["ident"]), "array_job_id": number(0), "array_task_id": number(None),
            "user_name": job["user"], "account": "lab", "partition": "gpu", "qos": "normal",
            "job_state": ["RUNNING" if job["start"] is not None else "PENDING"],
            "submit_time": number(job["submit"]), "eligible_time": number(job["submit"]),
            "start_time": number(job["start"] or 0), "time_limit": number(job["limit"] // 60),
            "node_count": number(job["nodes"]),
            "tres_req_str": f"cpu=1,gres/gpu={job['gpus']}", "tres_alloc_str": "",
            "priority": number(100), "state_reason": "Priority",
            "nodes": job["hosts"] if job["start"] is not None else "",
        }
        for job in jobs
    ]  # fmt: skip
    return json.dumps({"jobs": objects, "last_update": number(now)})
