"""Files that options name: tables of speedups, throughputs, checkpoints, prices, models."""

from __future__ import annotations

from random import Random

from fuzz.cases import Case, Draft, Step
from fuzz.corpus import job_logs, kueue_site, kueue_twin, opencost_answer, traces
from fuzz.corpus import option_files as valid_files
from fuzz.kinds.tables import damage_parquet
from fuzz.mutate import mutate, mutate_bytes
from fuzz.packing import gzipped, zstandard

RICH = "rich.parquet"
USES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("speedups.csv", ("pareto", RICH, "--speedup", "speedups.csv")),
    ("speedups.csv", ("pareto", RICH, "--speedup", "table:speedups.csv", "--no-replay")),
    ("typed.csv", ("pareto", "bare.parquet", "--speedup", "typed.csv", "--gpu", "A100", "--gpu",
                   "T4", "--price", "A100=2", "--price", "T4=1")),
    ("pollux.csv", ("pareto", "bare.parquet", "--speedup", "pollux:pollux.csv")),
    ("pollux.csv", ("pareto", RICH, "--speedup", "pollux:pollux.csv", "--no-replay")),
    ("checkpoints.csv", ("sweep", RICH, "--checkpoints", "checkpoints.csv", "--resamples", "0")),
    ("checkpoints.csv", ("simulate", RICH, "--policy", "srtf", "--checkpoints", "checkpoints.csv")),
    ("states.csv", ("compare", RICH, "--policy", "las", "--checkpoints", "states.csv")),
    ("t.csv", ("ingest", "a.trace", "-o", "out.parquet", "--throughputs", "t.csv",
               "--worker-type", "v100")),
    ("t.json", ("ingest", "a.trace", "-o", "out.parquet", "--throughputs", "t.json")),
    ("prices.parquet", ("characterize", RICH, "--prices", "prices.parquet", "--gpu", "L4")),
    ("prices.parquet", ("simulate", RICH, "--prices", "prices.parquet", "--set", "gpu=A100-80GB",
                        "--set", "provider=vast")),
    ("prices.parquet", ("sweep", "lab.parquet", "--prices", "prices.parquet", "--resamples", "0",
                        "--set", "gpu=A100-80GB")),
    ("prices.parquet", ("pareto", "lab.parquet", "--prices", "prices.parquet", "--gpu", "L4")),
    ("opencost.json", ("bill", "kueue.json", "--price", "1.29", "--invoice", "opencost.json")),
    ("kueue.json", ("eta", "kueue.json", "--twin", "kueue.toml", "--gpus", "8")),
    ("kueue.toml", ("eta", "kueue.json", "--twin", "kueue.toml", "--gpus", "8")),
    ("model.json", ("synth", "--model", "model.json", "--jobs", "5", "-o", "out.parquet")),
    ("characterize1.json", ("diff", "characterize1.json", "characterize2.json")),
    ("pareto2.json", ("diff", "pareto1.json", "pareto2.json", "--fail-if", "jobs > +10%")),
    ("sweep2.json", ("diff", "sweep1.json", "sweep2.json", "--junit", "junit.xml")),
    ("bill1.json", ("diff", "bill1.json", "bill2.json")),
    ("bill2.json", ("diff", "bill1.json", "bill2.json", "--fail-if", "usd > +10%")),
    ("plan2.json", ("diff", "plan1.json", "plan2.json", "-o", "out.md")),
    ("simulate2.json", ("diff", "simulate1.json", "simulate2.json", "-o", "out.md")),
)  # fmt: skip
"""A file, and a command line that reads it."""


def option_files(rng: Random) -> Draft:
    """Draft a run of a command that reads a damaged file of an option."""
    name, line = rng.choice(USES)
    known = {
        **traces(),
        **valid_files(),
        **job_logs()["gavel_short"][1],
        "kueue.json": kueue_site(),
        "kueue.toml": kueue_twin(),
        "opencost.json": opencost_answer(),
    }
    named = {
        one: known[one] for word in line for one in (word, word.partition(":")[2]) if one in known
    }
    case = Case("option files", f"{line[0]} {name}", list(line), named)
    case.written |= {"out.parquet", "out.rejects.parquet", "junit.xml", "out.md"}
    if line[0] == "ingest":
        case.account = "jobs"
    parquet = name.endswith(".parquet")

    def step(case: Case, rng: Random) -> str:
        data = case.files[name]
        if parquet:
            case.files[name], what = damage_parquet(data, rng)
        else:
            case.files[name], what = mutate(data, rng)
        return f"{name}: {what}"

    def pack(case: Case, rng: Random) -> str:
        data = case.files[name]
        case.files[name] = rng.choice((gzipped, zstandard))(data)
        if rng.random() < 0.3:
            case.files[name], _ = mutate_bytes(case.files[name], rng)
        return f"pack {name}"

    steps: list[Step] = [step] * rng.choice((1, 1, 2, 3))
    if rng.random() < 0.05:
        steps.append(pack)

    def finish(case: Case, rng: Random) -> None:
        if rng.random() < 0.5:
            case.arguments += ["--output-format", rng.choice(("json", "json", "csv", "md"))]

    return Draft(case, steps, finish)
