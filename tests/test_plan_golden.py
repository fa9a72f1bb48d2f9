"""Plans against golden programs of an independent implementation; the check names differences."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.kernels


def golden_module():
    path = Path(__file__).with_name("golden_plan.py")
    spec = importlib.util.spec_from_file_location("golden_plan", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "name",
    [
        "t1_commit_two_types",
        "t2_slower_spot_max",
        "t3_defer_serverless",
        "p5_two_types",
        "p6_defer",
        "p7_spot_serverless",
        "p8_budget",
    ],
)
def test_programs_agree(shared, name):
    assert golden_module().differences(shared / "golden" / "plan" / f"{name}.json") == []


def test_the_check_names_a_difference_and_what_it_does_not_check(shared, tmp_path, capsys):
    source = shared / "golden" / "plan"
    shutil.copy(source / "t1_commit_two_types.csv", tmp_path)
    golden = json.loads((source / "t1_commit_two_types.json").read_text())
    golden["results"]["program"]["K"]["A"] = 3.0
    path = tmp_path / "t1_commit_two_types.json"
    path.write_text(json.dumps(golden))
    assert golden_module().main([str(path), str(source / "r1_pool.json")]) == 1
    said = capsys.readouterr().out
    assert "1 differences" in said and "K A: expected 3.0" in said
    assert "r1_pool.json: not checked" in said
