"""Pictures at the ends of the calendar and of numbers are drawn, without a word of a library."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from support_traces import frame, write

FIRST, LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9798, 11, 20, tzinfo=UTC)
LONG = [86_400.0 * 100] * 3
CENTURY_S = 3155760000.0
pytestmark = pytest.mark.filterwarnings("error::UserWarning")


def jobs(submit, **columns):
    """Return a trace of jobs of one GPU that were submitted at these times."""
    table = frame([0.0] * len(submit), num_gpus=[1.0] * len(submit), **columns)
    times = pl.Series("submit_time", submit, dtype=table.schema["submit_time"])
    return table.with_columns(times)


YEAR_1 = jobs(
    [FIRST, FIRST + timedelta(days=60), FIRST + timedelta(days=180)],
    duration_s=LONG, queue_s=LONG, state=["failed"] * 3,
)  # fmt: skip
SHORT = jobs([LAST], duration_s=[1e-5])
IN_2050 = [datetime(2050, 1, 1, microsecond=at, tzinfo=UTC) for at in (0, 300)]
SOON = jobs(IN_2050, duration_s=[1e-3] * 2)
ALIKE = jobs(IN_2050, duration_s=[100000.0, 100000.00000000001])
CENTURIES = jobs(IN_2050, duration_s=[CENTURY_S, CENTURY_S - 1e-6])
MANY = jobs(IN_2050 * 25, duration_s=[100000.0, 100000.00000000001] * 25)
FIFO = ("--policy", "fifo", "--gpus", "2", "--price", "1")


@pytest.mark.parametrize(
    ("trace", "line"),
    [
        (YEAR_1, ("waits",)),
        (YEAR_1, ("pareto", "--speedup", "power:0.8", "--price", "1")),
        (YEAR_1, ("characterize",)),
        (SHORT, ("characterize",)),
        (SHORT, ("simulate", *FIFO)),
        (SOON, ("characterize",)),
        (SOON, ("simulate", *FIFO)),
        (ALIKE, ("characterize",)),
        (CENTURIES, ("compare", *FIFO)),
        (MANY, ("characterize", "--fits")),
    ],
    ids=lambda value: " ".join(value[:1]) if isinstance(value, tuple) else "",
)
def test_a_picture_is_drawn_without_a_warning_of_a_library(gpuplan, tmp_path, trace, line):
    path = write(tmp_path / "t.parquet", trace)
    code, _, err = gpuplan(line[0], path, *line[1:], "--plot", tmp_path / "p.svg")
    assert code == 0, err
    assert (tmp_path / "p.svg").exists()
    assert "Warning" not in err


def test_two_logs_of_almost_one_duration_are_drawn(gpuplan, tmp_path):
    path = write(tmp_path / "t.parquet", ALIKE)
    code, _, err = gpuplan("characterize", path, path, "--plot", tmp_path / "p.svg")
    assert code == 0
    assert "Warning" not in err
