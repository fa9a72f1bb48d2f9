"""A trace for reports, and a document that is made without running a command."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from gpuplan.cli.documents.study import Document, Heading, StudyResult, TableCell, TableGrid
from gpuplan.cli.gates.gates import GateResult


def write_trace(path: Path, jobs: int = 120, *, users: int = 7) -> Path:
    """Write jobs of a few minutes on one to four GPUs, one every 100 s."""
    frame = pl.DataFrame(
        {
            "submit_time": pl.Series([i * 100_000_000 for i in range(jobs)]).cast(
                pl.Datetime("us", "UTC")
            ),
            "duration_s": [float(60 + 37 * i % 900) for i in range(jobs)],
            "num_gpus": [float(2 ** (i % 3)) for i in range(jobs)],
            "user": [f"user{i % users}" if users else None for i in range(jobs)],
        }
    )
    frame[[column.name for column in frame if not column.is_null().all()]].write_parquet(path)
    return path


def study(name: str = "pareto", rows: int = 3, results: dict[str, object] | None = None):
    """Return a study of one table, with markup in its names."""
    grid = TableGrid(
        "What <b>each</b> | buys",
        (Heading("user", False), Heading("cost", True)),
        tuple(
            (TableCell(f"<u{i}> | *x*", f"<u{i}> | *x*"), TableCell(f"${i}.00", float(i)))
            for i in range(rows)
        ),
    )
    contract = {
        "schema_version": 1,
        "command": "pareto",
        "inputs": [{"path": "t.parquet", "sha256": "0" * 64, "rows": 5}],
        "parameters": {"budget": None},
        "results": results or {"mean_jct_s": 3.0},
        "warnings": ["look <here>"],
        "gpuplan_version": "0.1.0",
    }
    return StudyResult(name, "pareto", ("t.parquet",), "A & B. Then C.", contract, (grid, grid), ())


def document(*studies: StudyResult, gates: tuple[GateResult, ...] = (), time: str | None = None):
    """Return a document of these studies, or of one."""
    return Document("Title <i>", studies or (study(),), gates, time)
