"""Workloads that ingest rejects count in no calibration, what-if or forecast either."""

import pytest
from support_kueue import GPU, teams, workload, write_list

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.quota.workloads import CANNOT_BE_USED, read_kueue_log


def holding(amount):
    made = workload("bad", "team-a", 50, 60, 900)
    made["status"]["admission"]["podSetAssignments"][0]["resourceUsage"] = {GPU: amount}
    return made


BAD = [
    (workload("bad", "team-a", 50, 60, 55), "finished before it was admitted"),
    (holding("-8"), "holds -8 of nvidia.com/gpu"),
    (holding("1500m"), "holds 1500m of nvidia.com/gpu"),
]


def good(count):
    return [workload(f"j{i}", "team-a", 100 * i, 100 * i + 5, 100 * i + 900) for i in range(count)]


@pytest.mark.parametrize(("bad", "why"), BAD)
def test_one_of_a_hundred_is_left_out_and_named(tmp_path, bad, why):
    log = read_kueue_log(write_list(tmp_path / "k.json", [*teams(), *good(99), bad]))
    assert log.jobs.height == 99 and log.left_out == {CANNOT_BE_USED: 1}
    (warning,) = log.warnings
    assert f"team-a/bad: {why}" in warning and warning.startswith("1 workload cannot")


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
