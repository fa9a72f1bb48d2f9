"""Allpass' evaluation again: "paper | here" for its tables and Figures 6 to 12, as Markdown.

``python -m benchmarks.reproduce_allpass`` draws its own trace, like Seren's; the column of Philly
needs ../shared. A cell is the median over 30 samples of 200 jobs, and the least to the greatest.
Columns are of the defaults but for "window", ``scale_out=window``, the printed rule for renting.
docs/allpass-paper.md says what does not come out, and why; ``--write-docs`` writes its tables.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.docs_tables import DOCS, OPTION, write
from benchmarks.equal_gpus import table
from benchmarks.seren_samples import (
    CLUSTERS,
    CONTAINERS,
    HOURLY,
    JOBS,
    LIMITED,
    LONGEST_S,
    MEASURES,
    ORDERINGS,
    PERCENTILES,
    POOL,
    READINGS,
    WORKERS,
    Kept,
    Results,
    at_usd,
    compared_policies,
    kept_by,
    replay_all,
    sample,
    seren_trace,
)
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.synth import PRESETS, Request, preset_model, synthesize
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.simkit.allpass.parameters import RENTAL_DRAWS, Allpass
from gpuplan.simkit.time import MICROS

SEEDS = 30
PHILLY = Path(__file__).resolve().parents[2] / "shared/data/philly/philly_jobs_a.csv.gz"
PAPER_TRACES = {"seren": (1208, 22, 765), "kalos": (482, 28, 260)} | {
    "wandb": (630, 32, 2025),
    "abc": (1020, 120, 268),
}
PAPER_MODELS = {"LLaMA3-8B": (476, 16.1), "LLaMA2-13B": (765, 15.8), "BERT": (20, 45.6)}
PAPER_USD, PAPER_MODAL = 236.69, 2.95
PAPER_SERVERLESS_USD, PAPER_PAID = 18.02, 0.74


def show_traces(folder: Path) -> None:
    """Table 1: run times; those of Seren and Kalos here are of GPU jobs (AcmeTrace)."""
    rows = []
    for name in sorted(PRESETS & PAPER_TRACES.keys()):
        path = folder / f"{name}.parquet"
        synthesize(preset_model(name), Request(20_000, seed=0), path)
        run_s = read_trace(path, columns=("duration_s",)).jobs["duration_s"].drop_nulls().to_numpy()
        here = (run_s.mean(), np.median(run_s), np.percentile(run_s, 90))
        rows.append(
            (
                name,
                " / ".join(f"{value:,}" for value in PAPER_TRACES[name]),
                " / ".join(f"{value:,.0f}" for value in here),
                f"{(run_s <= 600).mean():.1%}",
            )
        )
    print("\n## Table 1: run times, mean / P50 / P90 in s")
    table(("trace", "paper", "gpuplan synth --preset", "within 10 min, here"), rows)


def show_providers() -> None:
    """Tables 2 and 3, for A100 GPUs: the defaults, and what is drawn from them."""
    rules, rng = Allpass(), np.random.default_rng(0)
    prices = rules.marketplace_prices
    startups = (rules.serverless_startup, rules.marketplace_startup, rules.conventional_startup)
    drawn = [startup.draw_us(RENTAL_DRAWS, rng) / MICROS for startup in startups]
    here = [f"{times.mean():.2f} ± {times.std():.2f}" for times in drawn]
    market = f"{np.median(prices):.2f} ({min(prices):.2f}, {max(prices):.2f})"
    print("\n## Tables 2 and 3: $ per A100-hour, start-up in s")
    table(
        ("", "Modal", "Vast.ai", "Lambda"),
        [
            ("price, paper", "2.10", "1.08 (0.38, 1.66)", "1.29"),
            ("price, here", rules.serverless_price, market, rules.conventional_price),
            ("start-up, paper", "3.88 ± 1.84", "36.04 ± 7.35", "255.59 ± 26.26"),
            ("start-up, here", *here),
        ],
    )


def show_consistency() -> None:
    """What the paper's numbers say of each other: Table 4 and section 5.4."""
    run_s = {name: epoch_s * epochs for name, (epoch_s, epochs) in PAPER_MODELS.items()}
    modal_h = PAPER_USD * PAPER_MODAL / Allpass().serverless_price
    serverless_h = PAPER_SERVERLESS_USD / Allpass().serverless_price
    most_h = serverless_h + (PAPER_USD - PAPER_SERVERLESS_USD) / PAPER_PAID
    print("\n## Table 4 and section 5.4 against each other")
    print(f"\n- run times of Table 4: {', '.join(f'{k} {v:,.0f} s' for k, v in run_s.items())}")
    print(f"- Modal's bill holds {modal_h:.0f} GPU-h, {modal_h / JOBS:.2f} h a job")
    print(f"- Allpass' bill at $0.74 holds at most {most_h:.0f} GPU-h, which on Modal", end=" ")
    print(f"cost ${most_h * 2.10:,.0f}, {most_h * 2.10 / PAPER_USD:.2f} times as much")
    tiresias_h = 258.54 / Allpass().conventional_price
    print(f"- Tiresias' bill at Lambda's price holds {tiresias_h:.0f} GPU-h")


def cell(found: Sequence[float]) -> str:
    """The median, and the range."""
    values = np.array(found)
    values = values[~np.isnan(values)]
    if not values.size:
        return "-"
    shown = ".0f" if abs(np.median(values)) >= 100 else ".1f" if np.median(values) >= 20 else ".2f"
    return f"{np.median(values):{shown}} ({values.min():{shown}} to {values.max():{shown}})"


def show_percentiles(runs: Sequence[Results]) -> None:
    """Figure 6: JCT at each percentile, the median of the samples."""
    print("\n## Figure 6, full length: JCT in s at percentiles, medians of the samples")
    rows = []
    for name in (LIMITED, *CLUSTERS, "Modal"):
        medians = [np.median([one[name][f"jct_p{at}_s"] for one in runs]) for at in PERCENTILES]
        rows.append((name, *(f"{jct_s:,.1f}" for jct_s in medians)))
    table(("", *(f"P{at}" for at in PERCENTILES)), rows)


def show_chosen() -> str:
    """Print what the paper does not state, or what is chosen otherwise here."""
    rules, usual = Allpass(), Allpass(scale_out="window", scaling="literal", min_threshold_s=0)
    policies = compared_policies(None)
    lowest, literal = rules.least_threshold_s, usual.least_threshold_s
    print("\n## Chosen values")
    return table(
        ("value", "chosen"),
        [
            ("jobs; from a preset's; samples", f"{JOBS}; {POOL:,}; {SEEDS}"),
            ("most GPUs a job", 8),
            ("longest job of full length, s (fitted to Tiresias' bill)", f"{LONGEST_S:,.0f}"),
            ("workers of clusters, and of Allpass beside them", WORKERS),
            ("containers of orderings and of Figure 11 (fitted)", CONTAINERS),
            ("queue limit of Tiresias, GPU-s; a fifth (fitted)", "3,250; 650"),
            ("marketplace offers", len(rules.marketplace_prices)),
            ("checkpoint and restore, s", f"{rules.checkpoint_s:g} + {rules.restore_s:g}"),
            ("least threshold, s; to the letter", f"{lowest:g}; {literal:g}"),
            ("greatest threshold, s", f"{rules.max_threshold_s:g}"),
            ("greatest pressure", f"{rules.max_pressure:g}"),
            ("renting; scaling (paper: window; literal)", f"{rules.scale_out}; {rules.scaling}"),
            ("stop of a job on a cluster, s", f"{rules.checkpoint_s + rules.restore_s:g}"),
            ("SJF-P", policies["SJF-P"][0]),
            (
                "HPA: target, tolerance, stabilization, s",
                f"{rules.target_utilization:g}, {rules.utilization_tolerance:g}, "
                f"{rules.stabilization_s:g}",
            ),
        ],
    )


def show_orderings(columns: Mapping[str, Sequence[Results]]) -> str:
    """How many samples keep each ordering, by how much the median one does, and the middle one."""
    lambda_usd = Allpass().conventional_price
    cases = {name: columns[name] for name in ("full length", "dense", "as stated")}
    cases["full length, clusters at Lambda's price"] = [
        at_usd(one, lambda_usd) for one in columns["full length"]
    ]
    print(f"\n## Orderings: samples of {SEEDS} that keep each, and the margin in the median one")
    print("\n(In brackets: the sample with the median GPU-hours, where it says otherwise.)")
    found = {name: kept_by(runs) for name, runs in cases.items()}
    table(
        ("", *cases),
        [(what, *(_told(kept[what]) for kept in found.values())) for what in ORDERINGS],
    )
    print("\n## The same, full length")
    kept = found["full length"]
    return table(
        ("", f"samples of {SEEDS}", "margin in the median one"),
        [(what, kept[what].samples, f"{kept[what].margin:+.0%}") for what in ORDERINGS],
    )


def _told(kept: Kept) -> str:
    text = f"{kept.samples}, {kept.margin:+.0%}"
    return text if (kept.margin > 0) == (kept.middle > 0) else f"{text} ({kept.middle:+.1%})"


def main(*, write_docs: bool = False) -> None:
    print("# Allpass' evaluation, reproduced")
    tables = {"allpass-chosen": show_chosen()}
    show_providers()
    show_consistency()
    columns: dict[str, list[Results]] = {}
    with TemporaryDirectory() as place:
        folder = Path(place)
        show_traces(folder)
        trace = seren_trace(folder)
        cases: list[tuple[str, Path, str, str | None]] = [
            ("full length", trace, "full length", None),
            ("full length, window", trace, "full length", "window"),
            ("dense", trace, "dense", None),
            ("dense, window", trace, "dense", "window"),
            ("as stated", trace, "as stated", None),
        ]
        if PHILLY.is_file():
            philly = folder / "philly.parquet"
            ingest([PHILLY], philly)
            cases.append(("Philly, dense", philly, "dense", None))
        for name, path, reading, scale_out in cases:
            columns[name] = [
                replay_all(sample(path, READINGS[reading], seed), seed, scale_out)
                for seed in range(SEEDS)
            ]
    print(f"\n## Figures 6 to 12: median (range) of {SEEDS} samples of {JOBS} jobs\n")
    for name, known in READINGS.items():
        print(f"- {name}: {known.about}")
    hourly = columns["full length"][0]["TL-NP"][HOURLY]
    print(
        f"\nTL and SJF: {WORKERS} workers at ${hourly:.2f}, the mean of the cheapest offers,"
        " until the last job ends."
    )
    table(
        ("", "", "paper", *columns),
        [
            (figure, what, paper, *(cell([of(one) for one in found]) for found in columns.values()))
            for figure, what, paper, of in MEASURES
        ],
    )
    show_percentiles(columns["full length"])
    tables["allpass-orderings"] = show_orderings(columns)
    print("\n## Figures 6 to 12, full length")
    ours = [columns[name] for name in ("full length", "full length, window")]
    tables["allpass-figures"] = table(
        ("", "", "paper", "`queue` (default)", "`window`"),
        [
            (figure, what, paper, *(cell([of(one) for one in found]) for found in ours))
            for figure, what, paper, of in MEASURES
        ],
    )
    if write_docs:
        write(DOCS / "allpass-paper.md", tables)


if __name__ == "__main__":
    main(write_docs=OPTION in sys.argv[1:])
