"""Small valid inputs of every kind: job logs, price lists, option files, traces, results."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUPPORT = ROOT / "tests" / "support"
if str(SUPPORT) not in sys.path:
    sys.path.append(str(SUPPORT))  # small logs and prices that the tests use too

MAPPED = b"""\
id,created,begun,ended,cards,who
1,2026-01-05 10:00:00,2026-01-05 10:00:10,2026-01-05 11:00:00,2,ada
2,2026-01-05 10:05:00,2026-01-05 10:06:00,2026-01-05 10:16:00,1,bob
"""
MAPPING = (
    *("--map", "job_id=id", "--map", "submit_time=created", "--map", "start_time=begun"),
    *("--map", "end_time=ended", "--map", "num_gpus=cards", "--map", "user=who"),
)
SPEEDUPS = b"""\
job_class,num_gpus,throughput
bert,1,1
bert,2,1.9
bert,4,3.4
ncf,1,2
ncf,2,3
"""
TYPED_SPEEDUPS = b"""\
gpu_type,job_class,epoch,num_gpus,throughput,work_share
T4,bert,0,1,1,0.5
T4,bert,0,2,1.9,0.5
T4,bert,1,1,1,0.5
T4,bert,1,2,1.5,0.5
A100,bert,0,1,3,0.5
A100,bert,1,1,3,0.5
"""
POLLUX = b"""\
job_class,alpha_c,beta_c,alpha_r,beta_r,alpha_n,beta_n,gamma,init_batch_size,max_batch_size,\
min_local_bsz,max_local_bsz,gpus_per_node,noise_scale,work_h,rescale_s
bert,0.5,0.25,0.1,0.01,0.2,0.02,1.5,4,64,2,8,4,100,1,20
ncf,0.5,0.25,0.1,0.01,0.2,0.02,1.5,4,64,2,8,4,50,0.5,20
"""
CHECKPOINTS = b"job_class,checkpoint_s,restore_s\nbert,12,9\nncf,1.5,2\n*,30,60\n"
STATES = b"job_class,state_gb,gb_per_s\nbert,12,2\n*,30,1.5\n"
GAVEL_CSV = b"""\
worker_type,job_type,scale_factor,steps_per_second
v100,ResNet-18 (batch size 32),1,30
v100,ResNet-18 (batch size 32),2,55
v100,LM (batch size 10),1,30
k80,LM (batch size 10),1,3
"""
GAVEL_JSON = json.dumps(
    {
        "v100": {
            "('ResNet-18 (batch size 32)', 1)": {"null": 13.4},
            "('LM (batch size 10)', 1)": {"null": 9.5},
            "('LM (batch size 10)', 4)": {"null": 29.5},
        }
    }
).encode()
SCENARIO_HEAD = b"""\
title = "GPU plan"
[workload]
trace = "lab.parquet"
where = "num_gpus >= 1"
since = 2024-01-01
seed = 0
[speedups]
speedup = "power:0.8"
[prices]
file = "builtin"
gpu = "A100-80GB"
[clouds]
serverless_usd_per_gpu_h = 2.10
[policies.fixed]
threshold_s = "10m"
[output]
dir = "made"
formats = ["json", "junit"]
"""
STUDIES = {
    "characterize": (b"top = 5\n", "characterize.short_jobs.under_600s < 1%"),
    "pareto": (b'budget = ["1.2x", "2x"]\nno_replay = true\n', "pareto.knee.mean_jct_s > 4h"),
    "small_cluster": (b'command = "simulate"\npolicy = "srtf"\ngpus = 8\n', ""),
}
"""Name of a study in a scenario -> its keys, and a gate on it."""


def scenario(*names: str) -> bytes:
    """Return a scenario with these studies."""
    parts = [b"[study.%b]\n%b" % (name.encode(), STUDIES[name][0]) for name in names]
    gates = json.dumps([STUDIES[name][1] for name in names if STUDIES[name][1]])
    return b"".join([SCENARIO_HEAD, *parts, b"[gates]\nfail_if = %b\n" % gates.encode()])


SCENARIO_LOG = b"""\
[workload]
log = { file = "log.csv", max_rejects = "100%" }
scale_interarrival = 0.5
[study.characterize]
[study.compare]
policy = ["fifo", "srtf"]
gpus = 64
"""
SCENARIO_SYNTH = b"""\
[workload]
synth = { preset = "seren", jobs = 40, seed = 1 }
[study.characterize]
[study.sweep]
threshold = "1m,10m"
resamples = 0
"""


@cache
def job_logs() -> dict[str, tuple[str, dict[str, bytes], tuple[str, ...]]]:
    """Return logs of every format: name -> (format, files, further arguments)."""
    from support_clusters import PAI_TABLES
    from support_ingest import LOGS

    found: dict[str, tuple[str, dict[str, bytes], tuple[str, ...]]] = {
        name: (kind, {file: text.encode()}, ()) for name, (kind, file, text) in LOGS.items()
    }
    found["pai_tables"] = ("pai", {f"pai/{name}": t.encode() for name, t in PAI_TABLES.items()}, ())
    found["mapped"] = ("csv", {"log.csv": MAPPED}, MAPPING)
    gavel = found["gavel_short"][1]
    for name, table in (("t.csv", GAVEL_CSV), ("t.json", GAVEL_JSON)):
        more = ("--throughputs", name, "--worker-type", "v100")
        found[f"gavel_{name}"] = ("gavel", {**gavel, name: table}, more)
    found["canonical_parquet"] = ("canonical", {"log.parquet": traces()["rich.parquet"]}, ())
    return found


@cache
def kueue_site() -> bytes:
    """Return the queues of the sample site of Kueue, and its first 30 workloads."""
    dump = json.loads((ROOT / "sample_traces" / "kueue" / "workloads.json").read_bytes())
    jobs = [item for item in dump["items"] if item["kind"] == "Workload"]
    queues = [item for item in dump["items"] if item["kind"] != "Workload"]
    return json.dumps({**dump, "items": [*queues, *jobs[:30]]}).encode()


@cache
def kueue_twin() -> bytes:
    """Return settings of the sample site of Kueue, as calibrate writes them."""
    from gpuplan.analysis.quota.kueue_site import read_quota_site
    from gpuplan.analysis.quota.twin_text import quota_twin_text

    with tempfile.TemporaryDirectory(prefix="fuzz.") as folder:
        path = Path(folder, "kueue.json")
        path.write_bytes(kueue_site())
        return quota_twin_text(read_quota_site(path), {"level": "borrowing"}).encode()


@cache
def opencost_answer() -> bytes:
    """Return allocations of OpenCost for two days: a pod with GPUs, one without, what is idle."""

    def allocation(name: str, day: int, **amounts: float | None) -> dict[str, object]:
        begin, end = (f"2026-11-{number:02}T00:00:00Z" for number in (day, day + 1))
        node = {"node": "a100-1", "pod": name, "namespace": "team-a"}
        label = {"nvidia_com_gpu_product": "NVIDIA-A100-SXM4-80GB"}
        return {
            "name": name,
            "properties": {**node, "labels": label},
            "window": {"start": begin, "end": end},
            "minutes": 1440,
            "gpuCostAdjustment": 0,
            **amounts,
        }

    steps = [
        {
            "p1": allocation("p1", day, gpuCount=4, gpuHours=96, gpuCost=200, totalCost=230.5),
            "cpu": allocation("cpu", day, gpuCount=0, gpuHours=0, gpuCost=0, totalCost=7.25),
            "__idle__": allocation("__idle__", day, gpuHours=None, gpuCost=50, totalCost=60),
        }
        for day in (2, 3)
    ]
    return json.dumps({"code": 200, "data": steps}, indent=1).encode()


@cache
def price_lists() -> dict[str, tuple[str, bytes]]:
    """Return price lists of every format: name -> (file name, bytes)."""
    from support_prices import WHOLE

    found = {name: (name, text.encode()) for name, text in WHOLE.items()}
    found["canonical_parquet"] = ("p.parquet", prices())
    return found


@cache
def traces() -> dict[str, bytes]:
    """Return canonical traces: a lab, one without durations, one with every column, tiny ones."""
    import polars as pl
    from support_traces import frame, lab_trace

    from gpuplan.analysis.job_table.schema import CANONICAL
    from gpuplan.analysis.job_table.schema import STATES as ALL

    with tempfile.TemporaryDirectory(prefix="fuzz.") as folder:
        lab = lab_trace(Path(folder, "lab.parquet"), 30).read_bytes()
    n = 12
    columns = {
        "job_id": [f"j{i}" for i in range(n)],
        "user": [("ada", "bob", None)[i % 3] for i in range(n)],
        "group": [("nlp", "cv")[i % 2] for i in range(n)],
        "job_class": [("bert", "ncf", "bert")[i % 3] for i in range(n)],
        "queue_s": [float(10 * i) for i in range(n)],
        "duration_s": [None if i == 7 else 60.0 * (i + 1) ** 2 for i in range(n)],
        "num_gpus": [(1.0, 2.0, 0.5, 4.0)[i % 4] for i in range(n)],
        "num_workers": [1 + i % 2 for i in range(n)],
        "gpu_type": [("A100-80GB", "L4", None)[i % 3] for i in range(n)],
        "state": [ALL[i % len(ALL)] for i in range(n)],
        "source_state": [ALL[i % len(ALL)].upper() for i in range(n)],
        "priority": [("hp", "spot", None)[i % 3] for i in range(n)],
        "deadline_s": [None if i % 2 else 7200.0 for i in range(n)],
        "attempts": [1 + i % 3 for i in range(n)],
    }
    rich = frame([600.0 * i for i in range(n)], **columns).select(list(CANONICAL))
    bare = frame([179.0 * i for i in range(n)]).with_columns(
        job_class=pl.Series([("bert", "ncf")[i % 2] for i in range(n)]),
        num_gpus=pl.lit(4.0),
        duration_s=pl.lit(None, pl.Float64),
    )
    one = frame([0.0], duration_s=[60.0], num_gpus=[1.0])
    same = frame([5.0] * 4, duration_s=[0.0, 60.0, 60.0, 3600.0], num_gpus=[0.0, 1.0, 1.0, 8.0])
    found = {"lab.parquet": lab}
    tables = {"rich": rich, "bare": bare, "one": one, "same": same, "empty": one.clear()}
    for name, table in tables.items():
        stream = io.BytesIO()
        table.write_parquet(stream)
        found[f"{name}.parquet"] = stream.getvalue()
    return found


def said_by(*arguments: str, files: dict[str, bytes], output: str = "") -> bytes:
    """Return the output of a command, from standard output or from a file."""
    from gpuplan.cli.app.main import main

    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with tempfile.TemporaryDirectory(prefix="fuzz.") as folder:
        for name, data in files.items():
            Path(folder, name).write_bytes(data)
        here = os.getcwd()
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
                code = main(list(arguments))
            if code != 0:
                raise RuntimeError(f"gpuplan {' '.join(arguments)} ended with {code}")
            if output:
                return Path(output).read_bytes()
        finally:
            os.chdir(here)
    printed.flush()
    buffer: io.BytesIO = printed.buffer  # type: ignore[assignment]
    return buffer.getvalue()


@cache
def prices() -> bytes:
    """Return a price table of gpuplan prices."""
    from support_prices import HEADER

    rows = [
        f"2024-03-01T0{i}:00:00Z,{who},{gpu},,{kind},{0.3 * (i + 1):.2f},{i}"
        for i in range(6)
        for who, gpu, kind in (
            ("vast", "A100-80GB", "spot"),
            ("aws", "A100-80GB", "on_demand"),
            ("modal", "A100-80GB", "serverless"),
            ("aws", "L4", "on_demand"),
        )
    ]
    text = "\n".join([HEADER, *rows]).encode()
    return said_by("prices", "p.csv", "-o", "p.parquet", files={"p.csv": text}, output="p.parquet")


@cache
def results() -> dict[str, bytes]:
    """Return results of commands as JSON, and a model of synth."""
    lab = {"lab.parquet": traces()["lab.parquet"]}
    as_json = ("--output-format", "json")
    found = {
        f"{name}{seed}.json": said_by(
            *(name, "lab.parquet", *more, "--seed", seed, "--sample", "20", *as_json), files=lab
        )
        for name, more in (
            ("characterize", ()),
            ("pareto", ("--no-replay",)),
            ("sweep", ("--resamples", "0", "--threshold", "60,600")),
            ("simulate", ("--policy", "fifo")),
            ("bill", ("--price", "1.29")),
            ("plan", ("--commit", "0.9", "--on-demand", "1.9", "--holdout", "0%")),
        )
        for seed in "12"
    }
    found["model.json"] = said_by(
        *("synth", "--like", "lab.parquet", "--jobs", "3", "-o", "s.parquet"),
        *("--save-model", "m.json"),
        files=lab,
        output="m.json",
    )
    return found


PROFILE = b"".join(
    b"%d,%d,%.4f,%.4f\n" % (batch, percent, batch * 0.2 / percent, percent / 0.2)
    for batch in (1, 2, 4)
    for percent in (10, 50, 100)
)
SHARED = b"""name,type,gpus,request,limit,memory_gb,start_s,end_s
a,inference,1,0.3,0.6,5,0,60
b,llm-inference,1,0.4,0.7,28,5,
c,training,2,0.5,0.8,30,9,100
"""
FUNCTIONS = b"""[[functions]]
name = "a"
profile = "profile.csv"
request = 0.5
batch = 2
slo_s = 0.1
load = "poisson:20"

[[functions]]
name = "t"
kind = "training"
profile = "profile.csv"
request = 0.3
workers = 2
"""


@cache
def option_files() -> dict[str, bytes]:
    """Return every file that an option may name, by a name that options use."""
    return {
        "speedups.csv": SPEEDUPS,
        "typed.csv": TYPED_SPEEDUPS,
        "pollux.csv": POLLUX,
        "checkpoints.csv": CHECKPOINTS,
        "states.csv": STATES,
        "t.csv": GAVEL_CSV,
        "t.json": GAVEL_JSON,
        "profile.csv": PROFILE,
        "shared.csv": SHARED,
        "functions.toml": FUNCTIONS,
        "rates.txt": b"5\n20\n0\n31.5\n",
        "prices.parquet": prices(),
        **results(),
    }
