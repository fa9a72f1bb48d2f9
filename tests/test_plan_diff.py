"""``gpuplan diff`` of two plans: files of plans among themselves, and beside their JSON."""

import json

import pytest
from support_plan import BOTH, HOUR
from support_traces import write_trace

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("few_resamples")]


@pytest.fixture
def plans(gpuplan, tmp_path):
    """A plan for two GPU types, and one for twice the A100 jobs, each as TOML and JSON."""
    for name, gpus in (("old", 2.0), ("new", 4.0)):
        trace = write_trace(
            tmp_path / f"{name}.parquet",
            [4 * HOUR * day for day in range(6) for _ in "ab"],
            [4 * HOUR, 2 * HOUR] * 6,
            [gpus, 1.0] * 6,
            gpu_type=["A100", "T4"] * 6,
        )
        files = ("-o", tmp_path / f"{name}.toml", "-o", tmp_path / f"{name}.json")
        assert gpuplan("plan", trace, *BOTH, *files)[0] == 0
    return tmp_path


def changes(gpuplan, *words):
    code, out, err = gpuplan("diff", *words, "--output-format", "json")
    assert code == 0, err
    return json.loads(out)["results"]


def test_two_plans_are_told_apart_by_market_and_type(gpuplan, plans):
    of_files = changes(gpuplan, plans / "old.toml", plans / "new.toml")
    of_json = changes(gpuplan, plans / "old.json", plans / "new.json")
    in_json = {row["field"]: row for row in of_json["changes"]}
    assert of_files["of"] == "plan" and of_files["numbers"] > 20
    for row in of_files["changes"]:
        assert row["old"] == pytest.approx(in_json[row["field"]]["old"]), row
        assert row["new"] == pytest.approx(in_json[row["field"]]["new"]), row
    gpus = [row for row in of_files["changes"] if row["field"].endswith("].gpus")]
    ((field, old, new),) = [(row["field"], row["old"], row["new"]) for row in gpus]
    assert (old, new) == (2.0, 4.0) and "committed" in field and "A100" in field
    assert of_files["only"] == []
    err = gpuplan("diff", plans / "old.toml", plans / "new.toml")[2]
    assert "warning: the plans are of different logs" in err
    assert "different logs" not in gpuplan("diff", plans / "old.toml", plans / "old.toml")[2]
    out = " ".join(gpuplan("diff", plans / "old.toml", plans / "new.toml")[1].split())
    assert "monthly cost" in out and "GPUs, committed" in out
    assert "Monthly cost rose" in out and "GPUs of" not in out  # the whole before its rows


def test_a_plan_and_its_json_are_one_document(gpuplan, plans):
    both = changes(gpuplan, plans / "old.toml", plans / "old.json")
    assert both["same_inputs"]
    assert all(row["old"] is None for row in both["changes"])  # of what only the JSON has
    gate = ("--fail-if", "usd_per_month != $0")
    code, _, err = gpuplan("diff", plans / "old.toml", plans / "old.json", *gate)
    assert code == 0, err
    code, _, err = gpuplan(
        "diff", plans / "old.toml", plans / "new.toml", "--fail-if", "usd_per_month > +10%"
    )
    assert code == 1 and "usd_per_month" in err


def test_what_is_no_plan_is_refused(gpuplan, plans):
    broken = plans / "broken.toml"
    broken.write_text("[plan]\nform = 9\n")
    code, _, err = gpuplan("diff", plans / "old.toml", broken)
    assert code == 3 and "broken.toml:2: plan.form: found 9" in err
    whole = (plans / "old.toml").read_text()
    assert "[plan]\n" in whole
    broken.write_text(whole.replace("[plan]\n", '[plan]\n"x` - at `$.a.b" = 1\n', 1))
    code, _, err = gpuplan("diff", plans / "old.toml", broken)
    assert code == 3 and "unknown key" in err
    made = plans / "made.json"
    assert gpuplan("plan", plans / "old.parquet", *BOTH, "-q", "-o", made)[0] == 0
    for inputs in ([1], [{"path": "old.parquet"}]):
        document = json.loads(made.read_text()) | {"inputs": inputs}
        broken = plans / "broken.json"
        broken.write_text(json.dumps(document))
        code, _, err = gpuplan("diff", made, broken)
        assert code == 3 and "broken.json: it is not as gpuplan plan writes it: " in err
    other = plans / "other.json"
    assert gpuplan("size", plans / "old.parquet", *BOTH, "-o", other)[0] == 0
    code, _, err = gpuplan("diff", plans / "old.toml", other)
    assert code == 3 and "gpuplan size" in err
