"""The benchmark of GFS leaves out no policy that it runs, and its page has what it writes."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def reproduce(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    return pytest.importorskip("benchmarks.reproduce_gfs", reason="needs the repository")


def rows_of(reproduce, value):
    """Return results in which every policy has the same numbers, and chronus lower ones."""
    measured = {label: value * (0.5 if label == "chronus" else 1.0) for label in reproduce.POLICIES}
    return {
        label: {
            "eviction_rate": one / 100, "wasted_gpu_h": one,
            "hp": {"mean_jqt_s": one, "p99_jct_s": 100.0},
            "spot": {"mean_jqt_s": one, "mean_jct_s": one},
        }
        for label, one in measured.items()
    }  # fmt: skip


def test_every_policy_that_runs_is_printed_and_none_is_left_out_of_a_claim(reproduce):
    all_rows = {load: rows_of(reproduce, 10.0) for load in reproduce.LOADS}
    every, beside = (table.split("\n") for table in reproduce.tables(all_rows).values())
    labels = [line.split("|")[1].strip() for line in (*every, *beside)]
    assert set(reproduce.POLICIES) - {"gfs, sum"} <= set(labels)
    claims = reproduce.claims(all_rows)
    assert any("gfs, sum" in claim for _, claim, *_ in claims)
    of_all = [row for row in claims if row[1].startswith("GFS wastes the fewest GPU-hours of all")]
    assert of_all and all("chronus 5" in here and not holds for *_, here, holds in of_all)
    assert not any(holds for *_, claim, _, _, holds in claims if "below gfs" in claim)


def test_the_page_has_the_tables_of_the_benchmark(reproduce):
    from benchmarks.docs_tables import section

    page = (ROOT / "docs" / "gfs.md").read_text(encoding="utf-8")
    all_rows = {load: rows_of(reproduce, 1.0) for load in reproduce.LOADS}
    for name, table in reproduce.tables(all_rows).items():
        written = section(page, name).split("\n")
        assert written[0] == table.split("\n")[0]
        assert [line.split("|")[1] for line in written] == [
            line.split("|")[1] for line in table.split("\n")
        ]


def test_all_that_is_assumed_is_printed(reproduce):
    printed = "\n".join(reproduce.assumptions(10.0, 1))
    for value in ("35, 25, 20, 12, 8%", "60, 30, 10, 0, 0%", "55% of 2,296 GPUs", "17,749 s",
                  "10,100 s", "8 organizations", "A100=287x8", "seed 1", "grace_s=30"):  # fmt: skip
        assert value in printed
