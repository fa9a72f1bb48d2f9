"""Dilu's published results again: profiling, placement, scaling decisions, figures, speed.

``python -m benchmarks.reproduce_dilu [instances-3200.txt] [--write-docs]`` prints a row per
result, paper | reference | here, then every assumption, and exits 1 where a gate misses. "paper"
has figures of the paper's text and tables alone; "reference" has counts of the authors' program or
of our golden results, which the gates use. Tables and requests are those of ../shared/data/dilu;
rows without their input are skipped. ``--write-docs`` writes both tables to docs/dilu.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.dilu_figures import (
    BURST_FACTOR,
    BURST_RATE,
    CAPACITY_RPS,
    COLD_S,
    DATA,
    IN_FIGURE,
    MODELS,
    MULTIPLIER,
    PEAK,
    PERIODIC_S,
    TRAINING_LIMIT,
    TRAINING_REQUEST,
    Row,
    figure_7,
    figure_8,
    figure_10,
    figure_16,
    violations,
)
from benchmarks.docs_tables import DOCS, OPTION, markdown, write
from gpuplan.analysis.user_tables.rates import read_rates
from gpuplan.analysis.user_tables.sharing_instances import SharedInstance, read_instances
from gpuplan.analysis.user_tables.sharing_profiles import read_profile
from gpuplan.planner.sharing.coscaling_study import (
    FAST_GS_HORIZONTAL,
    INFLESS_HORIZONTAL,
    SharingRequest,
    run_policy,
)
from gpuplan.planner.sharing.loads import RequestProcess, even_arrivals
from gpuplan.planner.sharing.placement_study import PlacementRequest, study_placement
from gpuplan.planner.sharing.profile_search import search_service
from gpuplan.simkit.sharing.horizontal import HorizontalRules, decide
from gpuplan.simkit.sharing.policies import PlacementSettings
from gpuplan.simkit.sharing.services import DILU_HORIZONTAL, Profile, Service, TrainingJob

REFERENCE = PlacementSettings(reference=True)
POLICIES = ("exclusive", "infless-l", "infless-r", "dilu")
TRIALS = {
    "resnet152": (0.040, "a", 8),
    "llama2": (0.042, "d", 9),
}  # bound, column of Table 2, moves
AT_3200 = {"exclusive": 1879, "infless-l": 1719, "infless-r": 1355, "dilu": 1319}
AT_400 = {"exclusive": 386, "infless-l": 348, "infless-r": 272, "dilu": 263}
SAVED = {"exclusive": "30%", "infless-l": "23%"}  # section 5.5, at 3,200 instances
GAMMA_1, GAMMA_15 = 1725, 1319
COLD_STARTS = {  # Table 3, and our golden decisions: Dilu, FaST-GS+, INFless+
    "bursty": ((7, 40, 27), (7, 39, 27)),
    "periodic": ((11, 41, 27), (11, 38, 31)),
    "sporadic": ((1, 4, 11), (1, 3, 11)),
}
RULES = {"dilu": DILU_HORIZONTAL, "fast-gs": FAST_GS_HORIZONTAL, "infless": INFLESS_HORIZONTAL}
HORIZON_S = 858
PLACEMENT_BAR_S, COSCALING_BAR_S = 0.05, 0.2


ASSUMED = [
    ("models (a) and (d) of Table 2", "resnet152, llama2", "the figure alone names them"),
    ("longest batch, Table 2", "40 ms, 42 ms", "fitted: the SLOs are not published"),
    ("trials counted in Table 2", "evaluations - 1", "fitted: the first point is not a trial"),
    ("loss of throughput that ends a search", "0.2 items/s per %", "fitted"),
    ("requests/s registered per instance", f"{CAPACITY_RPS:g}", "fitted to the cold starts"),
    ("multiplier of the request files", f"{MULTIPLIER:g}", "fitted to the cold starts"),
    ("keep-alive of FaST-GS+ and INFless+",
     f"{FAST_GS_HORIZONTAL.keep_alive_s} s, {INFLESS_HORIZONTAL.keep_alive_s} s",
     "fitted to the cold starts"),
    ("cold start", f"{COLD_S:g} s", "assumed"),
    ("SLO in the figures", ", ".join(f"{name} {1000 * slo_s:g} ms"
                                     for name, (slo_s, _) in MODELS.items()), "assumed"),
    ("requests/s, Figures 7 and 10", ", ".join(f"{name} {rate:g}"
                                               for name, (_, rate) in MODELS.items()),
     "Figure 7; assumed for Figure 10"),
    ("load of Figure 8", f"bursty:{BURST_RATE:g}:{BURST_FACTOR:g} twice", "factor of the paper"),
    ("training in the figures and Table 3",
     f"speed in proportion to the share, request {TRAINING_REQUEST:g}, limit {TRAINING_LIMIT:g}",
     "assumed: no curve is published"),
    ("periodic load of the violations",
     f"sine of {PERIODIC_S} s from 0 to {2 * CAPACITY_RPS:g} requests/s, or to {PEAK:g} times the "
     "profiled capacity", "assumed: the authors' file is not among our data"),
    ("services and gangs, end to end", "3 services, gangs of 2, 2, 4 and 4",
     "the paper; their profiles, loads, SLOs and start times are assumed"),
]  # fmt: skip


def profiling() -> Iterator[Row]:
    """Yield the moves of the growth search."""
    for model, (bound_s, column, moves) in TRIALS.items():
        path = DATA / f"bs_sm_{model}.csv"
        if path.exists():
            found = search_service(read_profile(path), 2 * bound_s).moves
            what = f"Table 2 ({column}), trials, {model}"
            yield Row(what, f"{moves}", "", f"{found}", found == moves)


def placements(path: Path, want: dict[str, int], where: str) -> Iterator[Row]:
    """Yield the most GPUs in use by policy."""
    request = PlacementRequest(read_instances(path), POLICIES, 1000, 4, REFERENCE)
    study = study_placement(request)
    most = {one.policy: one.max_gpus for one in study.asked}
    for policy in POLICIES:
        same = most[policy] == want[policy]
        reference = f"{want[policy]}, authors' program"
        yield Row(f"{where}, most GPUs, {policy}", "", reference, f"{most[policy]}", same)
    for other, paper in SAVED.items():
        ref, here = (1 - counts["dilu"] / counts[other] for counts in (want, most))
        text = paper if want is AT_3200 else ""
        yield Row(
            f"{where}, saved vs. {other}", text, f"{ref:.1%}, authors' program", f"{here:.1%}"
        )


def gammas(path: Path) -> Iterator[Row]:
    """Yield the GPUs at bounds of the limits."""
    values = (1.0, 1.5, 2.0, 2.5)
    request = PlacementRequest(read_instances(path), ("dilu",), 1000, 4, REFERENCE, values)
    found = {one.gamma: one.max_gpus for one in study_placement(request).asked}
    for gamma, want in ((1.0, GAMMA_1), (1.5, GAMMA_15)):
        here = found[gamma]
        reference = f"{want}, authors' program"
        yield Row(f"gamma {gamma:g}, most GPUs", IN_FIGURE, reference, f"{here}", here == want)
    for gamma in (2.0, 2.5):
        near = abs(found[gamma] / found[1.5] - 1) <= 0.01
        said = "diminishing returns beyond 1.5"
        within = "within 1% of that at 1.5"
        yield Row(f"gamma {gamma:g}, most GPUs", said, within, f"{found[gamma]}", near)


def cold_starts() -> Iterator[Row]:
    """Yield the cold starts by request file and policy."""
    for name, (paper, golden) in COLD_STARTS.items():
        path = DATA / f"{name}.txt"
        if not path.exists():
            continue
        requests = np.floor(read_rates(path) * MULTIPLIER)
        for at, (policy, rules) in enumerate(RULES.items()):
            found = starts(requests, rules)
            what, reference = f"Table 3, cold starts, {name}, {policy}", f"{golden[at]}, golden"
            yield Row(what, f"{paper[at]}", reference, f"{found}", found == golden[at])


def starts(requests: np.ndarray[tuple[int], np.dtype[np.float64]], rules: HorizontalRules) -> int:
    """Return the instances launched, the first ones included."""
    counts = np.concatenate([[0, rules.first], decide(requests, CAPACITY_RPS, rules)[:, 1]])
    return int(np.maximum(np.diff(counts), 0).sum())


def end_to_end() -> SharingRequest | None:
    """Return a scenario like that of section 5.4, whose loads and profiles are not published.

    Two gangs of two and two of four workers, a bursty, a periodic and a Poisson service.
    """
    names = ("resnet152", "bert_base", "llama2")
    paths = [DATA / f"bs_sm_{name}.csv" for name in names]
    if not all(path.exists() for path in (*paths, DATA / "bursty.txt")):
        return None
    resnet, bert, llama = (Profile(*read_profile(path).columns()) for path in paths)
    at = np.arange(HORIZON_S)
    periodic = even_arrivals(40 * (1 + np.sin(2 * np.pi * at / 300)))
    drawn = RequestProcess("poisson", 3.0).arrivals(HORIZON_S, np.random.default_rng(0))
    bursty = even_arrivals(read_rates(DATA / "bursty.txt"), 20)
    services = [
        Service("bursty", resnet, 0.3, 0.6, 16, 0.08, bursty, 5, capacity_rps=96),
        Service("periodic", bert, 0.2, 0.4, 4, 0.1, periodic, 4, capacity_rps=60),
        Service("poisson", llama, 0.5, 1.0, 8, 0.084, drawn, 26, llm=True, work=32),
    ]
    gangs = ((2, 0.0), (4, 60.0), (2, 120.0), (4, 180.0))
    jobs = [
        TrainingJob(f"job-{number}", bert, 0.5, 0.8, workers, 12.0, start_s)
        for number, (workers, start_s) in enumerate(gangs)
    ]
    return SharingRequest(services, jobs, POLICIES, HORIZON_S, 10, 4)


def peaks(request: SharingRequest) -> Iterator[Row]:
    """Yield the most GPUs of the end-to-end scenario; its inputs are ours, so nothing is gated."""
    found = {policy: run_policy(policy, COLD_S, request).max_gpus for policy in POLICIES}
    whole = replace(request, settings=PlacementSettings(split=False))
    more = run_policy("dilu", COLD_S, whole).max_gpus - found["dilu"]
    said = {"exclusive": "1.5x Dilu's", "infless-l": "three more than Dilu", "infless-r": IN_FIGURE,
            "dilu": IN_FIGURE}  # fmt: skip
    for policy, most in found.items():
        here = f"{most} ({most / found['dilu']:.2f}x, {most - found['dilu']:+d})"
        yield Row(f"Section 5.4, most GPUs, {policy}", said[policy], "", here)
    yield Row("Section 5.4, GPUs more without the split (-RC)", "one", "", f"{more}")


def many_instances(count: int = 3200, seed: int = 5) -> list[SharedInstance]:
    """Return instances like those of section 5.5: training, LLMs and others 2 : 2 : 6.

    One starts each second; shares have two decimals and memory is in whole GB, as the authors have
    them. 60% of the services end after 1 to 3 minutes, half of the training after 10 to 15.
    """
    rng = np.random.default_rng(seed)
    kinds = rng.permutation(np.repeat(["inference", "llm-inference", "training"], _parts(count)))
    instances = []
    for number, kind in enumerate(kinds.tolist()):
        least, most = {"inference": (0.2, 0.4), "training": (0.4, 0.8)}.get(kind, (0.4, 0.6))
        request = round(float(rng.uniform(least, most)), 2)
        limit = max(request + 0.2, round(float(rng.uniform(least, most + 0.2)), 2))
        gigabytes = {"inference": (3, 11), "training": (25, 41)}.get(kind, (20, 31))
        gpus = int(rng.choice([2, 4])) if kind == "training" else 1
        after_s = 60 * int(rng.integers(*((10, 16) if kind == "training" else (1, 4))))
        ends = rng.random() < (0.5 if kind == "training" else 0.75)
        instances.append(
            SharedInstance(
                f"{number}", kind, gpus, request, limit, float(rng.integers(*gigabytes)), number,
                float(number + after_s) if ends else None, f"{number}",
            )
        )  # fmt: skip
    return instances


def _parts(count: int) -> list[int]:
    return [count - 2 * (count // 5), count // 5, count // 5]


def best_s(work: Callable[[], object], runs: int = 5) -> float:
    """Return the CPU time of the quickest of some runs."""
    times = []
    for _ in range(runs):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


def placement_s() -> float:
    """Return the time of 3,200 placements after a first run, without that of making them."""
    placed = PlacementRequest(many_instances(), ("exclusive",), 1000, 4)
    alone_s = best_s(lambda: study_placement(placed))
    both = replace(placed, policies=("exclusive", "dilu"))
    return best_s(lambda: study_placement(both)) - alone_s


def coscaling_s(request: SharingRequest) -> float:
    """Return the time of the end-to-end scenario after a first run."""
    return best_s(lambda: run_policy("dilu", 10.0, request))


def speed(request: SharingRequest | None) -> Iterator[Row]:
    """Yield the time of 3,200 placements and of the end-to-end scenario."""
    measured = [("3,200 placements", "1.12 s", PLACEMENT_BAR_S, placement_s())]
    if request is not None:
        name = f"co-scaling of {HORIZON_S} s"
        measured.append((name, "", COSCALING_BAR_S, coscaling_s(request)))
    for name, paper, bar_s, took_s in measured:
        yield Row(f"Speed, {name}", paper, f"bar {bar_s:g} s", f"{took_s:.3f} s", took_s <= bar_s)


def rows(large: Path | None) -> Iterator[Row]:
    """Yield every result whose input is there, but for speed."""
    yield from profiling()
    if (DATA / "instances-400.txt").exists():
        yield from placements(DATA / "instances-400.txt", AT_400, "400 instances")
    if large is not None:
        yield from placements(large, AT_3200, "3,200 instances")
        yield from gammas(large)
    yield from cold_starts()
    request = end_to_end()
    if request is not None:
        yield from violations()
        yield from figure_7()
        yield from figure_8()
        yield from figure_10()
        yield from peaks(request)
        yield from figure_16(request)


def tables(found: Sequence[Row]) -> dict[str, str]:
    """Return the sections of docs/dilu.md that this script writes."""
    cells = [(row.what, row.paper or "-", row.reference or "-", row.here) for row in found]
    return {
        "dilu-results": markdown(("result", "paper", "reference", "here"), cells),
        "dilu-assumed": markdown(("assumption", "value", "why"), ASSUMED),
    }


def main(arguments: list[str]) -> int:
    """Print all rows and assumptions, and return 1 where a gate misses."""
    files = [text for text in arguments if text != OPTION]
    large = Path(files[0]) if files else None
    found, missed = [], 0
    form = "{:6} {:58} {:>30} | {:>24} | {}".format
    print(form("", "result", "paper", "reference", "here"))

    def show(row: Row) -> None:
        nonlocal missed
        mark = {True: "ok", False: "MISSED", None: ""}[row.passed]
        missed += row.passed is False
        print(form(mark, row.what, row.paper, row.reference, row.here), flush=True)

    for row in rows(large):
        found.append(row)
        show(row)
    for row in speed(end_to_end()):
        show(row)
    print("\nAssumed or fitted; the paper does not tell them:")
    for what, value, why in ASSUMED:
        print(f"  {what}: {value} ({why})")
    if large is None:
        print("3,200 instances and gamma: give the authors' instances-3200.txt to check them")
    if OPTION in arguments:
        write(DOCS / "dilu.md", tables(found))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
