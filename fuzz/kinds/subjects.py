"""One kind per subject with inputs of its own: sites, lending, GPU types, sharing, plans, dumps.

A subject has command lines, values of the options that matter to it, and files to damage.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

from fuzz.cases import Case, Draft, Step
from fuzz.corpus import ROOT, option_files, said_by, traces
from fuzz.kinds.kubernetes import KUBERNETES_DUMPS
from fuzz.kinds.plans import PLANS
from fuzz.kinds.subject import Subject
from fuzz.kinds.tables import damage_parquet
from fuzz.metrics import metric_files
from fuzz.mutate import mutate
from fuzz.options import POLICY, VALID, options_of
from fuzz.values import DURATIONS, NUMBERS, TEXTS, TIMES

SITE = ROOT / "sample_traces" / "slurm_site"
DUMPS = ("--sacctmgr", "assoc.txt", "--sacctmgr", "qos.txt", "--sacctmgr", "events.txt")
SITE_KEYS = (
    *("qos.normal.MaxTRESPU.gpu", "qos.normal.GrpTRES", "qos.high.MaxWall", "qos.x.Priority"),
    *("account.nlp.GrpTRES.gpu", "account.nlp.user.dia.MaxJobs", "account.bio.Fairshare", "a.b"),
    *("account.bio.Parent", "account.x.MaxJobs", "partition.h100.MaxTime", "partition.a100.Nodes"),
    *("partition.debug.PriorityTier", "partition.a100.QOS", "node.h[01-04].gpus", "event.0"),
    *("node.a[01-06].count", "node.a[01-06].weight", "priority.PriorityMaxAge", "event"),
    *("priority.PriorityWeightTRES", "priority.PriorityWeightAge", "priority.PriorityCalcPeriod"),
    *("priority.PriorityDecayHalfLife", "priority.FairShareDampeningFactor", "calibration.level"),
    *("priority.PriorityFlags", "priority.PriorityType", "backfill.bf_interval", "quota.nlp"),
    *("backfill.bf_window", "backfill.bf_resolution", "backfill.bf_max_job_test", "priority"),
    *("backfill.sched_interval", "backfill.default_queue_depth", "backfill.SchedulerType"),
)
MORE_NODES = (
    *("1", "2", "a100=2", "h100=1", "debug=1") * 2,
    "x=1",
    "=1",
    "²",
    "100000",
    "1000000000",
    "0",
)
LEVELS = ("fifo", "easy", "bf", "multifactor", "limits", "events", "x")
FACTORS = (*("1", "0.5", "2", "1.2", "100", "0.01") * 5, *NUMBERS, "0.0000001", "1e-308")
CLUSTERS = (
    *("A100=8,T4=8", "A100=2x4,T4=4x4", "A100=1x3,V100=2x5", "A100=1,T4=1", "A100=4,A100=4"),
    *("A100=0,T4=4", "A100=1x1,T4=1x1,V100=1x1,P100=1x1", "A100=1000000000x8,T4=1", "a=1,b=2"),
    *("A100=8x4,T4=x4", "A100,T4", "A100=8,T4", "A100=3x7,T4=1x1000", "=1,=2", "64", "8x4"),
)
SPEEDS = (
    *("A100=1,T4=0.5", "A100=1", "A100=0,T4=1", "T4=1e300", "A100=nan", "A100=1e-300,T4=1e300"),
    *("A100=1,T4=1,V100=2", "=1", "A100", "A100=-1", "a=1,b=2", "A100=1,A100=2"),
)
LOADS = (
    *("poisson:20", "gamma:20:4", "gamma-rate:20:2", "bursty:5:10", "periodic:10:30", "rates.txt"),
    *("a=poisson:5", "x=poisson:5", "poisson:0", "poisson:-1", "poisson:nan", "poisson:1e300"),
    "poisson:1e-308",
    *("gamma:20:0", "gamma:20:1e300", "bursty:5:0", "periodic:10:0", "poisson", "poisson:1:2:3"),
    *("gamma:1e-300:1", "shared.csv", "profile.csv", "missing.txt", "lab.parquet", "a=rates.txt"),
)
TARGETS = (
    *("p95_wait <= 1h", "mean_wait <= 2m", "wait_over_10m <= 5%", "mean_slowdown <= 2", "x <= 1"),
    *("p95_wait <= 0", "p95_wait < 1h", "mean_wait <= 1e300h", "wait_over_1e300h <= 5%", "<="),
    *("wait_over_10m <= 200%", "mean_slowdown <= 1", "mean_slowdown <= 0", "p99.9_wait <= 1s"),
    *("p95_wait <= nan", "p100_wait <= 1h", "p0_wait <= 1h", "wait_over_0s <= 0%", "p95_wait<=1s"),
)
PRICES = ("0.9", "A100=0.9", "0", "-1", "nan", "1e300", "1e-300", "=1", "x", "T4=1", "L4=2")
COMMITS = ("A100=0.9:1y,0.75:3y", "L4=24@1.05", "0.9:6mo", "0.9:0y", "8@1", "0.9:", ":1y", *PRICES)
LENT = ("gfs", "gfs-e", "gfs-d", "gfs-s", "gfs-p", "gfs-sp", "yarn-cs", "lyra", "fgd", "chronus",
        "static-quota", "spot-first-fit")  # fmt: skip
MIXED = ("fft", "gavel", "allox", "tiresias", "pal", "sia")
SMI, WANDB = sorted(set(metric_files()) - {"sacct.txt", "dcgm.json", "book.toml"}, reverse=True)
SPOT = ("duration_s < 3600", "true", "false", "num_gpus <= 1", "user = 'ada'", "x", "num_gpus +")


QUEUE = b"""JOBID|USER|ACCOUNT|PARTITION|QOS|STATE|SUBMIT_TIME|START_TIME|TIME|TIME_LIMIT|NODES\
|TRES_PER_NODE|PRIORITY|REASON|NODELIST
6|ana|nlp|a100|normal|RUNNING|2026-03-06T01:34:55|2026-03-06T01:34:55|1:00|1:00:00|1\
|gres/gpu:1|5|None|a01
7|bo|vision|h100|normal|RUNNING|2026-03-06T01:30:55|2026-03-06T01:34:55|1:00|1-00:00:00|2\
|gres/gpu:4|5|None|h[01-02]
12_[0-3%2]|ana|nlp|a100|normal|PENDING|2026-03-06T01:34:55|N/A|0:00|UNLIMITED|1\
|gres/gpu:1|5|Priority|
"""
QUEUE_OBJECTS = (
    b'{"last_update": {"set": true, "number": 1772768155}, "jobs": [{"job_id": 5, "job_state": '
    b'["PENDING"], "partition": "a100", "user_name": "ana", "account": "vision", "qos": "normal", '
    b'"submit_time": {"number": 1772768095}, "node_count": 1, "time_limit": {"number": 60}, '
    b'"tres_req_str": "gres/gpu=1"}, {"job_id": 6, "job_state": ["RUNNING"], "partition": "h100", '
    b'"start_time": 1772768095, "submit_time": 1772768000, "node_count": 1, "nodes": "h01", '
    b'"tres_alloc_str": "gres/gpu=8", "array_job_id": 4, "array_task_id": 2}]}'
)


@cache
def site_files() -> dict[str, bytes]:
    """Return the documents of a small site, its log, and the settings calibrated on it."""
    found = {path.name: path.read_bytes() for path in Path(SITE).iterdir() if path.is_file()}
    found["sacct.txt"] = b"".join(found["sacct.txt"].splitlines(keepends=True)[:90])
    found["nodes.txt"] = b"NodeName=a01 Gres=gpu:a100:4(S:0-1) Weight=2 OS=Linux 5.14\n" * 2
    found["parts.txt"] = b"PartitionName=a100 MaxTime=UNLIMITED MaxNodes=2 Nodes=a01 QoS=N/A\n"
    found["sshare.txt"] = b"Account|User|RawShares|RawUsage|FairShare\nnlp|dia|2|12345|0.5\n"
    found["log.swf"] = b"; UnixStartTime: 1000\n" + b"".join(
        b"%d %d 10 60 %d -1 -1 4 100 -1 1 %d 2 -1 -1 8 -1 -1\n" % (i, 9 * i, 1 + i % 4, i % 3)
        for i in range(1, 30)
    )
    found["queue.txt"], found["queue.json"] = QUEUE, QUEUE_OBJECTS
    line = ("calibrate", "sacct.txt", "--slurm-conf", "slurm.conf", *DUMPS, "-o", "twin.toml")
    found["twin.toml"] = said_by(*line, files=found, output="twin.toml")
    return found


@cache
def study_files() -> dict[str, bytes]:
    """Return traces, the files of options, and a table of hourly demand."""
    demand = b"hour,nlp,cv\n" + b"".join(
        b"%d,%d,%d\n" % (hour, 20 + hour % 24, 5 + hour * 7 % 11) for hour in range(24 * 9)
    )
    return {**traces(), **option_files(), "demand.csv": demand}


@cache
def files_of_types() -> dict[str, bytes]:
    """Return the same, with jobs on A100 and T4, and rates on these."""
    import polars as pl

    files = study_files()
    jobs = pl.read_parquet(files["rich.parquet"]).with_columns(
        gpu_type=pl.Series(["A100", "T4", None] * 4), num_gpus=pl.col("num_gpus").ceil()
    )
    jobs.write_parquet(stream := io.BytesIO())
    rates = b"job_class,gpu_type,gpus,rate\n" + b"".join(
        b"%s,%s,%d,%g\n" % (name, kind, gpus, gpus * speed)
        for name in (b"bert", b"ncf")
        for kind, speed in ((b"A100", 2.5), (b"T4", 1.0))
        for gpus in (1, 2, 4)
    )
    return {**files, "typed.parquet": stream.getvalue(), "rates.csv": rates}


ETA = ("eta", "sacct.txt", "--twin", "twin.toml", "--gpus", "4", "--limit", "2h", "--queue")
WHATIF = ("whatif", "sacct.txt", "--twin", "twin.toml")
CALIBRATE = ("calibrate", "sacct.txt", "--slurm-conf", "slurm.conf")
GROUPS = ("account", "user", "partition", "qos", "size", "x")
SUBJECTS = {
    "sites": Subject(
        (
            (*CALIBRATE, *DUMPS), (*CALIBRATE, *DUMPS, "-o", "out.toml"),
            (*CALIBRATE, "--sacctmgr", "qos.txt", "--sshare", "sshare.txt", "--advice"),
            ("calibrate", "sacct.txt", "--scontrol", "nodes.txt", "--scontrol", "parts.txt",
             "--infer"),
            ("calibrate", "sacct.txt", "--infer"), ("calibrate", "log.swf", "--infer"),
            ("calibrate", "sacct.txt", "--infer", "--cluster", "A100=6x4,H100=4x8"),
            (*WHATIF, "--scale-load", "1.1"), (*WHATIF, "--set", "qos.normal.MaxTRESPU.gpu=8"),
            (*WHATIF, "--together", "--max-time", "a100=12:00:00", "--limit", "user=32"),
            (*WHATIF, "--slurm-conf", "slurm.new.conf"), (*WHATIF, "--add-nodes", "1"),
            (*WHATIF, "--validate", "2026-03-03", "--before", "slurm.conf", "--after",
             "slurm.new.conf"),
            (*ETA, "queue.txt"), (*ETA, "queue.json"),
            ("ingest", "sacct.txt", "--twin", "-o", "out.parquet"),
            ("compare", "sacct.txt", "--policy", "twin", "--policy", "easy", "--site", "twin.toml"),
        ),
        {
            "--set": tuple(f"{key}=" for key in SITE_KEYS), "--add-nodes": MORE_NODES,
            "--remove-nodes": MORE_NODES, "--scale-load": FACTORS, "--limits-times": FACTORS,
            "--level": LEVELS, "--by": GROUPS, "--limit-factor": FACTORS, "--warmup": DURATIONS,
            "--max-time": ("a100=12:00:00", "1-0", "x=1-0", "a100=", *DURATIONS),
            "--move": ("a100=h100", "h100=a100", "x=a100", "a100=a100", "=", "a100"),
            "--reserve": ("a100=2@vision", "a100=1@h100", "a100=99@nlp", "x=1@x", "a100=²@nlp"),
            "--limit": ("user=32", "account=8", "nlp=16", "user=0", "x=1", "user=1e400", "="),
            "--limits-run": FACTORS, "--long-jobs": ("clip", "cut", "continue", "x"),
            "--cluster": CLUSTERS, "--slurm-conf": ("slurm.new.conf", "nodes.conf", "twin.toml"),
            "--validate": ("2026-03-03", *TIMES), "--time-zone": ("UTC", "America/New_York", "x"),
        },
        ("sacct.txt", "twin.toml", "slurm.conf", "slurm.new.conf", "nodes.conf", "qos.txt",
         "assoc.txt", "events.txt", "nodes.txt", "parts.txt", "sshare.txt", "log.swf",
         "queue.txt", "queue.json"),
        site_files,
    ),
    "lending": Subject(
        (
            *(("simulate", "rich.parquet", "--policy", name) for name in LENT),
            ("compare", "rich.parquet", "--policy", "gfs", "--policy", "yarn-cs"),
            ("compare", "lab.parquet", "--policy", "lyra", "--spot", "duration_s < 3600"),
        ),
        {"--spot": SPOT, "--cluster": (*VALID["--cluster"], "16x8"), "--price": PRICES,
         "--spot-price": ("0.3", *NUMBERS)},
        ("rich.parquet", "lab.parquet"), study_files, LENT,
    ),
    "several GPU types": Subject(
        tuple(
            (command, trace, "--policy", name, "--cluster", "A100=2x4,T4=4x4", *rates)
            for command in ("simulate", "compare")
            for name in MIXED
            for trace, rates in (
                ("typed.parquet", ("--gpu-speed", "A100=1,T4=0.5")),
                ("bare.parquet", ("--throughputs", "profile:sia")),
                ("typed.parquet", ("--throughputs", "rates.csv")),
            )
        ),
        {"--cluster": CLUSTERS, "--gpu-speed": SPEEDS, "--price": PRICES, "--round": DURATIONS,
         "--throughputs": (*VALID["--throughputs"], "rates.csv", "typed.csv", "pollux:pollux.csv"),
         "--estimate-error": ("30%", *NUMBERS), "--policy": (*MIXED, *POLICY)},
        ("typed.parquet", "bare.parquet", "rates.csv", "pollux.csv"), files_of_types, MIXED,
    ),
    "sharing": Subject(
        (
            ("share", "shared.csv"), ("share", "shared.csv", "--gamma", "1,1.5,2"),
            ("share", "--load", "a=poisson:20", "--functions", "functions.toml", "--horizon", "9s"),
            ("share", "--load", "a=rates.txt", "--functions", "functions.toml", "--no-frontier"),
            ("profile", "profile.csv", "--slo", "100ms"), ("profile", "profile.csv", "--training"),
            ("profile", "profile.csv", "--slo", "100ms", "--load", "20", "-o", "out.toml"),
        ),
        {"--load": LOADS, "--gamma": ("1.5", "1,2", "1:2.5:0.1", *NUMBERS), "--slo": DURATIONS,
         "--cluster": (*VALID["--cluster"], "100x4"), "--horizon": DURATIONS, "--price": NUMBERS,
         "--cold-start": DURATIONS, "--capacity": NUMBERS, "--multiplier": NUMBERS,
         "--te-drop": NUMBERS,
         "--policy": ("dilu", "exclusive", "infless-l", "infless-r", "fast-gs", "infless", "mps-l",
                      "mps-r", "x", "")},
        ("shared.csv", "functions.toml", "profile.csv", "rates.txt"), study_files,
    ),
    "metrics": Subject(
        tuple(
            ("waste", "sacct.txt", *words)
            for words in (
                ("--no-replay",), ("--policy", "easy"), ("--price", "1.29"),
                ("--metrics", "dcgm.json", "--no-replay", "--usd-per-kwh", "0.2"),
                ("--metrics", "dcgm.json", "--price", "2"),
                ("--metrics", SMI, "--no-replay"), ("--metrics", WANDB, "--no-replay"),
                ("--metrics", "dcgm.json", "--metrics", SMI, "--metrics", WANDB, "--no-replay"),
                ("--no-replay", "--mail", "made"),
            )
        ),
        {"--metrics": ("dcgm.json", SMI, WANDB, "sacct.txt", "missing", "."),
         "--end-idle-after": DURATIONS, "--price": PRICES, "--usd-per-kwh": NUMBERS,
         "--gpu-memory": ("A100=80", "H100=80,A100=40", "A100=0", "x=1", *NUMBERS),
         "--kg-co2-per-kwh": NUMBERS, "--cluster": CLUSTERS, "--time-zone": ("Asia/Tokyo", "x"),
         "--contracts": ("book.toml",), "--where": SPOT},
        ("sacct.txt", "dcgm.json", SMI, WANDB, "book.toml"), metric_files,
    ),
    "demand": Subject(
        (
            ("forecast", "demand.csv"), ("forecast", "demand.csv", "--backtest"),
            ("forecast", "demand.csv", "--model", "orglinear"), ("forecast", "lab.parquet"),
            ("bill", "lab.parquet", "--price", "1.29"), ("bill", "rich.parquet", "--price", "2"),
            ("size", "lab.parquet", "--target", "p95_wait <= 1h", "--ci", "0"),
            ("size", "rich.parquet", "--target", "mean_wait <= 2m", "--commit", "0.9",
             "--on-demand", "1.9", "--ci", "0"),
        ),
        {"--target": TARGETS, "--commit": COMMITS, "--on-demand": PRICES, "--price": PRICES,
         "--horizon": ("1h", "24h", *DURATIONS), "--at": ("100", "2024-03-02", *TIMES, *NUMBERS),
         "--model": ("auto", "last-value", "seasonal-24h", "dlinear", "orglinear", "x"),
         "--holidays": ("2024-03-01", "2024-03-01,2024-03-02", "demand.csv", "x", *TIMES),
         "--cluster": (*VALID["--cluster"], "peak"),
         "--growth": ("20%", "0", "-50%", "-20%:50%", "50%:20%", *NUMBERS),
         "--gpus": ("8,16", "8:64:4", "64:8:2", "1:1e9:3", "0", "8,8", "1:1:1", "x"),
         "--cluster-step": ("4", *NUMBERS), "--by": ("user", "group", "all", "gpu_type", "x")},
        ("demand.csv", "lab.parquet", "rich.parquet"), study_files,
    ),
    "plans": PLANS,
    "Kubernetes": KUBERNETES_DUMPS,
}  # fmt: skip
VALUE = re.compile(rb"(?<== )[^\n#]+|(?<=[=|,])[^=|,\s]+")
NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])")
JSON_VALUE = re.compile(rb'(?<=": )(?:"[^"]*"|[-\d.]+)|(?<=":)(?:"[^"]*"|[-\d.]+)')


def drafter(kind: str) -> Callable[[Random], Draft]:
    """Return the function that drafts the cases of a subject."""

    def draft(rng: Random) -> Draft:
        subject = SUBJECTS[kind]
        line = rng.choice(subject.lines)
        command = line[0]
        case = Case(kind, command, list(line), dict(subject.files()))
        case.written |= {"made", "out.toml", "out.parquet", "out.rejects.parquet"}
        known = {flag for option in options_of(command) for flag in option.names}
        flags = [flag for flag in subject.options if flag in known]
        spoiled = [
            name for name in subject.damaged
            if name in line or (name == "nodes.conf" and "slurm.conf" in line)
        ] or list(subject.damaged)  # fmt: skip

        def damage(case: Case, rng: Random) -> str:
            name = rng.choice(spoiled)
            data = case.files[name]
            if name.endswith(".parquet"):
                case.files[name], what = damage_parquet(data, rng)
            elif rng.random() < 0.2 and (spans := list(NUMBER.finditer(data))):  # of lists too
                span, value = rng.choice(spans), rng.choice(NUMBERS).encode()
                case.files[name] = data[: span.start()] + value + data[span.end() :]
                what = f"{span[0][:30]!r} -> {value[:30]!r}"
            elif rng.random() < 0.6 and (spans := list(_values_in(name).finditer(data))):
                quoted = {".toml": 0.5, ".json": 0.7}.get(name[-5:], 0.05)
                span, value = rng.choice(spans), _value(rng, subject.values, quoted)
                case.files[name] = data[: span.start()] + value + data[span.end() :]
                what = f"{span[0][:30]!r} -> {value[:30]!r}"
            else:
                case.files[name], what = mutate(data, rng)
            return f"{name}: {what}"

        def option(case: Case, rng: Random) -> str:
            given = {word.partition("=")[0] for word in case.arguments if word != "--set"}
            flag = rng.choice([one for one in flags if one == "--set" or one not in given] or flags)
            value = rng.choice(subject.options[flag])
            if value.endswith("=") and flag == "--set":
                value += _value(rng, subject.values, 0).decode(errors="surrogateescape")
            case.arguments.append(f"{flag}={value}")
            return case.arguments[-1][:100]

        def setting(case: Case, rng: Random) -> str:
            from gpuplan.planner.registry import POLICIES

            name = rng.choice([one for one in case.arguments if one in POLICIES])
            key, about = rng.choice(list(POLICIES[name].settings.items()))
            value = rng.choice(
                (*about.choices, *NUMBERS, *DURATIONS, "none", "true", "0.5/0.9", "4x8", "8", "1")
            )
            case.arguments.append(f"--set={key}={value}")
            return case.arguments[-1][:100]

        has_settings = any(word in subject.policies for word in line)
        choices = [damage] * 3 + [option] * 2 + [setting] * (2 if has_settings else 0)
        steps: list[Step] = [rng.choice(choices) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4)))]
        if line[: len(WHATIF)] == WHATIF:
            steps.append(option)

        def finish(case: Case, rng: Random) -> None:
            if rng.random() < 0.4:
                case.arguments += ["--output-format", rng.choice(("json", "json", "csv", "md"))]

        return Draft(case, steps, finish if command != "ingest" else None)

    return draft


def _values_in(name: str) -> re.Pattern[bytes]:
    return JSON_VALUE if name.endswith(".json") else VALUE


def _value(rng: Random, usual: tuple[str, ...], quoted: float) -> bytes:
    """Return a value that files of a subject hold, or a hostile one; a share of them quoted."""
    value = rng.choice(rng.choice((usual, usual, usual, NUMBERS, TEXTS, TIMES)))
    return (f'"{value}"' if rng.random() < quoted else value).encode(errors="replace")
