"""Waste of sites whose truth is known: generated series of nodes, and the users of sitelab."""

import csv
from collections import Counter
from random import Random

import polars as pl
import pytest
from support_metrics import ENGINE, HOUR, UTIL, answer, series, trace
from support_sitelab import DUMPS, SITELAB
from support_waste import answer as waste_answer

from gpuplan.analysis.waste.kinds import kinds_of_waste
from gpuplan.analysis.waste.series import read_metrics

pytestmark = pytest.mark.compiled
STEP = 300
GPUS = 4
DAYS = 10
LEAST_H = 2.0


def work_of(rng, begin, end):
    """Return when a GPU works within a job, and what it is doing: at times none, or in part."""
    draw, length = rng.random(), end - begin
    if draw < 0.15:
        return (begin, begin)
    if draw < 0.30:
        return (begin, begin + rng.uniform(0.2, 0.8) * length)
    if draw < 0.40:
        return (begin + rng.uniform(0.2, 0.8) * length, end)
    return (begin, end)


def node_jobs(rng, gpus):
    """Return jobs on one node, one after another: begin, end, and when each GPU works."""
    jobs, at = [], rng.randrange(6 * HOUR)
    while at < DAYS * 24 * HOUR:
        end = at + int(min(rng.lognormvariate(9.8, 0.9), 2e5))
        jobs.append((at, end, [work_of(rng, at, end) for _ in range(gpus)]))
        at = end + rng.choice([60, 600, 3 * HOUR])
    return jobs


def samples_of(rng, jobs, gpu, last):
    """Return what an exporter tells of a GPU, with some scrapes missing, at odd seconds."""
    points, phase = [], rng.randrange(STEP)
    spans = [work[gpu] for _, _, work in jobs]
    for at in range(phase, last, STEP):
        if rng.random() < 0.03:
            continue
        is_used = any(begin <= at < end for begin, end in spans)
        points.append((at, round(rng.uniform(0.3, 0.95), 3) if is_used else 0.0))
    return points


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("metric", [ENGINE, UTIL])
def test_generated_idle_ends_and_unused_gpus_agree_with_the_truth(tmp_path, seed, metric):
    rng = Random(seed)
    rows, parts, users = [], [], {}
    true = Counter()
    true_of_user = Counter()
    for node in range(6):
        jobs = node_jobs(rng, GPUS)
        last = max(end for _, end, _ in jobs) + HOUR
        for place, (begin, end, work) in enumerate(jobs):
            name = f"n{node}-{place}"
            users[name] = f"user{rng.randrange(12)}"
            rows.append((name, f"n{node}", begin, end, float(GPUS)))
            for first, until in work:
                hours = (end - begin) / HOUR
                never = hours if until <= first else 0.0
                ends = 0.0 if never else sum(
                    idle for idle in ((first - begin) / HOUR, (end - until) / HOUR)
                    if idle > LEAST_H
                )  # fmt: skip
                true.update(never=never, ends=ends)
                true_of_user[users[name]] += never + ends
        for gpu in range(GPUS):
            factor = 1 if metric == ENGINE else 100
            points = [(at, factor * v) for at, v in samples_of(rng, jobs, gpu, last)]
            parts.append(series(metric, f"n{node}", gpu, points))
    path = tmp_path / "metrics.json"
    path.write_text(answer(*parts))
    log = trace(*rows)
    summary = read_metrics([path], log)
    kinds = kinds_of_waste(log, summary.jobs)
    assert summary.warnings == () and true["ends"] > 400 and true["never"] > 400
    assert kinds["idle_ends_gpu_h"].sum() == pytest.approx(true["ends"], rel=0.03)
    never = kinds["idle_gpu_h"].sum() + kinds["partly_idle_gpu_h"].sum()
    assert never == pytest.approx(true["never"], rel=0.01)
    told = Counter()
    for name, *idle in kinds.select(
        "job_id", "idle_gpu_h", "idle_ends_gpu_h", "partly_idle_gpu_h"
    ).iter_rows():
        told[users[name]] += sum(idle)
    for user, hours in true_of_user.items():
        assert told[user] == pytest.approx(hours, rel=0.05, abs=1)
    # Users whose hours differ by more than the samples can blur are in order.
    order = [user for user, _ in told.most_common()]
    for higher, lower in zip(order, order[1:], strict=False):
        assert true_of_user[higher] > true_of_user[lower] * 0.97


@pytest.mark.parametrize("seed", range(6))
def test_nobody_is_blamed_for_idle_gpus_of_others_on_a_shared_node(tmp_path, seed):
    """Jobs of 1 or 2 GPUs at a time on 4: workers have no idle hours, and idlers at most theirs."""
    rng = Random(100 + seed)
    rows, true, works = [], {}, {gpu: [] for gpu in range(GPUS)}
    for gpu in range(GPUS):
        for place, (begin, end, work) in enumerate(node_jobs(rng, 1)):
            name = f"g{gpu}-{place}"
            is_idler = rng.random() < 0.2
            span = (begin, begin) if is_idler else (begin, end) if rng.random() < 0.8 else work[0]
            true[name] = (end - begin) / HOUR - (span[1] - span[0]) / HOUR
            rows.append((name, "n1", begin, end, 1.0))
            works[gpu].append((begin, end, [span]))
    last = max(end for _, _, end, _ in ((r[0], r[1], r[3], r[4]) for r in rows))
    parts = [series(UTIL, "n1", gpu, [(at, 100 * v) for at, v in samples_of(rng, works[gpu], 0, last)])
             for gpu in range(GPUS)]  # fmt: skip
    path = tmp_path / "metrics.json"
    path.write_text(answer(*parts))
    log = trace(*rows)
    kinds = kinds_of_waste(log, read_metrics([path], log).jobs)
    idle = pl.col("idle_gpu_h") + pl.col("idle_ends_gpu_h") + pl.col("partly_idle_gpu_h")
    told = dict(kinds.select("job_id", idle).iter_rows())
    blamed = {name: (hours, true[name]) for name, hours in told.items() if hours > true[name] + 1}
    assert blamed == {}
    assert sum(told.values()) > 0


def test_ten_worst_users_of_the_site_are_in_order(gpuplan, tmp_path):
    """Idle hours of jobs without a summary, which no log tells, are added from the truth."""
    if not DUMPS.is_dir():
        pytest.skip("the site with known truth is not there: ../shared/data/sitelab")
    log, table = str(DUMPS / "sacct_jobstats.txt.gz"), tmp_path / "waste.parquet"
    words = ("--time-zone", "America/New_York", "--no-replay", "-o", str(table))
    users = waste_answer(gpuplan, log, *words)["users"]
    true = {row["user"]: row for row in truth_table("waste_users.csv")}
    for row in users:
        held = float(true[row["name"]]["gpu_hours_held"])
        assert row["gpu_h"] == pytest.approx(held, rel=0.01)
    jobs = pl.read_parquet(table)
    unseen = set(jobs.filter(pl.col("unknown_gpu_h") > 0)["job_id"])
    hours = {row["name"]: row["idle_gpu_h"] for row in users}
    for row in truth_table("waste.csv"):
        if row["job"] in unseen:
            hours[row["user"]] += float(row["gpu_hours_on_unused_gpus"])
    unused = {user: float(row["gpu_hours_on_unused_gpus"]) for user, row in true.items()}
    worst, truly = (sorted(each, key=each.get, reverse=True)[:10] for each in (hours, unused))
    assert worst == truly
    assert sum(hours.values()) == pytest.approx(sum(unused.values()), rel=0.01)


def truth_table(name):
    with (SITELAB / "truth" / name).open(newline="") as lines:
        return list(csv.DictReader(lines))
