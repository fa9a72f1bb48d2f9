"""Which cost FFT has by default, chosen on jobs and seeds that `reproduce_fft` does not use.

``python -m benchmarks.fft_default [--write-docs]`` replays two workloads on seeds from 100 on:
Helios' durations (``gpuplan synth --preset helios``) on assumed rates, and, where ../shared is at
hand, jobs of Gavel's trace with the rates that Gavel measured. The rule: the cost with the lower
mean JCT (geometric mean of all runs); within 2% that is no difference, and the fairer one counts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.docs_tables import DOCS, OPTION, markdown, write
from benchmarks.fft_traces import SHARED, trace_jobs
from benchmarks.reproduce_fft import CLOSE, FFT, JCT, TOTAL, run_policy, span
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.synth import Request, preset_model, synthesize
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.registry import POLICIES
from gpuplan.planner.requests.replays import GpuTypeRequest, ReplayRequest
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.studies.replay import rates_of, read_replay
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.cluster_shape import ClusterShape
from gpuplan.simkit.time import HOUR_S

CLUSTER = ClusterShape.parse("k80=4x4,p100=4x4,v100=4x4")
RATES = {"k80": (0.12, 0.30), "p100": (0.45, 0.65), "v100": (1.0, 1.0)}
SEEDS = range(100, 105)
LOADS = (0.9, 1.3)
JOBS, HOURS, WIDEST = 500, 40.0, 8
STATE_GB = (0.1, 20.0)  # log-uniform
GAVEL = SHARED / "gavel"
Drawn = tuple[FloatArray, FloatArray, IntArray, FloatArray]


def helios(folder: Path, seed: int) -> Drawn:
    """Return submissions (s), durations on v100, GPUs and rates of jobs like Helios'."""
    path = folder / f"helios-{seed}.parquet"
    synthesize(preset_model("helios"), Request(4 * JOBS, seed=seed), path)
    jobs = read_trace(path, columns=("submit_time", "duration_s", "num_gpus")).jobs.drop_nulls()
    jobs = jobs.filter(jobs["num_gpus"].is_between(1, WIDEST))[:JOBS]
    rng = np.random.default_rng(seed)
    return (
        jobs["submit_time"].dt.epoch("us").to_numpy() / 1e6,
        jobs["duration_s"].to_numpy(),
        jobs["num_gpus"].to_numpy().astype(np.int64),
        np.column_stack([rng.uniform(*RATES[name], JOBS) for name in RATES]),
    )


def gavel(folder: Path, seed: int) -> Drawn:
    """Return the same of consecutive jobs of Gavel's trace, at rates that Gavel measured."""
    path = folder / "gavel.parquet"
    if not path.exists():
        ingest([GAVEL / "msr-seed0" / "11cb48.trace.gz"], path)
    types = GpuTypeRequest(throughputs=str(GAVEL / "throughputs_isolated.csv"))
    rates = rates_of(types, [{"cluster": CLUSTER}])
    jobs = read_replay(ReplayRequest(path), rates=rates).jobs
    assert jobs.rates is not None
    rate, work = jobs.rates.on(CLUSTER.gpu_types), jobs.workload
    usable = np.flatnonzero((work.gpus <= WIDEST) & (rate > 0).all(axis=1))
    first = int(np.random.default_rng(seed).integers(0, usable.size - JOBS))
    some = usable[first : first + JOBS]
    fastest = rate[some].max(axis=1)
    return (
        work.submit_us[some] / 1e6,
        jobs.rates.work[some] / fastest,
        work.gpus[some],
        rate[some] / fastest[:, None],
    )


def loaded(drawn: Drawn, load: float, seed: int) -> TraceJobs:
    """Return the jobs over `HOURS`, with durations scaled to a load at mean rates."""
    submit_s, run_s, gpus, rate = drawn
    submit_s = (submit_s - submit_s[0]) * HOURS * HOUR_S / (submit_s[-1] - submit_s[0])
    room = load * float(CLUSTER.gpus or 0) * HOURS * HOUR_S
    run_s = run_s * room / (run_s * gpus / rate.mean(axis=1)).sum()
    low, high = np.log(STATE_GB)
    logs = np.random.default_rng(seed).uniform(low, high, gpus.size)
    return trace_jobs(submit_s, run_s, gpus, rate, np.exp(logs), CLUSTER.gpu_types)


def choice() -> tuple[str, list[tuple[str, ...]], str]:
    """Return the default that the rule gives, a row per workload and load, and the reason."""
    sources: Mapping[str, Any] = {"helios": helios} | ({"gavel": gavel} if GAVEL.exists() else {})
    rows, jct, rho = [], [], []
    with TemporaryDirectory() as place:
        for name, source in sources.items():
            for load in LOADS:
                found = list(_runs(source, load, Path(place)))
                jct += [runs[TOTAL][JCT] / runs[FFT][JCT] for runs in found]
                rho += [runs[TOTAL]["ftf_mean"] / runs[FFT]["ftf_mean"] for runs in found]

                def column(
                    of: str, key: str, form: str, base: str | None = None, found: Any = found
                ) -> str:
                    return span([r[of][key] / (r[base][key] if base else 1) for r in found], form)

                rows.append(
                    (
                        f"{name}, {load:g}",
                        column(FFT, JCT, "h"),
                        column(TOTAL, JCT, "x", FFT),
                        column("srtf", JCT, "x", FFT),
                        *(column(of, "ftf_mean", "") for of in (FFT, TOTAL, "srtf")),
                    )
                )
    jct_x, rho_x = (float(np.exp(np.log(values).mean())) for values in (jct, rho))
    is_tied = 1 / CLOSE <= jct_x <= CLOSE
    best = "total" if (rho_x if is_tied else jct_x) < 1 else "mixed"
    tied = ", no real difference in time," if is_tied else ""
    text = (
        f"Over {len(jct)} runs on seeds {SEEDS[0]} to {SEEDS[-1]}, `total` has {jct_x:.3f} times "
        f"the mean JCT of `mixed`{tied} and {rho_x:.3f} times its mean rho. The default is "
        f"`{best}`."
    )
    return best, rows, text


def _runs(source: Any, load: float, place: Path) -> Iterator[Mapping[str, Mapping[str, Any]]]:
    for seed in SEEDS:
        jobs = loaded(source(place, seed), load, seed)
        yield {name: run_policy(name, jobs, CLUSTER) for name in (FFT, TOTAL, "srtf")}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; return 1 where the default is not the cost that they say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(OPTION, action="store_true", help="write the table into docs/fft.md")
    options = parser.parse_args(arguments)
    best, rows, said = choice()
    head = (
        *("workload, load", "JCT `mixed`, h", "`total`", "srtf"),
        *("rho `mixed`", "rho `total`", "rho srtf"),
    )
    text = f"{markdown(head, rows)}\n\n{said}"
    print(text)
    if options.write_docs:
        write(DOCS / "fft.md", {"fft-default": text})
    return 0 if POLICIES["fft"].defaults()["phi"] == best else 1


if __name__ == "__main__":
    sys.exit(main())
