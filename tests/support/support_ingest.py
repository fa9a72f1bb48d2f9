"""Small logs of every format, written out by hand, and helpers to ingest them."""

# ruff: noqa: E501

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
from support_clusters import CLUSTER_LOGS
from support_kubernetes import texts
from support_schedulers import SCHEDULER_LOGS

SEREN = """\
job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
1,ua,1,0,4,Other,COMPLETED,2023-04-02 10:00:00+08:00,2023-04-02 10:00:01+08:00,2023-04-02 10:00:15+08:00,14,1,0.0
2,ub,4,32,512,Pretrain,CANCELLED,2023-04-02 10:05:00+08:00,2023-04-02 10:05:20+08:00,2023-04-02 12:05:20+08:00,7200,20,230400.0
3,ub,1,8,128,Eval,TIMEOUT,2023-04-02 10:06:00+08:00,2023-04-02 10:06:00+08:00,2023-04-02 10:06:00+08:00,0,0,0.0
4,uc,1,8,128,Eval,CANCELLED,2023-04-02 10:07:00+08:00,,2023-04-02 10:09:00+08:00,,120,0.0
5,uc,1,8,128,SFT,RUNNING,2023-04-02 10:08:00+08:00,2023-04-02 10:08:30+08:00,,,30,0.0
"""
KALOS = """\
job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,fail_time,stop_time,duration,queue,gpu_time
dlca,ua,2,16,240,800,100.0,Eval,FAILED,2023-06-01 01:00:00+00:00,2023-06-01 01:00:12+00:00,2023-06-01 01:01:00+00:00,2023-06-01 01:01:00+00:00,,60,12.0,960.0
dlcb,ua,1,8,120,800,100.0,Pretrain,COMPLETED,2023-06-01 02:00:00+00:00,2023-06-01 02:00:00+00:00,2023-06-01 02:01:00+00:00,,,60,0.0,480.0
"""
PHILLY_CSV = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-11 14:02:09,318.0,4,1272.0,0abc12
2017-10-03 22:41:55,77120.0,1,77120.0,9def34
2017-10-03 22:41:55,77120.0,1,77120.0,9def34

"""
PHILLY_JOBS = [
    {
        "status": "Killed",
        "vc": "aa11bb",
        "jobid": "application_1507000000000_0007",
        "submitted_time": "2017-10-05 09:00:00",
        "user": "c0ffee",
        "attempts": [
            {
                "start_time": "2017-10-05 09:00:40",
                "end_time": "2017-10-05 09:02:00",
                "detail": [{"ip": "m7", "gpus": ["gpu0", "gpu1"]}, {"ip": "m8", "gpus": ["gpu0"]}],
            },
            {
                "start_time": "2017-10-05 09:02:10",
                "end_time": "2017-10-05 09:03:10",
                "detail": [{"ip": "m7", "gpus": ["gpu2"]}],
            },
        ],
    },
    {
        "status": "Pass",
        "vc": "aa11bb",
        "jobid": "application_1507000000000_0008",
        "submitted_time": "2017-10-05 09:01:00",
        "user": "c0ffee",
        "attempts": [],
    },
    {
        "status": "Failed",
        "vc": "aa11bb",
        "jobid": "application_1507000000000_0009",
        "submitted_time": "2017-10-05 09:01:30",
        "user": "beef01",
        "attempts": [
            {"start_time": "2017-10-05 09:02:00", "end_time": "2017-10-05 09:02:30", "detail": []},
            {
                "start_time": "2017-10-05 09:03:00",
                "end_time": None,
                "detail": [{"ip": "m7", "gpus": ["gpu2"]}],
            },
        ],
    },
]
PHILLY_JSON = json.dumps(PHILLY_JOBS)
SIA = """\
name,time,application,num_replicas,batch_size
cifar10-0,61,cifar10,2,512
bert-1,95.5,bert,8,192
"""
WANDB_CSV = """\
"Name","State","Notes","User","Tags","Created","Runtime","Sweep","lr","num_gpus","val/loss"
"amber-lake-12","finished","-","kim","","2026-02-03T08:15:42.000Z","1834","","0.0003","4","1.92"
"amber-lake-13","crashed","-","kim","night, retry","2026-02-03T08:16:10.000Z","41","x7","0.001","4",""
"amber-lake-14","Running","he said ""oom""
twice","lee","","2026-02-03T09:00:00.000Z","600","","0.001","","2.40"
"amber-lake-15","killed","-","lee","","2026-02-03T09:10:00","","","0.001","auto","2.40"
"""
WANDB_RUNS = [
    {
        "id": "a1b2c3d4",
        "name": "amber-lake-12",
        "state": "finished",
        "created_at": "2026-02-03T08:15:42",
        "heartbeat_at": "2026-02-03T08:46:16",
        "user": {"username": "kim"},
        "config": {"lr": {"value": 0.1}, "world_size": {"value": 16}},
        "summary": {"_wandb": {"runtime": 1834}, "_runtime": 1800.5},
        "metadata": {"gpu_count": 8, "gpu": "NVIDIA A100-SXM4-80GB"},
    },
    {
        "id": "a1b2c3d5",
        "name": "amber-lake-13",
        "state": "crashed",
        "createdAt": "2026-02-03T08:16:10Z",
        "heartbeatAt": "2026-02-03T08:16:51Z",
        "user": "kim",
        "config": {"trainer.devices": 2},
        "summary": {},
        "metadata": None,
    },
    {
        "id": "a1b2c3d6",
        "state": "failed",
        "created_at": "2026-02-03T09:16:10Z",
        "config": "{}",
        "summary": {"_runtime": 12.25},
    },
]
WANDB_JSON = json.dumps(WANDB_RUNS, indent=1)
WANDB_JSONL = "".join(json.dumps(run) + "\n" for run in WANDB_RUNS)
CANONICAL_CSV = """\
job_id,submit_time,duration_s,num_gpus,gpu_type,state,priority,deadline_s,num_workers,attempts
a,2026-01-01T00:00:00Z,60,2,NVIDIA A100-SXM4-80GB,completed,hp,3600,1,1
b,2026-01-01T01:00:00+01:00,,0.5,,not_started,spot,,2,
"""
LOGS = {
    "seren": ("seren", "log.csv", SEREN),
    "kalos": ("kalos", "log.csv", KALOS),
    "philly_csv": ("philly", "log.csv", PHILLY_CSV),
    "philly_json": ("philly", "log.json", PHILLY_JSON),
    "sia": ("sia", "log.csv", SIA),
    "wandb_csv": ("wandb", "log.csv", WANDB_CSV),
    "wandb_json": ("wandb", "log.json", WANDB_JSON),
    "wandb_jsonl": ("wandb", "log.jsonl", WANDB_JSONL),
    "canonical_csv": ("canonical", "log.csv", CANONICAL_CSV),
    **SCHEDULER_LOGS,
    **CLUSTER_LOGS,
    **texts(),
}
"""Name -> (format, file name, text) of a log without a bad row."""

SIA_HEADER = SIA.splitlines()[0]


def sia(*rows: str, end: str = "\n") -> str:
    """Return a Sia log of these rows."""
    return end.join([SIA_HEADER, *rows]) + end


def good(n: int) -> list[str]:
    """Return so many good rows of a Sia log."""
    return [f"job-{i},{i},bert,{i % 8 + 1},32" for i in range(n)]


def utc(*parts: int) -> datetime:
    """Return an instant in UTC."""
    return datetime(*parts, tzinfo=UTC)


def ingest_text(folder: Path, text: str | bytes, name: str = "log.csv", **options):
    """Write a log into ``folder`` and ingest it; returns (jobs, result, rejected rows)."""
    from gpuplan.analysis.ingest.ingest import ingest
    from gpuplan.analysis.job_table.reject_limit import Limit
    from gpuplan.analysis.log_formats.format import IngestOptions

    source = folder / name
    source.write_bytes(text.encode() if isinstance(text, str) else text)
    limit = Limit.of(options.pop("limit", "100%"))
    choices = IngestOptions(
        options.pop("columns", {}),
        options.pop("time_zone", None),
        own_durations=options.pop("own_durations", False),
        keep=options.pop("keep", ()),
    )
    result = ingest([source], folder / "trace.parquet", choices=choices, limit=limit, **options)
    rejects = None if result.rejects_file is None else pl.read_parquet(result.rejects_file)
    return pl.read_parquet(result.output), result, rejects
