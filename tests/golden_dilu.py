"""Check sharing of GPUs against a folder of golden results; exit 1 on any difference.

Usage: python tests/golden_dilu.py FOLDER. The layout of the folder: 01_profiling.json and
06_horizontal.json (compared exactly), co-scaling cases NN_*.json with NN_*.csv or .csv.gz (within
1e-9), and tables of profiles, table_NAME.csv. Needs only the installed package.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gpuplan.analysis.user_tables.sharing_profiles import ProfileTable, read_profile
from gpuplan.planner.sharing.profile_search import search_service, search_training, traverse
from gpuplan.simkit.sharing.coscaling import SharingRun, run_sharing
from gpuplan.simkit.sharing.horizontal import EAGER, HorizontalRules, decide
from gpuplan.simkit.sharing.services import (
    DILU_HORIZONTAL,
    DILU_VERTICAL,
    Profile,
    Service,
    SharingRules,
    TrainingJob,
)

CLOSE = 1e-9
STATES = ("NONE", "RECOVERY", "CONTENTION", "EMERGENCY")
STOPPED = {
    "bound still missed after +10 SM": "one more step of share missed the SLO",
    "efficacy fell": "the throughput per share fell",
}


def differences(folder: Path) -> Iterator[str]:
    """Yield a line per difference between the program and a folder of golden results."""
    for path in sorted(folder.glob("[0-9][0-9]_*.json")):
        case = json.loads(path.read_text())
        if path.name.startswith("01_"):
            found = check_profiling(case, folder)
        elif path.name.startswith("06_"):
            found = check_horizontal(case, folder)
        elif "rps" in case:
            found = check_two_dimensional(case, folder)
        else:
            found = check_coscaling(case, path, folder)
        for line in found:
            yield f"{path.name}: {line}"


def table_of(name: str, folder: Path) -> ProfileTable:
    """Return a table of the folder, or a measured one, which lies beside it."""
    own = folder / f"table_{name}.csv"
    return read_profile(own if own.exists() else data_of(folder) / f"bs_sm_{name}.csv")


def data_of(folder: Path) -> Path:
    """Return the folder of measured tables and request files."""
    return folder.resolve().parent.parent / "data" / "dilu"


def profile_of(name: str, folder: Path) -> Profile:
    """Return a table as the simulator takes it."""
    return Profile(*table_of(name, folder).columns())


def check_profiling(cases: dict[str, Any], folder: Path) -> Iterator[str]:
    """Compare searches: ``NAME@100ms``, ``measured:NAME@t_exec<=0.04`` and ``train NAME p=0.8``."""
    for name, want in cases.items():
        if name.startswith("train "):
            _, table, share = name.split()
            found = search_training(table_of(table, folder), float(share.removeprefix("p=")))
            path = [[percent, rate] for percent, rate in found.path]
            yield from same(f"{name} sm", found.sm_percent, want["sm"])
            yield from same(f"{name} trials", len(path), want["trials"])
            yield from near(f"{name} path", np.array(path), np.array(want["path"]))
            continue
        table, _, bound = name.removeprefix("measured:").partition("@")
        if bound.startswith("t_exec<="):
            slo_s = 2 * float(bound.removeprefix("t_exec<="))
        else:
            slo_s = float(bound.removesuffix("ms")) / 1000
        measured = table_of(table, folder)
        chosen = search_service(measured, slo_s)
        path = [[trial.batch, trial.sm_percent, trial.feasible, trial.te] for trial in chosen.path]
        wide = len(want["path"][0])
        yield from same(f"{name} path", [row[:wide] for row in path], want["path"])
        yield from same(f"{name} chosen", [chosen.batch, chosen.sm_percent], want["chosen"])
        yield from same(f"{name} evaluations", len(path), want["evaluations"])
        yield from same(f"{name} moves", chosen.moves, want["moves"])
        yield from same(f"{name} stop", chosen.stopped, STOPPED.get(want["why"], want["why"]))
        pair = [chosen.request, chosen.limit]
        yield from same(f"{name} request and limit", pair, want["request_limit"])
        best, expected = traverse(measured, slo_s / 2), want["traversal"]
        if isinstance(expected, dict):
            yield from same(f"{name} best TE", best.te, expected["te"])
            expected = [expected["ibs"], expected["smr"]]
        yield from same(f"{name} traversal", [best.batch, best.sm_percent], expected)
        if "best_te" in want:
            trials = [trial for trial in chosen.path if trial.feasible]
            most = max(trial.te for trial in trials)
            point = next([t.batch, t.sm_percent] for t in trials if t.te == most)
            yield from same(f"{name} best of the path", point, want["best_te"])


def check_horizontal(cases: dict[str, Any], folder: Path) -> Iterator[str]:
    """Compare decisions, as a list of [second, out or in, count] or a dictionary with them."""
    for name, case in cases.items():
        lazy = DILU_HORIZONTAL
        if "phi_out" in case:
            sizes = {"window": case["window"], "out_samples": case["phi_out"]}
            lazy = lazy._replace(**sizes, in_samples=case["phi_in"])
        if "rps" in case:
            rates = np.array(case["rps"], np.float64)
        else:
            lines = (data_of(folder) / f"{name}.txt").read_text().split()
            rates = np.array([int(float(line) * case["mult"]) for line in lines], np.float64)
        for rule, want in case.items():
            if isinstance(want, dict) or (isinstance(want, list) and rule != "rps"):
                rules = horizontal_rules(rule, lazy)
                first, events = rules.first, []
                for second, count in decide(rates, float(case["thr"]), rules).tolist():
                    events.append([second, "out" if count > first else "in", count])
                    first = count
                listed = want["events"] if isinstance(want, dict) else want
                yield from same(f"{name} {rule}", events, listed)
                if isinstance(want, dict):
                    outs = sum(kind == "out" for _, kind, _ in events)
                    yield from same(f"{name} {rule} outs", outs, want["outs"])
                    yield from same(f"{name} {rule} ins", len(events) - outs, want["ins"])
                    cold = want["cold_starts_with_initial"]
                    yield from same(f"{name} {rule} cold starts", outs + rules.first, cold)


def horizontal_rules(name: str, lazy: HorizontalRules) -> HorizontalRules:
    """Return the rules that a name like ``dilu_no_clear`` or ``fastgs_hold6_floor1`` stands for."""
    if name.startswith("dilu"):
        return lazy._replace(in_at_least="in_ge" in name, keep_window="no_clear" in name)
    words = dict((word.rstrip("0123456789"), word) for word in name.split("_"))
    hold, floor = (int(words[key].removeprefix(key)) for key in ("hold", "floor"))
    return lazy._replace(way=EAGER, keep_alive_s=hold, least=floor, first=floor)


def check_coscaling(case: dict[str, Any], path: Path, folder: Path) -> Iterator[str]:
    """Compare every period of services and training on one GPU, and their latencies."""
    given = case["rules"]
    vertical = DILU_VERTICAL._replace(
        window=given["window"],
        violation=given["eta_violation"],
        violation_llm=given["eta_violation_llm"],
        increase=given["eta_increase"],
        floor=given["floor"],
        calm=given["calm"],
    )
    services = [
        Service(
            name=one["name"],
            profile=profile_of(one["table"], folder),
            request=one["request"],
            limit=one["limit"],
            batch=one["ibs"],
            slo_s=one["slo_s"],
            arrival_s=np.array(one["arrivals"], np.float64),
            llm=one["llm"],
            work=one["work"],
            capacity_rps=1e9,
        )
        for one in case["functions"]
    ]
    jobs = [
        TrainingJob(one["id"], profile_of(one["table"], folder), one["request"], one["limit"])
        for one in case["training"]
    ]
    rules = SharingRules(vertical=vertical, nodes=1)
    run = run_sharing(services, jobs, horizon_s=case["horizon_s"], rules=rules, log=True)
    yield from check_periods(run, path)
    states: dict[str, int] = {}
    for _, state in dict.fromkeys((row[0], STATES[int(row[2])]) for row in run.log):
        states[state] = states.get(state, 0) + 1
    yield from same("periods per state", states, case["periods_per_state"])
    for service, one, found in zip(services, case["functions"], run.services, strict=True):
        latency_s = in_order(service, found.finish_s)
        want = np.array(one["latencies_in_completion_order"])
        yield from near(f"{service.name} latencies", latency_s, want)
        yield from summary(service, run, latency_s, found, one["summary"])
    for job, done_s in zip(case["training"], run.training_s, strict=True):
        yield from near(f"{job['id']} work", done_s, job["work_done_s"])


def check_periods(run: SharingRun, path: Path) -> Iterator[str]:
    """Compare the log of a run with a CSV of periods."""
    plain = path.with_suffix(".csv")
    packed = path.with_suffix(".csv.gz")
    text = plain.read_text() if plain.exists() else gzip.decompress(packed.read_bytes()).decode()
    rows = list(csv.DictReader(text.splitlines()))
    yield from same("rows", len(run.log), len(rows))
    for line, (found, want) in enumerate(zip(run.log, rows, strict=False), 2):
        period, gpu, state, one = (int(value) for value in found[:4])
        named = [str(period), str(gpu), STATES[state], run.instance_names[one]]
        keys = ("period", "gpu", "state", "instance")
        yield from same(f"row {line}", named, [want[key] for key in keys])
        numbers = np.array([float(want[key]) for key in ("quota", "share", "used")])
        yield from near(f"row {line} quota, share, used", found[4:], numbers)


def check_two_dimensional(case: dict[str, Any], folder: Path) -> Iterator[str]:
    """Compare a function that gets instances on new GPUs, with a training job on each of them."""
    arrivals = [k + j / n for k, n in enumerate(case["rps"]) for j in range(n)]
    service = Service(
        name="A",
        profile=profile_of(case["table"], folder),
        request=case["request"],
        limit=case["limit"],
        batch=case["ibs"],
        slo_s=case["slo_s"],
        arrival_s=np.array(arrivals),
        cold_start_s=case["cold_s"],
        capacity_rps=case["thr"],
    )
    table, request, limit = case["partner"].split()[:3]
    starts = [second for second, kind, _ in case["events"] if kind == "out"]
    jobs = [
        TrainingJob(
            f"T{at}", profile_of(table, folder), float(request), float(limit), start_s=second
        )
        for at, second in enumerate(starts)
    ]
    rules = SharingRules(nodes=1)
    run = run_sharing([service], jobs, horizon_s=len(case["rps"]), rules=rules)
    (found,) = run.services
    events, before = [], 0
    for second, count in found.changes.tolist():
        events.append([float(second), "out" if count > before else "in", count])
        before = count
    yield from same("events", events, case["events"])
    latency_s = in_order(service, found.finish_s)
    first = np.array(case["first_latencies"])
    yield from near("first latencies", latency_s[: first.size], first)
    yield from near("sum of latencies", latency_s.sum(), case["sum_latencies"])
    yield from summary(service, run, latency_s, found, case["summary"])
    yield from near("training work", run.training_s, np.array(case["training_work_s"]))
    yield from near("GPU-seconds", run.gpu_s, case["gpu_seconds"])
    yield from same("peak GPUs", int(run.active_gpus.max()), case["peak_gpus"])


def in_order(service: Service, finish_s: Any) -> Any:
    """Return the latencies of finished requests in the order of completion."""
    order = np.argsort(finish_s, kind="stable")
    latency_s = (finish_s - service.arrival_s)[order]
    return latency_s[~np.isnan(latency_s)]


def summary(
    service: Service, run: SharingRun, latency_s: Any, found: Any, want: dict[str, Any]
) -> Iterator[str]:
    """Compare the figures of a service."""
    requests = service.arrival_s.size
    ends = np.where(np.isnan(found.removed_s), run.horizon_s, found.removed_s)
    lived_s = float((ends - found.launched_s).sum())
    late = int((latency_s > service.slo_s).sum())
    waited_s = run.horizon_s - service.arrival_s[np.isnan(found.finish_s)]
    late += int((waited_s > service.slo_s).sum())
    ranked = np.sort(latency_s)
    steps = np.diff(found.changes[:, 1])
    exact = {
        "requests": requests,
        "unfinished": int(np.isnan(found.finish_s).sum()),
        "csc": found.launched_s.size,
        "outs": int((steps > 0).sum()),
        "ins": int((steps < 0).sum()),
    }
    close = {
        "svr": late / requests,
        "p50": ranked[math.ceil(0.5 * ranked.size) - 1],
        "p95": ranked[math.ceil(0.95 * ranked.size) - 1],
        "inst_s": lived_s,
        "quota_s": service.request * lived_s,
    }
    for key, value in exact.items():
        yield from same(f"{service.name} {key}", value, want[key])
    for key, value in close.items():
        yield from near(f"{service.name} {key}", value, want[key])


def same(what: str, found: Any, want: Any) -> Iterator[str]:
    """Yield a difference between two values."""
    if found != want:
        yield f"{what}: found {found}, expected {want}"


def near(what: str, found: Any, want: Any) -> Iterator[str]:
    """Yield a difference between numbers that is above 1e-9, relative to what is expected."""
    a, b = np.asarray(found, np.float64), np.asarray(want, np.float64)
    if a.shape != b.shape:
        yield f"{what}: found {a.shape}, expected {b.shape} numbers"
    elif not np.allclose(a, b, rtol=CLOSE, atol=CLOSE):
        at = int(np.argmax(np.abs(a - b)))
        yield f"{what}: found {a.flat[at]!r}, expected {b.flat[at]!r} (number {at})"


def main(arguments: list[str]) -> int:
    """Print the differences for a folder, and return the exit code."""
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print("usage: python tests/golden_dilu.py FOLDER", file=sys.stderr)
        return 2
    count = 0
    for line in differences(Path(arguments[0])):
        print(line)
        count += 1
    print(f"{count} differences" if count else "no differences")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
