"""Series of GPU metrics joined to jobs: by hand, hostile files, and the site with known truth."""

import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pytest
from support_ingest import ingest_text
from support_metrics import (
    ENGINE,
    FB,
    FREE,
    HOUR,
    POWER,
    T0,
    TENSOR,
    UTIL,
    answer,
    every,
    series,
    trace,
)
from support_sitelab import DUMPS, SITELAB
from support_slurm import HEADER
from support_slurm import at as slurm_at
from support_slurm import log as slurm_log

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.log_formats.format import IngestOptions
from gpuplan.analysis.metrics.samples import IN_PERCENT
from gpuplan.analysis.metrics.wandb_events import run_of
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.analysis.waste import kinds
from gpuplan.analysis.waste import series as waste_series
from gpuplan.analysis.waste.series import read_metrics

STEP = 300
ROOT = Path(__file__).resolve().parents[1]


def summary_of(folder, log, text, name="metrics.json", **options):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_metrics([path], log, **options)


def only(summary):
    (row,) = summary.jobs.rows(named=True)
    return row


def told(summary):
    return dict(note.rpartition(": ")[::2] for note in summary.notes)


DAY = trace(("1", "n1", 0, 10 * HOUR, 2.0))


def test_each_run_of_a_requeued_job_is_joined_on_its_own_nodes(tmp_path):
    """Two GPUs idle for 4 hours on n1, and after the loss of n1 work for 4 hours on n2."""
    begin = round(datetime(2026, 1, 10, 8, tzinfo=UTC).timestamp()) - T0
    hours = {"Elapsed": "04:00:00", "AllocTRES": "gres/gpu=2", "Start": slurm_at(8)}
    text = slurm_log(
        {**hours, "State": "NODE_FAIL", "End": slurm_at(12), "NodeList": "n1"},
        {**hours, "Submit": slurm_at(12), "Start": slurm_at(13), "End": slurm_at(17),
         "NodeList": "n2"},
        header=f"{HEADER}|NodeList",
    )  # fmt: skip
    jobs, *_ = ingest_text(tmp_path, text)
    path = tmp_path / "requeued.parquet"
    jobs.write_parquet(path)
    requeued = read_trace(path, columns=waste_series.COLUMNS, optional=waste_series.OPTIONAL)
    idle = every(STEP, begin, begin + 4 * HOUR, 0)
    works = every(STEP, begin + 5 * HOUR, begin + 9 * HOUR, 0.8)
    used = [(ENGINE, "n1", idle), (ENGINE, "n2", works)]
    metrics = answer(*(series(name, node, gpu, points) for name, node, points in used
                       for gpu in (0, 1)))  # fmt: skip
    job = only(summary_of(tmp_path, requeued, metrics))
    assert (job["covered_gpu_h"], job["never_used_gpu_h"]) == (16, 8)
    assert job["gpu_util_mean"] == pytest.approx(40)


def test_a_job_worked_by_hand(tmp_path):
    # GPU 0 works for 6 of 10 hours and idles for the last 4; GPU 1 never does anything.
    works = every(STEP, 0, 10 * HOUR, lambda at: 0.8 if at <= 6 * HOUR else 0)
    never = every(STEP, 0, 10 * HOUR, 0)
    job = only(summary_of(tmp_path, DAY, answer(
        series(ENGINE, "n1", 0, works), series(ENGINE, "n1", 1, never),
        series(FB, "n1", 0, every(STEP, 0, 10 * HOUR, 20 * 1024)),
        series(FREE, "n1", 0, every(STEP, 0, 10 * HOUR, 60 * 1024)),
        series(POWER, "n1", 0, every(STEP, 0, 10 * HOUR, 300)),
    )))  # fmt: skip
    assert job["covered_gpu_h"] == 20 and job["covered_share"] == 1
    assert (job["gpus_never_used"], job["never_used_gpu_h"]) == (1, 10)
    assert job["idle_end_gpu_h"] == pytest.approx(4 - STEP / 2 / HOUR)
    assert job["idle_begin_gpu_h"] == 0
    assert job["gpu_util_mean"] == pytest.approx(80 * 0.6 / 2, rel=0.01)
    assert (job["gpu_mem_used_gib"], job["gpu_mem_total_gib"]) == (20, 80)
    assert job["gpu_mem_used_share"] == 0.25
    assert (job["energy_kwh"], job["energy_covered_gpu_h"]) == (pytest.approx(3), 10)


def test_the_engine_goes_before_utilization(tmp_path):
    pair = [series(UTIL, "n1", gpu, every(STEP, 0, 10 * HOUR, 100)) for gpu in (0, 1)]
    engine = [series(ENGINE, "n1", gpu, every(STEP, 0, 10 * HOUR, 0.25)) for gpu in (0, 1)]
    for order in ([*pair, *engine], [*engine, *pair]):
        assert only(summary_of(tmp_path, DAY, answer(*order)))["gpu_util_mean"] == 25
    # Where the engine was sampled for a part alone, utilization tells the rest.
    engine = [series(ENGINE, "n1", gpu, every(STEP, 0, HOUR, 0.25)) for gpu in (0, 1)]
    assert only(summary_of(tmp_path, DAY, answer(*pair, *engine)))["gpu_util_mean"] == 100


@pytest.mark.parametrize(
    ("idle_from", "idle_to", "begin", "end"),
    [(0, 3, 3, 0), (7.5, 10, 0, 2.5), (8.2, 10, 0, 0), (0, 1.5, 0, 0), (3, 8, 0, 0)],
)
def test_idle_ends_last_over_two_hours(tmp_path, idle_from, idle_to, begin, end):
    def value(at):
        return 0 if idle_from * HOUR <= at <= idle_to * HOUR else 90

    log = trace(("1", "n1", 0, 10 * HOUR, 1.0))
    points = every(60, 0, 10 * HOUR, value)
    job = only(summary_of(tmp_path, log, answer(series(UTIL, "n1", 0, points))))
    assert job["idle_begin_gpu_h"] == pytest.approx(begin, abs=0.02)
    assert job["idle_end_gpu_h"] == pytest.approx(end, abs=0.02)


def test_an_end_outside_the_samples_is_unknown(tmp_path):
    # The job goes on for 10 hours; its samples end after 5, idle since the third.
    log = trace(("1", "n1", 0, 10 * HOUR, 1.0))
    points = every(STEP, 0, 5 * HOUR, lambda at: 50 if at < 2 * HOUR else 0)
    job = only(summary_of(tmp_path, log, answer(series(UTIL, "n1", 0, points))))
    assert job["idle_end_gpu_h"] == 0
    assert job["covered_share"] == pytest.approx(0.5, abs=0.01)


def test_few_samples_are_unknown(tmp_path):
    # Two jobs; scrapes fail for most of the second one.
    log = trace(("1", "n1", 0, 5 * HOUR, 1.0), ("2", "n1", 5 * HOUR, 10 * HOUR, 1.0))
    points = every(STEP, 0, 5 * HOUR, 50) + every(STEP, 9 * HOUR, 12 * HOUR, 0)
    jobs = summary_of(tmp_path, log, answer(series(UTIL, "n1", 0, points))).jobs
    assert jobs["job_id"].to_list() == ["1"]


def test_out_of_order_copies_and_bad_counters(tmp_path):
    rng = np.random.default_rng(1)
    points = every(STEP, 0, 10 * HOUR, lambda at: 50 if at <= 6 * HOUR else 0)
    plain = only(summary_of(tmp_path, DAY, answer(
        *(series(UTIL, "n1", gpu, points) for gpu in (0, 1))
    )))  # fmt: skip
    mixed = [
        series(UTIL, "n1", gpu, [points[i] for i in rng.permutation(len(points))],
               instance=f"exporter{copy}:9400")
        for copy in range(8) for gpu in (0, 1)
    ]  # fmt: skip
    odd = series(UTIL, "n1", 0, [(30, 250), (31, -1), (32, "NaN"), (33, "+Inf"), (34, "x")])
    summary = summary_of(tmp_path, DAY, answer(*mixed, odd))
    assert only(summary) == pytest.approx(plain)
    counts = told(summary)
    assert counts["samples that are copies of another"] == f"{14 * len(points):,}"
    assert counts["samples above 100%"] == "1" and counts["samples below 0"] == "1"
    assert counts["samples that are no number or have no time"] == "3"
    assert summary.coverage.samples == 16 * len(points) + 5


def test_clocks_an_hour_off_are_said(tmp_path):
    rng = np.random.default_rng(2)
    log, all_series, at = [], [], 0
    for number in range(40):
        length, pause = (int(x) for x in rng.integers(HOUR, 6 * HOUR, 2))
        log.append((str(number), "n1", at, at + length, 1.0))
        at += length + pause
    for shift in (0, HOUR, -5 * HOUR):

        def busy(time, shift=shift):
            return 90 * any(begin <= time - shift < end for _, _, begin, end, _ in log)

        all_series = [series(UTIL, "n1", 0, every(STEP, -HOUR, at + HOUR, busy))]
        warnings = summary_of(tmp_path, trace(*log), answer(*all_series)).warnings
        if not shift:
            assert warnings == ()
        else:
            side = "later" if shift > 0 else "earlier"
            assert f"{abs(shift) // HOUR} h {side}" in warnings[0] and "--time-zone" in warnings[0]


@pytest.mark.parametrize("shift_h", [0, 1, -1])
@pytest.mark.parametrize("idle_s", [0, HOUR])
def test_clocks_of_long_jobs_an_hour_off_are_said(tmp_path, shift_h, idle_s):
    """Jobs of a day or two; each works from its begin, or an hour later, to its end."""
    rng = np.random.default_rng(5)
    log, at = [], 0
    for number in range(12):
        length, pause = (int(x) for x in rng.integers(10 * HOUR, 50 * HOUR, 2))
        log.append((str(number), "n1", at, at + length, 1.0))
        at += length + pause

    def busy(time):
        return 90 * any(
            begin + idle_s <= time - shift_h * HOUR < end for _, _, begin, end, _ in log
        )

    points = every(STEP, -HOUR, at + HOUR, busy)
    clock = summary_of(tmp_path, trace(*log), answer(series(UTIL, "n1", 0, points))).clock
    if idle_s:  # up to an hour of the difference could be of the jobs
        assert clock is None or (shift_h and 0 <= clock.later_h - shift_h <= 1)
    else:
        assert (None if clock is None else clock.later_h) == (shift_h or None)


def test_jobs_that_share_a_node_take_the_busy_gpus(tmp_path):
    # Job 1 holds GPU 2 (its second of two, 1, idles with memory), job 2 comes later and takes 0.
    log = trace(("1", "n1", 0, 8 * HOUR, 2.0), ("2", "n1", 4 * HOUR, 8 * HOUR, 1.0))
    busy = {
        0: lambda at: 80 if 4 * HOUR <= at <= 8 * HOUR else 0,
        1: lambda at: 0,
        2: lambda at: 40 if at <= 8 * HOUR else 0,
        3: lambda at: 0,
    }
    memory = {0: busy[0], 1: busy[2], 2: busy[2], 3: busy[3]}
    parts = [series(UTIL, "n1", gpu, every(STEP, 0, 9 * HOUR, busy[gpu])) for gpu in busy]
    parts += [
        series(FB, "n1", gpu, every(STEP, 0, 9 * HOUR, lambda at, m=memory[gpu]: 100 * m(at)))
        for gpu in busy
    ]
    jobs = {row["job_id"]: row for row in summary_of(
        tmp_path, log, answer(*parts)).jobs.rows(named=True)}  # fmt: skip
    assert (jobs["1"]["gpu_util_mean"], jobs["1"]["never_used_gpu_h"]) == (20, 8)
    assert (jobs["2"]["gpu_util_mean"], jobs["2"]["never_used_gpu_h"]) == (80, 0)


def test_pods_name_their_jobs(tmp_path):
    log = trace(("train-1", None, 0, HOUR, 1.0), ("ml/train-2", None, 0, HOUR, 1.0))
    parts = [
        series(UTIL, "n1", 0, every(60, 0, HOUR, 30), exported_pod="train-1",
               exported_namespace="ml", pod="dcgm-x", namespace="gpu-operator"),
        series(UTIL, "n1", 1, every(60, 0, HOUR, 70), exported_pod="train-2",
               exported_namespace="ml"),
        series(UTIL, "n1", 2, every(60, 0, HOUR, 90), exported_pod="other"),
    ]  # fmt: skip
    jobs = summary_of(tmp_path, log, answer(*parts)).jobs
    assert dict(jobs.select("job_id", "gpu_util_mean").rows()) == {"train-1": 30, "ml/train-2": 70}


def test_nodes_may_have_long_names(tmp_path):
    points = every(STEP, 0, 10 * HOUR, 50)
    for labels in ({"Hostname": "n1.cluster.local"}, {"Hostname": "dcgm-x7", "node": "n1"},
                   {"Hostname": "", "instance": "n1:9400"}):  # fmt: skip
        parts = [series(UTIL, "n1", gpu, points) for gpu in (0, 1)]
        for part in parts:
            part["metric"] |= labels
        assert only(summary_of(tmp_path, DAY, answer(*parts)))["covered_gpu_h"] == 20


def test_what_is_not_used_is_told(tmp_path):
    points = every(STEP, 0, 10 * HOUR, 50)
    parts = [series(UTIL, "n1", gpu, points) for gpu in (0, 1)]
    parts.append(series(UTIL, "n1", 0, points, GPU_I_ID="3", GPU_I_PROFILE="1g.10gb"))
    parts.append(series("DCGM_FI_DEV_SM_CLOCK", "n1", 0, points))
    nameless = series(UTIL, "n1", 0, points)
    del nameless["metric"]["__name__"]
    homeless = {"metric": {"__name__": UTIL, "gpu": "1"}, "values": [[T0, "1"]]}
    summary = summary_of(tmp_path, DAY, answer(*parts, nameless, homeless))
    assert told(summary) == dict.fromkeys(
        ["series of MIG instances, not used", "series of other metrics, not used",
         "series without a metric name, not used",
         "series without the labels Hostname and gpu, not used"], "1")  # fmt: skip


SMALL = answer(*(series(UTIL, "n1", gpu, every(STEP, 0, 10 * HOUR, 50)) for gpu in (0, 1)))


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(json.loads(SMALL), indent=2),
        SMALL + "\n" + SMALL,
        json.dumps(json.loads(SMALL)["data"]["result"]),
        SMALL[:-1] + ',"warnings":["x"]}',
        gzip.compress(SMALL.encode()),
        SMALL.replace('"50"', "50"),
    ],
    ids=["indented", "two", "the results alone", "with warnings", "in gzip", "bare numbers"],
)
def test_answers_may_be_written_in_many_ways(tmp_path, text):
    assert only(summary_of(tmp_path, DAY, text))["gpu_util_mean"] == 50


def test_several_files_are_one(tmp_path):
    for gpu in (0, 1):
        text = answer(series(UTIL, "n1", gpu, every(STEP, 0, 10 * HOUR, 50)))
        (tmp_path / f"{gpu}.json").write_text(text)
    summary = read_metrics([tmp_path / "0.json", tmp_path / "1.json"], DAY)
    assert only(summary)["covered_gpu_h"] == 20 and len(summary.inputs) == 2
    coverage = summary.coverage
    assert (coverage.nodes, coverage.gpus, coverage.covered_gpu_h) == (1, 2, 20)
    assert coverage.covered_share == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("hello\n", "is not a known format of GPU metrics"),
        ('{"status":"error","errorType":"bad_data","error":"parse error"}', "parse error"),
        ('{"status":"success","data":{"resultType":"matrix","result":[]}}', "holds no series"),
        (SMALL[: len(SMALL) // 2], "ends in the middle of this series"),
        (SMALL.replace('"n1"', '"m9"'), "is of nodes that the log does not have (m9)"),
        (SMALL.replace('"DCGM_FI_DEV_GPU_UTIL"', '"up"'), "has no sample that can be used"),
        (SMALL.replace('"gpu":"0"', '"gpu":{}'), "is no series"),
        (SMALL.replace("[179", "[189"), "has no samples within the runs of the log on 1 node"),
        (SMALL.replace('"50"', '"-3"'), "has no sample that can be used"),
    ],
)
def test_bad_files_say_what_is_wrong(tmp_path, text, problem):
    with pytest.raises(InputError, match=r"metrics\.json") as error:
        summary_of(tmp_path, DAY, text)
    assert problem in str(error.value)


def test_a_log_without_nodes_says_what_to_do(tmp_path):
    log = trace(("1", None, 0, HOUR, 2.0))
    with pytest.raises(InputError, match="NodeList"):
        summary_of(tmp_path, log, SMALL)


# nvidia-smi

NVIDIA = """\
timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W]
2026/09/21 14:00:00.100, 0, NVIDIA A100, 92 %, 25073 MiB, 88.1 W
2026/09/21 14:00:00.105, 1, NVIDIA A100, 0 %, 3 MiB, 50.0 W
timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W]
2026/09/21 14:05:00.100, 0, NVIDIA A100, 88 %, 26000 MiB, [N/A]
2026/09/21 14:05:00.105, 1, NVIDIA A100, 0 %, 3 MiB, [Not Supported]
2026/09/21 14:10:00.100, 0, NVIDIA A100, 90 %, 24000 MiB, 90 W
2026/09/21 14:10:00.105, 1, NVIDIA A100, 0 %, 3 MiB, 50 W
"""
BARE = "\n".join(line for line in NVIDIA.splitlines() if "timestamp" not in line) + "\n"
NO_UNITS = NVIDIA.replace(" %", "").replace(" MiB,", ",").replace(" W\n", "\n")


TWICE = NVIDIA.replace(", power.draw [W]", ", power.draw [W], power.draw [W]")


@pytest.mark.parametrize("text", [NVIDIA, BARE, NO_UNITS, TWICE, NVIDIA.replace("\n", "\r\n")])
def test_nvidia_smi(tmp_path, text):
    begin = trace(("1", "n1", *(int(x) - T0 for x in (SMI_BEGIN, SMI_BEGIN + 600)), 2.0))
    job = only(summary_of(tmp_path, begin, text, "n1.csv"))
    assert job["gpu_util_mean"] == pytest.approx(45) and job["gpus_never_used"] == 1
    assert job["gpu_mem_used_gib"] == pytest.approx(26000 / 1024)
    assert job["energy_kwh"] is not None


SMI_BEGIN = 1_789_999_200  # 2026-09-21 14:00 UTC


def test_times_of_nvidia_smi_are_those_of_the_log_s_zone(tmp_path):
    log = trace(("1", "n1", SMI_BEGIN + 4 * HOUR - T0, SMI_BEGIN + 4 * HOUR + 600 - T0, 2.0))
    with pytest.raises(InputError, match="time zone"):
        summary_of(tmp_path, log, NVIDIA, "n1.csv")
    log = replace(log, provenance=replace(log.provenance, time_zone="America/New_York"))
    assert only(summary_of(tmp_path, log, NVIDIA, "n1.csv"))["gpus_never_used"] == 1


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("m5.csv", NVIDIA, "does not tell its node"),
        ("n1.csv", BARE.replace(" %", "").replace(" MiB", "%"), "has no column"),
        ("n1.csv", NVIDIA.replace("index", "pstate"), "has no column index"),
    ],
)
def test_odd_files_of_nvidia_smi(tmp_path, name, text, problem):
    log = trace(("1", "n1", 0, HOUR, 2.0), ("2", "n2", 0, HOUR, 2.0))
    with pytest.raises(InputError) as error:
        summary_of(tmp_path, log, text, name)
    assert problem in str(error.value)


def test_a_column_may_name_the_node(tmp_path):
    lines = NVIDIA.splitlines()
    text = "\n".join(("hostname, " if "timestamp" in li else "n1, ") + li for li in lines)
    log = trace(("1", "n1", SMI_BEGIN - T0, SMI_BEGIN - T0 + 600, 2.0), ("2", "n2", 0, HOUR, 2.0))
    assert only(summary_of(tmp_path, log, text, "all.csv"))["gpu_util_mean"] == pytest.approx(45)


# Weights & Biases


def event(at, *percents, old=""):
    row = {"_timestamp": T0 + at, "_runtime": at, "system.cpu": 5.0}
    for gpu, percent in enumerate(percents):
        row |= {
            f"system.gpu.{old}{gpu}.gpu": percent,
            f"system.gpu.{old}{gpu}.memoryAllocated": 40.0,
            f"system.gpu.{old}{gpu}.powerWatts": 200.0,
        }
    return json.dumps(row)


HUGE = json.dumps({"_timestamp": 10**400, "system.gpu.0.gpu": 10**400})


@pytest.mark.parametrize("old", ["", "process."])
def test_events_of_wandb(tmp_path, old):
    log = trace(("ab12", None, 0, HOUR, 2.0), ("zz", None, 0, HOUR, 1.0))
    lines = [event(at, 60.0, 0.0, old=old) for at in range(0, HOUR + 1, 15)]
    name = "run-20260921_150000-ab12/files/wandb-events.jsonl"
    summary = summary_of(tmp_path, log, "\n".join([*lines, "{oh", "[]", HUGE]), name)
    job = only(summary)
    assert (job["job_id"], job["gpu_util_mean"], job["gpus_never_used"]) == ("ab12", 30, 1)
    assert job["gpu_mem_used_share"] == pytest.approx(0.4)
    assert job["energy_kwh"] == pytest.approx(0.4)
    assert told(summary) == {
        "lines that are no JSON object": "2",
        "samples that are no number or have no time": "1",
    }


def test_events_of_wandb_as_a_table(tmp_path):
    log = trace(("ab12", None, 0, HOUR, 1.0), ("cd", None, 0, HOUR, 1.0))
    rows = [
        {"run_id": run, **json.loads(event(at, percent))}
        for run, percent in (("ab12", 80.0), ("cd", 20.0))
        for at in range(0, HOUR + 1, 30)
    ]
    text = pl.DataFrame(rows).write_csv()
    jobs = summary_of(tmp_path, log, text, "events.csv").jobs
    assert dict(jobs.select("job_id", "gpu_util_mean").rows()) == {"ab12": 80, "cd": 20}


@pytest.mark.parametrize(
    ("path", "run"),
    [("run-20260921_150000-ab12/files/wandb-events.jsonl", "ab12"), ("ab12.jsonl", "ab12"),
     ("ab12_events.csv", "ab12"), ("events-ab12.jsonl", "ab12"), ("events.csv", "events")],
)  # fmt: skip
def test_files_of_wandb_name_their_run(tmp_path, path, run):
    assert run_of(tmp_path / path) == run


@pytest.mark.parametrize("node", ["n1", None])
def test_runs_of_wandb_that_the_log_does_not_have_are_named(tmp_path, node):
    text = "\n".join(event(at, 60.0, 0.0) for at in range(0, HOUR, 60))
    with pytest.raises(InputError, match=r"of jobs that the log does not have.* \(zz9\); .*ab12"):
        summary_of(tmp_path, trace(("ab12", node, 0, HOUR, 1.0)), text, "zz9.jsonl")


# Damage


FILES = {
    "metrics.json": SMALL.encode(),
    "indented.json": json.dumps(json.loads(SMALL), indent=1).encode(),
    "n1.csv": NVIDIA.encode(),
    "ab12.jsonl": "\n".join(event(at, 60.0, 0.0) for at in range(0, HOUR, 300)).encode(),
}


@pytest.mark.parametrize("name", FILES)
def test_damaged_files_are_read_or_refused(tmp_path, monkeypatch, name):
    monkeypatch.syspath_prepend(ROOT)
    mutate = pytest.importorskip("fuzz.mutate").mutate
    log = trace(
        ("1", "n1", -1000, 10 * HOUR, 2.0), ("ab12", None, 0, HOUR, 2.0), ("2", "n2", 0, HOUR, 8.0)
    )
    rng, read = Random(3), 0
    for _ in range(40):
        data = FILES[name]
        for _ in range(rng.choice((1, 1, 2, 3))):
            data, _ = mutate(data, rng, FILES["n1.csv"])
        try:
            jobs = summary_of(tmp_path, log, data, name).jobs
        except InputError:
            continue
        read += 1
        numbers = jobs.select(pl.selectors.numeric()).fill_null(0)
        assert numbers.select(pl.min_horizontal(pl.all())).to_series().min() >= 0
        assert (jobs["covered_share"] <= 1).all() and (jobs["gpu_util_mean"] <= 100).all()
        within = jobs["never_used_gpu_h"] <= jobs["covered_gpu_h"] + 1e-9
        assert within.all()
    assert read > 5


# The site with known truth


@pytest.fixture(scope="module")
def birch(tmp_path_factory):
    if not DUMPS.is_dir():
        pytest.skip("the site with known truth is not there: ../shared/data/sitelab")
    path = tmp_path_factory.mktemp("birch") / "trace.parquet"
    choices = IngestOptions(time_zone="America/New_York")
    ingest([DUMPS / "sacct_jobstats.txt.gz"], path, choices=choices)
    columns = (*kinds.OPTIONAL, *waste_series.OPTIONAL)
    log = read_trace(path, columns=kinds.COLUMNS, optional=columns)
    return log, read_metrics([DUMPS / "dcgm_week.json.gz"], log)


def truth_of_week():
    """Return GPU-hours per job by who really held each GPU: watched, never used, idle at ends.

    Some scrapes are missing, never many in a row.
    """
    answer_ = json.loads(gzip.decompress((DUMPS / "dcgm_week.json.gz").read_bytes()))
    samples = {
        (part["metric"]["Hostname"], int(part["metric"]["gpu"])): np.array(
            [(at, float(value)) for at, value in part["values"]]
        )
        for part in answer_["data"]["result"]
        if part["metric"]["__name__"] == ENGINE
    }
    last = max(part[-1, 0] for part in samples.values())
    hours = {}
    for row in pl.read_csv(SITELAB / "truth/gpu_holders.csv").rows(named=True):
        end = row["end"] if row["end"] > 0 else np.inf
        part = samples[row["node"], row["gpu"]]
        held_s = min(end, part[-1, 0] + STEP) - max(row["start"], part[0, 0] - STEP)
        part = part[(part[:, 0] >= row["start"]) & (part[:, 0] <= end)]
        active = part[part[:, 1] > 0, 0]
        if not part.size:
            continue
        job = hours.setdefault(row["job"], [0.0, 0.0, 0.0])
        job[0] += held_s / HOUR
        if not active.size:
            job[1] += held_s / HOUR
        elif end <= last and end - active[-1] > 2 * HOUR + STEP:
            job[2] += (end - active[-1]) / HOUR
    return hours


@pytest.mark.slow
def test_the_week_of_the_site(birch):
    _, summary = birch
    ours = {
        row["job_id"]: (row["covered_gpu_h"], row["never_used_gpu_h"], row["idle_end_gpu_h"])
        for row in summary.jobs.rows(named=True)
    }
    truth = truth_of_week()
    assert ours.keys() <= truth.keys()
    for place, tolerance in ((0, 0.01), (1, 0.01), (2, 0.03)):
        total = sum(job[place] for job in truth.values())
        assert sum(job[place] for job in ours.values()) == pytest.approx(total, rel=tolerance)
    for job, (covered, never, _) in ours.items():
        assert covered == pytest.approx(truth[job][0], abs=1), job
        assert never == pytest.approx(truth[job][1], abs=1), job
    assert summary.warnings == () and (summary.coverage.nodes, summary.coverage.gpus) == (7, 44)


def test_the_week_adds_ends_to_the_kinds(birch):
    log, summary = birch
    plain, joined = kinds.kinds_of_waste(log), kinds.kinds_of_waste(log, summary.jobs)
    assert plain["idle_ends_gpu_h"].sum() == 0
    ends = summary.jobs["idle_begin_gpu_h"].sum() + summary.jobs["idle_end_gpu_h"].sum()
    assert joined["idle_ends_gpu_h"].sum() == pytest.approx(ends) and ends > 2
    assert joined["unknown_gpu_h"].sum() <= plain["unknown_gpu_h"].sum()


@pytest.mark.parametrize("hours", [-5, pytest.param(-1, marks=pytest.mark.slow), 1])
def test_a_log_read_in_the_wrong_zone_is_said(birch, hours):
    log, _ = birch
    shifted = replace(log, jobs=log.jobs.with_columns(
        pl.col("submit_time") + pl.duration(hours=hours)))  # fmt: skip
    (warning,) = read_metrics([DUMPS / "dcgm_week.json.gz"], shifted).warnings
    assert f"moved {abs(hours)} h {'later' if hours < 0 else 'earlier'}" in warning


# Jobs that share a node


def shared(folder, jobs, *busy_h):
    """Return GPU-hours covered and never used of jobs of 1 GPU of a node, and the notes.

    Args:
        jobs: begin and end of each, in hours.
        busy_h: of each GPU, when it is used at 90%, in hours.
    """
    log = trace(*((str(at), "n1", int(begin * HOUR), int(end * HOUR), 1.0)
                  for at, (begin, end) in enumerate(jobs, 1)))  # fmt: skip
    parts = [
        series(UTIL, "n1", gpu, every(STEP, 0, 10 * HOUR, lambda at, of=of: (
            90 * (of[0] * HOUR <= at < of[1] * HOUR))))
        for gpu, of in enumerate(busy_h)
    ]  # fmt: skip
    summary = summary_of(folder, log, answer(*parts))
    rows = {
        row["job_id"]: (row["covered_gpu_h"], row["never_used_gpu_h"], row["idle_end_gpu_h"])
        for row in summary.jobs.rows(named=True)
    }
    return rows, summary.notes


@pytest.mark.parametrize("order", [1, -1])
def test_use_that_begins_with_a_later_job_is_of_that_job(tmp_path, order):
    rows, notes = shared(tmp_path, [(0, 10), (1, 10)], *[(0, 0), (1, 10)][::order])
    assert rows == {"1": (10, 10, 0), "2": (9, 0, 0)} and not notes
    # Use that ends with a job is of that job too.
    rows, notes = shared(tmp_path, [(0, 6), (0, 10)], *[(0, 0), (0, 6)][::order])
    assert rows == {"1": (6, 0, 0), "2": (10, 10, 0)} and not notes
    # Use outside the other job is of the one that runs then, whenever it begins.
    rows, notes = shared(tmp_path, [(0, 10), (2, 8)], *[(0, 0), (4, 9)][::order])
    assert rows["2"] == (6, 6, 0) and rows["1"][:2] == (10, 0) and not notes


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("jobs", "busy"),
    [([(0, 10), (0, 10)], (0, 10)), ([(0, 10), (1, 10)], (3, 10)), ([(0, 10), (2, 8)], (4, 6))],
)
def test_use_that_may_be_of_two_jobs_is_unknown(tmp_path, jobs, busy, order):
    rows, notes = shared(tmp_path, jobs, *[(0, 0), busy][::order])
    assert rows == {}
    hours = sum(end - begin for begin, end in jobs)
    assert notes == (f"{waste_series.UNCLEAR}: {hours:.1f}",)


def test_jobs_that_use_two_gpus_alike_need_not_be_told_apart(tmp_path):
    rows, notes = shared(tmp_path, [(0, 10), (0, 10)], (0, 10), (0, 10))
    assert rows == {"1": (10, 0, 0), "2": (10, 0, 0)} and not notes


# Samples that cannot be used


ONE = trace(("1", "n1", 0, 10 * HOUR, 1.0))


@pytest.mark.parametrize("bad", ["NaN", -1, 250])
@pytest.mark.parametrize("often", [2, 100])
def test_a_gpu_with_lost_samples_is_not_known_to_idle(tmp_path, bad, often):
    """All samples but every second one, or one of 121, are 0; the rest of them are unusable."""
    points = every(STEP, 0, 10 * HOUR, lambda at: bad if at // STEP % often == 1 else 0)
    assert summary_of(tmp_path, TWO, with_second(UTIL, points)).jobs["job_id"].to_list() == ["2"]


TWO = trace(("1", "n1", 0, 10 * HOUR, 1.0), ("2", "n2", 0, 10 * HOUR, 1.0))


def with_second(name, points):
    """Return samples of node n1, and of a GPU of n2 that works."""
    return answer(
        series(name, "n1", 0, points), series(UTIL, "n2", 0, every(STEP, 0, 10 * HOUR, 50))
    )


def test_some_lost_samples_lower_what_is_covered(tmp_path):
    def value(at):
        return "NaN" if at // STEP % 20 == 1 else 50 if at <= 6 * HOUR else 0

    job = only(summary_of(tmp_path, ONE, answer(
        series(UTIL, "n1", 0, every(STEP, 0, 10 * HOUR, value)))))  # fmt: skip
    assert job["covered_gpu_h"] == pytest.approx(10 * 0.95, abs=0.1)
    assert job["idle_end_gpu_h"] == 0 and job["never_used_gpu_h"] == 0
    # With more of them, of high samples perhaps, the mean is of others.
    summary = summary_of(tmp_path, TWO, with_second(UTIL, every(
        STEP, 0, 10 * HOUR, lambda at: 250 if at // STEP % 5 == 1 else 3)))  # fmt: skip
    assert summary.jobs["job_id"].to_list() == ["2"]


def test_the_engine_in_percent_is_taken_as_such(tmp_path):
    share = every(STEP, 0, 10 * HOUR, lambda at: 0.8 if at <= 6 * HOUR else 0)
    plain = only(summary_of(tmp_path, ONE, answer(series(ENGINE, "n1", 0, share))))
    percent = [(at, 100 * value) for at, value in share]
    summary = summary_of(tmp_path, ONE, answer(series(ENGINE, "n1", 0, percent)))
    assert only(summary) == pytest.approx(plain)
    assert told(summary) == {IN_PERCENT: "121"}


def test_missing_scrapes_are_no_unknown_time_unless_many_in_a_row(tmp_path):
    """Every fourth sample of a job that never used its GPU is missing, then also 2 hours."""
    points = [(at, 0) for at in range(0, 10 * HOUR + 1, STEP) if at // STEP % 4 != 1]
    (job,) = summary_of(tmp_path, ONE, answer(series(UTIL, "n1", 0, points))).jobs.rows(named=True)
    assert job["never_used_gpu_h"] == pytest.approx(10)
    gap = [(at, value) for at, value in points if not 4 * HOUR < at < 6 * HOUR]
    job = only(summary_of(tmp_path, ONE, answer(series(UTIL, "n1", 0, gap))))
    assert job["never_used_gpu_h"] == pytest.approx(8 + 3 * STEP / HOUR, abs=0.1)


def test_tensor_cores_must_be_sampled_for_as_long_as_the_gpu(tmp_path):
    use = series(ENGINE, "n1", 0, every(STEP, 0, 10 * HOUR, 0.9))
    for end_h, mean in ((10, 30), (9, None)):
        tensor = series(TENSOR, "n1", 0, every(STEP, 0, end_h * HOUR, 0.3))
        job = only(summary_of(tmp_path, ONE, answer(use, tensor)))
        assert job["gpu_tensor_mean"] == (None if mean is None else pytest.approx(mean))


def _of_one_node(folder, jobs_of, used_by, model="NVIDIA A100-SXM4-40GB", gpu_type="A100"):
    """Return a summary of jobs of a node where other jobs, or the same ones, used the GPU."""

    def busy(at):
        return 90 * any(begin <= at < end for begin, end in used_by)

    log = trace(*((str(i), "n1", begin, end, 1.0) for i, (begin, end) in enumerate(jobs_of)))
    log = replace(log, jobs=log.jobs.with_columns(gpu_type=pl.lit(gpu_type)))
    points = every(STEP, 0, max(end for _, end in jobs_of), busy)
    return summary_of(folder, log, answer(series(UTIL, "n1", 0, points, modelName=model)))


def _spans(seed):
    rng, at, spans = np.random.default_rng(seed), 0, []
    for _ in range(30):
        length, pause = (int(x) for x in rng.integers(HOUR, 9 * HOUR, 2))
        spans.append((at + pause, at + pause + length))
        at += pause + length
    return spans


def test_metrics_of_another_cluster_with_the_same_names_are_said(tmp_path):
    own = _spans(1)
    assert _of_one_node(tmp_path, own, own).misfit == ""
    strange = _of_one_node(tmp_path, own, _spans(2))
    assert "GPUs are in use when no job holds them" in strange.warnings[0]
    assert strange.misfit
    # Jobs most of which do nothing are no other cluster's.
    assert _of_one_node(tmp_path, own, own[::5]).misfit == ""


def test_metrics_of_another_model_of_gpu_are_said(tmp_path):
    own = _spans(1)
    summary = _of_one_node(tmp_path, own, own, model="NVIDIA H100 80GB HBM3")
    assert "n1: NVIDIA H100 80GB HBM3, in the log A100" in summary.misfit
    assert _of_one_node(tmp_path, own, own, gpu_type="gpu").misfit == ""  # names no model


def test_codes_of_rows_are_those_of_the_rows_sorted():
    """Of 40 columns of 10 values each, numbers need more than 64 bits on the way."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 10, (500, 40))[rng.integers(0, 100, 500)]
    from gpuplan.analysis.waste.holders import _row_codes

    codes = _row_codes(rows, np.arange(10))
    _, by_row = np.unique(rows, axis=0, return_inverse=True)
    _, by_code = np.unique(codes, return_inverse=True)
    assert by_code.tolist() == by_row.ravel().tolist()
