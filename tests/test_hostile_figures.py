"""Names of wide letters in the pictures of demand and of several GPU types: no layout fails."""

import warnings
from contextlib import contextmanager

import pytest
from support_traces import write_trace

WIDE = ("漢字" * 150, "\N{FULLWIDTH LATIN CAPITAL LETTER A}" * 300, "\N{ROCKET}" * 250, "o'brien")
HOURS = 90

pytestmark = pytest.mark.no_cover  # whole commands again, for the names they show


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    n = 4 * HOURS
    names = [WIDE[i % 4] for i in range(n)]
    return write_trace(
        tmp_path_factory.mktemp("wide") / "t.parquet",
        [900.0 * i for i in range(n)],
        [600.0 + 37 * i % 9000 for i in range(n)],
        [float(1 + i % 2) for i in range(n)],
        gpu_type=names, group=names, user=names, queue_s=[60.0] * n,
    )  # fmt: skip


SHAPES = ",".join(f"{name}=2x4" for name in WIDE)
SPEEDS = ",".join(f"{name}={1 + place}" for place, name in enumerate(WIDE))
MIXED = ("--cluster", SHAPES, "--gpu-speed", SPEEDS)
LENDING = ("--policy", "gfs", "--cluster", SHAPES, "--spot", "duration_s < 3600")


@pytest.mark.parametrize(
    "words",
    [
        ("forecast", "--by", "group", "--model", "last-value"),
        ("simulate", "--policy", "srtf", *MIXED),
        pytest.param(("simulate", *LENDING), marks=pytest.mark.slow),
        pytest.param(("compare", "--policy", "fft", "--policy", "srtf", *MIXED),
                     marks=pytest.mark.slow),
        pytest.param(("bill", "--by", "group", "--price", "1"), marks=pytest.mark.slow),
    ],
    ids=lambda words: " ".join(words[:3]),
)  # fmt: skip
def test_pictures_hold_names_of_wide_letters(gpuplan, trace, tmp_path, monkeypatch, words):
    @contextmanager
    def without_glyphs():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for message in (r"Glyph \d+", "Matplotlib currently does not support"):
                warnings.filterwarnings("ignore", message, UserWarning)
            yield

    # A layout that fails is silenced there too; here it is an error.
    monkeypatch.setattr("gpuplan.cli.figures.style._any_script", without_glyphs)
    picture = tmp_path / "x.svg"
    code, _, err = gpuplan(words[0], trace, *words[1:], "--plot", picture)
    assert code == 0, err
    assert "Warning" not in err and picture.stat().st_size > 1000
