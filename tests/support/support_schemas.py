"""The JSON Schemas of `gpuplan.cli.schemas`, and runs whose results they describe."""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from support_document import write_trace
from support_traces import write_trace as write_trace_of

SAMPLES = Path(str(files("gpuplan.sample_traces")))
FOLDER = Path(str(files("gpuplan.cli"))) / "schemas"
Schema = dict[str, Any]

PLAN = """
[workload]
trace = "poor.parquet"
[study.pareto]
[gates]
fail_if = ["knee.mean_jct > 4h"]
"""


def write_months(path: Path) -> Path:
    """Write five months of two groups that use more GPUs from month to month."""
    days = [31, 61, 92, 122, 153]
    begin, lasting, gpus, group = [], [], [], []
    for month, (first, last) in enumerate(zip([0, *days], days, strict=False)):
        for place, name in enumerate(("train", "serve")):
            begin += [float(day * 86_400) for day in range(first, last)]
            lasting += [(18 - 6 * place) * 3600.0] * (last - first)
            gpus += [2.0 + month] * (last - first)
            group += [name] * (last - first)
    gpu_type = ["A100"] * len(begin)
    return Path(write_trace_of(path, begin, lasting, gpus, group=group, gpu_type=gpu_type))


def twin_runs(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the runs on the sample site."""
    site, twin = SAMPLES / "slurm_site", f"{folder / 'twin.toml'}"
    log, conf = f"{site / 'sacct.txt'}", f"{site / 'slurm.conf'}"
    dumps = [f"--sacctmgr={site / name}.txt" for name in ("assoc", "qos", "events")]
    yield "calibrate", [log, "--infer", "--advice"]
    yield "calibrate", [log, f"--slurm-conf={conf}", *dumps, "-o", twin]
    yield "waits", [log]
    yield "waits", [log, f"--twin={twin}", "--real"]
    told = f"{site / 'sacct_jobstats.txt.gz'}"
    yield "waste", [told, "--price=A100=1.29,H100=2.5"]
    yield "waste", [told, "--no-replay"]
    change = ["--twin", twin, "--add-nodes=2", f"--slurm-conf={site / 'slurm.new.conf'}"]
    yield "whatif", [log, *change, "--set=qos.normal.MaxTRESPU.gpu=8"]
    yield (
        "options",
        [log, "--twin", twin, "--option=scale-load 1.1", "--option=add-nodes 1", "--price=2"],
    )
    validated = ["--validate=2026-03-16", f"--before={conf}", f"--after={conf}"]
    yield "whatif", [log, "--twin", twin, *validated]
    job = ["--gpus=16", "--limit=24h", "--partition=h100", "--user=ana", "--replays=20"]
    yield "eta", [log, "--twin", twin, *job, "--at=2026-03-12T12:00", "--backtest"]


def kueue_runs(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the runs on the sample site of Kueue."""
    dump, twin = f"{SAMPLES / 'kueue' / 'workloads.json'}", f"{folder / 'kueue.toml'}"
    yield "ingest", [dump, "-o", f"{folder / 'kueue.parquet'}"]
    yield "calibrate", [dump, "-o", twin]
    yield "whatif", [dump, f"--twin={twin}", "--set=clusterqueue.team-a.nominalQuota=16"]
    yield "simulate", [dump, "--policy=kueue", f"--site={dump}"]
    yield "compare", [dump, "--policy=kai", "--policy=first-fit", f"--site={dump}"]


def runs(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the command and the arguments of every run; what they read is made in ``folder``."""
    seren, wandb = folder / "seren.parquet", folder / "wandb.parquet"
    yield "ingest", [f"{SAMPLES / 'seren.csv'}", "-o", f"{seren}"]
    yield "ingest", [f"{SAMPLES / 'wandb_export.csv'}", "-o", f"{wandb}"]
    yield "ingest", [f"{SAMPLES / 'philly.json.gz'}", "-o", f"{folder / 'philly.parquet'}"]
    prices = folder / "prices.parquet"
    yield "prices", [f"{SAMPLES / 'gpu_prices.csv'}", "-o", f"{prices}"]
    trace, poor, one = f"{seren}", f"{folder / 'poor.parquet'}", f"{folder / 'one.parquet'}"
    write_trace(Path(poor))  # no starts, states or classes, a few hours
    write_trace(Path(one), jobs=1, users=0)
    yield "characterize", [poor, "--fits", "--ci=90", "--resamples=40"]
    yield "characterize", [poor, one]
    yield "bill", [poor, "--price=1.29", "--by=user", "--cluster=peak"]
    yield "bill", [poor, "--price=1.29", "--by=user", "--delays"]
    yield "size", [poor, "--target=p95_wait <= 1h", "--commit=1", "--on-demand=2"]
    yield "size", [one, "--gpus=8,16", "--cluster=x4"]
    yield (
        "plan",
        [one, "--commit=1", "--on-demand=2", "--speedup=power:0.8", "--target=mean_jct <= now"],
    )
    yield "plan", [poor, "--on-demand=2", "--budget=$9000000/month"]
    spot = ["--spot=num_gpus <= 8", "--spot-price=0.5", "--serverless=3"]
    levers = ["--speedup=power:0.6..0.8", "--slower=1.5x", "--growth=-20%:20%", *spot]
    yield "plan", [poor, "--commit=1", "--on-demand=2", *levers]
    yield "bill", [trace, "--prices=builtin", "--gpu=A100", "--by=class"]
    yield "characterize", [one]
    for command in ("pareto", "sweep", "simulate", "compare"):
        yield command, [poor]
        yield command, [one, *(["--horizon=1h"] if command == "pareto" else [])]
    yield "characterize", [trace]
    yield "characterize", [trace, "--fits", "--ci=90", "--resamples=40", "--prices=builtin"]
    yield "characterize", [trace, f"{wandb}", f"{folder / 'philly.parquet'}"]
    yield "characterize", [trace, "--where=num_gpus = 0"]
    demand = folder / "demand.csv"
    rows = "".join(f"{hour},{hour % 24},{hour % 7}\n" for hour in range(120))
    demand.write_text(f"hour,A10,T4\n{rows}", encoding="utf-8")
    yield "forecast", [f"{demand}", "--horizon=2h", "--backtest"]
    yield "forecast", [trace, "--by=user", "--cluster=512", "--spot=num_gpus < 2"]
    months = write_months(folder / "months.parquet")
    pool = "--commit=A100=3@1.2"
    yield "forecast", [f"{months}", "--spend", pool, "--on-demand=A100=2", "--backtest"]
    some = [trace, "--sample=200"]
    yield "pareto", some
    yield "pareto", [*some, "--target-jct=45m", "--gpu=A100", "--price=2", "--require=Debug<=4h"]
    yield "pareto", [*some, "--gpu=T4", "--gpu=A100=2.5", "--prices=builtin", "--no-replay"]
    yield "pareto", [*some, "--budget=1.5x,3x", "--baseline=fixed", "--max-width=8", "--price=2"]
    yield (
        "pareto",
        [
            *("--horizon=30d", "--rescale=20s", "--widths=1,2,4,8", "--limit=Debug=4"),
            *(*some, "--weight=SFT=2", "--where=num_gpus < 9", "--since=2023-03-06"),
        ],
    )
    yield "pareto", [*some, "--ci=90", "--sensitivity"]
    yield "sweep", some
    yield "sweep", [*some, "--threshold=60,5m", "--capacity=10,none", "--price-ratio=0.5,1"]
    yield "sweep", [*some, "--policy=fixed", "--value-of-time=0,5", "--resamples=0", "--mark=7m"]
    yield "sweep", [*some, "--threshold=60", "--against=fifo:gpus=64"]
    yield "sweep", [one, "--against=fifo:gpus=64"]  # too few jobs for an interval
    yield "simulate", some
    yield "simulate", [*some, "--policy=hpa"]
    types = ["--cluster=A100=16x8,T4=32x4", "--gpu-speed=A100=1,T4=0.4", "--round=1h"]
    yield "simulate", [*some, *types, "--policy=fft", "--estimate-error=30%"]
    yield "compare", [*some, *types, "--policy=fft"]
    yield "simulate", [*some, "--prices=builtin", "--set=gpu=A100"]
    yield "simulate", [*some, "--policy=fifo", "--gpus=32", "--deadline-factor=3"]
    overheads = folder / "overheads.csv"
    overheads.write_text("job_class,checkpoint_s,restore_s\n*,20,30\n", encoding="utf-8")
    market = (f"--prices={prices}", "--set=gpu=A100-80GB", f"--checkpoints={overheads}")
    for command, *own in (("sweep", "--against=2d-las:gpus=64"), ("simulate",), ("compare",)):
        yield command, [*some, *market, *own]
    yield from twin_runs(folder)
    yield from kueue_runs(folder)
    lent = ["--cluster=20x8", "--spot=duration_s < 600", "--policy=gfs"]
    yield "simulate", [*some, *lent]
    yield "compare", [*some, *lent, "--policy=yarn-cs", "--policy=first-fit", "--policy=fifo"]
    yield "compare", [*some, *lent[::2]]
    yield "compare", some
    yield "compare", [*some, "--policy=fifo", "--policy=fixed:threshold_s=60", "--gpus=32"]
    yield "synth", ["--preset=seren", "--jobs=500", "-o", f"{folder / 's.parquet'}"]
    yield "synth", [f"--like={trace}", "--jobs=500", "-o", f"{folder / 'l.parquet'}"]
    functions = folder / "functions.toml"
    tables = (f"{SAMPLES / 'service_profile.csv'}", f"{SAMPLES / 'training_profile.csv'}")
    headed = folder / "headed.csv"
    text = (SAMPLES / "training_profile.csv").read_text(encoding="utf-8")
    headed.write_text(f"b,sm_percent,latency_s,throughput\n{text}", encoding="utf-8")
    yield "profile", [f"{headed}", "--training", "--map=batch=b"]
    yield "profile", [tables[0], "--slo=100ms", "-o", f"{functions}"]
    placed = f"{SAMPLES / 'shared_instances.csv'}"
    yield "share", [placed, "--gamma=1.5,2", "--price=2"]
    yield "share", [trace, "--cluster=200x8"]
    loads = [f"--functions={functions}", f"--load={SAMPLES / 'requests.csv'}", "--horizon=1m"]
    yield "share", loads
    trained = folder / "trained.toml"
    with_job = functions.read_text() if functions.exists() else ""
    job = f'[[functions]]\nname="t"\nkind="training"\nprofile="{tables[1]}"\nrequest=0.4\n'
    trained.write_text(with_job + job, encoding="utf-8")
    yield "share", [f"--functions={trained}", *loads[1:], "--policy=infless", "--no-frontier"]
    scenario = folder / "plan.toml"
    scenario.write_text(PLAN, encoding="utf-8")
    synth = "--set=workload.synth={preset='seren', jobs=9}"
    yield "run", [f"{scenario}", "--list", "--no-cache"]
    yield "run", [f"{scenario}", "--list", "--no-cache", synth]
    for kind in ("formats", "policies", "speedups", "methods", "baselines", "providers"):
        yield "list", [kind]
    before, after = f"{folder / 'before.json'}", f"{folder / 'after.json'}"
    for command, own, other in (
        ("compare", "--policy=fixed:threshold_s=60", "--policy=fixed:threshold_s=300"),
        ("pareto", "--budget=1.5x,3x", "--budget=2x,3x"),
    ):
        yield command, [*some, own, "-o", before]
        yield command, [*some, other, "--seed=1", "-o", after]
        yield "diff", [before, before]
        yield "diff", [before, after, "--fail-if=jobs > +900%", "--tolerance=0"]


@functools.cache
def outputs() -> tuple[Path, list[tuple[str, list[str], dict[str, Any], str]]]:
    """Run all; return their folder, and command, arguments, JSON and text of each run.

    One run gives both: the text is made of the report that is printed as JSON.
    """
    from gpuplan.cli.app.main import main
    from gpuplan.cli.documents import emit
    from gpuplan.cli.formats.render import as_text
    from gpuplan.cli.options.shared_options import ResultFormat

    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)

    texts: list[str] = []

    def printed(*words: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert main([*words, "-q"]) == 0, words
        return out.getvalue()

    def both_forms(report, form, stream, full):
        if stream is sys.stdout and form is ResultFormat.json:
            texts.append(as_text(report.shown(full), stream))
        return form_of(report, form, stream, full)

    rows, form_of = [], emit._text
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(emit, "_text", both_forms)
        for command, arguments in runs(folder):
            texts.clear()
            document = json.loads(printed(command, *arguments, "--output-format", "json"))
            text = texts[0] if len(texts) == 1 else printed(command, *arguments)
            rows.append((command, arguments, document, text))
    return folder, rows


def schema_of(command: str) -> Schema:
    """Return the schema of a command's JSON."""
    schema: Schema = json.loads((FOLDER / f"{command}.json").read_text(encoding="utf-8"))
    return schema
