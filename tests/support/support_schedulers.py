"""Small logs of schedulers and simulators, written out by hand."""

# ruff: noqa: E501

from __future__ import annotations

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
SCHEDULER_LOGS = {
    "azure_llm": ("azure-llm", "log.csv", AZURE_LLM),
    "dilu": ("dilu", "instances-2.txt", DILU),
    "gavel_short": ("gavel", "a.trace", GAVEL_SHORT),
    "gavel_long": ("gavel", "a.trace", GAVEL_LONG),
    "swf": ("swf", "log.swf", SWF),
    "tiresias": ("tiresias", "log.csv", TIRESIAS),
    "tiresias_by_worker": ("tiresias", "log.csv", BY_WORKER),
}
"""Name -> (format, file name, text) of a log without a bad row."""
