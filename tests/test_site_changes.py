"""Changes of a site as people write them, on clusters small enough to replay by hand."""

from copy import deepcopy
from datetime import UTC, datetime, timedelta

import pytest

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.site.document import read_twin
from gpuplan.analysis.site.log import read_site_log
from gpuplan.planner.twin.calibrate import prepared
from gpuplan.planner.twin.change_texts import READERS, read_option
from gpuplan.planner.twin.settings import level_config, site_of
from gpuplan.planner.twin.site_changes import combined
from gpuplan.simkit.twin.simulator import replay_site

pytestmark = pytest.mark.compiled
BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
HOUR = 3600
# ga01 and ga02 of 4 A100 in `gpu`, ga01 in `debug` too; gh01 of 8 H100 in `h100`. A user may hold 4
# GPUs under QOS normal, 8 under large.
TWIN = """
[node."ga[01-02]"]
gpus = 4
type = "a100"
[node.gh01]
gpus = 8
type = "h100"
[partition.gpu]
Nodes = "ga[01-02]"
MaxTime = "4-00:00:00"
[partition.debug]
Nodes = "ga01"
MaxTime = "04:00:00"
[partition.h100]
Nodes = "gh01"
MaxTime = "2-00:00:00"
[qos.normal.MaxTRESPU]
gpu = 4
[qos.large.MaxTRESPU]
gpu = 8
[account.bio]
Fairshare = 1
[account.nlp]
Fairshare = 1
[backfill]
AccountingStorageEnforce = "limits"
bf_interval = 1
bf_resolution = 1
"""
FIELDS = (
    "JobID User Account Partition QOS State Submit Eligible Start End ElapsedRaw TimelimitRaw "
    "NNodes AllocTRES ReqTRES Reason"
).split()


def at(hours):
    return f"{BEGIN + timedelta(hours=hours):%Y-%m-%dT%H:%M:%S}"


def job(number, submit_h, gpus, run_h, *, user="ann", account="bio", partition="gpu", qos="normal",
        limit_h=None, kind="a100", start_h=None):  # fmt: skip
    start = submit_h if start_h is None else start_h
    tres = f"billing={gpus},gres/gpu:{kind}={gpus},gres/gpu={gpus}"
    nodes = -(-gpus // (8 if kind == "h100" else 4))
    cells = (
        number, user, account, partition, qos, "COMPLETED", at(submit_h), at(submit_h), at(start),
        at(start + run_h), round(run_h * HOUR), round((limit_h or run_h) * 60), nodes, tres, tres,
        "None",
    )  # fmt: skip
    return "|".join(map(str, cells))


@pytest.fixture
def replayed(tmp_path):
    """Return a function: hours at which the jobs start under a change, by number."""
    twin = tmp_path / "twin.toml"
    twin.write_text(TWIN)

    def starts(text, jobs, *, full=False):
        path = tmp_path / "sacct.txt"
        path.write_text("\n".join(["|".join(FIELDS), *jobs]) + "\n")
        log, (document, _) = read_site_log(path), read_twin(twin)
        change = (read_option(text) if text else combined([])).settled(document, log)
        changed = deepcopy(document)
        if change.document is not None:
            change.document(changed)
        site, rules, work = prepared(log, changed, 0)
        site = site if change.site is None else change.site(site)
        table = work.jobs if change.jobs is None else change.jobs(work.jobs)
        run = replay_site(site, table, level_config(rules, "events"))
        first = int(BEGIN.timestamp())
        hours = {
            int(name): round((int(start) - first) / HOUR, 3) if start >= 0 else run.reason(i)
            for i, (name, start) in enumerate(zip(work.job_ids, run.start, strict=True))
        }
        return (hours, change, run) if full else hours

    return starts


# Ann holds her 4 GPUs until 10; her second job waits for that although ga02 is free. Bob's 8 wait
# for both nodes, so for her second job too.
LIMITED = [job(1, 0, 4, 10), job(2, 1, 4, 10)]


def test_a_limit_of_users_is_that_of_the_qos_under_which_most_jobs_run(replayed):
    jobs = [*LIMITED, job(3, 30, 8, 1, user="bob", qos="large")]
    assert replayed("", jobs) == {1: 0, 2: 10, 3: 30}
    hours, change, _ = replayed("limit user=8", jobs, full=True)
    assert hours == {1: 0, 2: 1, 3: 30}
    assert change.keys == (("qos", "normal", "MaxTRESPU", "gpu"),)
    assert "others stay (large 8 GPUs a user)" in change.notes[0]
    assert replayed("limit user=none", jobs) == {1: 0, 2: 1, 3: 30}
    assert replayed("limit qos:large/user=4", jobs)[3] == "QOSMaxGRESPerUser"
    assert replayed("limit user=4", jobs) == replayed("", jobs)


def test_a_limit_of_a_whole_qos_says_that_it_is_not_that_of_each_user(replayed):
    jobs = [job(1, 0, 4, 10), job(2, 0, 4, 10), job(3, 0, 4, 10)]
    _, change, _ = replayed("limit qos:normal=8", jobs, full=True)
    (note,) = change.notes
    assert "all users of the QOS together" in note
    assert "qos:normal/user=N changes the 4 GPUs of each user" in note
    for text in ("limit qos:normal/user=8", "limit account:bio=8"):
        assert replayed(text, jobs, full=True)[1].notes == ()


def test_limits_of_an_account_a_qos_and_one_user(replayed):
    jobs = [job(1, 0, 4, 10), job(2, 1, 4, 10, user="bob"), job(3, 2, 2, 1, user="cid",
            account="nlp", partition="h100", kind="h100")]  # fmt: skip
    assert replayed("", jobs) == {1: 0, 2: 1, 3: 2}
    assert replayed("limit account:bio=4", jobs) == {1: 0, 2: 10, 3: 2}
    assert replayed("limit qos:normal=4", jobs) == {1: 0, 2: 10, 3: 20}
    assert replayed("limit user:bob=2", jobs) == {1: 0, 2: "AssocGrpGRES", 3: 2}
    assert replayed("limit user:bob=2,account:bio=none", jobs)[2] == "AssocGrpGRES"


def test_nodes_of_a_partition_a_type_and_a_node(replayed):
    # Three users fill 2 nodes of `gpu`; the third waits. `debug` has ga01 alone.
    jobs = [job(i, i, 4, 10, user=f"u{i}") for i in range(1, 4)]
    jobs += [job(9, 4, 4, 1, user="u9", partition="debug")]
    assert replayed("", jobs) == {1: 1, 2: 2, 3: 11, 9: 21}
    assert replayed("add-nodes gpu=1", jobs) == {1: 1, 2: 2, 3: 3, 9: 11}
    assert replayed("add-nodes a100=2", jobs) == {1: 1, 2: 2, 3: 3, 9: 4}  # in `debug` too
    assert replayed("add-nodes type:a100=2", jobs) == {1: 1, 2: 2, 3: 3, 9: 4}
    assert replayed("add-nodes ga02=2", jobs) == {1: 1, 2: 2, 3: 3, 9: 11}  # as ga02 is
    assert replayed("add-nodes h100=1", jobs) == replayed("", jobs)
    assert replayed("remove-nodes ga02", jobs) == {1: 1, 2: 11, 3: 21, 9: 31}
    assert replayed("remove-nodes gpu=1", jobs) == replayed("remove-nodes ga02=1", jobs)
    assert replayed("add-nodes gpu=1 remove-nodes gpu=1", jobs) == replayed("", jobs)


def test_a_name_of_a_partition_and_a_type_is_the_partition_and_that_is_said(tmp_path):
    twin = tmp_path / "twin.toml"
    twin.write_text(TWIN.replace("partition.gpu", "partition.a100"))
    document, _ = read_twin(twin)
    change = read_option("add-nodes a100=1,h100=1").settled(document, None)
    assert change.notes == (
        "--add-nodes: a100 is read as the partition a100; type:a100=1 also puts the nodes into "
        "debug",
    )
    parts = {p.name: len(p.nodes) for p in change.site(site_of(document)).partitions}
    assert parts == {"a100": 3, "debug": 1, "h100": 2}
    change = read_option("add-nodes type:a100=1")
    parts = {p.name: len(p.nodes) for p in change.site(site_of(document)).partitions}
    assert parts == {"a100": 3, "debug": 2, "h100": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("add-nodes v100=2", ["named v100", "GPU types a100, h100", "gpu, debug, h100", "ga, gh"]),
        ("add-nodes gp=2", ["did you mean gpu?"]),
        ("add-nodes rack:x=2", ["partition, type, node"]),
        ("add-nodes a100", ["NAME=N"]),
        ("remove-nodes gpu", ["say how many"]),
        ("remove-nodes gpu=3", ["only 2 such nodes"]),
        ("remove-nodes ga=2", ["partition gpu would have no node"]),
        ("limit user=lots", ["user=32", "account:NAME=72"]),
        ("limit group=3", ["user=32"]),
        ("limit account=3", ["account:NAME=72"]),
        ("limit account:boi=3", ["did you mean bio?"]),
        ("limit user:anna=3", ["did you mean ann?"]),
        ("max-time gpu=90", ["unit", "1d"]),
        ("max-time gup=1d", ["did you mean gpu?"]),
        ("max-time gpu=1d long-jobs kill", ["clip, cut, continue"]),
        ("move gpu", ["FROM=TO"]),
        ("move gpu=debgu", ["did you mean debug?"]),
        ("limits-run 0.5", ["from 1 to 1000"]),
        ("limits-run two", ["a number"]),
        ("reserve gpu=1", ["a100=2@account:climate"]),
        ("reserve ga=1@boi", ["did you mean bio?", "account: bio"]),
        ("reserve ga=2@account:bio", ["partition gpu would have no node"]),
        ("burst over 12", ["unit"]),
        ("burst over 5s", ["at least a minute"]),
        ("limt user=3", ["no change is called limt (did you mean limit?)"]),
        ("limit", ["limit has no value"]),
        ("", ["has no change"]),
    ],
)
def test_what_cannot_be_read_is_an_error_that_says_what_there_is(replayed, text, words):
    with pytest.raises(UsageError) as error:
        if text:
            replayed(text, LIMITED)
        else:
            read_option(text)
    assert all(word in str(error.value) for word in words), error.value


def test_a_partition_of_several_kinds_of_nodes_needs_a_node(tmp_path):
    twin = tmp_path / "twin.toml"
    twin.write_text(TWIN.replace('Nodes = "ga[01-02]"', 'Nodes = "ga[01-02],gh01"'))
    document, _ = read_twin(twin)
    with pytest.raises(UsageError, match=r"2 of 4 a100 \(such as ga01\), 1 of 8 h100"):
        read_option("add-nodes gpu=1").site(site_of(document))
    with pytest.raises(UsageError, match="gpu has no l40s nodes"):
        read_option("add-nodes gpu/l40s=1").site(site_of(document))
    parts = {
        p.name: len(p.nodes)
        for p in read_option("add-nodes gh01=1").site(site_of(document)).partitions
    }
    assert parts == {"gpu": 4, "debug": 1, "h100": 2}
    parts = {
        p.name: len(p.nodes)
        for p in read_option("add-nodes gpu/h100=2").site(site_of(document)).partitions
    }
    assert parts == {"gpu": 5, "debug": 1, "h100": 1}


def test_a_shorter_longest_limit_cuts_or_continues_long_jobs(replayed):
    # u1 and u2 hold both nodes for 30 h, u3 waits for one of them.
    jobs = [
        job(1, 0, 4, 30, user="u1", limit_h=48), job(2, 0, 4, 30, user="u2", limit_h=30),
        job(3, 1, 4, 5, user="u3"),
    ]  # fmt: skip
    assert replayed("", jobs) == {1: 0, 2: 0, 3: 30}
    hours, change, run = replayed("max-time gpu=1d --long-jobs cut", jobs, full=True)
    assert hours == {1: 0, 2: 0, 3: 24}
    assert run.jobs.limit.tolist() == [24 * HOUR, 24 * HOUR, 5 * HOUR]
    assert "2 jobs of the log ran longer and are cut there" in change.notes[0]
    # Continued: u3 came before the new jobs of 6 h and holds a node from 24 to 29. One of them has
    # the other node until 30, the second follows u3 until 35, then u4 has both.
    later = [*jobs, job(4, 25, 8, 1, user="u4", qos="large")]
    hours, _, run = replayed("max-time gpu=1d", later, full=True)
    assert hours == {1: 0, 2: 0, 3: 24, 4: 35}
    assert run.end.tolist()[:2] == [int(BEGIN.timestamp()) + 24 * HOUR] * 2
    hours, _, run = replayed("max-time gpu=1d --long-jobs clip", jobs, full=True)
    assert hours == {1: 0, 2: 0, 3: 30} and run.jobs.limit[0] == 24 * HOUR
    assert replayed("max-time 4d", jobs) == replayed("", jobs)
    same = "max-time gpu=4-00:00:00,debug=4h,h100=48h"
    assert replayed(same, jobs) == replayed("", jobs)


def test_a_longest_limit_of_another_partition_or_longer_than_all_changes_nothing(replayed):
    jobs = [job(1, 0, 4, 30, user="u1", limit_h=48), job(3, 1, 8, 5, user="u3", qos="large")]
    assert replayed("max-time h100=1h", jobs) == replayed("", jobs)
    assert replayed("max-time gpu=30d", jobs) == replayed("", jobs)


def test_jobs_of_a_partition_go_to_another_one(replayed):
    jobs = [
        job(1, 0, 4, 3, user="u1", partition="debug"),
        job(2, 1, 4, 3, user="u2", partition="debug"),
        job(3, 2, 2, 1, user="u3", partition="h100", kind="h100"),
    ]
    assert replayed("", jobs) == {1: 0, 2: 3, 3: 2}
    assert replayed("move debug=gpu", jobs) == {1: 0, 2: 1, 3: 2}  # ga02 is free
    # The H100 job takes two A100 of the one node of debug, after the other two jobs.
    assert replayed("move h100=debug", jobs) == {1: 0, 2: 3, 3: 6}
    long = [job(1, 0, 4, 5, user="u1")]
    assert replayed("move gpu=debug", long) == {1: "PartitionTimeLimit"}


def test_limits_that_follow_run_times_let_backfill_see_gaps(replayed):
    # u1 holds ga01 for 2 h with a limit of 60 h, u2 ga02 until 10. u3 wants both nodes: EASY would
    # keep them for it from 60; u4 asks for 20 h but runs 4 min.
    jobs = [
        job(1, 0, 4, 2, user="u1", limit_h=60), job(2, 0, 3, 10, user="u2"),
        job(3, 1, 8, 1, user="u3", qos="large"), job(4, 3, 4, 1, user="u4", limit_h=20),
    ]  # fmt: skip
    assert replayed("", jobs) == {1: 0, 2: 0, 3: 10, 4: 11}
    hours, _, run = replayed("limits-run 2", jobs, full=True)
    assert hours == {1: 0, 2: 0, 3: 10, 4: 3}
    assert run.jobs.limit.tolist() == [4 * HOUR, 10 * HOUR, HOUR, 2 * HOUR]
    short = [job(1, 0, 4, 1 / 60, limit_h=1), job(2, 0, 1, 1 / 60, limit_h=0.05)]
    assert replayed("limits-run 2", short, full=True)[2].jobs.limit.tolist() == [300, 180]


def test_nodes_kept_for_a_partition_and_for_an_account(replayed):
    jobs = [job(1, 0, 4, 10, user="u1"), job(2, 1, 4, 10, user="u2"),
            job(3, 2, 4, 1, user="u3", account="nlp"),
            job(4, 3, 4, 1, user="u4", partition="debug")]  # fmt: skip
    assert replayed("", jobs) == {1: 0, 2: 1, 3: 10, 4: 11}
    # ga01 alone for debug: gpu has ga02.
    assert replayed("reserve ga01@debug", jobs) == {1: 0, 2: 10, 3: 20, 4: 3}
    # ga02 for nlp; bio's jobs share ga01.
    assert replayed("reserve ga02@account:nlp", jobs) == {1: 0, 2: 10, 3: 2, 4: 20}
    assert replayed("reserve gpu=1@nlp", jobs) == replayed("reserve ga02@account:nlp", jobs)
    qos = [*jobs[:2], job(3, 2, 4, 1, user="u3", qos="large")]
    assert replayed("reserve ga02@large", qos) == {1: 0, 2: 10, 3: 2}


def test_jobs_that_waited_long_run_on_demand(replayed):
    hours, _, run = replayed("burst over 2h", LIMITED, full=True)
    assert hours == {1: 0, 2: 3}
    assert run.elsewhere_gpu_s.tolist() == [0, 4 * 10 * HOUR]
    hours, _, run = replayed("burst over 12h", LIMITED, full=True)
    assert hours == {1: 0, 2: 10} and not run.elsewhere_gpu_s.any()


def test_several_changes_in_a_text_are_one(replayed):
    jobs = [*LIMITED, job(3, 2, 8, 1, user="u3", qos="large")]
    text = "limit user=8 + add-nodes gpu=2"
    hours, change, _ = replayed(text, jobs, full=True)
    assert hours == {1: 0, 2: 1, 3: 2}
    assert change.name == "limit user=8 + add-nodes gpu=2"
    assert replayed("--limit=user=8 --add-nodes gpu=2", jobs) == hours


def test_every_change_but_burst_is_an_option_of_whatif():
    from gpuplan.analysis.base.option import declared_options
    from gpuplan.planner.requests.whatif import WhatIfRequest

    flags = {option.flag.removeprefix("--") for option in declared_options(WhatIfRequest)}
    assert set(READERS) - {"burst"} <= flags
