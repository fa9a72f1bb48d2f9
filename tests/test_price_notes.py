"""The notes of replays: which prices count where none are given, and what else to compare with."""

import pytest
from support_traces import write_trace

ALL = (
    "assumed prices, of an A100: serverless $2.10, marketplace 50 offers of $0.38 to $1.66 "
    "(median $1.08), conventional $1.29 per GPU-hour (for others: --prices FILE, or "
    "--prices builtin --set gpu=NAME)"
)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "t.parquet"
    return write_trace(path, [0, 60, 120], [900.0, 60.0, 30.0])


@pytest.fixture
def notes(gpuplan, trace):
    def run(command, arguments):
        code, _, err = gpuplan(command, trace, *arguments.split())
        assert code == 0, err
        quiet = gpuplan(command, trace, *arguments.split(), "-q")[2].splitlines()
        assert all(line.startswith(("warning: ", "  next: ")) for line in quiet)
        said = [line for line in err.splitlines() if line not in quiet]
        return [line for line in said if not line.startswith(("compiling ", "--full shows "))]

    return run


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        ("simulate", "", ALL),
        ("compare", "", ALL),
        (
            "simulate",
            "--policy serverless-only",
            "assumed prices, of an A100: serverless $2.10 per GPU-hour (",
        ),
        (
            "simulate",
            "--policy fifo",
            "assumed prices, of an A100: conventional $1.29 per GPU-hour (--price USD for others)",
        ),
        (
            "simulate",
            "--policy fft --cluster V100=8x8,T4=8x8 --gpu-speed V100=1,T4=0.5",
            "assumed prices, of an A100: conventional $1.29 per GPU-hour for all of V100, T4 "
            "(--price TYPE=USD for each)",
        ),
        (
            "compare",
            "--policy fifo:marketplace_offers=50",
            "prices as set, else of an A100: marketplace 50 offers of $0.38 to $1.66 (",
        ),
        (
            "simulate",
            "--policy serverless-only --set serverless_usd_per_gpu_h=1.8125",
            "prices as set: serverless $1.8125 per GPU-hour (",
        ),
        (
            "simulate",
            "--set conventional_usd_per_gpu_h=2 --set marketplace_offers=0",
            "prices as set, else of an A100: serverless $2.10, marketplace none, conventional "
            "$2.00 per GPU-hour (",
        ),
        (
            "compare",
            "--policy serverless-only --policy hpa:conventional_usd_per_gpu_h=2 --policy hpa",
            "conventional $2.00 or $1.29 per GPU-hour (",
        ),
    ],
)
def test_prices_in_force(notes, command, arguments, message):
    (said,) = notes(command, arguments)
    assert message in said


@pytest.mark.parametrize(
    "arguments",
    ["--prices builtin", "--policy fifo --set usd_per_gpu_h=1", "--policy fifo --price 1"],
)
def test_prices_that_one_gave_are_not_told(notes, arguments):
    assert notes("simulate", arguments) == []


def test_prices_of_a_sweep(notes):
    (prices,) = notes("sweep", "--threshold 60")
    assert prices == ALL
    (prices,) = notes("sweep", "--threshold 60 --against serverful-only --price-ratio 0.5,1")
    assert prices == ALL.replace("GPU-hour (", "GPU-hour, before --price-ratio (")


@pytest.mark.parametrize("command", ["sweep", "simulate", "compare"])
def test_prices_of_today_and_of_replays_that_differ_are_told(gpuplan, lab, command):
    words = {"sweep": ("--threshold", "60"), "simulate": ("--policy", "allpass")}
    words = (command, lab, *words.get(command, ("--policy", "hpa")))
    text = "per GPU-hour on demand, and replays $1.29, of the provider that they rent from"
    assert text in gpuplan(*words, "--prices", "builtin")[2]
    assert text not in gpuplan(*words, "--prices", "builtin", "--price", "1.29")[2]
    assert text not in gpuplan(*words)[2]
