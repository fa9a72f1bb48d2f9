"""A log, its trace and a scenario give the same answers: the trace keeps all that is used."""

import json
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.job_table.schema import RUN_COLUMNS, SCHEDULER_COLUMNS
from gpuplan.analysis.log_formats.format import IngestOptions
from gpuplan.analysis.site.log import read_site_log

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "sample_traces" / "slurm_site"
SITELAB = ROOT.parent / "shared" / "data" / "sitelab" / "dumps"
HEADER = (
    "JobID|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|Timelimit|"
    "ReqNodes|NNodes|ReqTRES|AllocTRES|Priority|Reason|Reservation|NodeList|SubmitLine"
)
ONE = "billing=4,gres/gpu:a100=4,gres/gpu=4,node=1"
# Job 7 runs an hour, is requeued, waits 30 min and runs 2 hours on two nodes; 8 never starts;
# 9 is requeued and still waits.
ROWS = [
    f"7|ana|vision|gpu|normal|NODE_FAIL|2026-01-05T10:00:00|2026-01-05T10:00:10|"
    f"2026-01-05T10:05:00|2026-01-05T11:05:00|3600|1-00:00:00|1|1|{ONE}|{ONE}|120|Priority||a01|"
    "sbatch -N 1 train.sh",
    f"7|ana|vision|gpu|normal|COMPLETED|2026-01-05T11:05:00|2026-01-05T11:07:00|"
    f"2026-01-05T11:35:00|2026-01-05T13:35:00|7200|1-00:00:00|2|2|{ONE}|"
    "billing=8,gres/gpu:a100=8,gres/gpu=8,node=2|130|Resources||a[02-03]|sbatch -N 1 train.sh",
    f"8|bob|nlp|gpu|high|CANCELLED by 5|2026-01-05T10:30:00|Unknown|Unknown|2026-01-05T12:00:00|0|"
    f"UNLIMITED|1|0|{ONE}||0|Dependency|||",
    f"9|bob|nlp|gpu|high|PREEMPTED|2026-01-05T11:00:00|2026-01-05T11:00:00|"
    f"2026-01-05T11:00:00|2026-01-05T12:00:00|3600|02:00:00|1|1|{ONE}|{ONE}|0|None|maint|a04|x",
    f"9|bob|nlp|gpu|high|PENDING|2026-01-05T12:00:00|2026-01-05T12:02:00|Unknown|Unknown|0|"
    f"02:00:00|1|0|{ONE}||0|Resources|maint||x",
    f"10|cem|nlp|gpu|normal|COMPLETED|2026-01-05T12:00:00|2026-01-05T12:00:00|2026-01-05T12:00:00|"
    f"2026-01-05T12:10:00|600|Partition_Limit|1|1|{ONE}|{ONE}|0|None||a01|sbatch -w a01 y.sh",
]


def written(path, rows=ROWS, header=HEADER):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def trace_of(log, **options):
    path = log.with_suffix(".parquet")
    ingest([log], path, choices=IngestOptions(**options))
    return path


def at(hour, minute=0, second=0):
    return datetime(2026, 1, 5, hour, minute, second, tzinfo=UTC)


@pytest.fixture
def log(tmp_path):
    return written(tmp_path / "s.txt")


def test_a_trace_keeps_what_slurm_recorded(log):
    jobs = {row["job_id"]: row for row in pl.read_parquet(trace_of(log)).rows(named=True)}
    assert jobs["7"]["eligible_time"] == at(10, 0, 10) and jobs["7"]["limit_s"] == 86400
    assert (jobs["7"]["reason"], jobs["7"]["node_list"]) == ("Priority", "a01")
    assert (jobs["7"]["partition"], jobs["7"]["qos"], jobs["7"]["account"]) == (
        "gpu", "normal", "vision",
    )  # fmt: skip
    assert jobs["7"]["recorded_priority"] == 120 and jobs["7"]["billing"] == 4
    assert jobs["8"]["cancel_time"] == at(12) and jobs["8"]["reason"] == "Dependency"
    assert jobs["8"]["limit_s"] == 366 * 86400 and jobs["10"]["limit_s"] is None
    assert jobs["9"]["reservation"] == "maint" and jobs["10"]["submit_line"] == "sbatch -w a01 y.sh"
    assert jobs["10"]["cancel_time"] is None and jobs["10"]["gres_type"] == "a100"


def test_a_trace_keeps_the_runs_of_a_requeued_job(log):
    jobs = {row["job_id"]: row for row in pl.read_parquet(trace_of(log)).rows(named=True)}
    names = ("start", "end", "gpus", "nodes", "state", "reason")
    runs = [tuple(run[name] for name in names) for run in jobs["7"]["runs"]]
    assert runs == [
        (at(10, 5), at(11, 5), 4.0, 1, "node_fail", "Priority"),
        (at(11, 35), at(13, 35), 8.0, 2, "completed", "Resources"),
    ]
    assert (jobs["7"]["queue_s"], jobs["7"]["duration_s"], jobs["7"]["requeue_s"]) == (
        300.0, 10800.0, 1800.0,
    )  # fmt: skip
    assert jobs["10"]["runs"] is None and jobs["10"]["requeue_s"] is None
    waits = jobs["9"]["runs"][1]  # requeued, and not started again
    assert (waits["start"], waits["submit_time"], waits["state"]) == (None, at(12), "not_started")
    assert jobs["9"]["attempts"] == 1 and jobs["9"]["requeue_s"] is None


def test_a_log_and_its_trace_are_one_site_log(log):
    of_log, of_trace = read_site_log(log), read_site_log(trace_of(log))
    assert of_log.jobs.equals(of_trace.jobs)
    assert (of_log.left_out, of_log.missing) == (of_trace.left_out, of_trace.missing) == (
        {"still waiting or unfinished at the end of the log": 1}, (),
    )  # fmt: skip
    rows = of_log.jobs.filter(pl.col("job_id") == "7").rows(named=True)
    assert [row["start"] - row["submit"] for row in rows] == [300, 1800]
    assert [row["gpus"] for row in rows] == [4, 8] and [row["nodes"] for row in rows] == [1, 2]
    assert of_log.sha256 in of_trace.sources


def test_a_trace_ingested_again_keeps_runs_and_fields(log, tmp_path):
    first = trace_of(log)
    ingest([first], tmp_path / "again.parquet")
    assert pl.read_parquet(tmp_path / "again.parquet").equals(pl.read_parquet(first))


def test_without_the_fields_the_runs_stay(log):
    columns = pl.read_parquet(trace_of(log, scheduler=False)).columns
    assert not columns & SCHEDULER_COLUMNS.keys() and columns[-2:] == list(RUN_COLUMNS)


def test_a_log_has_the_columns_that_its_fields_give(tmp_path):
    few = "JobID|User|Partition|State|Submit|Start|End|ElapsedRaw|NNodes|AllocTRES"
    day = "2026-01-05T"
    row = f"1|ana|gpu|COMPLETED|{day}10:00:00|{day}10:00:00|{day}11:00:00|3600|1|{ONE}"
    path = written(tmp_path / "few.txt", [row], few)
    columns = set(pl.read_parquet(trace_of(path)).columns)
    assert {"partition", "req_nodes", "cancel_time", "billing"} < columns
    assert not columns & {"limit_s", "qos", "account", "reason", "eligible_time", "node_list"}
    assert read_site_log(path).missing == read_site_log(path.with_suffix(".parquet")).missing
    assert "account" in read_site_log(path).missing


def test_a_column_of_keep_that_the_trace_has_is_no_mistake(log, tmp_path):
    ingest([log], tmp_path / "t.parquet", choices=IngestOptions(keep=("qos",)))
    assert "high" in pl.read_parquet(tmp_path / "t.parquet")["qos"].to_list()


def test_twin_is_refused_where_a_format_has_no_scheduler(gpuplan, tmp_path):
    (tmp_path / "t.csv").write_text("submit_time,duration_s,num_gpus\n0,1,1\n")
    options = ("ingest", tmp_path / "t.csv", "-o", tmp_path / "t.parquet")
    code, _, err = gpuplan(*options, "--twin")
    assert code == 2 and "--twin" in err
    assert gpuplan(*options, "--no-twin")[0] == gpuplan(*options)[0] == 0


def answers(gpuplan, tmp_path, log, calibrated, change):
    """Return what `calibrate` and `whatif` say of a log, of its trace, and in a scenario."""
    trace = tmp_path / "trace.parquet"
    assert gpuplan("ingest", log, "-o", trace, "--max-rejects=5%")[0] == 0
    said = {}
    for name, path in (("log", log), ("trace", trace)):
        twin = tmp_path / f"{name}.toml"
        code, out, err = gpuplan("calibrate", path, *calibrated, "-o", twin, "--output-format=json")
        assert code == 0, err
        code, changed, err = gpuplan(
            "whatif", path, "--twin", twin, *change, "--output-format=json"
        )
        assert code == 0, err
        said[name] = (json.loads(out)["results"], json.loads(changed)["results"])
    studies = []
    for command, options in (
        ("calibrate", calibrated), ("whatif", ("--twin", tmp_path / "log.toml", *change)),
    ):  # fmt: skip
        studies.append(f"[study.{command}]")
        pairs = list(zip(options[::2], options[1::2], strict=True))
        for flag in dict.fromkeys(options[::2]):
            values = [str(value) for key, value in pairs if key == flag]
            text = json.dumps(values if len(values) > 1 else values[0])
            studies.append(f"{flag.removeprefix('--').replace('-', '_')} = {text}")
    scenario = tmp_path / "site.toml"
    workload = f'workload.log = {{ file = "{log}", max_rejects = "5%" }}\n'
    scenario.write_text(workload + "\n".join(studies) + "\n")
    code, out, err = gpuplan("run", scenario, "--no-cache", "--output-format=json")
    assert code == 0, err
    results = {row["name"]: row["results"] for row in json.loads(out)["studies"]}
    said["scenario"] = (results["calibrate"], results["whatif"])
    return said


def test_calibrate_and_whatif_say_the_same_of_log_trace_and_scenario(gpuplan, tmp_path):
    options = ("--slurm-conf", SITE / "slurm.conf", "--sacctmgr", SITE / "assoc.txt")
    change = ("--add-nodes", "a100=2")
    said = answers(gpuplan, tmp_path, SITE / "sacct.txt", options, change)
    assert said["log"] == said["trace"] == said["scenario"]


@pytest.mark.skipif(not SITELAB.is_dir(), reason="needs ../shared/data/sitelab")
def test_a_site_with_requeues_says_the_same_of_log_and_trace(tmp_path):
    log = SITELAB / "sacct.txt.gz"
    trace = tmp_path / "site.parquet"
    ingest([log], trace)
    of_log, of_trace = read_site_log(log), read_site_log(trace)
    assert of_log.jobs.equals(of_trace.jobs) and of_log.left_out == of_trace.left_out
    assert of_log.jobs["job_id"].is_duplicated().sum() == 12  # 6 jobs of two runs
    assert of_log.missing == of_trace.missing == ()
