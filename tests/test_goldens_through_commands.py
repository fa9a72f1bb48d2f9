"""What commands say of the golden workloads is what the golden results say.

Elsewhere the functions are held against the same files; here a log goes through ``ingest`` and a
command, as a user has it.
"""

import csv
import gzip
import json
from datetime import UTC, datetime

import polars as pl
import pytest

START_S = 1_767_225_600  # 2026-01-01, a full hour


def said(gpuplan, *words):
    """Return the results of a command as JSON has them."""
    code, out, err = gpuplan(*words, "--output-format=json")
    assert code == 0, err
    return json.loads(out)["results"]


def ingested(gpuplan, folder, columns, rows):
    """Write a log, map its columns to canonical ones of the same name, and return the trace."""
    log, trace = folder / "log.csv", folder / "t.parquet"
    with log.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    words = [word for name in columns for word in ("--map", f"{name}={name}")]
    code, _, err = gpuplan("ingest", log, "-o", trace, *words)
    assert code == 0, err
    return trace


FFT = ("w1_two_types_four", "w2_three_types_mixed", "w3_total")


@pytest.mark.parametrize(
    "name", [FFT[0], *(pytest.param(n, marks=pytest.mark.slow) for n in FFT[1:])]
)
def test_every_job_under_fft_takes_as_long(gpuplan, shared, tmp_path, name):
    golden = json.loads((shared / f"golden/fft/{name}.json").read_text())
    round_s, each, cross = golden["round_s"], golden["gpus_per_host"], golden["cross_host"]
    types = ("T4", "A10", "V100")[: len(golden["gpus"])]
    # The first job is over before any other may run: it puts the rounds where the golden ones are.
    log = [("first", START_S, 1, 1.0, "first", types[0])]
    rates = [("first", kind, 1, 1 / round_s, 1, 0, "data") for kind in types]
    for job in golden["jobs"]:
        speeds = dict(zip(types, job["theta"], strict=True))
        fastest = max(types, key=speeds.__getitem__)
        work_s = job["W"] * round_s / speeds[fastest]
        log.append((job["id"], START_S + job["submit"], job["d"], work_s, job["id"], fastest))
        kind = "pipeline" if job["kind"] == "pipeline" else "data"
        factor = cross[kind] if isinstance(cross, dict) else cross
        rates += [
            (job["id"], of, job["d"], speed / round_s, factor, job["state_gb"], kind)
            for of, speed in speeds.items()
            if speed
        ]
    columns = ("job_id", "submit_time", "num_gpus", "duration_s", "job_class", "gpu_type")
    trace = ingested(gpuplan, tmp_path, columns, log)
    table, jobs = tmp_path / "rates.csv", tmp_path / "jobs.parquet"
    head = ("job_class", "gpu_type", "gpus", "rate", "cross_host", "state_gb", "parallelism")
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rates])
    cluster = ",".join(
        f"{kind}={gpus // each}x{each}" if each else f"{kind}={gpus}"
        for kind, gpus in zip(types, golden["gpus"], strict=True)
    )
    rules = {"phi": golden["fft"]["phi"], "work_unit": "given", "exact": "true",
             "restart_s": golden["restart_s"], "gbps": golden["gbps"],
             "fairness_weight": golden["fft"].get("rho_w", 1)}  # fmt: skip
    results = said(
        gpuplan, "simulate", trace, "--policy=fft", f"--cluster={cluster}",
        f"--throughputs={table}", f"--round={round_s}s", "-o", jobs,
        *(f"--set={key}={value}" for key, value in rules.items()),
    )  # fmt: skip
    found = {row["job_id"]: row for row in pl.read_parquet(jobs).iter_rows(named=True)}
    assert len(found) == 1 + len(golden["jobs"])
    for job in golden["jobs"]:
        ours = found[str(job["id"])]
        assert ours["jct_s"] == pytest.approx(job["jct"], abs=1e-3)
        assert (ours["switches"], ours["migrations"]) == (job["switches"], job["type_changes"])
        assert ours["ftf"] == pytest.approx(job["jct"] / job["fair_time"], rel=1e-6)
    measured = golden["metrics"]
    assert (results["switches"], results["migrations"]) == (measured["switches"], measured["migs"])
    assert results["upward_share"] == pytest.approx(measured["up"])
    assert results["lost_gpu_h"] == pytest.approx(measured["lost_gpu_h"], rel=1e-6)


LENDING = {
    "yarn-cs": "yarn-cs", "lyra": "lyra", "fgd": "fgd", "chronus": "chronus",
    "static": "static-quota", "first-fit": "spot-first-fit",
}  # fmt: skip
"""Policy of the golden results -> its name here; GFS itself has a forecast of its own."""
OF_LENDING = {
    "hp_jct": ("hp", "mean_jct_s"), "hp_p99": ("hp", "p99_jct_s"), "hp_jqt": ("hp", "mean_jqt_s"),
    "hp_unfinished": ("hp", "unfinished"), "spot_unfinished": ("spot", "unfinished"),
    "spot_jct": ("spot", "mean_jct_s"), "spot_p99": ("spot", "p99_jct_s"),
    "spot_jqt": ("spot", "mean_jqt_s"), "spot_evictions": ("evictions",),
    "spot_runs": ("spot_runs",), "spot_e": ("eviction_rate",),
    "spot_guarantee": ("guarantee_success_share",), "spot_wasted_gpu_h": ("wasted_gpu_h",),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "g1_tiny",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("g2_fractions", "g3_gangs")),
    ],
)
def test_policies_that_lend_have_the_golden_waits_and_evictions(gpuplan, shared, tmp_path, name):
    golden = json.loads((shared / f"golden/gfs/{name}.json").read_text())
    rows = [
        (
            *(task["id"], datetime.fromtimestamp(START_S + task["submit"], UTC).isoformat()),
            *(task["g_milli"] * task["pods"] / 1000, task["pods"], task["duration"]),
            "hp" if task["hp"] else "spot",
        )
        for task in golden["tasks"]
    ]
    columns = ("job_id", "submit_time", "num_gpus", "num_workers", "duration_s", "priority")
    trace = ingested(gpuplan, tmp_path, columns, rows)
    nodes = golden["pools"]["A100"]
    policies = [f"--policy={policy}" for policy in LENDING.values()]
    results = said(gpuplan, "compare", trace, f"--cluster={len(nodes)}x{nodes[0]}", *policies)
    found = {row["policy"]: row for row in results["policies"]}
    summary = csv.DictReader((shared / "golden/gfs/summary.csv").read_text().splitlines())
    wanted = [row for row in summary if row["workload"] == name and row["policy"] in LENDING]
    assert len(wanted) == len(LENDING)
    for row in wanted:
        for column, path in OF_LENDING.items():
            value = found[LENDING[row["policy"]]]
            for key in path:
                value = value[key]
            assert value == pytest.approx(float(row[column]), abs=1e-5), (row["policy"], column)


@pytest.mark.parametrize("policy", ["fifo", "easy", "conservative"])
def test_a_pool_starts_every_job_when_the_golden_schedule_does(gpuplan, shared, tmp_path, policy):
    folder = shared / "golden/twin"
    jobs = list(csv.DictReader((folder / "w1_pool_jobs.csv").read_text().splitlines()))
    lines = ["; UnixStartTime: 1767225600"]
    for job in jobs:
        fields = ["-1"] * 18
        gpus = str(int(job["nodes"]) * int(job["gpus"]))
        fields[:5] = [job["id"], job["submit"], "0", job["runtime"], gpus]
        fields[7], fields[8], fields[10], fields[11] = gpus, job["limit"], "1", "1"
        lines.append(" ".join(fields))
    log, trace, out = (tmp_path / name for name in ("log.swf", "t.parquet", "jobs.parquet"))
    log.write_text("\n".join(lines) + "\n")
    assert gpuplan("ingest", log, "-o", trace)[0] == 0
    assert gpuplan("simulate", trace, f"--policy={policy}", "--cluster=1x8", "-o", out)[0] == 0
    waits = dict(pl.read_parquet(out).select("job_id", "jqt_s").iter_rows())
    with gzip.open(folder / "w1_pool_starts.csv.gz", "rt") as file:
        starts = {
            row["id"]: int(row["start"]) for row in csv.DictReader(file) if row["policy"] == policy
        }
    assert waits == {job["id"]: starts[job["id"]] - int(job["submit"]) for job in jobs}


def test_pareto_has_the_golden_frontier_of_newtrace(gpuplan, shared, tmp_path):
    trace = tmp_path / "t.parquet"
    source = shared / "data/sia-workloads/newtrace/workload-1.csv"
    assert gpuplan("ingest", source, "-o", trace)[0] == 0
    rows = pl.read_csv(shared / "golden/boa/boa_reference.csv").filter(
        (pl.col("workload") == "newtrace-1") & (pl.col("level") == "class") & pl.col("calibrated"),
        (pl.col("curve") == "speedup") & (pl.col("mult") > 1),
    )
    budgets = ",".join(f"{times:g}x" for times in rows["mult"].to_list())
    results = said(
        gpuplan, "pareto", trace, "--speedup=profile:t4", "--horizon=48h", "--rescale=0",
        f"--budget={budgets}", "--no-replay",
    )  # fmt: skip
    found = {point["requested"]: point for point in results["points"] if point["requested"]}
    assert rows.height >= 5
    for row in rows.iter_rows(named=True):
        point = found[f"{row['mult']:g}x"]
        assert results["min_budget_gpus"] == pytest.approx(row["min_budget"], rel=1e-6)
        assert point["mean_jct_s"] == pytest.approx(row["avg_jct_s"], rel=1e-5)
        assert point["rounded_mean_jct_s"] == pytest.approx(3600 * row["int_jct_h"], rel=1e-5)
        assert point["rounded_used_gpus"] == pytest.approx(row["int_cost"], rel=1e-5)
