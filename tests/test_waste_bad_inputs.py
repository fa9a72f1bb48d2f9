"""``gpuplan waste`` on what cannot be meant or read: one message with the next step, or a count."""

import json
import os

import pytest
import support_metrics
from support_jobstats import packed, summary

HEADER = "JobID|User|State|Submit|Start|End|ElapsedRaw|NNodes|AllocTRES|NodeList|AdminComment"
BEGIN_S = 1_772_445_600
"""2026-03-02T10:00 UTC, when all jobs start."""
ENGINE, UTIL = support_metrics.ENGINE, support_metrics.UTIL


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder with a log of nine jobs of one A100, six of them idle."""
    monkeypatch.chdir(tmp_path)
    log("good.txt", *[summary([0.0] if job % 3 else [60.0]) for job in range(1, 10)])
    return tmp_path


def log(name, *comments, gpus=1):
    rows = [
        f"{job}|ann|COMPLETED|2026-03-02T10:00:00|2026-03-02T10:00:00|2026-03-02T11:00:00|3600|1|"
        f"gres/gpu={gpus},gres/gpu:a100={gpus}|n1|{comment}"
        for job, comment in enumerate(comments, 1)
    ]
    with open(name, "w", encoding="utf-8") as file:
        file.write("\n".join([HEADER, *rows]) + "\n")
    return name


def series(name, *labels, value=0.5, begin_s=BEGIN_S, samples=61, unit_s=1):
    """Write an answer of Prometheus with a series of 61 minutes of each of some labels."""
    points = [[(begin_s + 60 * at) // unit_s, str(value)] for at in range(samples)]
    result = [{"metric": each, "values": points} for each in labels]
    answer = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    with open(name, "w", encoding="utf-8") as file:
        json.dump(answer, file)
    return name


def of_node(node="n1", metric=ENGINE, **labels):
    return {"__name__": metric, "Hostname": node, "gpu": "0", **labels}


def told(gpuplan, *words, code=0):
    exit_code, out, err = gpuplan("waste", *words, "--no-replay")
    assert exit_code == code, err
    assert "Traceback" not in err
    assert err.count("error: ") == (code != 0)
    return " ".join(f"{out} {err}".split())


HALF = summary([0.0])


@pytest.mark.parametrize(
    ("comments", "note"),
    [
        ([HALF[: len(HALF) // 2], HALF], "summaries of jobstats that cannot be read"),
        (["JS1:!!!!", HALF], "summaries of jobstats that cannot be read"),
        ([summary([0.0, 50.0]), HALF], "summaries of jobstats with more GPUs than the job held"),
        ([summary([170.0]), HALF], "GPU counters of jobstats above 100%"),
        ([packed('{"nodes":{' + " " * 9_000_000 + "}}"), HALF], "too large when unpacked"),
        ([packed('{"nodes":{"n1":{}}}'), HALF], "without GPU counters"),
    ],
)
def test_damaged_summaries_are_unknown_and_told_beside_good_ones(gpuplan, site, comments, note):
    text = told(gpuplan, log("log.txt", *comments))
    assert f"{note}" in text and ": 1 " in text[text.index(note) :]
    assert "nothing is known of the use of 1 GPU-hours of 1 job (50.0%)" in text
    assert "Use is known for 50.0% of 2 GPU-hours; of these at least 1 GPU-hours (100.0%)" in text


def test_gpus_with_memory_alone_count_as_idle_and_that_is_told(gpuplan, site):
    """As jobstats itself takes them."""
    nodes = '"n1":{"gpu_utilization":{},"gpu_used_memory":{"0":5},"gpu_total_memory":{"0":9}}'
    text = told(gpuplan, log("log.txt", packed(f'{{"nodes":{{{nodes}}}}}'), summary([50.0])))
    assert "GPUs with memory but no utilization in jobstats, which counts as 0%: 1" in text
    assert "1 GPU-hours (50.0%)" in text
    assert "which counts as 0%" not in told(gpuplan, log("log.txt", HALF, summary([50.0])))


def test_short_and_absent_summaries_are_no_damage(gpuplan, site):
    text = told(gpuplan, log("log.txt", "JS1:Short", "JS1:None", HALF))
    assert "nothing is known of the use of 2 GPU-hours of 2 jobs" in text
    assert "too short" not in text and "without a summary" not in text


def test_a_log_without_gpus(gpuplan, site):
    text = told(gpuplan, log("log.txt", "", gpus=0))
    assert text.startswith("No job of the log held GPUs.")


@pytest.mark.parametrize("reverse", [False, True])
def test_copies_and_order_of_samples_change_nothing(gpuplan, site, reverse):
    labels = [of_node(instance=f"exporter{at}") for at in range(8)]
    path = series("s.json", *labels)
    if reverse:
        answer = json.loads((site / path).read_text())
        for each in answer["data"]["result"]:
            each["values"].reverse()
        (site / path).write_text(json.dumps(answer))
    text = told(gpuplan, log("log.txt", ""), "--metrics", path)
    assert "--metrics cover 1 GPU of 1 node" in text
    assert "samples that are copies of another: 427" in text
    assert "No GPU-hours do nothing." in text


@pytest.mark.parametrize(
    ("labels", "options", "problem", "hint"),
    [
        ({}, {}, "series without a metric name, not used: 1", "ask for the metric itself"),
        ({"Hostname": "n1", "gpu": "0"}, {}, "without a metric name", "avg_over_time()"),
        ({"__name__": ENGINE}, {}, "without the labels Hostname and gpu", "drop its labels"),
        (of_node(), {"value": 7500}, "samples above 100%: 61", "is from 0 to 1"),
        (of_node(metric=UTIL), {"value": 900}, "samples above 100%: 61", "from 0 to 100"),
        (of_node("zz9"), {}, "is of nodes that the log does not have (zz9)", "of these nodes"),
        (of_node(), {"begin_s": BEGIN_S - 90 * 86400}, "no samples within the runs", "--time-zone"),
        (of_node(metric="node_load1"), {}, "series of other metrics", "query=DCGM_FI_DEV_GPU_UTIL"),
        (
            of_node(metric="DCGM_FI_DEV_FB_USED"),
            {},
            "no metric of the use of GPUs, only DCGM_FI_DEV_FB_USED",
            "fetch one of these",
        ),
        (of_node(), {"value": "NaN"}, "samples that are no number or have no time: 61", "query="),
        (of_node(), {"samples": 1}, "one sample of each GPU, as an instant query", "query_range"),
        (
            of_node(),
            {"unit_s": 0.001},
            "with a time after 2136, as times in milliseconds",
            "by 1000",
        ),
    ],
)
def test_series_that_tell_nothing(gpuplan, site, labels, options, problem, hint):
    path = series("s.json", labels, **options)
    text = told(gpuplan, log("log.txt", ""), "--metrics", path, code=3)
    assert "error: s.json: " in text
    assert problem in text and hint in text.partition("next: ")[2]


@pytest.mark.filterwarnings("error")
def test_a_sample_too_large_for_our_unit_is_lost_and_counted(gpuplan, site):
    path = series("s.json", of_node())
    answer = json.loads((site / path).read_text())
    answer["data"]["result"][0]["values"][5][1] = "1e308"
    (site / path).write_text(json.dumps(answer))
    text = told(gpuplan, log("log.txt", ""), "--metrics", path)
    assert "samples that are no number or have no time: 1" in text


def test_samples_that_are_no_pairs(gpuplan, site):
    path = series("s.json", of_node())
    answer = json.loads((site / path).read_text())
    for each in answer["data"]["result"]:
        each["values"] = [[*pair, "1"] for pair in each["values"]]
    (site / path).write_text(json.dumps(answer))
    text = told(gpuplan, log("log.txt", ""), "--metrics", path, code=3)
    assert "samples that are no number or have no time: 61" in text


def test_series_of_which_half_is_lost_are_no_matter_of_the_clock(gpuplan, site):
    path = series("s.json", of_node(metric=UTIL))
    answer = json.loads((site / path).read_text())
    for pair in answer["data"]["result"][0]["values"][::2]:
        pair[1] = "250"
    (site / path).write_text(json.dumps(answer))
    text = told(gpuplan, log("log.txt", ""), "--metrics", path, code=3)
    assert "tells the use of no job of the log (samples above 100%: 31)" in text
    assert "check the time zone" not in text


@pytest.mark.parametrize("gpus", [1, 4])
def test_jobs_that_cannot_both_hold_the_gpus_with_samples_are_unknown(gpuplan, site, gpus):
    """Two jobs at a time on a node of whose GPUs only some are exported, and never used."""
    labels = [{**of_node(), "gpu": str(gpu)} for gpu in range(gpus)]
    path = series("s.json", *labels, value=0)
    words = (log("log.txt", "", "", gpus=gpus), "--metrics", path, "--mail", "texts")
    text = told(gpuplan, *words)
    assert "Nothing is known of what GPUs did" in text
    assert "wrote 0 texts to texts" in text


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "s.json: no such file"),
        ("", "s.json: is empty"),
        (
            '{"status":"error","errorType":"bad_data","error":"exceeded maximum resolution"}',
            "exceeded maximum resolution",
        ),
        ('{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"gpu', "was cut"),
        (
            '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":['
            + "9" * 5000
            + "]}]}}",
            "is no series",
        ),
        (HEADER + "\n1|ann\n", "is not a known format of GPU metrics"),
    ],
)
def test_files_that_are_no_series(gpuplan, site, content, problem):
    if content is not None:
        (site / "s.json").write_text(content)
    assert problem in told(gpuplan, "good.txt", "--metrics", "s.json", code=3)


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["--gpu-memory", "B999=80"], 2, "B999: no job has such a GPU; the log has A100"),
        (["--gpu-memory", "A100=lots"], 2, "'A100=lots': expected TYPE=GB, such as A100=80"),
        (["--gpu-memory", "A100=-3"], 2, "'A100=-3': expected TYPE=GB"),
        (["--gpu-memory", "A100"], 2, "'A100': expected TYPE=GB"),
        (["--gpu-memory", "A100=40,a100=80"], 2, "A100 is given twice"),
        (["--price", "-1"], 2, "expected dollars per GPU-hour above 0"),
        (["--price", "A100=-1"], 2, "expected dollars per GPU-hour above 0"),
        (["--price", "H100=2"], 2, "A100 has no price, only H100"),
        (["--end-idle-after", "10s"], 2, "must be at least 60 s, such as 30m or 2h"),
        (["--end-idle-after", "soon"], 2, "expected a duration such as"),
        (["--usd-per-kwh", "0.2"], 2, "next: add --metrics FILE"),
        (["--usd-per-kwh", "-1", "--metrics", "good.txt"], 2, "must be at least 0"),
        (["--policy", "fastest"], 2, "no such policy"),
        (["--cluster", "A100=x"], 2, "must be like A100=4x8"),
        (["--twin", "no.toml"], 3, "no.toml: no such file"),
        (["--twin", "good.txt"], 3, "expected a file written by gpuplan calibrate"),
        (["--twin", "no.toml", "--policy", "easy"], 2, "--policy: not with --twin"),
        (["--profile", "none.csv"], 3, "none.csv: no such file"),
        (["--profile", "good.txt"], 3, "next: for example 8,20,0.036,222.2"),
        (["--mail", "good.txt"], 3, "good.txt: exists already; name a new folder for --mail"),
        (["--mail", "."], 3, "exists already"),
        (["--mail", "no/such/texts"], 3, "the folder no/such does not exist; create it first"),
        (["--mail", "good.txt/texts"], 3, "the folder good.txt does not exist"),
        (["--fail-if", "idle_hours > 3"], 2, "no field 'idle_hours'"),
    ],
)
def test_options_that_cannot_be_meant(gpuplan, site, words, code, problem):
    assert problem in told(gpuplan, "good.txt", *words, code=code)
    assert {path.name for path in site.iterdir()} == {"good.txt"}


def test_a_folder_that_may_not_be_written_to_is_told_before_the_work(gpuplan, site, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK)  # root may write anywhere
    text = told(gpuplan, "good.txt", "--mail", "texts", code=3)
    assert "texts: the folder . may not be written to" in text
    assert "what GPUs did" not in text


def test_that_nothing_is_replayed_is_told(gpuplan, site):
    """All jobs idle for an hour, and none is ended before 2 hours."""
    code, _, err = gpuplan("waste", "good.txt")
    assert code == 0
    assert "no waits are replayed: no job could be ended after 120 min" in " ".join(err.split())
