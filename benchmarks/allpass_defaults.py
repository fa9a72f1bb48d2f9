"""The cost of each default of Allpass that departs from the paper: docs/allpass-paper.md.

``python -m benchmarks.allpass_defaults`` replays Seren's shipped sample, 200 jobs like Seren's, and
Philly where ../shared is at hand, under the defaults, with each departure taken back, and to the
letter; then Philly over 20 seeds. With ``--write-docs`` they are written to the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.docs_tables import DOCS, OPTION, markdown, write
from benchmarks.equal_gpus import table
from benchmarks.seren_samples import seren_trace
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.policies.allpass import simulate
from gpuplan.planner.runs.trace_jobs import COLUMNS, TraceJobs, jobs_of

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "sample_traces/seren.csv"
PHILLY = ROOT.parent / "shared/data/philly/philly_jobs_a.csv.gz"
SEEDS = 20
SQUEEZED = Selection(sample=200, scale_duration=0.2, scale_interarrival=0.0666666667)
LETTER: Mapping[str, Any] = {"scale_out": "window", "scaling": "literal", "min_threshold_s": 0.0}
CASES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "`min_threshold_s=0`": {"min_threshold_s": 0.0},
    "`scale_out=window`": {"scale_out": "window"},
    "to the letter": LETTER,
    "all serverless": {"controller": "fixed", "threshold_s": np.inf},
}


Drawn = tuple[TraceJobs, np.random.Generator]


def draw(trace: Path, selection: Selection | None = None, seed: int = 0) -> Drawn:
    """Read jobs and draw their deadlines as the commands do; and what start-ups are drawn from."""
    deadlines, starts = np.random.default_rng(seed).spawn(2)
    return jobs_of(read_trace(trace, selection, columns=COLUMNS), deadlines), starts


def replayed(drawn: Drawn, case: str) -> Mapping[str, Any]:
    """Replay jobs under one of `CASES`; the same start-ups for all."""
    jobs, starts = drawn
    return simulate(jobs, CASES[case], deepcopy(starts)).results


def rows(name: str, drawn: Drawn) -> Iterator[tuple[str, ...]]:
    """Replay jobs under all of `CASES`; a row of the table for each."""
    for case in CASES:
        found = replayed(drawn, case)
        yield (
            name if case == "default" else "",
            case,
            f"${found['cost_usd']:,.0f}",
            *(f"{found[key]:,.0f} s" for key in ("mean_jct_s", "median_jct_s", "mean_queue_s")),
            *(f"{found[key]:.1%}" for key in ("deadline_miss_share", "finished_serverless_share")),
            f"{found['workers_peak']:,}",
        )


def over_seeds(philly: Path) -> str:
    """Return the range of the bill of all of Philly over seeds, which draw deadlines and starts."""
    lines = []
    for case in ("default", "`scale_out=window`", "to the letter"):
        found = [replayed(draw(philly, seed=seed), case) for seed in range(SEEDS)]
        bills = [one["cost_usd"] for one in found]
        dearer = sum(one["cost_usd"] > one["cost_if_serverless_usd"] for one in found)
        lines.append((case, f"${min(bills):,.0f} to ${max(bills):,.0f}", f"{dearer} of {SEEDS}"))
    head = (f"Philly, seeds 0 to {SEEDS - 1}", "cost", "above all serverless")
    return markdown(head, lines)


def main(*, write_docs: bool = False) -> None:
    with TemporaryDirectory() as place:
        folder = Path(place)
        ingest([SAMPLE], folder / "sample.parquet")
        found = [
            *rows("Seren's sample", draw(folder / "sample.parquet")),
            *rows("200 jobs like Seren's", draw(seren_trace(folder), SQUEEZED)),
        ]
        philly = folder / "philly.parquet"
        if PHILLY.is_file():
            ingest([PHILLY], philly)
            found += rows("Philly", draw(philly))
        times = ("mean JCT", "median JCT", "mean queue")
        head = ("trace", "settings", "cost", *times, "late", "end serverless", "peak workers")
        written = {"allpass-defaults": table(head, found)}
        if not PHILLY.is_file():
            print("Philly is skipped, and the page not written: ../shared is not here")
            return
        written["allpass-seeds"] = over_seeds(philly)
        print(f"\n{written['allpass-seeds']}")
    if write_docs:
        write(DOCS / "allpass-paper.md", written)


if __name__ == "__main__":
    main(write_docs=OPTION in sys.argv[1:])
