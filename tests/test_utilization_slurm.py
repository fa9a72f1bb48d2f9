"""Utilization in sacct: jobstats summaries, good and hostile, and what of it a trace keeps."""

import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_ingest import ingest_text
from support_jobstats import GIB, packed, summary
from support_sacct_json import sacct_json
from support_slurm import HEADER, log, notes, run

from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.job_table.schema import UTILIZATION_COLUMNS
from gpuplan.analysis.log_formats import slurm_utilization
from gpuplan.analysis.log_formats.jobstats import FREE_BYTES, MOST_BYTES, summaries
from gpuplan.analysis.log_formats.sacct_command import SACCT_FIELDS
from gpuplan.analysis.log_formats.slurm_json import flatten
from gpuplan.analysis.log_formats.slurm_steps import usage_of_steps
from gpuplan.analysis.log_formats.slurm_utilization import USAGE_FIELD, percent_of_usage
from gpuplan.analysis.reading import delimited, memo

WITH_COMMENT = HEADER + "|AdminComment"
UNKNOWN = dict.fromkeys(UTILIZATION_COLUMNS)


def jobs_of(folder, *comments, **cells):
    """Return the utilization of jobs with 4 GPUs, by their comments, and the notes."""
    rows = [{"JobID": str(i + 1), "AdminComment": c, **cells} for i, c in enumerate(comments)]
    jobs, result, rejects = ingest_text(folder, log(*rows, header=WITH_COMMENT))
    assert rejects is None and jobs.height == len(comments)
    return jobs.sort("job_id").select(*UTILIZATION_COLUMNS).rows(named=True), notes(result)


def test_a_summary_worked_by_hand(tmp_path):
    # 80 + 40 + 0 + 0 over 4 GPUs is 30%; 2 idle; 10 of 80 GiB each.
    jobs, told = jobs_of(tmp_path, summary([80.0, 40.0], [0, 0.0]))
    assert jobs == [{
        "gpu_util_mean": 30.0, "gpus_idle": 2.0, "gpu_util_coverage": 1.0,
        "gpu_mem_used_share": 0.125, "gpu_mem_used_gib": 10.0, "gpu_mem_total_gib": 80.0,
        "gpu_util_source": "jobstats",
    }]  # fmt: skip
    assert told == {"runs with a summary of jobstats (GPU utilization, in AdminComment)": "1"}


def test_memory_is_of_the_fullest_gpu(tmp_path):
    nodes = {"n": {
        "gpu_utilization": {"0": 50, "1": 50, "2": 1, "3": 1},
        "gpu_used_memory": {"3": 5 * GIB, "0": 35 * GIB, "1": 4 * GIB, "2": 90 * GIB},
        "gpu_total_memory": {"0": 40 * GIB, "1": 40 * GIB, "2": 40 * GIB, "3": None},
    }}  # fmt: skip
    ((job,), _) = jobs_of(tmp_path, packed(json.dumps({"nodes": nodes})))
    # GPU 2 uses more than it has and GPU 3 has no total: only 35 and 4 of 80 GiB are certain.
    assert job["gpu_mem_used_share"] == pytest.approx(39 / 80)
    assert (job["gpu_mem_used_gib"], job["gpu_mem_total_gib"]) == (35, 40)


GOOD = summary([50.0] * 4)
BOMB = packed(b" " * (MOST_BYTES * 50))


@pytest.mark.parametrize(
    ("comment", "note"),
    [
        ("JS1:Short", "runs that jobstats calls too short (utilization unknown)"),
        ("JS1:None", "runs without a summary of jobstats (utilization unknown)"),
        ("", None),
        ("see ticket 7; " + GOOD, None),
        (GOOD[: len(GOOD) // 2], "summaries of jobstats that cannot be read"),
        (GOOD[:-8], "summaries of jobstats that cannot be read"),
        ("JS1:" + GOOD[10:], "summaries of jobstats that cannot be read"),
        ("JS1:", "summaries of jobstats that cannot be read"),
        ("JS1:!!", "summaries of jobstats that cannot be read"),
        (packed("{}"), "summaries of jobstats that cannot be read"),
        (packed('{"nodes": [1]}'), "summaries of jobstats that cannot be read"),
        (packed(b"\xff\xfe"), "summaries of jobstats that cannot be read"),
        (packed('{"x": ' + "[" * 50_000), "summaries of jobstats that cannot be read"),
        (BOMB, "summaries of jobstats that are too large when unpacked"),
        (packed('{"nodes": {}}'), "summaries of jobstats without GPU counters"),
        (packed('{"nodes": {"n": {"cpus": 8}}}'), "summaries of jobstats without GPU counters"),
        (packed('{"nodes": {"n": {"gpu_utilization": {}}}}'), "summaries of jobstats without GPU"),
        (summary([137.0] * 4), "GPU counters of jobstats above 100% (unknown)"),
        (summary([-1.0] * 4), "summaries of jobstats without GPU counters"),
        (summary([0.0] * 5), "summaries of jobstats with more GPUs than the job held"),
    ],
)
def test_what_is_unknown_is_null_and_told(tmp_path, comment, note):
    jobs, told = jobs_of(tmp_path, GOOD, comment)
    assert jobs[0]["gpu_util_mean"] == 50.0 and jobs[1] == UNKNOWN
    others = [what for what in told if "GPU utilization, in AdminComment" not in what]
    assert (others == []) if note is None else any(what.startswith(note) for what in others)


def test_a_part_of_the_gpus_is_a_part(tmp_path):
    # One node of two is missing, then one counter of four: the rest is unknown, not idle.
    jobs, told = jobs_of(tmp_path, summary([0.0, 80.0]), summary([0.0, 80.0, None, 137.0]))
    for job in jobs:
        assert (job["gpu_util_mean"], job["gpus_idle"], job["gpu_util_coverage"]) == (40, 1, 0.5)
    fewer = "summaries of jobstats with fewer GPUs than the job held (the others are unknown)"
    assert told[fewer] == "2" and told["GPU counters of jobstats above 100% (unknown)"] == "1"


def test_a_gpu_with_memory_alone_is_unused(tmp_path):
    nodes = {"n": {"gpu_utilization": {"1": 8}, "gpu_used_memory": {"0": 1, "1": 1}}}
    ((job,), told) = jobs_of(
        tmp_path, packed(json.dumps({"nodes": nodes})), AllocTRES="gres/gpu=2,node=1"
    )
    assert (job["gpu_util_mean"], job["gpus_idle"]) == (4, 1)
    assert told["GPUs with memory but no utilization in jobstats, which counts as 0%"] == "1"


def test_json_has_the_same_summaries(tmp_path):
    names = list(SACCT_FIELDS)
    job = {
        **dict.fromkeys(names, ""), "JobID": "7", "State": "COMPLETED", "Timelimit": "04:00:00",
        "Submit": "2026-01-10T08:00:00", "Start": "2026-01-10T09:00:00", "ReqNodes": "1",
        "End": "2026-01-10T10:00:00", "ElapsedRaw": "3600", "NNodes": "1",
        "Priority": "1", "AllocTRES": "cpu=8,gres/gpu=4", "AdminComment": GOOD,
    }  # fmt: skip
    rows = [job, {**job, "JobID": "8", "AdminComment": "JS1:Short"}]
    text = "\n".join(["|".join(names), *("|".join(row[n] for n in names) for row in rows)]) + "\n"
    (of_text, *_), (of_json, *_) = (
        ingest_text(tmp_path, written, file)
        for written, file in ((text, "a.txt"), (sacct_json(text), "a.json"))
    )
    assert of_json.select(*UTILIZATION_COLUMNS).equals(of_text.select(*UTILIZATION_COLUMNS))
    assert of_json["gpu_util_mean"].to_list() == [50.0, None]


def test_a_log_without_comments_has_no_such_columns(tmp_path):
    jobs, *_ = ingest_text(tmp_path, log({}))
    assert not set(jobs.columns) & UTILIZATION_COLUMNS.keys()


def test_runs_of_a_job_are_weighted_by_gpu_hours(tmp_path):
    # 10 min without a figure, then 30 min at 80% with 1 of 4 GPUs idle: 3/4 is known.
    rows = [
        {**run(8, "NODE_FAIL"), "AdminComment": "JS1:None"},
        {**run(10, "COMPLETED", Elapsed="30:00", End="2026-01-10T10:35:00"),
         "AdminComment": summary([0.0, 80.0, 80.0, 80.0])},
    ]  # fmt: skip
    jobs, *_ = ingest_text(tmp_path, log(*rows, header=WITH_COMMENT))
    (job,) = jobs.rows(named=True)
    assert job["attempts"] == 2 and job["gpu_util_source"] == "jobstats"
    assert job["gpu_util_mean"] == 60 and job["gpu_util_coverage"] == pytest.approx(0.75)
    assert job["gpus_idle"] == pytest.approx(0.75)  # 1 GPU for 3/4 of the time
    assert job["gpu_mem_used_share"] == pytest.approx(0.125)


def test_the_second_pass_over_a_log_with_runs_reads_no_summary_again(tmp_path, monkeypatch):
    """Rows joined to a job take a second pass; one more row than is kept is read again in it."""
    read = []

    def counting(comments):
        read.append(len(comments))
        return summaries(comments)

    monkeypatch.setattr(slurm_utilization, "summaries", counting)
    rows = [
        {**run(8, "NODE_FAIL"), "AdminComment": "JS1:None"},
        {**run(10, "COMPLETED"), "AdminComment": summary([0.0, 80.0])},
    ]
    once, *_ = ingest_text(tmp_path, log(*rows, header=WITH_COMMENT))
    assert read == [2]
    monkeypatch.setattr(memo, "MOST_ROWS", 1)
    again, *_ = ingest_text(tmp_path, log(*rows, header=WITH_COMMENT))
    assert read == [2, 2, 2]
    assert once.equals(again)


def test_equal_batches_alone_are_not_computed_again():
    known = memo.ColumnMemo()
    texts = [["a", "b"], ["b", "a"], ["a", "b"], ["a", None], ["a"]]
    made = []

    def lengths(cells):
        made.append(cells.to_list())
        return cells.str.len_bytes()

    for cells in texts:
        column = pl.Series("column", cells)
        assert known.of(column, lengths).equals(column.str.len_bytes())
    assert made == [texts[0], texts[1], texts[3], texts[4]]


def test_numbers_may_be_texts_and_missing(tmp_path):
    text = (
        '{"nodes": {"n1": {"gpu_utilization": {"0": "50", "1": null, "2": 70}, '
        '"gpu_used_memory": null}}}'
    )
    (job,), _ = jobs_of(tmp_path, packed(text))
    assert (job["gpu_util_mean"], job["gpu_util_coverage"]) == (60, 0.5)


def test_components_of_a_job_add_up(tmp_path):
    rows = [
        {"JobID": "7+0", "AdminComment": summary([0.0] * 4)},
        {"JobID": "7+1", "AdminComment": summary([50.0] * 4)},
    ]
    jobs, *_ = ingest_text(tmp_path, log(*rows, header=WITH_COMMENT))
    (job,) = jobs.rows(named=True)
    assert (job["num_gpus"], job["gpus_idle"], job["gpu_util_mean"]) == (8, 4, 25)
    assert job["gpu_util_coverage"] == 1


@given(st.lists(st.lists(st.floats(0, 100), min_size=1, max_size=8), min_size=1, max_size=4))
def test_any_good_summary_is_read(nodes):
    gpus = [percent for node in nodes for percent in node]
    (read,) = summaries(pl.Series([summary(*nodes)])).to_list()
    assert (read["status"], read["listed"], read["known"]) == (0, len(gpus), len(gpus))
    assert read["idle"] == gpus.count(0.0)
    assert read["percent"] == pytest.approx(sum(gpus))


@given(st.binary(max_size=200) | st.text(max_size=80))
def test_nothing_inside_a_summary_stops_the_reading(inside):
    comments = pl.Series([packed(inside), f"JS1:{inside!r}", None, "", summary([1.0])])
    read = summaries(comments).to_list()
    assert len(read) == 5 and read[4]["status"] == 0 and read[2]["status"] is None


def test_a_large_job_is_no_bomb():
    # 1,000 nodes of 8 equal GPUs repeat themselves, and are far above the free size.
    text = summary(*[[50.0] * 8] * 1000)
    (read,) = summaries(pl.Series([text])).to_list()
    assert (read["status"], read["known"]) == (0, 8000)
    assert len(text) < FREE_BYTES < MOST_BYTES


def test_the_golden_summaries(shared, tmp_path):
    folder = shared / "golden/bill_util"
    if not folder.is_dir():
        pytest.skip("golden/bill_util is not here")
    jobs, *_ = ingest_text(tmp_path, (folder / "sacct_js1.txt").read_text())
    percent = dict(jobs.select("job_id", "gpu_util_mean").rows())
    for job in json.loads((folder / "expected.json").read_text())["js1"]:
        assert percent[job["job"]] == pytest.approx(job["util_mean"]), job


def test_the_columns_pass_through_traces_of_any_kind(tmp_path):
    jobs, *_ = ingest_text(tmp_path, log({"AdminComment": GOOD}, header=WITH_COMMENT))
    jobs.write_parquet(tmp_path / "plain.parquet")
    ingest([tmp_path / "trace.parquet"], tmp_path / "again.parquet")
    ingest([tmp_path / "plain.parquet"], tmp_path / "other.parquet")
    of_csv, *_ = ingest_text(tmp_path, jobs.select("job_id", "submit_time", "duration_s",
        "num_gpus", *UTILIZATION_COLUMNS).write_csv(), "jobs.csv")  # fmt: skip
    again, other = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("again", "other"))
    for frame in (again, other, of_csv):
        assert frame.select(*UTILIZATION_COLUMNS).equals(jobs.select(*UTILIZATION_COLUMNS))


def test_logs_with_and_without_comments_are_one_trace(tmp_path):
    (tmp_path / "a.txt").write_text(log({"JobID": "1"}))
    (tmp_path / "b.txt").write_text(log({"JobID": "2", "AdminComment": GOOD}, header=WITH_COMMENT))
    ingest([tmp_path / "a.txt", tmp_path / "b.txt"], tmp_path / "t.parquet")
    jobs = pl.read_parquet(tmp_path / "t.parquet").sort("job_id")
    assert jobs["gpu_util_mean"].to_list() == [None, 50.0]


# Steps

WITH_USAGE = HEADER + "|TRESUsageInAve"
A100 = "cpu=8,gres/gpu=2,gres/gpu:a100=2,node=1"


def steps_of(job, *steps, resources=A100):
    """Return the row of a job of 1,000 s and those of its steps: seconds and usage each."""
    rows = [{"JobID": job, "Elapsed": "16:40", "AllocTRES": resources, "TRESUsageInAve": "",
             "End": "2026-01-10T08:16:50"}]  # fmt: skip
    names = ["batch", *(str(number) for number in range(len(steps) - 1))]
    for name, (run_s, usage) in zip(names, steps, strict=False):
        elapsed = f"{run_s // 60:02}:{run_s % 60:02}"
        rows.append({**rows[0], "JobID": f"{job}.{name}", "Elapsed": elapsed,
                     "TRESUsageInAve": usage})  # fmt: skip
    return rows


def used(folder, *jobs):
    rows = [row for job in jobs for row in job]
    frame, result, rejects = ingest_text(folder, log(*rows, header=WITH_USAGE))
    assert rejects is None
    columns = ("job_id", "gpu_util_mean", "gpus_idle", "gpu_util_source")
    return frame.sort("job_id").select(columns).rows(), notes(result)


def test_steps_are_weighted_by_their_time(tmp_path):
    # 60 for 100 s and 160 for 900 s are 150 over 2 GPUs; extern has no figure.
    job = steps_of(
        "5", (100, "cpu=00:10:00,gres/gpumem=1000M,gres/gpuutil=60,mem=1G"),
        (900, "cpu=01:10:00,gres/gpuutil=160,mem=1G"), (1000, "cpu=00:00:00,mem=0"),
    )  # fmt: skip
    jobs, told = used(tmp_path, job, steps_of("6"))
    assert jobs == [("5", 75.0, None, "slurm steps"), ("6", None, None, None)]
    assert told["runs with GPU utilization of their steps (TRESUsageInAve)"] == "1"


@pytest.mark.parametrize(
    ("usage", "resources", "expected"),
    [
        ("gres/gpuutil=0", A100, (0.0, 2.0)),
        ("gres/gpuutil=0", "gres/gpu=2", None),
        ("gres/gpuutil=0,gres/gpumem=10M", "gres/gpu=2", (0.0, 2.0)),
        ("gres/gpuutil=0,gres/gpumem=0", "gres/gpu=2", None),
        ("gres/gpuutil=0,gres/gpumem=10M", "gres/gpu:a100_1g.5gb=2,gres/gpu=2", None),
        ("gres/gpuutil=0", "gres/gpu:gh200=2,gres/gpu=2", None),
        ("gres/gpuutil=0", "gres/gpu:mi300x=2,gres/gpu=2", None),
        ("gres/gpuutil=30", "gres/gpu:mi300x=2,gres/gpu=2", (15.0, None)),
        ("gres/gpuutil=30", "gres/gpu=1", (30.0, 0.0)),
        ("gres/gpuutil=201", A100, (100.0, None)),
        ("gres/gpuutil=250", A100, None),
        ("gres/gpuutil=18446744073709551614", A100, None),
        ("gres/gpuutil=", A100, None),
        ("gres/gpu=50,cpu=3", A100, None),
        ("gres/gpuutilization=50", A100, None),
    ],
)
def test_what_steps_may_say(tmp_path, usage, resources, expected):
    jobs, told = used(tmp_path, steps_of("5", (1000, usage), resources=resources))
    assert jobs[0][1:3] == (expected or (None, None))
    is_figure = "gpuutil=" in usage and not usage.endswith("=")
    odd = "runs whose steps have a GPU utilization that is no measurement (unknown)"
    assert (odd in told) == (is_figure and expected is None)


def test_steps_of_a_job_stay_with_it_where_blocks_end(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 700)
    many = [
        steps_of(str(100 + i), (500, "gres/gpuutil=100"), (500, "gres/gpuutil=50"))
        for i in range(40)
    ]
    jobs, _ = used(tmp_path, *many)
    assert [row[1] for row in jobs] == [37.5] * 40


def test_summaries_go_before_steps(tmp_path):
    header = HEADER + "|AdminComment|TRESUsageInAve"
    rows = [
        {"JobID": "1", "AdminComment": GOOD, "TRESUsageInAve": ""},
        {"JobID": "1.0", "AdminComment": "", "TRESUsageInAve": "gres/gpuutil=100"},
        {"JobID": "2", "AdminComment": "JS1:Short", "TRESUsageInAve": ""},
        {"JobID": "2.0", "AdminComment": "", "TRESUsageInAve": "gres/gpuutil=100"},
    ]
    jobs, *_ = ingest_text(tmp_path, log(*rows, header=header))
    assert jobs.select("gpu_util_mean", "gpu_util_source").rows() == [
        (50.0, "jobstats"), (25.0, "slurm steps"),
    ]  # fmt: skip


def test_steps_in_json(tmp_path):
    def step(run_s, *amounts):
        entries = [{"type": "gres", "name": name, "count": count} for name, count in amounts]
        return {"time": {"elapsed": run_s}, "tres": {"requested": {"average": entries}}}

    steps = [step(100, ("gpuutil", 60)), step(900, ("gpuutil", 160), ("gpumem", 7)), step(9), 7, {}]
    assert flatten({"job_id": 1, "steps": steps})["tresusageinave"] == (
        "gres/gpuutil=150.0,gres/gpumem=1"
    )
    huge = [step(10**400, ("gpuutil", 10**400))]
    assert flatten({"job_id": 1, "steps": huge})["tresusageinave"] == "gres/gpuutil=nan"
    for nothing in (None, [], {}, [step(9)], [{"tres": 1}], [{"tres": {"requested": []}}]):
        assert flatten({"job_id": 1, "steps": nothing})["tresusageinave"] is None


def test_the_golden_steps(shared):
    folder = shared / "golden/bill_util"
    if not folder.is_dir():
        pytest.skip("golden/bill_util is not here")
    cells = pl.read_csv(folder / "sacct_steps.txt", separator="|", infer_schema=False)
    cells = cells.rename(str.lower)
    jobs = usage_of_steps(cells, "jobid", "elapsedraw").with_columns(
        pl.col("tresusageinave").alias(USAGE_FIELD),
        held=pl.col("alloctres").str.extract(r"gres/gpu=(\d+)").cast(pl.Float64),
    )
    percent = percent_of_usage(pl.col("held"), pl.lit(None, pl.String))
    told = dict(jobs.select("jobid", percent).rows())
    for job in json.loads((folder / "expected.json").read_text())["steps"]:
        assert told[job["job"]] == job["util_mean"], job


@pytest.mark.parametrize(
    ("held", "is_known"),
    [
        ("n[1-2]", True), ("n2,n1", True), ("n[1-2].cluster", True), ("n[0-9]", True),
        ("None assigned", True), ("", True), ("n[2", True), ("n1", False), ("n[3-4]", False),
        ("m[1-2]", False),
    ],
)  # fmt: skip
def test_a_summary_of_other_nodes_is_unknown(tmp_path, held, is_known):
    row = {"AdminComment": summary([0.0, 0.0], [0.0, 0.0]), "NodeList": held}
    jobs, result, _ = ingest_text(tmp_path, log(row, header=WITH_COMMENT + "|NodeList"))
    assert jobs["gpu_util_mean"].to_list() == [0.0 if is_known else None]
    told = "summaries of jobstats of nodes that the job did not hold (utilization unknown)"
    assert (told in notes(result)) is not is_known


def test_names_of_nodes_may_be_anything(tmp_path):
    odd = packed(b'{"nodes": {"\\ud800,x": {"gpu_utilization": {"0": 5}}}}')
    row = {"AdminComment": odd, "NodeList": "n1"}
    jobs, *_ = ingest_text(tmp_path, log(row, header=WITH_COMMENT + "|NodeList"))
    assert jobs["gpu_util_mean"].to_list() == [None]
