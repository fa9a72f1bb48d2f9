"""Times far from those of the other jobs: set aside, told, or right."""

from datetime import timedelta

import pytest
from support_kueue import BEGIN, teams, workload, write_list

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.far_times import YEAR_S, OtherTimes
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.quota.workloads import CANNOT_BE_USED, read_kueue_log

YEAR = int(YEAR_S)


def good(count=120):
    return [workload(f"j{i}", "team-a", 100 * i, 100 * i + 5, 100 * i + 900) for i in range(count)]


def dump(tmp_path, *odd, count=120):
    return write_list(tmp_path / "k.json", [*teams(), *good(count), *odd])


@pytest.mark.parametrize(
    "odd",
    [
        workload("odd", "team-a", 50, 60, 100 * YEAR),
        workload("odd", "team-a", 50, 100 * YEAR, 100 * YEAR + 60),
        workload("odd", "team-a", -25 * YEAR, 60, 900),
        workload("odd", "team-a", 11 * YEAR, 11 * YEAR + 5, 11 * YEAR + 9),
    ],
)
def test_a_workload_ten_years_off_decides_nothing(tmp_path, odd):
    log = read_kueue_log(dump(tmp_path, odd))
    assert log.jobs.height == 120 and log.left_out == {CANNOT_BE_USED: 1}
    assert log.end == read_kueue_log(write_list(tmp_path / "g.json", [*teams(), *good()])).end
    assert "team-a/odd: " in log.warnings[0] and "within 10 years of the other" in log.warnings[0]
    done = ingest([tmp_path / "k.json"], tmp_path / "t.parquet")
    assert done.rows_kept == 120 and done.rejected_by_reason == {"out_of_range": 1}


def test_workloads_that_wait_since_the_future_do_not_move_the_end(tmp_path):
    log = read_kueue_log(dump(tmp_path, workload("odd", "team-a", 100 * YEAR)))
    assert log.waiting.is_empty() and log.end < (BEGIN + timedelta(days=2)).timestamp()


def test_a_workload_two_years_off_is_told_and_counts(tmp_path):
    path = dump(tmp_path, workload("old", "team-a", -2 * YEAR, 60, 900))
    log = read_kueue_log(path)
    assert log.jobs.height == 121
    (warning,) = log.warnings
    assert warning.startswith("1 workload has times over a year from those of the other jobs")
    assert "team-a/old: 2024-11-01" in warning
    done = ingest([path], tmp_path / "t.parquet")
    assert done.rows_kept == 121
    assert "1 job has times over a year from those of the other 120" in done.warnings[0]


def test_few_workloads_with_one_of_another_century_are_refused_by_name(tmp_path):
    with pytest.raises(InputError, match=r"team-a/odd: 2126-.*1 of 6 workloads cannot be used"):
        read_kueue_log(dump(tmp_path, workload("odd", "team-a", 50, 60, 100 * YEAR), count=5))


def test_a_log_of_years_is_plausible(tmp_path):
    days = 86_400
    jobs = [workload(f"j{i}", "team-a", 20 * days * i, 20 * days * i + 60, 20 * days * i + 900)
            for i in range(180)]  # fmt: skip
    path = write_list(tmp_path / "k.json", [*teams(), *jobs])
    assert not read_kueue_log(path).warnings
    assert not ingest([path], tmp_path / "t.parquet").warnings


def test_two_jobs_say_nothing_of_each_other():
    others = OtherTimes.of([(0.0, 1.0), (20 * YEAR_S, 20 * YEAR_S + 1)])
    assert not others.is_far((20 * YEAR_S, 20 * YEAR_S + 1)) and not others.is_far((0.0, 1.0))


def test_the_hundredth_that_is_first_and_last_is_left_out():
    spans = [(float(i), float(i + 1)) for i in range(1, 201)]  # two of 200 on each side
    assert OtherTimes.of(spans) == OtherTimes(3.0, 199.0)
    assert OtherTimes.of(spans).is_far((3.0 - YEAR_S - 1, 5.0))
    assert not OtherTimes.of(spans).is_far((3.0 - YEAR_S, 199.0 + YEAR_S))
