"""Waste of sites whose truth is known: generated series of nodes, and the users of sitelab."""

import csv
from collections import Counter
from itertools import pairwise
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
IDLE_COLUMNS = ("idle_gpu_h", "idle_ends_gpu_h", "partly_idle_gpu_h")


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
    for name, *idle in kinds.select("job_id", *IDLE_COLUMNS).iter_rows():
        told[users[name]] += sum(idle)
    for user, hours in true_of_user.items():
        assert told[user] == pytest.approx(hours, rel=0.05, abs=1)
    # Users whose hours differ by more than the samples can blur are in order.
    order = [user for user, _ in told.most_common()]
    for higher, lower in pairwise(order):
        assert true_of_user[higher] > true_of_user[lower] * 0.97


@pytest.mark.parametrize("seed", range(6))
def test_nobody_is_blamed_for_idle_gpus_of_others_on_a_shared_node(tmp_path, seed):
    """Jobs of one GPU each on a node of 4, a fifth of which never use theirs."""
    rng = Random(100 + seed)
    rows, parts, true = [], [], {}
    for gpu in range(GPUS):
        jobs = []
        for place, (begin, end, (work,)) in enumerate(node_jobs(rng, 1)):
            name, draw = f"{gpu}-{place}", rng.random()
            span = (begin, begin) if draw < 0.2 else (begin, end) if draw < 0.8 else work
            true[name] = (end - begin - (span[1] - span[0])) / HOUR
            rows.append((name, "n1", begin, end, 1.0))
            jobs.append((begin, end, [span]))
        points = samples_of(rng, jobs, 0, jobs[-1][1])
        parts.append(series(UTIL, "n1", gpu, [(at, 100 * value) for at, value in points]))
    path = tmp_path / "metrics.json"
    path.write_text(answer(*parts))
    log = trace(*rows)
    kinds = kinds_of_waste(log, read_metrics([path], log).jobs)
    told = dict(kinds.select("job_id", sum(map(pl.col, IDLE_COLUMNS))).iter_rows())
    assert {name: hours for name, hours in told.items() if hours > true[name] + 1} == {}
    ends_and_never = sum(hours for hours in true.values() if hours > LEAST_H)
    assert 0.9 * ends_and_never < sum(told.values()) < 1.01 * sum(true.values())
    assert kinds["unknown_gpu_h"].sum() < 0.05 * kinds["held_gpu_h"].sum()


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
