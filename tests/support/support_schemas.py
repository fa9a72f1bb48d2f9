"""The JSON Schemas of `gpuplan.cli.schemas`: the runs they describe, and how they grow.

``python tests/support/support_schemas.py`` widens the schemas until they describe every run below:
it adds fields, adds types and makes fields optional, and takes nothing away. Review what it wrote.
Those of typed results are left alone: `gpuplan.cli.documents.result_schemas` writes them.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from support_document import write_trace

from gpuplan.cli.documents.result_schemas import UNITS

SAMPLES = Path(str(files("gpuplan.sample_traces")))
FOLDER = Path(str(files("gpuplan.cli"))) / "schemas"
Schema = dict[str, Any]

MAPS = re.compile(
    r".*\.(settings|references|(rejected|skipped)_by_reason|limits_gpus|require_s|weights|gpu_speed)"
    r"|(calibrate|whatif)\..*\.(excluded|left_out|rejected|base_rejected|skipped_levels|by)"
    r"|pareto\.(parameters\.price_usd_per_gpu_h|results\.prices|results\.(knee|points)\.used_gpus)"
    r"|.*\.utilization_by_type|.*\.price_choice|profile\.parameters\.map|share\.parameters\.loads"
)
"""Objects whose keys are names from the input or of other things, not fields."""

ANY = {"array", "boolean", "null", "number", "object", "string"}

PLAN = """
[workload]
trace = "poor.parquet"
[study.pareto]
[gates]
fail_if = ["knee.mean_jct > 4h"]
"""


def twin_runs(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the runs on the sample site."""
    site, twin = SAMPLES / "slurm_site", f"{folder / 'twin.toml'}"
    log, conf = f"{site / 'sacct.txt'}", f"{site / 'slurm.conf'}"
    dumps = [f"--sacctmgr={site / name}.txt" for name in ("assoc", "qos", "events")]
    yield "calibrate", [log, "--infer", "--advice"]
    yield "calibrate", [log, f"--slurm-conf={conf}", *dumps, "-o", twin]
    change = ["--twin", twin, "--add-nodes=2", f"--slurm-conf={site / 'slurm.new.conf'}"]
    yield "whatif", [log, *change, "--set=qos.normal.MaxTRESPU.gpu=8"]
    validated = ["--validate=2026-03-16", f"--before={conf}", f"--after={conf}"]
    yield "whatif", [log, "--twin", twin, *validated]


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
    yield "size", [poor, "--target=p95_wait <= 1h", "--commit=1", "--on-demand=2"]
    yield "size", [one, "--gpus=8,16", "--cluster=x4"]
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


def widen(schema: Schema | None, value: Any, path: str) -> Schema:
    """Return a schema that also describes ``value``, keeping what is written in it by hand."""
    schema = {} if schema is None else dict(schema)
    if "$ref" in schema or "const" in schema:
        return schema
    unit = next((unit for end, unit in UNITS.items() if path.endswith(end)), None)
    schema["type"] = _kinds(schema.get("type", []), _kind(value), path, has_unit=unit is not None)
    if unit is not None:
        schema.setdefault("description", unit)
    if isinstance(value, list):
        for item in value:
            schema["items"] = widen(schema.get("items"), item, path)
    elif isinstance(value, dict) and MAPS.fullmatch(path):
        for item in value.values():
            schema["additionalProperties"] = widen(schema.get("additionalProperties"), item, path)
    elif isinstance(value, dict):
        known = schema.get("properties", {})
        required = set(schema["required"] if known else value) & set(value)
        for key, item in value.items():
            known[key] = widen(known.get(key), item, f"{path}.{key}")
        schema["properties"] = known
        schema["required"] = sorted(required)
    return schema


def _kinds(known: str | list[str], kind: str, path: str, *, has_unit: bool) -> str | list[str]:
    """Return the types that a value may have, after one of this type was seen."""
    kinds = {known} if isinstance(known, str) else set(known)
    if kinds == ANY and not MAPS.fullmatch(path):  # until now it was always null
        kinds = {"null"} if kind != "null" else kinds
    kinds |= {kind}
    if "number" in kinds:
        kinds -= {"integer"}
        kinds |= {"null"}  # what is undefined
    if ".parameters" in path and kinds & {"integer", "string"}:
        kinds |= {"null"}  # what was not asked for
    if kinds == {"null"}:
        kinds = {"null", "number"} if has_unit else set(ANY)
    return next(iter(kinds)) if len(kinds) == 1 else sorted(kinds)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names = {int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names[type(value)]


def schema_of(command: str) -> Schema:
    """Return the schema of a command's JSON."""
    schema: Schema = json.loads((FOLDER / f"{command}.json").read_text(encoding="utf-8"))
    return schema


def _start(command: str) -> Schema:
    """Return what all commands share."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:gpuplan:schema:1:{command}",
        "title": f"What gpuplan {command} writes as JSON",
        "type": "object",
        "properties": {
            "schema_version": {"const": 1},
            "command": {"const": command},
        },
        "required": [
            *("schema_version", "command", "inputs", "parameters", "results", "warnings"),
            "gpuplan_version",
        ],
    }


def main() -> None:
    """Widen the schemas by every run."""
    from gpuplan.cli.app.main import main as gpuplan
    from gpuplan.cli.documents.result_schemas import typed_results

    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result"
        for command, arguments in runs(Path(folder)):
            with result.open("w", encoding="utf-8") as sys.stdout:
                code = gpuplan([command, *arguments, "--output-format", "json", "-q"])
            sys.stdout = sys.__stdout__
            assert code == 0, (command, arguments)
            if command in typed_results():
                continue
            path = FOLDER / f"{command}.json"
            schema = schema_of(command) if path.exists() else _start(command)
            schema = widen(schema, json.loads(result.read_text(encoding="utf-8")), command)
            text = json.dumps(schema, indent=1, ensure_ascii=False)
            path.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
