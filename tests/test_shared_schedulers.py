"""The real logs of schedulers and simulators: the statistics that their folders' READMEs state."""

from collections import Counter

import numpy as np
import polars as pl
import pytest

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.characterize import COLUMNS, characterize
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.job_table.reject_limit import Limit
from gpuplan.analysis.log_formats.format import IngestOptions
from gpuplan.analysis.trace.trace import read_trace

NONE = Limit.of("0")
DURATION = ("mean", "p50", "p90", "p95", "p99", "min", "max")


@pytest.fixture
def facts(shared, tmp_path):
    """Ingest files with nothing forced and no row rejected: (provenance, summary, jobs)."""

    def of(file, **choices):
        trace, chosen = tmp_path / "trace.parquet", IngestOptions(**choices)
        provenance = ingest([shared / "data" / file], trace, choices=chosen, limit=NONE).provenance
        summary = characterize(read_trace(trace, columns=COLUMNS)).summary()
        return provenance, summary, pl.read_parquet(trace)

    return of


def readme_rows(shared, folder):
    """Return the cells of the rows of the tables in a README, headers and rulers left out."""
    text = (shared / "data" / folder / "README.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def counts(description):
    """Return the counts of ``1: 436, 2: 226``."""
    return {name: int(n) for name, n in (pair.rsplit(": ", 1) for pair in description.split(", "))}


def gpu_mix(summary):
    return {f"{row['num_gpus']:g}": row["jobs"] for row in summary["gpu_counts"]}


def rounded(values, names, digits=1):
    return [round(values[name], digits) for name in names]


def test_gavel(shared, facts):
    rows = readme_rows(shared, "gavel")
    assert len(rows) == 15
    rates = shared / "data/gavel/throughputs_isolated.csv"
    for name, jobs, without, mix, scv, durations in rows:
        file = next((shared / "data/gavel").rglob(f"{name.rpartition('/')[2]}.trace*"))
        provenance, summary, _ = facts(file)
        assert (provenance.source_format, provenance.relative_time) == ("gavel", True)
        assert summary["jobs"] == int(jobs)
        assert gpu_mix(summary) == counts(mix)
        found = summary["interarrival"]["scv"]
        assert (found is None and scv == "nan") or round(found, 3) == float(scv)
        _, summary, frame = facts(file, throughputs=rates, worker_type="v100")
        assert frame["duration_s"].null_count() == int(without)
        assert rounded(summary["duration_s"], ("mean", "p50", "p90", "p99", "max"), None) == [
            int(value) for value in durations.split(" / ")
        ]


def test_gavel_throughputs_as_the_simulator_has_them(shared, facts):
    folder = shared / "data/gavel"
    tables = (folder / "throughputs_isolated.csv", folder / "simulation_throughputs.json.gz")
    one, other = (
        facts("gavel/msr-seed0/2869ce.trace.gz", throughputs=table, worker_type="p100")[2]
        for table in tables
    )
    assert one.equals(other)
    assert 0 < one["duration_s"].null_count() < one.height


def test_tiresias(facts):
    provenance, summary, _ = facts("tiresias/60_job.csv")
    assert (provenance.source_format, summary["jobs"]) == ("tiresias", 60)
    assert rounded(summary["duration_s"], DURATION) == [
        178.4, 125.0, 211.1, 308.1, 1054.2, 121.0, 1800.0,
    ]  # fmt: skip
    assert round(summary["short_jobs"]["under_600s"], 4) == 0.9833
    assert round(summary["gpu_time"]["top10pct_longest_share"], 4) == 0.2117
    assert round(summary["gpu_time"]["gpu_hours"], 4) == 7.3956
    assert round(summary["interarrival"]["mean_s"], 1) == 30.2
    assert round(summary["interarrival"]["scv"], 4) == 0.0295
    assert summary["interarrival"]["zero_share"] == 0
    assert summary["span_s"] == 1779
    assert gpu_mix(summary) == {"1": 30, "2": 10, "4": 10, "8": 10}


def test_the_golden_tiresias_jobs_and_their_clusters(gpuplan, shared, tmp_path):
    folder, trace = shared / "golden/tiresias", tmp_path / "t.parquet"
    code, _, err = gpuplan("ingest", folder / "60_job.csv", "-o", trace)
    assert code == 0, err
    assert pl.read_parquet(trace)["duration_s"].mean() == pytest.approx(178.417, abs=5e-4)
    trace.unlink()
    for other, says in [
        ("n4g4.csv", "the cluster of a Tiresias"),
        ("jct_60-n2g4.csv", "unrecognized"),
    ]:
        code, out, err = gpuplan("ingest", folder / other, "-o", trace)
        assert (code, out, trace.exists()) == (3, "", False)
        assert says in err


def test_kalos_jobs_by_worker(facts):
    provenance, summary, jobs = facts("acmetrace/kalos_completed_319.csv")
    assert (provenance.source_format, summary["jobs"]) == ("tiresias", 319)
    assert rounded(summary["duration_s"], DURATION) == [
        15421.6, 310.0, 36979.0, 94767.0, 221412.0, 14.0, 625740.0,
    ]  # fmt: skip
    assert round(summary["short_jobs"]["under_600s"], 4) == 0.6740
    assert round(summary["gpu_time"]["top10pct_longest_share"], 4) == 0.8365
    assert round(summary["gpu_time"]["gpu_hours"], 1) == 456_842.7
    assert round(summary["interarrival"]["mean_s"], 1) == 24_463.8
    assert round(summary["interarrival"]["scv"], 4) == 6.8572
    assert summary["span_s"] == 7_779_474
    told_mix = {
        512: 73, 256: 52, 2: 41, 1024: 38, 1: 29, 64: 22, 8: 19, 32: 14, 16: 11, 504: 7, 496: 4,
        96: 3,
    }  # fmt: skip
    mix = Counter(jobs["num_gpus"].to_list())
    assert {gpus: mix[gpus] for gpus in told_mix} == told_mix
    assert sorted(mix.values(), reverse=True)[:12] == list(told_mix.values())


def test_azure_requests(facts):
    provenance, summary, jobs = facts("azure-llm-2023/AzureLLMInferenceTrace_code.csv.gz")
    assert (provenance.source_format, summary["jobs"]) == ("azure-llm", 8819)
    first, last = jobs["submit_time"].min(), jobs["submit_time"].max()
    assert first.isoformat() == "2023-11-16T18:17:03.979960+00:00"
    assert last.isoformat() == "2023-11-16T19:14:19.928016+00:00"
    assert round(summary["interarrival"]["mean_s"], 6) == 0.389652
    assert round(summary["interarrival"]["scv"], 4) == 172.9565


@pytest.mark.parametrize(
    ("file", "starts", "running", "mean", "types"),
    [
        ("instances-100.txt", 100, 30, 213.4, (20, 60, 20)),
        ("instances-400.txt", 400, 120, 210.2, (80, 240, 80)),
    ],
)
def test_dilu(facts, file, starts, running, mean, types):
    provenance, summary, jobs = facts(f"dilu/{file}")
    assert (provenance.source_format, summary["jobs"]) == ("dilu", starts)
    assert summary["censored_jobs"] == jobs["duration_s"].null_count() == running
    assert rounded(summary["duration_s"], ("mean", "p50", "max")) == [mean, 120.0, 900.0]
    kinds = dict(jobs["job_class"].value_counts().rows())
    assert tuple(kinds[kind] for kind in ("training", "inference", "llm-inference")) == types


@pytest.mark.parametrize("folder", ["pollux-workloads", "sia-workloads"])
def test_sia_and_pollux_workloads(shared, facts, folder):
    for name, files, jobs, last, scv, gpus, applications in readme_rows(shared, folder):
        paths = sorted((shared / "data" / folder / name).glob("*.csv"))
        assert len(paths) == int(files)
        lasts, scvs, seen, kinds = [], [], set(), Counter()
        for path in paths:
            provenance, summary, frame = facts(path)
            assert provenance.source_format == "sia"
            assert f"[{summary['jobs']}]" == jobs
            lasts.append(frame["submit_time"].max().timestamp())
            scvs.append(summary["interarrival"]["scv"])
            seen |= set(frame["num_gpus"].to_list())
            kinds.update(frame["job_class"].to_list())
        assert f"{min(lasts):.0f}-{max(lasts):.0f}" == last
        assert np.round([min(scvs), max(scvs)], 3).tolist() == [float(x) for x in scv.split("-")]
        assert f"[{', '.join(f'{n:g}' for n in sorted(seen))}]" == gpus
        assert kinds == counts(applications)


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("gavel/throughputs_isolated.csv", "throughputs"),
        ("gavel/simulation_throughputs.json.gz", "unrecognized log format"),
        ("acmetrace/cluster_summary.csv", "sums per trace"),
        ("acmetrace/cdf_gpu_job_duration.csv", "shares of jobs by duration"),
        ("acmetrace/cdf_gpu_count.csv", "shares of jobs by GPUs"),
        ("dilu/bursty.txt", "unrecognized log format"),
        ("dilu/bs_sm_llama2.csv", "unrecognized log format"),
    ],
)
def test_what_is_no_trace_is_refused(shared, tmp_path, file, says):
    with pytest.raises(InputError, match=says):
        ingest([shared / "data" / file], tmp_path / "t.parquet")
    assert list(tmp_path.iterdir()) == []
