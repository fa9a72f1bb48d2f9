"""Every real file of ../shared/data: a trace, a price history, or refused as neither."""

from fnmatch import fnmatch

import pytest

from gpuplan.analysis.base.errors import GpuplanError
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.prices.ingest import ingest_prices

TRACES = {
    "acmetrace/kalos_completed_319.csv": ("tiresias", 319),
    "alibaba-genai-v2026/requests_a.csv.gz": ("genai", 13_411),
    "alibaba-openb-v2023/openb_pod_list_cpu050.csv.gz": ("openb", 7_439),
    "alibaba-openb-v2023/openb_pod_list_default.csv.gz": ("openb", 8_152),
    "alibaba-openb-v2023/openb_pod_list_gpuspec33.csv.gz": ("openb", 8_152),
    "azure-llm-2023/AzureLLMInferenceTrace_code.csv.gz": ("azure-llm", 8_819),
    "company/edges/jobs.csv": ("canonical", 14),
    "company/jobs.csv.gz": ("canonical", 43_880),
    "company/jobs_offset.csv.gz": ("canonical", 43_880),
    "company/jobs_sacct.txt.gz": ("slurm", 43_453),
    "dilu/instances-100.txt": ("dilu", 100),
    "dilu/instances-400.txt": ("dilu", 400),
    "gavel/msr-seed0/0e4a51.trace.gz": ("gavel", 1_181),
    "gavel/msr-seed0/103959.trace.gz": ("gavel", 986),
    "gavel/msr-seed0/11cb48.trace.gz": ("gavel", 2_000),
    "gavel/msr-seed0/23dbec.trace": ("gavel", 9),
    "gavel/msr-seed0/2869ce.trace.gz": ("gavel", 533),
    "gavel/msr-seed0/51b7ef.trace": ("gavel", 18),
    "gavel/msr-seed0/795a4c.trace": ("gavel", 3),
    "gavel/msr-seed0/7f04ca.trace.gz": ("gavel", 972),
    "gavel/msr-seed0/925e2b.trace": ("gavel", 4),
    "gavel/msr-seed0/e13805.trace.gz": ("gavel", 607),
    "gavel/msr-seed0/ed69ec.trace.gz": ("gavel", 951),
    "gavel/msr-seed0/ee9e8c.trace.gz": ("gavel", 2_000),
    "gavel/physical/max_min_fairness.trace": ("gavel", 96),
    "gavel/physical/medium_test.trace": ("gavel", 20),
    "gavel/physical/small_test.trace": ("gavel", 20),
    "philly/philly_jobs_a.csv.gz": ("philly", 55_009),
    "pollux-workloads/workloads-0.5/*.csv": ("sia", 80),
    "pollux-workloads/workloads-1.5/*.csv": ("sia", 240),
    "pollux-workloads/workloads-2.0/*.csv": ("sia", 320),
    "pollux-workloads/workloads-realistic/*.csv": ("sia", 160),
    "pollux-workloads/workloads/*.csv": ("sia", 160),
    "sia-workloads/newtrace/*.csv": ("sia", 960),
    "sia-workloads/philly/*.csv": ("sia", 160),
    "sia-workloads/rate_10/*.csv": ("sia", 80),
    "sia-workloads/rate_20/*.csv": ("sia", 160),
    "sia-workloads/rate_30/*.csv": ("sia", 240),
    "sia-workloads/rate_40/*.csv": ("sia", 320),
    "sia-workloads/rate_50/*.csv": ("sia", 400),
    "sia-workloads/saturn/*.csv": ("sia", 160),
    "sia-workloads/scale_2x/*.csv": ("sia", 320),
    "sia-workloads/scale_8x/*.csv": ("sia", 1_280),
    "swf/curie-partition8-a.swf.gz": ("swf", 7_000),
    "tiresias/60_job.csv": ("tiresias", 60),
    "wandb/wandb_runs_2022.csv": ("wandb", 9),
}
"""Pattern -> (format, jobs). The READMEs call no row bad, so that every row must be kept."""
PRICES = {
    "company/prices.csv": ("canonical", 7),
    "prices/aws_spot_2016.csv.gz": ("canonical", 11_053),
    "prices/gcp_a.csv.gz": ("canonical", 5_848),
    "prices/prime_best_deal_1x.csv.gz": ("canonical", 3_569),
    "prices/prime_by_provider.csv.gz": ("canonical", 14_783),
    "prices/prime_market_median.csv.gz": ("canonical", 3_623),
    "prices/raw/H100_80GB_SXM5.jsonl.gz": ("prime", 517),  # providers of 120 snapshots
    "prices/raw/aws_spot_price_history_g2.8xlarge_us-east-1a.json.gz": ("aws", 1_000),
    "spot-availability/*aws-02-15-2023__us-*_v100_1.json.gz": ("spot-availability", 20_158),
    "spot-availability/*aws-10-26-2022__us-west-2a_*.json.gz": ("spot-availability", 3_895),
    "spot-availability/*aws-08-27-2023__us-west-2a_v100_1.json.gz": ("spot-availability", 4_736),
    "spot-availability/*aws-04-22-2023__us-*_v100_1.json.gz": ("spot-availability", 19_961),
    "spot-availability/*aws-08-03-2023__us-east-2a_v100_1.json.gz": ("spot-availability", 5_131),
}
NEITHER = (
    "*README.md",
    "acmetrace/c*.csv",  # summaries and distributions
    "alibaba-openb-v2023/openb_node_list_*.csv",
    "alibaba-openb-v2023/openb_pod_list_multigpu50.csv.gz",  # pods without times
    "alibaba-spot-v2026/aggregates/*",  # demand by hour, counts
    "alibaba-spot-v2026/node_info_df.csv",
    "boa-profiles/*",
    "company/*contracts.toml",
    "company/invoice_focus.csv.gz",
    "company/*truth.json",
    "dilu/bs_sm_*.csv",  # profiles
    "dilu/bursty.txt",  # rates
    "dilu/sporadic.txt",
    "gavel/*throughputs*",
    "helios/*.csv",  # demand over time
    "spot-availability/*intel_64.json.gz",  # no GPU
)


def kind_of(name: str, table):
    """Return what the first pattern that fits a file tells of it."""
    return next((table[pattern] for pattern in table if fnmatch(name, pattern)), None)


def test_every_real_file_is_what_it_is(shared, tmp_path):
    root = shared / "data"
    files = sorted(path for path in root.rglob("*") if path.is_file())
    files = [path for path in files if root / "sitelab" not in path.parents]  # dumps of a site
    neither = dict.fromkeys(NEITHER, True)
    for path in files:
        name = path.relative_to(root).as_posix()
        trace, prices = kind_of(name, TRACES), kind_of(name, PRICES)
        assert (trace is None) + (prices is None) + (kind_of(name, neither) is None) == 2, name
        if trace is not None:
            provenance = ingest([path], tmp_path / "t.parquet").provenance
            assert (provenance.source_format, provenance.rows_kept, provenance.rows_rejected) == (
                *trace,
                {},
            ), name
        else:
            refused(ingest, path, tmp_path / "no")
        if prices is not None:
            history = ingest_prices([path], tmp_path / "p.parquet").provenance
            found = (history.sources[0].source_format, history.rows_kept)
            assert found == prices, name
            assert history.rows_rejected == history.rows_skipped == {}
        else:
            refused(ingest_prices, path, tmp_path / "no")
    for pattern in (*TRACES, *PRICES, *NEITHER):
        assert any(fnmatch(str(path.relative_to(root)), pattern) for path in files), pattern


def refused(read, path, folder):
    """Check that a file is refused with exit code 3, by its name, and nothing is written."""
    folder.mkdir(exist_ok=True)
    with pytest.raises(GpuplanError) as caught:
        read([path], folder / "out.parquet")
    assert caught.value.exit_code == 3, path
    assert str(caught.value).startswith(str(path))
    assert list(folder.iterdir()) == []


def test_real_folders(shared, tmp_path):
    data = shared / "data"
    result = ingest([data / "gavel"], tmp_path / "t.parquet")
    assert result.provenance.rows_kept == 9_400
    assert len(result.provenance.sources) == 15
    assert any(note.endswith(": 3") for note in result.provenance.notes)
    history = ingest_prices([data / "prices"], tmp_path / "p.parquet").provenance
    assert len(history.sources) == 7
    refused(ingest, data / "helios", tmp_path / "no")
