"""Alibaba PAI: several tables become one trace; each value is worked out by hand."""

import random

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support_clusters import PAI_SAMPLE, PAI_TABLES
from support_ingest import ingest_text

from gpuplan.analysis.base.errors import GpuplanError, InputError
from gpuplan.analysis.ingest import side_tables
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.job_table.reject_limit import Limit
from gpuplan.analysis.reading import delimited

JOBS, TASKS, INSTANCES, TAGS = PAI_TABLES


def ingest_tables(folder, names=tuple(PAI_TABLES), change=None, **options):
    """Write tables and ingest them in the order given; returns (jobs, result, rejected rows)."""
    options.setdefault("limit", Limit.of("100%"))
    for name in names:
        text = {**PAI_TABLES, **(change or {})}[name]
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    paths = [folder / name for name in names]
    result = ingest(paths, folder / "trace.parquet", **options)
    rejects = None if result.rejects_file is None else pl.read_parquet(result.rejects_file)
    return pl.read_parquet(result.output), result, rejects


def test_four_tables_are_joined(tmp_path):
    jobs, result, rejects = ingest_tables(tmp_path)
    assert rejects is None
    assert jobs["job_id"].to_list() == ["j01", "j02", "j03", "j04", "j05"]
    starts = [1000095, 1000100, 1000200, 1000300, 1000400]
    assert jobs["submit_time"].dt.epoch("s").to_list() == starts
    # First instance start - first task start; j04 and j05 have no instance.
    assert jobs["queue_s"].to_list() == [22.0, 40.0, 50.0, None, None]
    # Last instance end - first instance start; j05: its own end - first task start.
    assert jobs["duration_s"].to_list() == [3570.0, 240.0, None, None, 490.0]
    assert jobs["num_gpus"].to_list() == [2.0, 8.0, 0.5, 1.0, 2.0]
    assert jobs["num_workers"].to_list() == [6, 1, 2, 1, 2]
    assert jobs["gpu_type"].to_list() == ["T4", "V100-32GB", "P100", "V100", None]
    assert jobs["job_class"].to_list() == ["bert", None, "ctr", None, None]
    assert jobs["user"].to_list() == ["ua", "ub", "ub", "uc", "uc"]
    states = ["completed", "failed", "running", "not_started", "completed"]
    assert jobs["state"].to_list() == states
    provenance = result.provenance
    assert (provenance.source_format, provenance.rows_read, provenance.relative_time) == (
        "pai",
        5,
        True,
    )
    assert any("Asia/Shanghai" in note for note in provenance.notes)
    counts = dict(note.rpartition(": ")[::2] for note in provenance.notes)
    assert counts["jobs without a start or an end (no duration)"] == "2"
    assert counts["jobs whose tasks ask for several GPU types (no type is kept)"] == "1"


def test_the_order_and_the_names_of_the_files_do_not_matter(tmp_path):
    one, result, _ = ingest_tables(tmp_path)
    assert [file.name.rpartition("/")[2] for file in result.provenance.sources][-1] == JOBS
    assert result.rows_by_source == (7, 6, 3, 5)
    again, _, _ = ingest_tables(tmp_path, tuple(reversed(PAI_TABLES)))
    assert again.equals(one)
    logs = []
    for number, name in enumerate((JOBS, INSTANCES, TASKS)):
        logs.append(tmp_path / f"part-{number}.csv")
        logs[-1].write_text(PAI_TABLES[name])
    result = ingest(logs, tmp_path / "t.parquet")
    assert "6 fields with the status Terminated" in result.recognized_by
    assert pl.read_parquet(result.output).drop("job_class").equals(one.drop("job_class"))


def test_headers_folders_and_blocks_do_not_matter(tmp_path, monkeypatch):
    one, _, _ = ingest_tables(tmp_path)
    folder = tmp_path / "data"
    folder.mkdir()
    header = "job_name,inst_id,user,status,start_time,end_time"
    (folder / "pai_job_table.header").write_text(header + "\n")
    (folder / "pai_machine_metric.csv").write_text("w1,m1,1,2,1,1,1,1,1,1,1,1\n")
    (folder / "README.md").write_text("# Tables\n")
    for name, text in PAI_TABLES.items():
        (folder / name).write_text(f"{header}\n{text}" if name == JOBS else text)
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 40)
    monkeypatch.setattr(side_tables, "MAX_PIECES", 2)
    result = ingest([folder], tmp_path / "t.parquet")
    assert pl.read_parquet(result.output).equals(one)
    assert any("pai_machine_metric.csv" in note for note in result.provenance.notes)


SENSORS = "pai_sensor_table.csv"
SENSOR_ROWS = """\
j01,worker,w1,i01,m1,/dev/nvidia0,600,30.0,1,2,3.5,4.0,1,1,1,1
j01,worker,w2,i01,m2,/dev/nvidia1,600,10.0,1,2,3.5,6.0,1,1,1,1
j01,ps,w3,i01,m2,,400,,1,2,,,1,1,1,1
j02,worker,w4,i02,m2,/dev/nvidia0,600,0,1,2,0,0,1,1,1,1
j03,worker,w5,i03,m2,/dev/nvidia0,600,900,1,2,1,1.5,1,1,1,1
j09,worker,w9,i09,m2,/dev/nvidia0,600,5,1,2,1,1,1,1,1,1
"""


def test_sensors_tell_the_utilization(tmp_path):
    jobs, _, _ = ingest_tables(tmp_path, (*PAI_TABLES, SENSORS), {SENSORS: SENSOR_ROWS})
    columns = ("gpu_util_mean", "gpus_idle", "gpu_util_coverage", "gpu_mem_used_gib")
    assert jobs.select(*columns).rows() == [
        # 40% of a GPU by 2 of 4 workers with half a GPU each.
        (40.0, None, 0.5, 6.0),
        (0.0, 8.0, 1.0, 0.0),
        # 9 GPUs in use of a quarter asked for: never above 100%.
        (100.0, None, 0.5, 1.5),
        (None, None, None, None),
        (None, None, None, None),
    ]
    plain, _, _ = ingest_tables(tmp_path)
    assert jobs.drop(pl.selectors.starts_with("gpu_util", "gpu_mem", "gpus_idle")).equals(
        plain.drop(pl.selectors.starts_with("gpu_util", "gpu_mem", "gpus_idle"))
    )
    assert plain["gpu_util_source"].null_count() == 5


def test_a_bad_sensor_is_refused_and_leaves_its_job_unknown(tmp_path):
    change = {SENSORS: SENSOR_ROWS.replace("30.0", "much")}
    jobs, _, rejects = ingest_tables(tmp_path, (*PAI_TABLES, SENSORS), change)
    assert rejects["column"].to_list() == ["gpu_wrk_util"] and jobs.height == 5
    assert jobs["gpu_util_mean"].to_list() == [None, 0.0, 100.0, None, None]


def test_a_table_in_two_files(tmp_path):
    one, _, _ = ingest_tables(tmp_path)
    lines = PAI_TABLES[TASKS].splitlines(keepends=True)
    (tmp_path / "pai_task_table-2.csv").write_text("".join(lines[1:]))
    names = [tmp_path / name for name in (JOBS, TASKS, "pai_task_table-2.csv", INSTANCES, TAGS)]
    names[1].write_text(lines[0])
    result = ingest(names, tmp_path / "t.parquet")
    assert pl.read_parquet(result.output).equals(one)


def test_without_instances_jobs_start_with_their_first_task(tmp_path):
    jobs, result, _ = ingest_tables(tmp_path, (JOBS, TASKS))
    assert jobs["duration_s"].to_list() == [3604.0, 290.0, None, None, 490.0]
    assert jobs["queue_s"].null_count() == jobs["job_class"].null_count() == 5
    assert any("without pai_instance_table" in note for note in result.provenance.notes)


def test_an_error_tells_by_what_its_own_table_is_known(tmp_path):
    change = {TASKS: PAI_TABLES[TASKS].replace("800.0,V", "-8,V")}
    for names in ((INSTANCES, TASKS, JOBS), (TASKS, JOBS)):
        with pytest.raises(InputError, match=r"a pai log by the file name pai_task_table\)"):
            ingest_tables(tmp_path, names, change, limit=Limit.of("0"))


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ((JOBS,), "which has no GPUs.*pai_task_table"),
        ((JOBS, INSTANCES), "which has no GPUs.*pai_task_table"),
        ((TASKS,), "the jobs are in pai_job_table"),
        ((TAGS, INSTANCES), "is pai_group_tag_table.*the jobs are in pai_job_table"),
    ],
)
def test_missing_tables_are_named(tmp_path, names, says):
    with pytest.raises(InputError, match=says):
        ingest_tables(tmp_path, names)
    assert not (tmp_path / "trace.parquet").exists()


@pytest.mark.parametrize(
    ("table", "old", "new", "refused"),
    [
        (JOBS, "1000095.0", "0", [(JOBS, 1, "missing", "start_time")]),
        (JOBS, "1000095.0", "", [(JOBS, 1, "missing", "start_time")]),
        (JOBS, "1000095.0", "soon", [(JOBS, 1, "unreadable", "start_time")]),
        (JOBS, "j02", "j01", [(JOBS, 2, "duplicate_id", "job_name")]),
        (JOBS, "j02", "j07", [(JOBS, 2, "missing", "job_name")]),
        (JOBS, "1000900.0", "1000409.0", [(JOBS, 5, "end_before_start", "end_time")]),
        (
            TASKS,
            "800.0,V",
            "-8,V",
            [(TASKS, 3, "negative_gpus", "plan_gpu"), (JOBS, 2, "incomplete", "job_name")],
        ),
        (
            TASKS,
            "ps,2.0",
            "ps,",
            [(TASKS, 2, "missing", "inst_num"), (JOBS, 1, "incomplete", "job_name")],
        ),
        (
            INSTANCES,
            "1000390.0",
            "late",
            [(INSTANCES, 5, "unreadable", "end_time"), (JOBS, 2, "incomplete", "job_name")],
        ),
        (TAGS, "i09,", ",", [(TAGS, 3, "missing", "inst_id")]),
        (TAGS, "i09,ub", "i09", [(TAGS, 3, "wrong_number_of_fields", None)]),
    ],
)
def test_bad_rows_of_every_table_are_told(tmp_path, table, old, new, refused):
    assert old in PAI_TABLES[table]
    change = {table: PAI_TABLES[table].replace(old, new, 1)}
    jobs, result, rejects = ingest_tables(tmp_path, change=change)
    rows = rejects.with_columns(pl.col("file").str.split("/").list.last())
    assert rows.select("file", "row", "reason", "column").rows() == refused
    provenance = result.provenance
    assert provenance.rows_read == jobs.height + len(refused)
    assert jobs.height == 5 - sum(file == JOBS for file, *_ in refused)


GARBAGE = [b"", b"x", b"-5", b"0", b"nan", b'"', b"9" * 30, b"\xff", b"1e400", b"a,b", b"\n"]


def damaged(data, chance):
    """Drop, repeat or garble a line of a table."""
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    cells = lines[at].split(b",")
    cells[chance.randrange(len(cells))] = chance.choice(GARBAGE)
    lines[at : at + 1] = chance.choice([[b",".join(cells)], [b",".join(cells)], [], lines[at:]])
    return b"\n".join(lines)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32 - 1))
def test_damage_never_breaks_the_account(tmp_path, seed):
    chance = random.Random(seed)
    change = {name: damaged(text.encode(), chance) for name, text in PAI_TABLES.items()}
    for path in tmp_path.iterdir():
        path.unlink()
    try:
        jobs, result, rejects = ingest_tables(tmp_path, change=change)
    except GpuplanError as error:
        assert str(tmp_path) in str(error)
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(PAI_TABLES)
        return
    refused = 0 if rejects is None else rejects.height
    assert result.provenance.rows_read == jobs.height + refused
    if b'"' not in change[JOBS]:  # a quoted cell may span lines
        of_jobs = 0 if refused == 0 else rejects["file"].str.ends_with(JOBS).sum()
        lines = [line for line in change[JOBS].split(b"\n") if line.strip()]
        assert jobs.height + of_jobs == len(lines)
    assert jobs["submit_time"].null_count() == jobs["num_gpus"].null_count() == 0
    assert (jobs["duration_s"].drop_nulls() >= 0).all()


def test_the_sample_of_the_simulator(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, PAI_SAMPLE)
    assert jobs["num_gpus"].to_list() == [0.5, 4.0, 0.0]
    assert jobs["num_workers"].to_list() == [1, 4, 1]
    assert jobs["gpu_type"].to_list() == ["T4", "V100-32GB", None]
    assert jobs["duration_s"].to_list() == [120.0, 3600.0, 0.0]
    assert jobs["submit_time"].dt.epoch("s").to_list() == [0, 30, 30]
    assert result.provenance.relative_time
    text = PAI_SAMPLE.replace("num_inst", "num_pod").replace(",user\n", ",user,wait_time\n")
    text = text.replace(",ua\n", ",ua,5\n").replace(",ub\n", ",ub,\n")
    jobs, _, _ = ingest_text(tmp_path, text)
    assert jobs["queue_s"].to_list() == [5.0, None, None]
    _, _, rejects = ingest_text(
        tmp_path, text.replace(",5\n", ",-5\n").replace("6.0,1,V", "6,-1,V")
    )
    assert rejects["reason"].to_list() == ["negative_wait", "negative_gpus"]


@pytest.mark.parametrize("name", ["pai_machine_spec", "pai_machine_metric"])
def test_tables_that_are_not_needed_are_told(tmp_path, name):
    with pytest.raises(InputError, match=f"{name}.*no jobs"):
        ingest_text(tmp_path, "a,b,c\n", f"{name}.csv")
