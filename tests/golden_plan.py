"""Compare plans with golden programs: ``python tests/golden_plan.py FILE.json ...``.

Each file names its trace, beside it or in the data folder of the goldens, and what is asked. The
tolerances are those of the README beside the files. A file of a replay has jobs, and what became of
each. Prints the differences and exits with 1 where there are any.
"""

from __future__ import annotations

import json
import sys
from itertools import count

import numpy as np
from golden_files import check_files

from gpuplan.analysis.base.time_units import HOUR_S, MONTH_H
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.planner.plan.assignment import assigned_jobs
from gpuplan.planner.plan.columns import route_columns
from gpuplan.planner.plan.jobs import jobs_of_trace
from gpuplan.planner.plan.markets import GpuMarkets
from gpuplan.planner.plan.program import PlanLimits, cost_of, plan_program, rented_gpus
from gpuplan.planner.plan.purchase import purchase
from gpuplan.planner.plan.routes import SERVERLESS, SPOT, RouteSettings
from gpuplan.planner.speedup.functions import measured_curve
from gpuplan.planner.speedup.model import ClassProfile, SpeedupModel
from gpuplan.planner.speedup.registry import load_speedup
from gpuplan.simkit.plan.simulator import JointCluster, JointJobs, run_plan
from gpuplan.simkit.time import FOREVER, MICROS, to_micros


def trace_path(path, trace):
    """Return the file of a trace: beside the golden file, or in the data folder."""
    if not trace.startswith("gpuplan ingest "):
        return path.with_name(trace)
    return path.resolve().parents[2] / trace.split()[-1]


def of_type(prices, gpu_type):
    """Return the number of a GPU type, or that of every other type; None without one."""
    prices = prices or {}
    return prices.get(gpu_type, prices.get(""))


def markets_of(options, types):
    """Return what may be bought of each GPU type."""
    markets = {}
    for gpu_type in types:
        price = {
            name: of_type(options.get(name), gpu_type)
            for name in ("commit", "on_demand", "spot_price", "serverless", "owned", "cap", "node")
        }
        markets[gpu_type] = GpuMarkets(
            commit_usd={} if price["commit"] is None else {"": price["commit"]},
            on_demand_usd=price["on_demand"],
            spot_usd=price["spot_price"],
            serverless_usd=price["serverless"],
            owned=price["owned"] or 0.0,
            cap=price["cap"],
            node=price["node"],
        )
    return markets


def speedup_of(speedup):
    """Return a law, or the measured throughputs of each label."""
    if speedup is None or isinstance(speedup, str):
        return speedup and load_speedup(speedup)
    profiles = {}
    for label, throughputs in speedup.items():
        pairs = sorted((float(width), value) for width, value in throughputs.items())
        width, value = np.array(pairs).T
        profiles[label] = ClassProfile((measured_curve(width, value * width[0] / value[0]),))
    return SpeedupModel("table", "measured", profiles)


def planned(path, options, trace):
    """Return the jobs, the columns and the plan of a golden file."""
    jobs = jobs_of_trace(
        read_trace(trace_path(path, trace)),
        by=options.get("by"),
        spot=options.get("spot"),
        defer=options.get("defer"),
    )
    defaults = RouteSettings()
    columns = route_columns(
        jobs,
        markets_of(options, jobs.gpu_type.unique().to_list()),
        speedup=speedup_of(options.get("speedup")),
        settings=RouteSettings(
            rescale_s=options.get("rescale_s", defaults.rescale_s),
            max_width=options.get("max_width", defaults.max_width),
            hazard_per_s=options.get("hazard_per_h", 1 / 12) / HOUR_S,
        ),
        within_s=options.get("defer_within_s", 0.0),
    )
    target, budget = options.get("target"), options.get("budget")
    limits = PlanLimits(
        mean_time_s=columns.now_s if target == "now" else target,
        slower=options.get("slower", 1.1),
        spot_max=options.get("spot_max"),
        usd_per_h=None if budget is None else budget / MONTH_H,
    )
    return jobs, columns, purchase(plan_program(columns, limits))


class Comparison:
    """The differences of one file."""

    def __init__(self, name):
        self.name, self.lines = name, []

    def near(self, what, ours, theirs, relative, absolute=0.0):
        """Note a number that is not near the golden one."""
        if not abs(ours - theirs) <= relative * abs(theirs) + absolute:
            self.lines.append(f"{self.name}: {what}: expected {theirs!r}, got {ours!r}")

    def same(self, what, ours, theirs):
        """Note what is not the same."""
        if ours != theirs:
            self.lines.append(f"{self.name}: {what}: expected {theirs!r}, got {ours!r}")


def differences(path):
    """Return one line for each value of a golden file that differs."""
    golden = json.loads(path.read_text(encoding="utf-8"))
    options, results = golden["options"], golden["results"]
    jobs, columns, plan = planned(path, options, golden["trace"])
    look = Comparison(path.name)
    look.near("now_s", columns.now_s, results["now_s"], 1e-9)
    look.near("window_s", columns.bins.window_s, results["window_s"], 1e-9)
    counts = {
        "bins": columns.bins.count,
        "jobs": jobs.size,
        "left_out": jobs.left_out,
        "deferred_jobs": int(jobs.is_deferred.sum()),
    }
    for name, number in counts.items():
        look.same(name, number, results[name])
    names = [(c.label, c.gpu_type, c.width_bucket, c.jobs.size) for c in columns.classes]
    keys = ("name", "gpu_type", "width_bucket", "jobs")
    want = results["program"]["classes"]
    look.same("classes", names, [tuple(c[key] for key in keys) for c in want])
    routes = [[r["name"] for r in c["routes"]] for c in want]
    ours = [
        [route.name for route, at in zip(columns.routes, columns.class_of, strict=True) if at == i]
        for i in range(len(columns.classes))
    ]
    look.same("routes", ours, routes)
    if look.lines:
        return look.lines
    has_budget = options.get("budget") is not None
    for stage, answer in (("program", plan.exact), ("plan", plan.whole_nodes)):
        compare_stage(look, columns, plan.program, answer, stage, results[stage], has_budget)
    compare_committed(look, columns, plan, results)
    compare_prices(look, columns, plan, results["program"])
    compare_assigned(look, columns, plan, results)
    return look.lines


def compare_stage(look, columns, program, answer, stage, want, has_budget):
    """Compare the shares and the dollars of the program, before or after rounding."""
    usd = 1e-5 if has_budget else 1e-6
    look.near(f"{stage} usd_per_h", answer.usd_per_h, want["usd_per_h"], usd)
    look.near(f"{stage} usd_per_month", answer.usd_per_h * MONTH_H, want["usd_per_month"], usd)
    look.near(f"{stage} cost of its shares", cost_of(program, answer), want["usd_per_h"], usd)
    is_unique = all(route["unique"] for c in want["classes"] for route in c["routes"])
    if is_unique or has_budget:
        look.near(f"{stage} mean_time_s", answer.mean_time_s, want["mean_time_s"], 1e-6)
    at = count()
    for planned_class, golden_class in zip(columns.classes, want["classes"], strict=True):
        what = f"{stage} {planned_class.name}"
        look.near(f"{what} D_s", planned_class.recorded_s, golden_class["D_s"], 1e-9)
        for route, i in zip(golden_class["routes"], at, strict=False):
            here = f"{what} {route['name']}"
            look.near(f"{here} T", columns.time_s[i], route["mean_time_s"], 1e-9)
            for key, gpus in (("pool", columns.pool_gpus), ("outside", columns.outside_gpus)):
                mean = gpus[i].mean()
                look.near(f"{here} {key}", mean, route[f"{key}_mean_gpus"], 1e-9, 1e-6)
            if route["unique"]:
                look.near(f"{here} share", answer.share[i], route["share"], 0.0, 1e-5)
    rented = rented_gpus(program, answer)
    for number, gpu_type in enumerate(columns.types):
        of_type = [c for c in want["classes"] if c["gpu_type"] == gpu_type]
        if all(route["unique"] for c in of_type for route in c["routes"]):
            parts = parts_of(columns, answer, rented, number)
            for key, value in want["parts"][gpu_type].items():
                look.near(f"{stage} {gpu_type} {key}", parts[key], value, 1e-5, 1e-4)


def parts_of(columns, answer, rented, number):
    """Return dollars an hour and GPUs of a type by market, over bins."""
    market = columns.markets[number]
    parts = {
        "committed": (market.committed_usd or 0.0) * answer.committed[number],
        "on_demand": (market.on_demand_usd or 0.0) * rented[number].mean(),
        "on_demand_mean_gpus": rented[number].mean(),
        "on_demand_peak_gpus": rented[number].max(),
    }
    for kind in (SPOT, SERVERLESS):
        there = columns.of_kind(kind) & (columns.type_of == number)
        gpus = answer.share[there] * columns.outside_gpus[there].mean(axis=1)
        parts[f"{kind}_mean_gpus"] = gpus.sum()
        parts[kind] = (gpus * columns.outside_usd[there]).sum()
    return parts


def compare_committed(look, columns, plan, results):
    """Compare the GPUs to commit to, where both roundings do not cost the same."""
    program, want = plan.program, results["program"]
    for number, gpu_type in enumerate(columns.types):
        exact, whole = plan.exact.committed[number], plan.whole_nodes.committed[number]
        if want["K_unique"][gpu_type]:
            look.near(f"K {gpu_type}", exact, want["K"][gpu_type], 1e-4, 1e-6)
        golden = results["plan"]["K"][gpu_type]
        same_cost = (
            abs(cost_of(program, plan.whole_nodes) / results["plan"]["usd_per_h"] - 1) < 1e-6
        )
        if want["K_unique"][gpu_type] or not same_cost:
            look.same(f"K {gpu_type} in whole nodes", float(whole), float(golden))


def compare_prices(look, columns, plan, want):
    """Compare the hourly price of a GPU, and the dollars of a second."""
    for number, gpu_type in enumerate(columns.types):
        price, golden = plan.exact.price[number], want["price"][gpu_type]
        what = f"price {gpu_type}"
        look.near(what, price.mean(), golden["mean_usd_per_gpu_h"], 1e-6, 1e-9)
        for row in golden["bins"]:
            at = row["bin"]
            look.near(f"{what} in bin {at}", price[at], row["usd_per_gpu_h"], 1e-6, 1e-6)
    dual = want["usd_per_h_per_s_of_mean_time"]
    look.near("usd_per_h_per_s_of_mean_time", plan.exact.usd_per_h_per_s, dual, 1e-5, 1e-9)


def compare_assigned(look, columns, plan, results):
    """Compare the routes of the first jobs of the classes whose shares are unique."""
    assigned = assigned_jobs(columns, plan.whole_nodes.share)
    for planned_class, golden in zip(columns.classes, results["plan"]["classes"], strict=True):
        key = "|".join((planned_class.label, planned_class.gpu_type, planned_class.width_bucket))
        want = results["first_routes"].get(key)
        if want is None or not all(route["unique"] for route in golden["routes"]):
            continue
        first = assigned.column[planned_class.jobs[: len(want)]]
        look.same(f"first routes of {key}", [columns.routes[i].name for i in first], want)


def joint_jobs(golden):
    """Return the jobs of a replay; times of the file are seconds."""
    settings, rows = golden["settings"], golden["jobs"]
    table = {name: np.full(len(rows), -1) for name in ("pool_us", "due_us", "spot_us")}
    table |= {"outside_us": np.zeros(len(rows), np.int64), "tau_us": np.full(len(rows), FOREVER)}
    pool_gpus, losses = [], []
    for at, row in enumerate(rows):
        run_s, kind = row["d"], row["route"]
        leave_s = row.get("leave_s", 0.0) if kind == "serverless" else 0.0
        leave_s = float("inf") if leave_s is None else leave_s
        pool_gpus.append(float(row.get("to_gpus", row["g"])))
        losses.append(row.get("losses", []))
        if kind == "spot":
            table["spot_us"][at], table["tau_us"][at] = to_micros([run_s, row["tau_s"]])
        elif kind == "serverless" and run_s <= leave_s:
            table["outside_us"][at] = to_micros(run_s)
        elif kind == "serverless":
            table["outside_us"][at] = to_micros(leave_s + settings["checkpoint_s"])
            table["pool_us"][at] = to_micros(settings["restore_s"] + run_s - leave_s)
        else:
            table["pool_us"][at] = to_micros(row.get("run_s", run_s))
        if kind == "defer":
            table["due_us"][at] = to_micros(row["submit"] + row["within_s"])
    return JointJobs(
        submit_us=to_micros([row["submit"] for row in rows]),
        gpus=np.array([row["g"] for row in rows], float),
        pool_gpus=np.array(pool_gpus),
        loss_us=to_micros([time_s for of_job in losses for time_s in of_job]),
        first_loss=np.append(0, np.cumsum([len(of_job) for of_job in losses])),
        **table,
    )


def replay_differences(path, golden):
    """Return one line for each value of a replay that differs."""
    cluster, prices, want = golden["cluster"], golden["prices"], golden["results"]
    settings = golden["settings"]
    owned, committed = cluster.get("owned", 0.0), cluster.get("committed", 0.0)
    jobs = joint_jobs(golden)
    run = run_plan(
        jobs,
        JointCluster(
            fixed=owned + committed,
            most=cluster.get("cap"),
            provision_us=int(to_micros(cluster["provision_s"])),
            release_us=int(to_micros(cluster["release_s"])),
            billing_us=max(1, int(to_micros(cluster.get("billing_s", 0.0)))),
            checkpoint_us=int(to_micros(settings["ckpt_s"])),
            restart_us=int(to_micros(settings["restart_s"])),
        ),
    )
    look = Comparison(path.name)
    measured = {
        "start": run.start_us / MICROS,
        "end": run.finish_us / MICROS,
        "wait": run.waited_us / MICROS,
        "container_s": jobs.outside_us / MICROS,
        "spot_s": run.spot_held_us / MICROS,
        "checkpoints": run.checkpoints,
        "losses": run.stops,
    }
    for at, row in enumerate(golden["runs"]):
        for key, values in measured.items():
            look.near(f"job {row['id']} {key}", values[at], row[key], 1e-9, 1e-9)
    window_us = int(run.finish_us.max() - jobs.submit_us.min())
    outside, on_spot = run.gpu_us_outside(), jobs.spot_us >= 0
    used = {
        "committed": committed * window_us,
        "on_demand": float(run.billed_gpu_us()),
        "spot": float(outside[on_spot].sum()),
        "serverless": float(outside[~on_spot].sum()),
    }
    for name, gpu_h in want["gpu_hours"].items():
        hours = used[name] / MICROS / HOUR_S
        look.near(f"{name} GPU-hours", hours, gpu_h, 1e-9, 1e-9)
        look.near(f"{name} dollars", hours * prices[name], want["usd"][name], 1e-9, 1e-9)
    planned = jobs.due_us < 0
    wait_s, time_s = (values[planned] / MICROS for values in (run.waited_us, run.jct_us))
    look.near("window_s", window_us / MICROS, want["window_s"], 1e-9)
    look.near("mean_wait_s", wait_s.mean(), want["mean_wait_s"], 1e-9, 1e-9)
    look.near("mean_jct_s", time_s.mean(), want["mean_jct_s"], 1e-9)
    look.same("leases", int(run.rented.gpus.sum()), want["leases"])
    look.same("peak_leased", run.peak_leased, want["peak_leased"])
    return look.lines


def all_differences(path):
    """Return what differs in a file: of a program and its optimum, or of a replay."""
    golden = json.loads(path.read_text(encoding="utf-8"))
    return replay_differences(path, golden) if "runs" in golden else differences(path)


def main(paths):
    """Print the differences of all files; returns the exit code."""
    return check_files(paths, all_differences, __doc__.splitlines()[0])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
