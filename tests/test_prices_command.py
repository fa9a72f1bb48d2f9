"""``gpuplan prices`` and ``gpuplan characterize --prices`` on files."""

import json
import re

import pytest
import support_traces
from support_prices import HEADER, jobs


def test_the_command_and_characterize(tmp_path, gpuplan):
    source, table = tmp_path / "p.csv", tmp_path / "prices.parquet"
    source.write_text(
        f"{HEADER}\n"
        + "".join(f"2026-01-05T{h:02}:00:00Z,c,A100 80GB,,spot,{1 + h % 2},{h}\n" for h in range(9))
        + "2026-01-05T00:00:00Z,d,A100 80GB,,on-demand,5,\nbroken\n"
    )
    code, out, err = gpuplan(
        "prices", source, "-o", table, "--max-rejects", "1", "--plot", tmp_path / "p.png",
        "--plot", tmp_path / "p.svg", "--output-format", "json",
    )  # fmt: skip
    assert code == 0 and "1 row cannot be used" in err
    results = json.loads(out)["results"]
    assert (results["rows_read"], results["rows_kept"], results["rows_rejected"]) == (11, 10, 1)
    assert results["references"] == {"A100-80GB": "d:on_demand"}
    assert (tmp_path / "p.png").stat().st_size > 10_000
    for form in ("table", "md", "csv"):
        code, shown, _ = gpuplan("prices", source, "-o", table, "--max-rejects", "1",
                                 "--output-format", form)  # fmt: skip
        assert code == 0 and "A100-80GB" in shown
        assert form != "table" or max(map(len, shown.splitlines())) <= 100

    trace = support_traces.write(tmp_path / "t.parquet", jobs((0, 0, 4, 2), gpu="A100-80GB").jobs)
    code, out, err = gpuplan("characterize", trace, "--prices", table, "--output-format", "json")
    assert code == 0, err
    document = json.loads(out)
    assert [entry["path"] for entry in document["inputs"]] == [str(trace), str(table)]
    bills = {b["provider"]: b for b in document["results"]["prices"]["bills"]}
    assert bills["c"]["cost_usd"] == pytest.approx(2 * (1 + 2 + 1 + 2))
    assert bills["d"]["cost_usd"] == pytest.approx(40.0)
    code, out, _ = gpuplan("characterize", trace, "--prices", "builtin", "--gpu", "A100",
                           "--as-of", "2026-06-01", "--full",
                           "--fail-if", "prices.unpriced_gpu_hours > 0")  # fmt: skip
    assert code == 0 and "What the trace would have cost" in out
    # The list has no hours.
    assert re.search(r"A100-80GB +lowest +listed", out) and "each hour" not in out
    assert max(map(len, out.splitlines())) <= 100
    code, out, _ = gpuplan("characterize", trace, "--prices", table, "--full")
    assert code == 0 and re.search(r"A100-80GB +cheapest +each hour", out)
    code, _, err = gpuplan("characterize", trace, "--gpu", "A100")
    assert code == 2 and "needs --prices" in err
    code, _, err = gpuplan("characterize", trace, "--prices", source)
    assert code == 3 and "gpuplan prices" in err


def test_gates_on_prices(tmp_path, gpuplan):
    source, table = tmp_path / "p.csv", tmp_path / "prices.parquet"
    source.write_text(
        f"{HEADER}\n2026-01-05T00:00:00Z,c,L4,,spot,0.5,\n2026-01-05T00:00:00Z,c,L4,,on-demand,1,\n"
    )

    def gated(condition):
        return gpuplan("prices", source, "-o", table, "--fail-if", condition)[::2]

    assert gated("offers.median_usd_per_gpu_h > $3")[0] == gated("rows_rejected > 0")[0] == 0
    assert gated("offers.median_usd_per_gpu_h > $0.4")[0] == 1
    assert gated("offers.saving < -1%")[0] == 0 and gated("offers.saving < 20%")[0] == 1
    code, err = gated("offers.median > 3")
    assert code == 2 and "offers.median_usd_per_gpu_h" in err and "has been written" in err
    assert table.exists()


def test_logs_and_traces_are_no_prices(tmp_path, gpuplan):
    log, out = tmp_path / "log.csv", tmp_path / "prices.parquet"
    log.write_text("name,time,application,num_replicas,batch_size\na,0,cifar10,1,128\n")
    code, _, err = gpuplan("prices", log, "-o", out)
    assert code == 3 and "is a job log (sia" in err and f"gpuplan ingest {log}" in err
    trace = support_traces.write(tmp_path / "t.parquet", jobs((0, 0, 4, 2)).jobs)
    code, _, err = gpuplan("prices", trace, "-o", out)
    assert code == 3 and "is a trace of jobs" in err and "--prices builtin" in err
    assert not out.exists()


def test_the_same_prices_give_the_same_bytes(tmp_path, gpuplan):
    source = tmp_path / "p.csv"
    source.write_text(
        f"{HEADER}\n"
        + "".join(f"2026-01-05T00:00:00Z,{p},L4,{r},spot,{i + 1},\n"
                  for i, (p, r) in enumerate((p, r) for p in "dcba" for r in "zyx"))
    )  # fmt: skip
    seen = set()
    for _ in range(2):
        _, out, _ = gpuplan("prices", source, "-o", tmp_path / "o.parquet", "--output-format",
                            "json")  # fmt: skip
        seen.add((out, (tmp_path / "o.parquet").read_bytes()))
    assert len(seen) == 1


@pytest.mark.parametrize("reference", ["aws", "x:spot", "c:spot:y"])
def test_a_reference_that_is_none_leaves_the_table_as_it_was(tmp_path, gpuplan, reference):
    source, table = tmp_path / "p.csv", tmp_path / "prices.parquet"
    source.write_text(f"{HEADER}\n2026-01-05T00:00:00Z,c,L4,,spot,1,\n")
    arguments = ("prices", source, "-o", table, "--reference", reference)
    code, _, err = gpuplan(*arguments)
    assert code == 2 and f"--reference {reference}" in err
    assert not table.exists()
    table.write_bytes(b"older")
    assert gpuplan(*arguments)[0] == 2
    assert table.read_bytes() == b"older"


def test_too_many_bad_rows_name_the_command_that_takes_more(tmp_path, gpuplan):
    source = tmp_path / "p.csv"
    source.write_text(f"{HEADER}\n2026-01-05T07:00:00Z,x,A100,eu,on-demand,-1,\n")
    code, _, err = gpuplan("prices", source, "-o", tmp_path / "p.parquet")
    assert code == 3 and "gpuplan prices --max-rejects" in err and "ingest" not in err
