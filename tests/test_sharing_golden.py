"""Golden results of shared GPUs: placements event by event, profiling and co-scaling."""

import ast
import csv
import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from gpuplan.simkit.sharing.fleet import INFERENCE, LLM, TRAINING
from gpuplan.simkit.sharing.placement import Instances, place_instances
from gpuplan.simkit.sharing.policies import PlacementSettings

KINDS = {"inference": INFERENCE, "llm-inference": LLM, "training": TRAINING}
FILES = {"dilu": "dilu", "exclusive": "k8s", "infless-l": "infless_l", "infless-r": "infless_r"}


def golden_module():
    path = Path(__file__).with_name("golden_dilu.py")
    spec = importlib.util.spec_from_file_location("golden_dilu", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_events(path):
    rows, of, starts, ids = [], [], [], {}
    for line in path.read_text().splitlines():
        event = ast.literal_eval(line)
        one = event["Instance"]
        name = one["service_name"]
        if event["Action"] == "start":
            ids[name] = len(rows)
            shares = (one["sm_requests"], one["sm_limits"])
            kind = KINDS[one["type"]]
            rows.append((kind, one["gpu_num"], *shares, float(one["memory"][0]), len(rows)))
        of.append(ids[name])
        starts.append(event["Action"] == "start")
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return Instances(*columns), np.array(of), np.array(starts)


@pytest.mark.parametrize("policy", FILES)
@pytest.mark.parametrize("count", [100, 400])
def test_placements_agree_event_by_event(shared, policy, count):
    instances, of, starts = read_events(shared / f"data/dilu/instances-{count}.txt")
    run = place_instances(
        instances,
        of,
        starts,
        nodes=1000,
        node_gpus=4,
        policy=policy,
        settings=PlacementSettings(reference=True),
    )
    path = shared / f"golden/dilu/{FILES[policy]}-{count}-det.csv"
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert run.failed_event is None
    assert run.active_gpus.tolist() == [int(row["active_gpus"]) for row in rows]
    for found, column in (
        (run.sm_free_share, "avg_sm_frag"),
        (run.memory_free_share, "avg_mem_frag"),
    ):
        want = [float(row[column]) for row in rows]
        np.testing.assert_allclose(found, want, atol=5.1e-7)  # printed with six decimals


def test_profiling_and_coscaling_agree(shared, capsys):
    assert golden_module().main([str(shared / "golden/dilu")]) == 0
    assert capsys.readouterr().out == "no differences\n"


def test_the_check_names_a_difference(shared, tmp_path, capsys):
    source = shared / "golden/dilu"
    folder = tmp_path / "golden" / "dilu"
    folder.mkdir(parents=True)
    names = ["01_profiling.json", "06_horizontal.json", "02_slo_plus_training.json"]
    tables = [path.name for path in source.glob("table_*.csv")]
    for name in (*names, "02_slo_plus_training.csv.gz", *tables):
        shutil.copy(source / name, folder / name)
    shutil.copytree(shared / "data/dilu", tmp_path / "data" / "dilu")
    for path in folder.glob("*"):
        path.chmod(0o644)
    profiles = json.loads((folder / names[0]).read_text())
    profiles["synA@60ms"]["chosen"] = [4, 30]
    (folder / names[0]).write_text(json.dumps(profiles))
    decisions = json.loads((folder / names[1]).read_text())
    decisions["synthetic"]["dilu"].pop()
    (folder / names[1]).write_text(json.dumps(decisions))
    case = json.loads((folder / names[2]).read_text())
    case["training"][0]["work_done_s"] += 1e-6
    (folder / names[2]).write_text(json.dumps(case))
    assert golden_module().main([str(folder)]) == 1
    out = capsys.readouterr().out
    assert "synA@60ms chosen: found [2, 30.0], expected [4, 30]" in out
    assert "06_horizontal.json: synthetic dilu:" in out
    assert "T0 work:" in out and "3 differences" in out
