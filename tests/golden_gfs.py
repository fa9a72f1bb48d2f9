"""Compare the spot simulator with golden results: ``python tests/golden_gfs.py FILE.json ...``.

Each file names its pools, tasks and forecast; ``_tasks.csv[.gz]`` and ``_quota.csv[.gz]`` beside it
hold what every policy did. Prints the differences and exits with 1 where there are any.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
from golden_files import check_files

from gpuplan.analysis.forecast.forecast import demand_bound
from gpuplan.simkit.spot.parameters import SCHEDULERS
from gpuplan.simkit.spot.simulator import RUN_ENDS, SpotWorkload, simulate_spot

NAMES = {"gfs-pool": "gfs", "static": "static-quota"}
PARAMETERS = {"H": "guarantee_h", "ckpt": "checkpoint_s", "grace": "grace_s"}
HORIZON_S = 5 * 86400


def rows_of(base: Path, kind: str) -> list[dict[str, str]]:
    """Return the rows of a table beside a golden file; none where it is absent."""
    for path in (Path(f"{base}_{kind}.csv"), Path(f"{base}_{kind}.csv.gz")):
        if path.exists():
            opened = gzip.open(path, "rt") if path.suffix == ".gz" else path.open()
            with opened as file:
                return list(csv.DictReader(file))
    return []


def differences(path: Path) -> list[str]:
    """Return one line for each value of a golden file that differs."""
    golden = json.loads(path.read_text())
    base = path.with_suffix("")
    tasks, quotas = rows_of(base, "tasks"), rows_of(base, "quota")
    if not tasks:
        return [f"{path.name}: no table of tasks beside it"]
    own = {PARAMETERS.get(name, name): value for name, value in golden["params"].items()}
    found = []

    def pool(row):
        return row["policy"], row["model"]

    for (policy, model), rows in groupby(sorted(tasks, key=pool), pool):
        run = replayed(golden, policy, model, own)
        for task, row in enumerate(sorted(rows, key=lambda row: int(row["id"]))):
            if "wasted_milli_gpu_s" in row:
                row = row | {"wasted": row["wasted_milli_gpu_s"]}
            ours = task_row(run, task)
            found += [
                f"{path.name} {policy} {model} task {row['id']} {name}: {value} here, {row[name]}"
                for name, value in ours.items()
                if row[name] != value
            ]
    for (policy, model), rows in groupby(sorted(quotas, key=pool), pool):
        rows = sorted(rows, key=lambda row: int(row["t"]))
        run = replayed(golden, policy, model, own)
        if len(rows) != run.tick_s.size:
            found.append(f"{path.name} {policy} {model}: {run.tick_s.size} ticks, {len(rows)}")
        for tick, row in zip(range(run.tick_s.size), rows, strict=False):
            ours = quota_row(run, tick)
            found += [
                f"{path.name} {policy} {model} at {row['t']} {name}: {value} here, {row[name]}"
                for name, value in ours.items()
                if row[name] != value
            ]
    return found


def replayed(golden, policy, model, own):
    """Run one pool under one policy."""
    rows = [task for task in golden["tasks"] if task["model"] == model]
    rows.sort(key=lambda task: task["id"])

    def column(name, kind=np.int64):
        return np.array([row[name] for row in rows], kind)

    aggregate = "pool" if policy == "gfs-pool" else "sum"
    scheduler = replace(SCHEDULERS[NAMES.get(policy, policy)], blocking=False, aggregate=aggregate)
    kept = {name: value for name, value in own.items() if hasattr(scheduler, name)}
    if scheduler.leases:
        kept.pop("grace_s", None)
    if policy == "gfs-d":
        kept.pop("eta_rule", None)
    scheduler = replace(scheduler, **kept)
    forecast = golden["forecast"][model]
    mean, deviation = (
        np.array(forecast[name]).T[: scheduler.guarantee_h] for name in ("mu", "sigma")
    )
    bound = demand_bound(mean, forecast["z"] * deviation, aggregate)
    cards = np.array(golden["pools"][model], np.int64)
    return simulate_spot(
        cards,
        SpotWorkload(
            column("submit"), column("duration"), column("hp", np.bool_), column("pods"),
            column("g_milli"),
        ),
        scheduler,
        lendable_gpus=np.maximum(0.0, cards.sum() - bound),
        horizon_s=own.get("horizon", HORIZON_S),
    )  # fmt: skip


def task_row(run, task):
    """Return the columns of a task as the golden table writes them."""
    first = np.concatenate([[0], np.cumsum(run.workload.pods[run.run_task])])
    runs = [
        f"{run.run_start_s[at]}-{run.run_stop_s[at]}:{RUN_ENDS[run.run_end[at]]}:"
        + "|".join(map(str, run.run_nodes[first[at] : first[at + 1]]))
        for at in np.flatnonzero(run.run_task == task)
    ]
    for at in np.flatnonzero(run.running == task):
        begin = int(run.workload.pods[run.running[:at]].sum())
        nodes = run.running_nodes[begin : begin + run.workload.pods[task]]
        runs.append(f"{run.running_since_s[at]}--1:run:" + "|".join(map(str, nodes)))
    return {
        "first_start": str(run.first_start_s[task]),
        "finish": str(run.finish_s[task]),
        "evictions": str(run.evictions[task]),
        "wait": str(run.wait_s[task]),
        "wasted": str(run.wasted_milli_s[task]),
        "runs": ";".join(runs),
    }


def quota_row(run, tick):
    """Return the columns of a tick as the golden table writes them."""
    return {
        "t": str(run.tick_s[tick]),
        "f_gpus": f"{run.lendable_gpus[tick]:.9f}",
        "e": f"{run.eviction_rate[tick]:.9f}",
        "longest_wait": str(run.longest_wait_s[tick]),
        "eta": f"{run.eta[tick]:.12f}",
        "quota_milli": str(run.quota_milli[tick]),
        "spot_used_milli": str(run.spot_milli[tick]),
        "idle_milli": str(run.idle_milli[tick]),
    }


def main(paths: list[str]) -> int:
    """Print the differences of all files; returns the exit code."""
    return check_files(paths, differences, __doc__.splitlines()[0])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
