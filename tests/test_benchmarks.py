"""Bars of the benchmarks, and what misses them."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from gpuplan.simkit.allpass.parameters import Allpass, Draws
from gpuplan.simkit.allpass.simulator import run_allpass


@pytest.fixture
def benchmarks(monkeypatch):
    """Make the folder of the repository importable."""
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[1])
    known = pytest.importorskip("benchmarks.__main__", reason="needs the repository")
    monkeypatch.setattr(known, "COUNTED", 1000)
    return known


@pytest.mark.parametrize(
    ("bar", "measured", "said"),
    [
        ("<= 2 s", {"ours_s": 2.0}, []),
        ("<= 2 s", {"ours_s": 2.1}, ["<= 2 s"]),
        ("<= 5 ms", {"ours_s": 0.0051}, ["<= 5 ms"]),
        ("<= 5 ms", {"ours_s": 0.0049}, []),
        (">= 100x", {"ours_s": 1.0, "ratio": 99.0}, [">= 100 x"]),
        ("<= 1.8x, <= 1000 MB", {"ours_s": 9.0, "ratio": 1.7, "peak_mb": 1001.0}, ["<= 1000 MB"]),
        ("< 1x", {"ours_s": 9.0, "ratio": 1.0}, ["< 1 x"]),
        ("<= 3x its size", {"ours_s": 9.0, "ratio": None}, []),
        ("difference <= 1e-6", {"ours_s": 1.0, "difference": 1e-5}, ["<= 1e-6"]),
        ("-", {"ours_s": 1e9}, []),
        ("none", {"ours_s": None}, []),
    ],
)
def test_a_bar_that_is_missed_is_found(benchmarks, bar, measured, said):
    assert benchmarks.missed({"bar": bar, **measured}) == said


def test_a_missed_bar_fails_the_run(benchmarks, monkeypatch, capsys):
    rows = [{"work": "slow", "ours_s": 3.0, "bar": "<= 2 s"}]
    known = type("Bench", (), {"run": staticmethod(lambda: rows)})
    monkeypatch.setattr(benchmarks.importlib, "import_module", lambda _: known)
    monkeypatch.setattr(benchmarks.sys, "argv", ["benchmarks", "slow"])
    with pytest.raises(SystemExit) as failed:
        benchmarks.main()
    assert "slow: missed <= 2 s" in str(failed.value)
    rows[0]["ours_s"] = 1.0
    benchmarks.main()
    assert "| slow | 1 s |" in capsys.readouterr().out


def test_the_page_is_written_whole_or_not_at_all(benchmarks, monkeypatch, tmp_path):
    rows = [
        {"work": "slow", "ours_s": 3.0, "bar": "<= 2 s"},
        {"work": "x", "ours_s": 1, "bar": "-"},
    ]
    known = type("Bench", (), {"run": staticmethod(lambda: rows), "__doc__": "Title.\n\nNotes."})
    page = tmp_path / "page.md"
    monkeypatch.setattr(benchmarks.importlib, "import_module", lambda _: known)
    monkeypatch.setattr(benchmarks.sys, "argv", ["benchmarks", "--write", str(page)])
    with pytest.raises(SystemExit):
        benchmarks.main()
    text = page.read_text()
    assert text.count("\n## Title (`") == len(benchmarks.NAMES) and "Notes." in text
    assert "| slow | 3 s |  |  | **missed: <= 2 s** |  |" in text and "commit" in text
    assert "a plain loop over 1,000 integers took" in text
    page.unlink()
    rows.append({"work": "no bar"})
    with pytest.raises(KeyError):
        benchmarks.main()
    assert not page.exists()


def test_every_benchmark_can_be_imported(benchmarks):
    for name in benchmarks.NAMES:
        assert callable(importlib.import_module(f"benchmarks.bench_{name}").run)


@pytest.mark.parametrize("scale_out", ["queue", "window"])
@pytest.mark.parametrize("scaling", ["bounded", "literal"])
@pytest.mark.parametrize("controller", ["adaptive", "fixed"])
def test_the_plain_replay_of_allpass_agrees_with_the_kernel(
    benchmarks, scale_out, scaling, controller
):
    from benchmarks.bench_allpass import first_jobs, seren_like
    from benchmarks.plain_allpass import replay

    workload = first_jobs(seren_like(100_000), 1500)
    rules = Allpass(scale_out=scale_out, scaling=scaling, controller=controller)
    draws = Draws.sample(rules, workload.size, np.random.default_rng(0))
    run = run_allpass(workload, rules, draws)
    assert run.demoted.any()
    assert replay(workload, rules, draws) == (
        run.finish_us.tolist(),
        run.rentals.release_us.tolist(),
    )


def test_every_benchmark_is_in_the_docs(benchmarks):
    page = (Path(__file__).resolve().parents[1] / "docs" / "performance.md").read_text("utf-8")
    assert [name for name in benchmarks.NAMES if f"(`{name}`)" not in page] == []
