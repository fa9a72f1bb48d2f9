"""Extreme values of options end with a message, before any work: never with a bug."""

import pytest
from support_traces import write_trace

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.job_table.gpu_names import gpu_name
from gpuplan.analysis.prices.ingest import ingest_prices
from gpuplan.analysis.storage.files import existing_file
from gpuplan.planner.speedup.registry import load_speedup

LONG = "9" * 400


@pytest.fixture
def trace(tmp_path):
    """Six jobs, one every ten minutes."""
    return write_trace(tmp_path / "t.parquet", [600 * i for i in range(6)], [600.0] * 6)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("pareto", "--horizon", "1e-300"), "--horizon must be at least 1 s"),
        (("pareto", "--horizon", "1e-9"), "--horizon must be at least 1 s"),
        (("pareto", "--budget", "1.7e308"), "--budget must be above 0 and at most 1e+12"),
        (("simulate", "--set", "capacity=" + "9" * 5_000), "--set capacity '99999"),
        (("sweep", "--capacity", "9" * 5_000), "expected at most 16,777,216 workers"),
        (("sweep", "--threshold", "1s:2s:" + "9" * 5_000), "a range runs from low to high in 2 to"),
        (("pareto", "--max-width", LONG), "--max-width"),
        (("pareto", "--max-gpus", LONG), "--max-gpus"),
        (("pareto", "--width-step", LONG), "--width-step"),
        (("pareto", "--cluster", LONG), "--cluster"),
        (("pareto", "--widths", LONG), "--widths: a width is 1 to 16,777,216 GPUs, got 99999"),
        (("characterize", "--scale-duration", "1e-300"), "run for less than a microsecond"),
        (("characterize", "--scale-duration", "1e300"), "run for more than a century"),
        (("simulate", "--scale-duration", "5e-324"), "run for less than a microsecond"),
    ],
)
def test_an_extreme_option_is_told(gpuplan, trace, options, says):
    name, *rest = options
    code, _, err = gpuplan(name, trace, *rest)
    assert code == 2, err
    assert says in err


EXTREME = ("nan", "inf", "-inf", "1e300", "5e-324", "1e999", "9" * 5_000, "-1", "")
TABLES = {
    "table": {"job_class": "a", "num_gpus": "2", "throughput": "1.5", "epoch": "0",
              "work_share": "1", "gpu_type": "L4"},
    "pollux": {
        "job_class": "a", "alpha_c": "0.1", "beta_c": "0.01", "alpha_r": "0.1", "beta_r": "0.01",
        "alpha_n": "0.1", "beta_n": "0.01", "gamma": "2", "init_batch_size": "128",
        "max_batch_size": "1024", "min_local_bsz": "32", "max_local_bsz": "256",
        "gpus_per_node": "4", "noise_scale": "100", "epoch": "0", "work_share": "1",
        "work_h": "1", "rescale_s": "10",
    },
}  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", TABLES)
def test_extreme_cells_of_a_table_of_speedups_are_told(tmp_path, kind):
    good = TABLES[kind]
    for column in good:
        for cell in EXTREME:
            row = ",".join({**good, column: cell}.values())
            first = ",".join({**good, "num_gpus": "1"}.values()) if kind == "table" else ""
            path = tmp_path / "table.csv"
            path.write_text("\n".join([",".join(good), *([first] if first else []), row]) + "\n")
            try:
                load_speedup(f"{kind}:{path}")
            except InputError as error:
                assert "table.csv" in str(error)
            else:
                assert column in ("job_class", "gpu_type") or cell in ("5e-324", ""), column


def test_a_not_a_number_is_no_whole_number(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("job_class,num_gpus,throughput,epoch\na,1,1,nan\n")
    with pytest.raises(InputError, match="column 'epoch': found 'nan'; expected a whole number"):
        load_speedup(f"table:{path}")


def test_more_gpus_than_can_be_planned_are_told(gpuplan, tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0, 1], [3e9, 3e9], [1e7, 1e7])
    code, _, err = gpuplan("pareto", path)
    assert code == 2
    assert "than the 16,777,216 that can be planned" in err
    assert "next: a longer --horizon" in err


def test_a_name_that_is_too_long_for_a_file_is_told(gpuplan, tmp_path):
    name = tmp_path / ("x" * 5_000)
    with pytest.raises(InputError, match=r"xxx: cannot be read: File name too long"):
        existing_file(name)
    for command in ("characterize", "ingest", "run"):
        assert gpuplan(command, name, *(["-o", "t.parquet"] * (command == "ingest")))[0] == 3


@pytest.mark.parametrize("memory", ["nan", "inf", "-inf", "1e300", "5e-324", "-0", "-80000", "x"])
def test_memory_that_no_card_has_is_not_told(tmp_path, memory):
    assert gpu_name("A100", float(memory) if memory != "x" else None) == "A100"
    header = "timestamp,machine_id,dph_total,num_gpus,gpu_name,gpu_ram\n"
    rows = "".join(f"2026-01-21T14:1{i}:00Z,{i},0.5,1,A100,{memory}\n" for i in range(3))
    (tmp_path / "asks.csv").write_text(header + rows)
    result = ingest_prices([tmp_path / "asks.csv"], tmp_path / "p.parquet")
    assert result.prices["gpu_type"].unique().to_list() == ["A100"]
