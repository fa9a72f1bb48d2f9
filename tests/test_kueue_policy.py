"""The policy ``kueue``: queues of a site, hand-worked replays, laws, and the commands."""

import json
from itertools import accumulate

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_kueue import (
    ANYONE,
    cluster_queue,
    local_queue,
    write_list,
    write_yaml,
)
from support_traces import write_trace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.trace.selection import Selection
from gpuplan.planner.registry import find_policy
from gpuplan.planner.runs.trace_jobs import COLUMNS, OF_QUEUES, jobs_of

pytestmark = pytest.mark.compiled
TWO = [
    cluster_queue("a-cq", 8, preemption=ANYONE),
    cluster_queue("b-cq", 4, preemption=ANYONE),
    local_queue("team-a", "a-cq"),
    local_queue("team-b", "b-cq"),
]


def jobs_in(tmp_path, rows, **columns):
    """Jobs of (submission, duration, GPUs, group)."""
    submit, duration, gpus, group = (list(column) for column in zip(*rows, strict=True))
    path = write_trace(tmp_path / "t.parquet", submit, [float(s) for s in duration],
                       [float(g) for g in gpus], group=group, **columns)  # fmt: skip
    names = [*COLUMNS, *(name for name in OF_QUEUES if name in pl.read_parquet(path).columns)]
    trace = read_trace(path, Selection(), columns=sorted({*names, "gpu_type", "num_workers"}))
    return jobs_of(trace, np.random.default_rng(0), queues=True)


def run(policy, jobs, **values):
    return find_policy(policy).run(jobs, values, np.random.default_rng(0))


def rows_of(result):
    return result.frame.sort("job_id").select("start_s", "finish_s", "preemptions").rows()


def test_a_queue_borrows_and_gives_back(tmp_path):
    # 8 + 4 GPUs. Job 0 of b takes 12, 8 of them borrowed. Job 1 of a wants its 8 back at 100: job 0
    # is evicted, holds on for 30 s, and begins anew at 230, when job 1 has run its 100 s.
    site = write_list(tmp_path / "s.json", TWO)
    jobs = jobs_in(tmp_path, [(0, 1000, 12, "team-b"), (100, 100, 8, "team-a")])
    result = run("kueue", jobs, site=str(site))
    assert rows_of(result) == [(0, 1230, 1), (130, 230, 0)]
    assert result.run.held_us.tolist() == [1130e6, 100e6]  # 100 + 30 of grace, and 1000
    assert result.run.waited_us.tolist() == [100e6, 30e6]
    usage = result.run.usage
    assert usage.time_us.tolist() == [0, 100e6, 130e6, 230e6, 1230e6]
    assert usage.used.tolist() == [12, 12, 8, 12, 0]
    assert usage.waiting.tolist() == [0, 1, 1, 0, 0]
    assert result.gpus == 12 and result.results["preemptions"] == 1
    kept = run("kueue", jobs, site=str(site), checkpoint_every_s=50.0)
    assert rows_of(kept)[0] == (0, 230 + 900, 1)  # two checkpoints in 100 s


def test_a_trace_in_fractions_of_a_second_starts_on_whole_ones(tmp_path):
    site = write_list(tmp_path / "s.json", TWO)
    jobs = jobs_in(tmp_path, [(0, 10.5, 8, "team-a"), (0.25, 1.25, 8, "team-a")])
    assert rows_of(run("kueue", jobs, site=str(site))) == [(0, 10.5, 0), (11, 12.25, 0)]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("group", ["team-a", "team-b"]),  # namespaces
        ("group", ["a-cq", "b-cq"]),
        ("user", ["team-a/main", "team-b/main"]),
    ],
)
def test_queues_are_found_by_any_name(column, values, tmp_path):
    site = write_list(tmp_path / "s.json", TWO)
    rows = [(0, 10, 1, "x"), (1, 10, 1, "x")]
    columns = {} if column == "group" else {column: values}
    if column == "group":
        rows = [(*row[:3], value) for row, value in zip(rows, values, strict=True)]
    result = run("kueue", jobs_in(tmp_path, rows, **columns), site=str(site))
    assert result.frame["queue"].to_list() == ["a-cq", "b-cq"]
    assert f"queues are those that the column {column} names" in result.warnings


def test_a_job_of_no_queue_is_named(tmp_path):
    site = write_list(tmp_path / "s.json", TWO)
    jobs = jobs_in(tmp_path, [(0, 10, 1, "team-a"), (1, 10, 1, "team-x")])
    with pytest.raises(
        UsageError, match=r"1 job of no queue of the site, such as job 1 \(group 'team-x'\)"
    ):
        run("kueue", jobs, site=str(site))
    only = write_list(tmp_path / "one.json", TWO[:1])
    assert "all jobs wait in the only queue of the site" in run(
        "kueue", jobs, site=str(only)
    ).warnings  # fmt: skip


def test_gpu_types_choose_flavors(tmp_path):
    site = write_list(tmp_path / "s.json", [cluster_queue("q", flavors={"h100": 8, "a100": 8})])
    rows = [(0, 10, 8, "x"), (0, 10, 8, "x")]
    both_a = jobs_in(tmp_path, rows, gpu_type=["A100", "A100"])
    assert rows_of(run("kueue", both_a, site=str(site))) == [(0, 10, 0), (10, 20, 0)]
    assert rows_of(run("kueue", both_a, site=str(site), flavor="any"))[1] == (0, 10, 0)
    strange = run("kueue", jobs_in(tmp_path, rows, gpu_type=["T4", "T4"]), site=str(site))
    assert "2 jobs of T4 may run on any flavor: none is of that GPU type" in strange.warnings


def test_a_loop_of_evictions_is_told(tmp_path):
    # Golden r6 with three queues and plain settings: 59 evictions in 30 minutes.
    queues = [
        cluster_queue("q1", 16, preemption=ANYONE),
        cluster_queue("q2", 8, limit=16, preemption=ANYONE),
        cluster_queue("q3", 8, preemption=ANYONE),
    ]
    rows = [(0, 1800, 14, "q1"), (1, 1800, 4, "q2"), (2, 1800, 6, "q3"), (10, 900, 1, "q3"),
            (20, 300, 8, "q2"), (30, 300, 8, "q3")]  # fmt: skip
    jobs = jobs_in(tmp_path, rows, recorded_priority=[200, 200, 200, 0, 100, 100])
    result = run("kueue", jobs, site=str(write_list(tmp_path / "s.json", queues)))
    told = next(text for text in result.warnings if "loop of evictions" in text)
    assert "2 jobs of q2, q3 evicted more than 3 times, job 3 30 times" in told
    assert result.run.stops.sum() == 59


@st.composite
def traces(draw):
    rows = draw(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 40), st.integers(1, 8)),
                         min_size=1, max_size=25))  # fmt: skip
    submit = accumulate(row[0] for row in rows)
    return [(s, row[1], row[2], "x") for s, row in zip(submit, rows, strict=True)]


@settings(max_examples=40, deadline=None)
@given(traces(), st.sampled_from([("StrictFIFO", "fifo"), ("BestEffortFIFO", "first-fit")]))
def test_one_queue_without_preemption_is_fifo_or_first_fit(tmp_path_factory, rows, pair):
    folder = tmp_path_factory.mktemp("one")
    site = write_list(folder / "s.json", [cluster_queue("q", 8, None, queueingStrategy=pair[0])])
    jobs = jobs_in(folder, rows)
    kueue, plain = run("kueue", jobs, site=str(site)), run(pair[1], jobs, gpus=8)
    assert kueue.run.start_us.tolist() == plain.run.start_us.tolist()
    assert kueue.run.finish_us.tolist() == plain.run.finish_us.tolist()
    assert np.array_equal(kueue.run.usage.used.max(), plain.run.usage.used.max())


@settings(max_examples=25, deadline=None)
@given(traces(), st.data())
def test_gpus_and_work_are_kept(tmp_path_factory, rows, data):
    groups = [data.draw(st.sampled_from(["team-a", "team-b"])) for _ in rows]
    rows = [(*row[:3], group) for row, group in zip(rows, groups, strict=True)]
    folder = tmp_path_factory.mktemp("two")
    result = run("kueue", jobs_in(folder, rows), site=str(write_list(folder / "s.json", TWO)))
    run_ = result.run
    assert run_.usage.used.max() <= 12 and run_.usage.used[-1] == 0
    assert (run_.held_us >= result.jobs.workload.service_us).all()
    assert (run_.held_us == result.jobs.workload.service_us)[run_.stops == 0].all()
    assert (run_.waited_us >= 0).all() and (run_.start_us >= run_.submit_us).all()
    used = float((np.diff(run_.usage.time_us) * run_.usage.used[:-1]).sum())
    assert used == pytest.approx(float(run_.held_gpu_us.sum()))


def many(path):
    """A trace of two teams, and one job that no quota holds."""
    rng = np.random.default_rng(3)
    n = 60
    gpus = [*rng.integers(1, 9, n - 1), 13]
    group = [*rng.choice(["team-a", "team-b"], n - 1), "team-b"]
    submit = np.cumsum(rng.exponential(300, n)).round()
    return write_trace(path, submit, rng.exponential(2000, n).round() + 1,
                       [float(g) for g in gpus], group=group)  # fmt: skip


def test_compare_gives_all_policies_the_same_gpus_and_jobs(gpuplan, tmp_path):
    site = write_yaml(tmp_path / "s.yaml", TWO)
    trace = many(tmp_path / "t.parquet")
    code, out, err = gpuplan(
        "compare", trace, "--policy", "kueue", "--policy", "first-fit", "--site", site,
        "--output-format", "json",
    )  # fmt: skip
    assert code == 0, err
    document = json.loads(out)
    rows = document["results"]["policies"]
    assert [(row["policy"], row["gpus"], row["jobs"]) for row in rows] == [
        ("kueue", 12, 59), ("first-fit", 12, 59)
    ]  # fmt: skip
    assert "1 job left out that can never fit" in err
    assert document["parameters"]["policies"][0]["settings"]["site"] == str(site)


def test_without_a_site_the_next_step_is_told(gpuplan, tmp_path):
    trace = many(tmp_path / "t.parquet")
    code, _, err = gpuplan("simulate", trace, "--policy", "kueue")
    assert code == 2 and "kueue replays the queues of a site, and none is given" in err
    assert "next: --site FILE; kubectl get" in err
    code, _, err = gpuplan("simulate", trace, "--policy", "fifo", "--site", write_list(
        tmp_path / "s.json", TWO))  # fmt: skip
    assert code == 2 and "does not apply to fifo" in err
    code, _, err = gpuplan("simulate", trace, "--policy", "kueue", "--site", tmp_path / "none.json")
    assert code == 3 and "none.json" in err


def kai_queue(name, parent=None, **gpu):
    spec = {"resources": {"gpu": gpu}, **({"parentQueue": parent} if parent else {})}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name},
            "spec": spec}  # fmt: skip


def node(name, gpus):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}}}  # fmt: skip


KAI = [
    kai_queue("top", quota=-1),
    kai_queue("team-a", "top", quota=8, limit=16),
    kai_queue("team-b", "top", quota=4),
    node("n1", 8), node("n2", 4),
]  # fmt: skip


def test_kai_lends_what_is_idle_and_reclaims_it(tmp_path):
    # 12 GPUs on nodes of 8 and 4. b may hold more than its 4 while nobody wants them: 8. At 100 a
    # wants 8: b is evicted, and holds on for 30 s.
    site = write_list(tmp_path / "kai.json", KAI)
    jobs = jobs_in(tmp_path, [(0, 1000, 8, "team-b"), (100, 100, 8, "team-a")])
    result = run("kai", jobs, site=str(site))
    rows = rows_of(result)
    assert result.gpus == 12 and rows[0][2] == 1 and rows[1] == (130, 230, 0)
    assert rows[0] == (0, 1230, 1)
    assert result.run.held_us.tolist() == [1130e6, 100e6]
    assert result.run.usage.waiting.tolist()[-1] == 0 and result.run.usage.used.max() == 8
    fixed = jobs_in(tmp_path, [(0, 1000, 4, "team-b"), (100, 100, 8, "team-a")],
                    recorded_priority=[100, 50])  # fmt: skip
    assert rows_of(run("kai", fixed, site=str(site)))[0] == (0, 1000, 0)  # never evicted


@pytest.mark.parametrize(
    ("priority", "preemptible", "evictions"),
    [(50, False, 0), (50, None, 1), (100, True, 1), (100, None, 0), (100, False, 0)],
)
def test_kai_evicts_no_job_that_says_so_whatever_its_priority(
    tmp_path, priority, preemptible, evictions
):
    queues = [kai_queue("team-b", quota=4, limit=4), node("n1", 4)]
    site = write_list(tmp_path / "kai.json", queues)
    told = pl.Series([preemptible, None], dtype=pl.Boolean)
    rows = [(0, 1000, 4, "team-b"), (100, 100, 4, "team-b")]
    jobs = jobs_in(tmp_path, rows, recorded_priority=[priority, priority + 20], preemptible=told)
    assert rows_of(run("kai", jobs, site=str(site)))[0][2] == evictions


def test_queues_of_one_scheduler_serve_the_other(tmp_path):
    of_kai, of_kueue = (
        str(write_list(tmp_path / f"{i}.json", objects)) for i, objects in enumerate((KAI, TWO))
    )
    rows = [(0, 1000, 12, "team-b"), (100, 100, 8, "team-a")]
    jobs = jobs_in(tmp_path, rows)
    kueue = run("kueue", jobs, site=of_kai)
    assert rows_of(kueue) == [(0, 1230, 1), (130, 230, 0)]
    assert any("queues of Kueue are made of those of KAI" in text for text in kueue.warnings)
    kai = run("kai", jobs_in(tmp_path, [(0, 1000, 8, "team-b"), (100, 100, 8, "team-a")]),
              site=of_kueue)  # fmt: skip
    assert kai.gpus == 12 and rows_of(kai)[0][2] == 1
    assert any("assumed to stand in nodes of 8" in text for text in kai.warnings)


@settings(max_examples=20, deadline=None)
@given(traces(), st.data())
def test_kai_keeps_gpus_and_work(tmp_path_factory, rows, data):
    groups = [data.draw(st.sampled_from(["team-a", "team-b"])) for _ in rows]
    rows = [(*row[:3], group) for row, group in zip(rows, groups, strict=True)]
    folder = tmp_path_factory.mktemp("kai")
    result = run("kai", jobs_in(folder, rows), site=str(write_list(folder / "s.json", KAI)))
    run_ = result.run
    assert run_.usage.used.max() <= 12 and run_.usage.used[-1] == 0
    assert run_.usage.waiting.min() >= 0 and run_.usage.waiting[-1] == 0
    assert (run_.held_us >= result.jobs.workload.service_us).all()
    assert (run_.waited_us >= 0).all() and (run_.start_us >= run_.submit_us).all()


def test_kai_leaves_out_what_never_fits(gpuplan, tmp_path):
    site = write_list(tmp_path / "kai.json", [*KAI, kai_queue("team-c", "top", quota=2, limit=2)])
    trace = write_trace(tmp_path / "t.parquet", [0, 1, 2], [5.0] * 3, [2.0, 3.0, 8.0],
                        group=["team-c", "team-c", "team-a"])  # fmt: skip
    code, out, err = gpuplan("simulate", trace, "--policy", "kai", "--site", site,
                             "--output-format", "json")  # fmt: skip
    assert code == 0 and json.loads(out)["results"]["jobs"] == 2, err
    assert "1 job left out that can never fit: 1 (3 GPUs)" in err
