"""Workloads that ingest rejects count in no calibration, what-if or forecast either."""

import re

import pytest
from support_kueue import GPU, teams, workload, write_list

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.quota.workloads import CANNOT_BE_USED, read_kueue_log


def holding(amount):
    made = workload("bad", "team-a", 50, 60, 900)
    made["status"]["admission"]["podSetAssignments"][0]["resourceUsage"] = {GPU: amount}
    return made


def with_value(value, *keys):
    """Return a workload with a value at a key."""
    made = at = workload("bad", "team-a", 50, 60, 90_000)
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value
    return made


CREATED = ("metadata", "creationTimestamp")
AT = ("status", "conditions", 0, "lastTransitionTime")


BAD = [
    (workload("bad", "team-a", 50, 60, 55), "finished before it was admitted"),
    (holding("-8"), "holds -8 of nvidia.com/gpu"),
    (holding("1500m"), "holds 1500m of nvidia.com/gpu"),
    (holding("NaN"), "holds NaN of nvidia.com/gpu"),
    (holding("1000000000"), "holds 1000000000 of nvidia.com/gpu, expected .* to 10,000,000"),
    (with_value("soon", *CREATED), 'metadata.creationTimestamp: found "soon"'),
    (with_value(None, *CREATED), "has no creationTimestamp"),
    (with_value("soon", *AT), r'status.conditions\[0\].lastTransitionTime: found "soon"'),
    (with_value(None, "spec"), "spec: found null, expected object"),
    (with_value("high", "spec", "priority"), 'spec.priority: found "high", expected int'),
    (with_value("5", "spec", "priority"), 'spec.priority: found "5", expected int'),
]


def good(count):
    return [workload(f"j{i}", "team-a", 100 * i, 100 * i + 5, 100 * i + 900) for i in range(count)]


@pytest.mark.parametrize(("bad", "why"), BAD)
def test_one_of_a_hundred_is_left_out_and_named(tmp_path, bad, why):
    log = read_kueue_log(write_list(tmp_path / "k.json", [*teams(), *good(99), bad]))
    assert log.jobs.height == 99 and log.left_out == {CANNOT_BE_USED: 1}
    (warning,) = log.warnings
    assert re.search(rf"team-a/bad: {why}", warning) and warning.startswith("1 workload cannot")
    assert log.end == read_kueue_log(write_list(tmp_path / "g.json", [*teams(), *good(99)])).end


@pytest.mark.parametrize(("bad", "why"), BAD)
def test_more_than_ingest_takes_are_refused(gpuplan, tmp_path, bad, why):
    path = write_list(tmp_path / "k.json", [*teams(), *good(98), bad])
    with pytest.raises(InputError, match=rf"team-a/bad: {why}.*1 of 99 workloads cannot"):
        read_kueue_log(path)
    assert gpuplan("calibrate", path)[0] == 3
    assert gpuplan("ingest", path, "-o", tmp_path / "t.parquet")[0] == 3


def test_an_admission_before_the_creation_is_no_wait(tmp_path):
    early = workload("early", "team-a", 500, 400, 900)
    log = read_kueue_log(write_list(tmp_path / "k.json", [*teams(), *good(20), early]))
    assert log.jobs.height == 20 and list(log.left_out.values()) == [1]
    assert (log.jobs["start"] >= log.jobs["submit"]).all()
