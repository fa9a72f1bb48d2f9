"""Small logs of schedulers and simulators, written out by hand."""

# ruff: noqa: E501

from __future__ import annotations

import json

from support_jobstats import summary
from support_slurm import HEADER, log

GAVEL_SHORT = (
    'ResNet-18 (batch size 32)\tcd %s/cifar10 && python3 main.py --name "a b --batch_size 32\t--num_steps\t1\t120000\t0.000000\t2\n'
    "LM (batch size 10)\tcd %s/lm && python3 main.py --batch_size 10\t--steps\t1\t48000\t360.500000\t12\n"
)
GAVEL_LONG = (
    "LM (batch size 10)\tpython3 main.py --cuda\tlanguage_modeling\t--steps\t1\t48000\t1\t1\t-1.000000\t0\n"
    "LM (batch size 10)\tpython3 main.py --cuda\tlanguage_modeling\t--steps\t1\t48000\t4\t1\t1.200000\t90.25\n"
)
TIRESIAS = """\
job_id,num_gpu,submit_time,iterations,model_name,duration,interval
0,1,0,606,vgg19,164,30
1,8,30,133,vgg11,147,23
"""
BY_WORKER = """\
job_id,arrival_time,num_iteration,iteration_computing_time,iteration_networking_time,gpu_workers,ps,gpu_per_worker
0,0.0,208,0.5,0.25,8,0,8.0
1,313.5,3,0.5,0.75,3,0,2.3333333333333335
"""
AZURE_LLM = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
"""
AZURE_FUNCTIONS = """\
app,func,end_timestamp,duration
a1,f1,12.500,0.250
a1,f2,43.300,31.000
a2,f1,12.300,0
"""
DILU = """\
{'Time': '2026-01-01 00:00:05', 'Action': 'start', 'Instance': {'service_name': 'inference-ab12cd', 'type': 'inference', 'gpu_num': 1, 'sm_requests': 0.3, 'sm_limits': 0.5, 'memory': [6]}}
{'Time': '2026-01-01 00:00:06', 'Action': 'start', 'Instance': {'service_name': 'training-x1', 'type': 'training', 'gpu_num': 2, 'sm_requests': 0.5, 'sm_limits': 0.9, 'memory': [6, 6]}}
{'Time': '2026-01-01 00:04:05', 'Action': 'delete', 'Instance': {'service_name': 'inference-ab12cd', 'type': 'inference', 'gpu_num': 1, 'sm_requests': 0.3, 'sm_limits': 0.5, 'memory': [6]}}
"""
SWF = """\
; UnixStartTime: 1767225600
; TimeZoneString: Europe/Berlin
; MaxProcs:\t64

    1      0      5    60   8   -1 -1   16  100 -1 1 3 2 7 1 1 -1 -1
    2     30     -1    -1  -1   -1 -1    4  100 -1 5 3 2 7 1 1 -1 -1
    3     31.5    0     0   4   12 -1   -1   -1 -1 0 4 2 -1 1 1  1 10\t
"""
SACCT = """\
JobID|User|Account|Partition|State|Submit|Start|End|ElapsedRaw|NNodes|AllocTRES|ReqTRES
700|ada|nlp|gpu|COMPLETED|2026-01-10T08:00:00|2026-01-10T08:00:05|2026-01-10T10:00:05|7200|1|billing=16,cpu=16,gres/gpu:h100=2,gres/gpu=2,mem=128G,node=1|billing=16,cpu=16,gres/gpu=2,mem=128G,node=1
700.batch||nlp||COMPLETED|2026-01-10T08:00:05|2026-01-10T08:00:05|2026-01-10T10:00:05|7200|1|cpu=16,gres/gpu:h100=2,gres/gpu=2,mem=128G,node=1|
700.0||nlp||COMPLETED|2026-01-10T08:00:09|2026-01-10T08:00:09|2026-01-10T10:00:05|7196|1|cpu=16,gres/gpu=2,node=1|
701_3|bob|cv|gpu|CANCELLED by 1002|2026-01-10T08:01:00|None|2026-01-10T08:05:00|0|0||cpu=8,gres/gpu=4,node=1
701_[4-9%2]|bob|cv|gpu|PENDING|2026-01-10T08:01:00|Unknown|Unknown|0|1||cpu=8,gres/gpu=4,node=1
702|bob|cv|gpu|RUNNING|2026-01-10T09:00:00|2026-01-10T09:00:02|Unknown|3600|2|cpu=8,gres/gpu:a100=8,gres/gpu:v100=4|cpu=8
703|ada|nlp|cpu|TIMEOUT|2026-01-10T09:10:00|2026-01-10T09:10:00|2026-01-10T10:10:00|3600|1|billing=4,cpu=4,mem=8G,node=1|cpu=4
"""
SACCT_P = "".join(f"{line}|\n" for line in SACCT.splitlines())
SACCT_JOBS = [
    {
        "account": "nlp",
        "allocation_nodes": 2,
        "array": {"job_id": 0, "task_id": {"set": False, "infinite": False, "number": 0}, "task": ""},
        "het": {"job_id": 0, "job_offset": {"set": False, "infinite": False, "number": 0}},
        "job_id": 700,
        "name": "a|b",
        "partition": "gpu",
        "state": {"current": ["COMPLETED"], "reason": "None"},
        "steps": [{"tres": {"allocated": [{"type": "gres", "name": "gpu", "id": 1001, "count": 8}]}}],
        "time": {"elapsed": 7200, "submission": 1768032000, "start": 1768032005, "end": 1768039205},
        "tres": {
            "allocated": [
                {"type": "cpu", "name": "", "id": 1, "count": 16},
                {"type": "gres", "name": "gpu", "id": 1001, "count": 8},
                {"type": "gres", "name": "gpu:a100", "id": 1002, "count": 8},
            ],
            "requested": [],
        },
        "user": "ada",
    },
    {
        "array": {"job_id": 701, "task_id": 3, "task": ""},
        "job_id": 705,
        "state": {"current": "PENDING"},
        "time": {"elapsed": 0, "submission": {"set": True, "infinite": False, "number": 1768032060},
                 "start": 0, "end": 0},
        "tres": {"allocated": [], "requested": [{"type": "gres", "name": "gpu", "id": 1001, "count": 4}]},
        "user": "bob",
    },
]  # fmt: skip
SACCT_JSON = json.dumps(
    {"meta": {"plugin": {"name": "slurm"}}, "jobs": SACCT_JOBS, "errors": []}, indent=1
)
SACCT_UTILIZATION = log(
    {"JobID": "1", "AdminComment": summary([90.0, 0.0, 0.0, 12.5])},
    {"JobID": "1.batch", "TRESUsageInAve": "cpu=00:10:00,gres/gpumem=900M,gres/gpuutil=60,mem=1G"},
    {"JobID": "2", "AdminComment": "JS1:Short", "Elapsed": "10:00", "AllocTRES": "gres/gpu=2"},
    {"JobID": "2.0", "TRESUsageInAve": "gres/gpuutil=150,mem=1G", "AllocTRES": "gres/gpu=2"},
    {"JobID": "2.extern", "TRESUsageInAve": "cpu=00:00:00,mem=0"},
    {"JobID": "3", "AdminComment": "JS1:None"},
    {"JobID": "4", "AdminComment": "asked for more memory"},
    header=HEADER + "|AdminComment|TRESUsageInAve",
)

SCHEDULER_LOGS = {
    "slurm": ("slurm", "log.txt", SACCT),
    "slurm_p": ("slurm", "log.txt", SACCT_P),
    "slurm_json": ("slurm", "log.json", SACCT_JSON),
    "slurm_utilization": ("slurm", "log.txt", SACCT_UTILIZATION),
    "azure_llm": ("azure-llm", "log.csv", AZURE_LLM),
    "azure_functions": ("azure-functions", "log.txt", AZURE_FUNCTIONS),
    "dilu": ("dilu", "instances-2.txt", DILU),
    "gavel_short": ("gavel", "a.trace", GAVEL_SHORT),
    "gavel_long": ("gavel", "a.trace", GAVEL_LONG),
    "swf": ("swf", "log.swf", SWF),
    "tiresias": ("tiresias", "log.csv", TIRESIAS),
    "tiresias_by_worker": ("tiresias", "log.csv", BY_WORKER),
}
"""Name -> (format, file name, text) of a log without a bad row."""
