"""Values that no option can have are refused with one message, before any work."""

import json

import pytest
from support_traces import write_trace


@pytest.fixture
def trace(tmp_path):
    """Six jobs, one every ten minutes."""
    return write_trace(tmp_path / "t.parquet", [600 * i for i in range(6)], [600.0] * 6)


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        ("share", "--price", "1e400"),
        ("share", "--multiplier", "1e400"),
        ("share", "--price", "nan"),
        ("share", "--gamma", "1,inf"),
        ("share", "--set", "omega=nan"),
        ("pareto", "--ci", "-inf"),
        ("pareto", "--mark", "x=inf,2h"),
        ("bill", "--price", "nan"),
        ("size", "--price", "A100=1e999"),
        ("simulate", "--limit-factor", "inf"),
        ("simulate", "--estimate-error", "nan%"),
        ("simulate", "--set", "serverless_usd_per_gpu_h=nan"),
        ("compare", "--gpu-speed", "A100=inf"),
        ("compare", "--deadline-factor", "1:nan"),
        ("sweep", "--price-ratio", "0.3,nan"),
        ("sweep", "--value-of-time", "inf"),
        ("ingest", "--max-rejects", "nan%"),
    ],
)
def test_numbers_are_finite(gpuplan, trace, command, option, value):
    more = ("-o", trace.with_name("x.parquet")) if command == "ingest" else ()
    code, out, err = gpuplan(command, trace, f"{option}={value}", *more)
    number = next(part for part in ("1e400", "1e999", "-inf", "nan", "inf") if part in value)
    assert (code, out) == (2, "")
    assert f"must be a finite number, got '{number}'" in err
    assert err.startswith(f"error: {option}")


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("compare", "--gpu-speed"),
        ("characterize", "--time-zone"),
        ("share", "--seed"),
        ("share", "--price"),
        ("pareto", "--budget"),
        ("synth", "--preset"),
    ],
)
@pytest.mark.parametrize("value", ["", " "])
def test_values_are_not_empty(gpuplan, trace, command, option, value):
    code, out, err = gpuplan(command, trace, option, value)
    assert (code, out) == (2, "")
    assert err == f"error: {option} must not be empty, got {value!r}\n"


@pytest.mark.parametrize(
    "words",
    [
        ("share", "--seed", "1", "--seed", "2"),
        ("report", "-o", "a", "--output", "b"),
        ("sweep", "--mark", "5m", "--mark", "7m"),
        ("list", "formats", "--output-format", "json", "--output-format", "csv"),
    ],
)
def test_an_option_of_one_value_is_given_once(gpuplan, trace, words):
    name, *rest = words
    code, out, err = gpuplan(name, *(() if name == "list" else (trace,)), *rest)
    flag = next(word for word in reversed(rest) if word.startswith("--"))
    assert (code, out) == (2, "")
    assert err == f"error: {flag} is given 2 times; give it once\n"


def test_options_of_several_values_and_flags_may_be_repeated(gpuplan, trace):
    words = ("--full", "--full", "--fail-if", "jobs > 98", "--fail-if", "jobs > 99")
    code, _, err = gpuplan("characterize", trace, *words)
    assert code == 0, err


def test_a_gpu_to_plan_for_is_known_or_has_a_price(gpuplan, trace):
    code, out, err = gpuplan("pareto", trace, "--gpu", "A100x", "--no-replay")
    assert (code, out) == (2, "")
    assert "--gpu A100x: not a GPU model that gpuplan knows; did you mean 'A100'?" in err
    assert "--price A100x=USD" in err
    code, _, err = gpuplan(
        "pareto", trace, "--gpu", "A100x", "--price", "A100x=2", "--no-replay", "--budget", "2x"
    )
    assert code == 0, err


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (("--gpu", "T4"), "--gpu T4 has no effect: every source names its GPU, H100-80GB"),
        (("--provider", "b"), "--provider b has no effect: every source names its provider, a"),
        (("--gpu", "h100 80gb"), ""),
    ],
)
def test_names_for_sources_that_name_none_are_of_use(gpuplan, tmp_path, option, says):
    lines = ["timestamp,provider,gpu_type,region,kind,price_usd_per_gpu_hour,available"]
    lines += ["2026-01-01T00:00:00Z,a,H100-80GB,x,on_demand,2.0,"]
    (tmp_path / "p.csv").write_text("\n".join(lines) + "\n")
    written = tmp_path / "p.parquet"
    code, _, err = gpuplan("prices", tmp_path / "p.csv", "-o", written, *option)
    assert says in err
    assert (code, written.exists()) == ((2, False) if says else (0, True)), err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--round", "abc"), "--round abc: round_s 'abc': expected a duration"),
        (("--round", "0"), "--round 0: round_s must be at least 1"),
        (("--estimate-error", "5"), "--estimate-error 5: estimate_error must be at least 0"),
        (("--limit-factor", "2"), "--limit-factor 2.0 does not apply to gavel"),
        (("--round", "5", "--set", "round_s=7"), "--set round_s=7 and --round 5: give one of"),
    ],
)
@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_an_option_that_is_a_setting_is_named_itself(gpuplan, trace, command, words, says):
    code, out, err = gpuplan(command, trace, "--policy", "gavel", "--gpus", "4", *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {says}")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["pareto.ci=abc"], "pareto: --ci must be a number, got 'abc'"),
        (["sweep.resamples=-1"], "sweep: --resamples must be at least 0, got '-1'"),
        (["pareto.ci=90", "pareto.ci=80"], "--set pareto.ci=90 and --set pareto.ci=80: give one"),
    ],
)
def test_a_setting_of_a_report_names_its_study(gpuplan, trace, tmp_path, settings, says):
    words = [word for setting in settings for word in ("--set", setting)]
    code, out, err = gpuplan("report", trace, "-o", tmp_path / "r", *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {says}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('title = "a\\u0000"', ":1: title: has a NUL character"),
        ('[workload]\ntrace = "a\\u0000.parquet"', ":2: workload.trace: has a NUL character"),
        ('[gates]\nfail_if = ["a\\u0000 > 1"]', ":2: gates.fail_if: has a NUL character"),
        ('[study."a\\u0000"]\ntop = 3', ":1: study.a\\0: has a NUL character"),
    ],
)
def test_a_scenario_has_no_nul_character(gpuplan, tmp_path, text, says):
    path = tmp_path / "s.toml"
    path.write_text(text)
    code, out, err = gpuplan("run", path)
    assert (code, out) == (3, "")
    assert err == f"error: {path}{says}; expected text without \\u0000\n"


def test_shared_gpus_that_do_not_suffice_name_both_options(gpuplan, tmp_path):
    table = tmp_path / "i.csv"
    table.write_text(
        "name,kind,request,limit,memory_gb,gpus,start_s,end_s\na,training,1,1,9,9,0,9\n"
    )
    code, _, err = gpuplan("share", table, "--gpus", "4")
    assert code == 4
    assert "next: more GPUs, by --cluster or --gpus" in err


def test_a_profile_without_a_latency_may_be_of_training(gpuplan, tmp_path):
    table = tmp_path / "p.csv"
    table.write_text("8,20,0.036,222.2\n")
    code, _, err = gpuplan("profile", table)
    assert code == 2
    assert "--slo 100ms" in err
    assert "next: --training" in err


def test_a_time_to_drain_is_a_number_with_decimals(gpuplan, trace):
    code, out, err = gpuplan(
        "compare", trace, "--policy", "gfs", "--gpus", "8", "--output-format", "json"
    )
    assert code == 0, err
    [row] = json.loads(out)["parameters"]["policies"]
    assert repr(row["settings"]["drain_s"]) == "2592000.0"
