"""A misspelt word is refused with the nearest known one, whatever it names."""

import re
from importlib.resources import as_file, files

import pytest

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import did_you_mean, find_named, nearest
from gpuplan.cli.app.main import main


def test_the_nearest_name_wins_capitals_aside():
    assert nearest("PHILY", ["philly", "helios"]) == "philly"
    assert nearest("h100", ["A100", "H100"]) == "H100"
    assert nearest("zzz", ["philly", "helios"]) is None


def test_a_word_like_none_gets_all_of_them():
    assert did_you_mean("x", ["b", "a"]) == "; expected one of a, b"
    assert did_you_mean("fob", ["foo", "bar"]) == "; did you mean 'foo'?"


def test_a_name_that_is_known_is_found_and_another_is_told_with_its_option():
    assert find_named("a", {"a": 1}, "--letter") == 1
    with pytest.raises(UsageError, match="--big-letter 'x': no such big letter; expected one of a"):
        find_named("x", {"a": 1}, "--big-letter")


MISSPELT = [
    (("simulat", "TRACE"), "simulate"),
    (("list", "polices"), "policies"),
    (("simulate", "TRACE", "--polcy", "allpass"), "--policy"),
    (("simulate", "TRACE", "--policy", "alpass"), "allpass"),
    (("simulate", "TRACE", "--set", "capcity=3"), "capacity"),
    (("compare", "TRACE", "--set", "capcity=3"), "capacity"),
    (("sweep", "TRACE", "--policy", "fixd"), "fixed"),
    (("sweep", "TRACE", "--engine", "thread"), "threads"),
    (("pareto", "TRACE", "--speedup", "powr:0.8"), "power"),
    (("pareto", "TRACE", "--baseline", "polux"), "pollux"),
    (("pareto", "TRACE", "--method", "exat"), "exact"),
    (("pareto", "TRACE", "--class-by", "usr"), "user"),
    (("characterize", "TRACE", "--where", "num_gpu > 2"), "num_gpus"),
    (("characterize", "TRACE", "--output-format", "jsn"), "json"),
    (("characterize", "TRACE", "--fail-if", "job > 3"), "jobs"),
    (("ingest", "TRACE", "--source-format", "phily", "-o", "OUT"), "philly"),
    (("prices", "TRACE", "--source-format", "skypilt", "-o", "OUT"), "skypilot"),
    (("report", "TRACE", "--study", "sweeep", "-o", "OUT"), "sweep"),
]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("named") / "t.parquet"
    with as_file(files("gpuplan.sample_traces") / "seren.csv") as log:
        assert main(["ingest", str(log), "-o", str(path), "-q"]) == 0
    return path


@pytest.mark.parametrize(("words", "meant"), MISSPELT)
def test_what_is_misspelt_is_told_with_the_nearest(gpuplan, trace, tmp_path, words, meant):
    known = {"TRACE": trace, "OUT": tmp_path / "out.parquet"}
    code, _, err = gpuplan(*(known.get(word, word) for word in words), "-q")
    assert code == 2
    assert re.search(rf"(did you mean|possible options:?) [^;]*?{re.escape(meant)}", err, re.I), err
