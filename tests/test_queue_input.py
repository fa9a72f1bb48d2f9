"""A listing of the queue: what cannot be read is said with its place, never guessed."""

import pytest

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.job_table.notation import read_time
from gpuplan.analysis.site.squeue import read_queue
from gpuplan.planner.site.instant import task_ids
from tests.support.support_eta import DAY, MONDAY, past_jobs, squeue_text, write_log, write_twin

AT = MONDAY + 28 * DAY
RUNS = {"ident": "7", "user": "ann", "submit": AT - 900, "start": AT - 600, "limit": 7200,
        "nodes": 1, "gpus": 4, "hosts": "n1", "now": AT}  # fmt: skip
WAITS = RUNS | {"ident": "8", "start": None}


def queue_file(tmp_path, old="", new="", jobs=(RUNS, WAITS), encoding="utf-8"):
    path = tmp_path / "queue.txt"
    text = squeue_text(jobs)
    assert old in text
    path.write_bytes(text.replace(old, new).encode(encoding))
    return path


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("02:00:00", "soon", r"queue.txt:2: column 'TIME_LIMIT': found 'soon'; expected a time"),
        ("2025-10-28T23:50:00", "yesterday", r":2: column 'START_TIME': found 'yesterday'; exp"),
        ("2025-10-28T23:50:00", "N/A", r":2: column 'START_TIME': found ''; .* since it runs"),
        ("2025-10-28T23:45:00", "noon", r":2: column 'SUBMIT_TIME': found 'noon'; expected a ti"),
        ("PENDING", "WISHING", r":3: column 'STATE': found 'WISHING'; expected a state such as"),
        ("gpu:4", "gpu:h100:many", r":2: column 'TRES_PER_NODE': found 'gres/gpu:h100:many'; e"),
        ("00:10:00|", "ages|", r":2: column 'TIME': found 'ages'; expected a time such as"),
        ("|1|gres", "|one|gres", r":2: column 'NODES': found 'one'; expected a whole number"),
        ("|1|gres", f"|{'9' * 5000}|gres", r":2: column 'NODES': found '999"),
        ("gpu:4", f"gpu:{'9' * 15}", r":2: column 'TRES_PER_NODE': found '9+ GPUs'; expected at m"),
        ("2025-10-28T23:45:00", "9" * 5000, r":2: column 'SUBMIT_TIME': found '999"),
        ("2025-10-28T23:45:00", "9999-12-31T23:59:59-12:00", r":2: column 'SUBMIT_TIME': found"),
        ("00:10:00|", "99999999-00:00:00|", r":2: column 'TIME': found '99999999-00:00:00'"),
    ],
)
def test_a_cell_that_cannot_be_read_is_named(tmp_path, old, new, message):
    with pytest.raises(InputError, match=message):
        read_queue(queue_file(tmp_path, old, new))


def test_names_that_are_not_utf_8_are_refused_with_their_row(tmp_path):
    path = queue_file(tmp_path, "|ann|", "|zo\xeb|", encoding="latin-1")
    with pytest.raises(InputError, match=r"queue.txt:2: found 'zo\\xeb', which is not UTF-8"):
        read_queue(path)


def test_a_job_listed_twice_counts_once_with_a_warning(tmp_path):
    queue = read_queue(queue_file(tmp_path, jobs=(RUNS, WAITS, RUNS)))
    assert queue.jobs["job_id"].to_list() == ["7"]
    assert "1 row of jobs that are listed before (7)" in queue.warnings[0]
    assert read_queue(queue_file(tmp_path)).warnings == ()


def test_what_slurm_shows_for_no_limit_or_one_gpu_is_read(tmp_path):
    limits = read_queue(queue_file(tmp_path, "02:00:00", "NOT_SET")).jobs["limit_s"]
    assert limits.to_list() == [None]
    for text, gpus, kind in (
        ("gres/gpu", 1, None),
        ("gpu:h100", 1, "h100"),
        ("gres:gpu:2", 2, None),
    ):
        jobs = read_queue(queue_file(tmp_path, "gres/gpu:4", text)).jobs
        assert jobs.select("gpus", "gpu_type").row(0) == (gpus, kind)


def test_jobs_that_ended_neither_run_nor_wait(tmp_path):
    queue = read_queue(queue_file(tmp_path, "PENDING", "COMPLETED"))
    assert queue.waiting.is_empty()
    assert queue.left_out == {"of jobs that have ended": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n", "squeue without -o"),
        ("7|ann|lab|gpu|RUNNING\n", "is not a listing of the queue: it starts with '7.ann"),
        ("[]", "has no list of jobs"),
        ('{"jobs": null}', "has no list of jobs"),
        ('{"jobs": [{"job_id": 1', "is not JSON"),
        ('{"jobs": ' + "[" * 50_000, "is not JSON"),
    ],
)
def test_another_file_is_refused_with_the_command_that_lists_the_queue(tmp_path, text, message):
    path = tmp_path / "queue"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"(?s){message}.*next: squeue -a"):
        read_queue(path)


def test_a_json_without_jobs_is_an_empty_queue(tmp_path):
    (tmp_path / "queue.json").write_text('{"jobs": []}')
    queue = read_queue(tmp_path / "queue.json")
    assert queue.jobs.is_empty() and queue.waiting.is_empty()


def test_odd_json_of_a_queue_is_read(tmp_path):
    """Numbers that are not finite are none, and text that cannot be written is replaced."""
    job = (
        '{"job_id": 1, "job_state": ["PENDING"], "submit_time": 1761695100, "node_count": NaN, '
        '"user_name": "\\ud800", "time_limit": {"number": Infinity}, "tres_req_str": "gres/gpu=2"}'
    )
    (tmp_path / "queue.json").write_text(f'{{"jobs": [{job}]}}')
    waiting = read_queue(tmp_path / "queue.json").waiting
    assert waiting.select("nodes", "gpus", "limit_s", "user").rows() == [(1, 2, None, "?")]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("12_[0-2]", ["12_0", "12_1", "12_2"]),
        ("12_[0-4:2,9%2]", ["12_0", "12_2", "12_4", "12_9"]),
        ("12_[1-2-3]", ["12_[1-2-3]"]),
        ("12_[1:2:3,4]", ["12_4"]),
        (f"12_[{'9' * 5000}]", [f"12_[{'9' * 5000}]"]),
    ],
)
def test_the_tasks_of_an_array(text, ids):
    assert task_ids(text) == ids


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("24h", 86400), ("90min", 5400), ("01:30:00", 5400), ("1-12:00:00", 129600), (" 2d ", 172800)],
)
def test_times_with_a_unit_or_as_slurm_writes_them(text, seconds):
    assert read_time(text, "--limit") == seconds


@pytest.mark.parametrize("text", ["24", "24:", "0h", "nan", "soon", "none", "-1", "9" * 30 + "h"])
def test_times_without_a_unit_are_refused(text):
    with pytest.raises(UsageError, match=r"--limit '.*': expected a time with its unit"):
        read_time(text, "--limit")
    assert read_time("0", "--warmup", least=0) == 0


def test_a_bare_limit_names_both_readings(gpuplan, tmp_path):
    twin = write_twin(tmp_path / "twin.toml")
    log = write_log(tmp_path / "log.txt", past_jobs(AT))
    code, _, err = gpuplan("eta", log, "--twin", twin, "--gpus", "4", "--limit", "24")
    assert code == 2
    assert "write 24h for hours, 24min for minutes" in err


def forecast(gpuplan, tmp_path, queue, until=AT):
    log = write_log(tmp_path / "log.txt", past_jobs(until, days=7))
    twin = write_twin(tmp_path / "twin.toml")
    return gpuplan(
        "eta", log, "--queue", queue, "--twin", twin, "--gpus", "4", "--limit", "1h",
        "--user", "ann", "--partition", "gpu", "--replays", "10",
    )  # fmt: skip


def test_an_unknown_partition_blames_the_queue(gpuplan, tmp_path):
    code, _, err = forecast(gpuplan, tmp_path, queue_file(tmp_path, "|gpu|", "|gpu99|"))
    assert code == 3
    assert "queue.txt: has jobs of the partition 'gpu99' (job 7)" in err and "next: " in err


def test_a_queue_of_before_the_log_is_refused_as_such(gpuplan, tmp_path):
    code, _, err = forecast(gpuplan, tmp_path, queue_file(tmp_path), until=AT + 60 * DAY)
    assert code == 3 and "--at" not in err
    assert "queue.txt: its jobs are of 2025-10-29 00:00 UTC and before" in err
    assert "check that LOG is the log and --queue the queue" in err


@pytest.mark.compiled
def test_a_queue_of_long_after_the_log_is_doubtful(gpuplan, tmp_path):
    code, _, err = forecast(gpuplan, tmp_path, queue_file(tmp_path), until=AT - 30 * DAY)
    assert code == 0, err
    assert "warning: the queue is of 30 days after the end of the log" in err
    code, _, err = forecast(gpuplan, tmp_path, queue_file(tmp_path))
    assert code == 0 and "after the end of the log" not in err
