"""The real Helios and Alibaba files: what their folders' READMEs state, and what is refused."""

import json

import polars as pl
import pytest

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.ingest.ingest import ingest

SCHEDULED_GPU_PODS = ("--where", "num_gpus > 0 and state != 'not_started'")
OPENB = {
    "mean": 30851.1, "p50": 655.0, "p90": 7387.2, "p95": 16986.7, "p99": 147561.0,
    "min": 4.0, "max": 12537496.0,
}  # fmt: skip
GENAI = {
    "mean": 26.6, "p50": 22.0, "p90": 46.0, "p95": 61.0, "p99": 89.9, "min": 0.0, "max": 567.0,
}  # fmt: skip


@pytest.fixture
def statistics(gpuplan, shared, tmp_path):
    """Ingest a file of the folder, nothing forced, and characterize it; returns the results."""

    def run(file, *selection):
        trace = tmp_path / "trace.parquet"
        code, _, err = gpuplan("ingest", shared / "data" / file, "-o", trace, "--max-rejects", "0")
        assert code == 0, err
        jobs = pl.read_parquet(trace)
        # The published statistics take jobs that last to the end of the trace as ended.
        ended = pl.col("state").cast(pl.String).replace("running", "completed")
        jobs.with_columns(ended.cast(jobs["state"].dtype)).write_parquet(tmp_path / "ended.parquet")
        code, out, err = gpuplan(
            "characterize", tmp_path / "ended.parquet", *selection, "--output-format", "json"
        )
        assert code == 0, err
        return json.loads(out)["results"], jobs

    return run


def rounded(found, expected):
    return {name: round(found["duration_s"][name], 1) for name in expected}


@pytest.mark.parametrize(
    ("variant", "pods", "phases", "cpu_only", "never", "fractional", "with_type", "at_end"),
    [
        ("default", 8152, (1870, 897, 5193, 192), 1088, 897, 3078, 0, 34),
        ("cpu050", 7439, (1869, 878, 4504, 188), 375, 878, 3078, 0, 32),
        ("gpuspec33", 8152, (1870, 897, 5193, 192), 1088, 897, 3078, 2388, 34),
    ],
)
def test_openb(statistics, variant, pods, phases, cpu_only, never, fractional, with_type, at_end):
    file = f"alibaba-openb-v2023/openb_pod_list_{variant}.csv.gz"
    found, jobs = statistics(file, *SCHEDULED_GPU_PODS)
    assert jobs.height == pods
    words = dict(jobs["source_state"].value_counts().rows())
    assert tuple(words[word] for word in ("Failed", "Pending", "Running", "Succeeded")) == phases
    gpus, states = jobs["num_gpus"], jobs["state"]
    assert (gpus == 0).sum() == cpu_only
    assert (states == "not_started").sum() == jobs["duration_s"].null_count() == never
    assert ((gpus > 0) & (gpus < 1)).sum() == fractional
    assert jobs["gpu_type"].count() == with_type
    assert (states == "running").sum() == at_end
    assert found["jobs"] == 6203
    assert rounded(found, OPENB) == OPENB
    assert round(found["short_jobs"]["under_600s"], 4) == 0.4877
    assert round(found["gpu_time"]["top10pct_longest_share"], 4) == 0.9700
    assert round(found["gpu_time"]["gpu_hours"], 1) == 51470.7
    assert round(found["interarrival"]["mean_s"], 1) == 2080.3
    assert round(found["interarrival"]["scv"], 1) == 356.7
    assert round(found["interarrival"]["zero_share"], 4) == 0.0161
    assert found["span_s"] == 12901761.0
    scheduled = jobs.filter((gpus > 0) & (states != "not_started"))
    whole = scheduled["num_gpus"].ceil().value_counts().sort("num_gpus").rows()
    assert whole == [(1.0, 6129), (2.0, 15), (4.0, 15), (8.0, 44)]


def test_genai(statistics):
    found, jobs = statistics("alibaba-genai-v2026/requests_a.csv.gz")
    assert found["jobs"] == jobs.height == 13411
    assert jobs["user"].n_unique() == 2283
    words = dict(jobs["source_state"].value_counts().rows())
    assert words == {"SUCCEED": 13171, "FAILED": 231, "PENDING": 9}
    classes = dict(jobs["job_class"].value_counts().rows())
    assert classes == {"TXT_2_IMG": 12231, "IMG_2_IMG": 1075, "INPAINTING": 105}
    first, last = jobs["submit_time"].min(), jobs["submit_time"].max()
    assert (f"{first:%F %T}", f"{last:%F %T}") == ("2024-11-15 16:57:50", "2024-11-29 00:38:35")
    assert rounded(found, GENAI) == GENAI
    assert found["short_jobs"]["under_600s"] == 1.0
    assert round(found["gpu_time"]["top10pct_longest_share"], 4) == 0.2549
    assert round(found["gpu_time"]["gpu_hours"], 1) == 99.0
    assert round(found["interarrival"]["mean_s"], 1) == 85.8
    assert round(found["interarrival"]["scv"], 1) == 144.2
    assert round(found["interarrival"]["zero_share"], 4) == 0.0235
    assert found["span_s"] == 1150845.0


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("alibaba-openb-v2023/openb_pod_list_multigpu50.csv.gz", "no times"),
        ("alibaba-openb-v2023/openb_node_list_all_node.csv", "nodes of Alibaba openb.*no jobs"),
        ("alibaba-openb-v2023/openb_node_list_gpu_node.csv", "nodes of Alibaba openb.*no jobs"),
        ("alibaba-spot-v2026/node_info_df.csv", "nodes of Alibaba spot-gpu.*no jobs"),
        ("helios/earth_vc6YE_10min.csv", "GPU demand of Helios.*no jobs"),
        ("helios/earth_vcpDC_10min.csv", "GPU demand of Helios.*no jobs"),
        ("helios/helios_cluster_summary.csv", "sums per cluster.*no jobs"),
    ],
)
def test_files_without_jobs_are_refused_for_what_they_are(shared, tmp_path, file, says):
    with pytest.raises(InputError, match=says):
        ingest([shared / "data" / file], tmp_path / "trace.parquet")
    assert not list(tmp_path.iterdir())
