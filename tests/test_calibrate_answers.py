"""What calibrate says: assumed limits, units, advice, one definition of a wait, what lacks."""

import json
import re

import numpy as np
import polars as pl
import pytest

from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.log import read_site_log
from gpuplan.analysis.site.slurm_conf import read_slurm_conf
from gpuplan.planner.twin.calibrate import prepared
from gpuplan.planner.twin.infer import complete
from gpuplan.planner.twin.lacks import lacks_of, lacks_text
from gpuplan.planner.twin.score import advice, score_run, shown_in_one_unit, wait_note
from gpuplan.planner.twin.settings import ADDED
from gpuplan.simkit.twin.simulator import replay_site

CONF = """NodeName=n[1-2] Gres=gpu:a100:4 CPUs=64 RealMemory=512000
PartitionName=gpu Nodes=n[1-2] MaxTime=1-00:00:00
PartitionName=short Nodes=n[1-2] MaxTime=60
"""
NAMES = ("JobID", "User", "Partition", "QOS", "State", "Submit", "Eligible", "Start", "End",
         "ElapsedRaw", "Timelimit", "NNodes", "AllocTRES", "Reason")  # fmt: skip
HOUR = 3600


def moment(second):
    return (
        f"2026-01-{1 + second // 86400:02}T{second % 86400 // HOUR:02}:{second % HOUR // 60:02}:00"
    )


def row(number, submit=0, wait=0, run=HOUR, **cells):
    """Return a job by its times in seconds; every job has 1 GPU."""
    cells = {
        "JobID": str(number), "User": "ada", "Partition": "gpu", "QOS": "normal",
        "State": "COMPLETED", "Submit": moment(submit), "Eligible": moment(submit),
        "Start": moment(submit + wait), "End": moment(submit + wait + run),
        "ElapsedRaw": str(run), "Timelimit": "02:00:00", "NNodes": "1",
        "AllocTRES": "cpu=8,mem=64000M,gres/gpu=1", "Reason": "None", **cells,
    }  # fmt: skip
    return "|".join(cells[name] for name in NAMES)


def site(folder, rows, conf=CONF, names=NAMES):
    """Return the log of rows and the settings."""
    header = "|".join(names)
    kept = [NAMES.index(name) for name in names]
    lines = ["|".join(line.split("|")[at] for at in kept) for line in rows]
    (folder / "sacct.txt").write_text("\n".join([header, *lines]) + "\n")
    (folder / "slurm.conf").write_text(conf)
    log, document = (
        read_site_log(folder / "sacct.txt", "UTC"),
        read_slurm_conf(folder / "slurm.conf"),
    )
    complete(document, log, cluster=None, infer=False)
    return log, document


# Limits


def test_assumed_limits_end_at_the_partition_s_maximum(tmp_path):
    rows = [
        row(1, run=20 * HOUR, Timelimit="UNLIMITED"),
        row(2, run=20 * HOUR, Timelimit="Partition_Limit"),
        row(3, run=HOUR // 2, Timelimit="UNLIMITED", Partition="short"),
        row(4, Timelimit="03:00:00"),
    ]
    log, document = site(tmp_path, rows)
    cluster, config, work = prepared(log, document, 0)
    assert work.jobs.limit.tolist() == [86400, 86400, 3600, 3 * HOUR]
    assert (replay_site(cluster, work.jobs, config).start >= 0).all()
    # Without the column: twice the run time, at most MaxTime.
    names = tuple(name for name in NAMES if name != "Timelimit")
    log, document = site(tmp_path, rows, names=names)
    cluster, config, work = prepared(log, document, 0)
    assert work.jobs.limit.tolist() == [86400, 86400, 3600, 2 * HOUR]
    assert (replay_site(cluster, work.jobs, config).start >= 0).all()
    assert "at most the partition's MaxTime" in " ".join(work.notes)


def test_assumed_limits_end_at_the_maximum_of_the_qos(tmp_path):
    log, document = site(tmp_path, [row(1, run=5 * HOUR, Timelimit="UNLIMITED")])
    document.put("0-06:00:00", "qos", "normal", "MaxWall")
    cluster, config, work = prepared(log, document, 0)
    assert work.jobs.limit.tolist() == [6 * HOUR]
    assert (replay_site(cluster, work.jobs, config).start >= 0).all()


def test_a_limit_that_was_requested_is_not_moved(tmp_path):
    log, document = site(tmp_path, [row(1, Timelimit="3-00:00:00")])  # over MaxTime
    cluster, config, work = prepared(log, document, 0)
    assert work.jobs.limit.tolist() == [3 * 86400]
    assert replay_site(cluster, work.jobs, config).start.tolist() == [-1]


def test_unlimited_jobs_do_not_make_the_inferred_maximum(tmp_path):
    log, _ = site(tmp_path, [row(1, Timelimit="UNLIMITED"), row(2, Timelimit="04:00:00")])
    document = SiteDocument()
    complete(document, log, cluster=None, infer=True)
    assert document.get("partition", "gpu", "MaxTime") == "0-04:00:00"


# Words


def test_durations_of_a_sentence_share_their_unit():
    assert shown_in_one_unit(117 * 60, 2.06 * HOUR) == ("1.95 h", "2.06 h")
    assert shown_in_one_unit(3.0, 74.4 * 60) == ("0.05 min", "74.4 min")
    assert shown_in_one_unit(0.0, 0.0) == ("0 s", "0 s")


def test_the_headline_has_one_unit_and_no_error_below_the_best(monkeypatch):
    from types import SimpleNamespace

    from gpuplan.cli.tables.twin_tables import calibration_headline

    def said(error_s, ties_s):
        score = SimpleNamespace(mae_s=error_s, within=0.7, jobs=100)
        return calibration_headline(SimpleNamespace(
            score=score, noise_floor=SimpleNamespace(mae_s=ties_s), chosen="limits", added=ADDED,
            work=SimpleNamespace(jobs=SimpleNamespace(id=np.arange(100))), earlier_jobs=0,
        ))  # fmt: skip

    text = said(117 * 60, 1.06 * HOUR)
    assert "mean error is 117 min" in text and "63.6 min apart" in text
    text = said(3.0, 74 * 60)
    assert "within the 74 min" in text and "3 s" not in text and "0.05" not in text


def test_the_answer_and_characterize_count_waits_alike(tmp_path, gpuplan):
    # Ten jobs that wait an hour, half of it for a dependency.
    rows = [row(n, submit=n * HOUR, wait=HOUR, Eligible=moment(n * HOUR + HOUR // 2))
            for n in range(1, 11)]  # fmt: skip
    site(tmp_path, rows)
    code, out, err = gpuplan(
        "calibrate", tmp_path / "sacct.txt", "--slurm-conf", tmp_path / "slurm.conf",
        "--time-zone", "UTC", "--warmup", "0s",
    )  # fmt: skip
    assert code == 0, err
    first = next(line for line in out.splitlines() if " fifo " in line)
    assert first.split()[-2:] == ["60", "min"]  # recorded, from submission
    assert "waited 60 min on average, 30 min of it after they were eligible" in err
    results = json.loads(
        gpuplan(
            "calibrate", tmp_path / "sacct.txt", "--slurm-conf", tmp_path / "slurm.conf",
            "--warmup", "0s", "--output-format", "json",
        )[1]
    )["results"]  # fmt: skip
    level = results["levels"][0]
    assert (level["recorded_mean_s"], level["held_mean_s"]) == (1800.0, 1800.0)
    _, out, _ = gpuplan("characterize", tmp_path / "sacct.txt", "--output-format", "json")
    assert json.loads(out)["results"]["queue_s"]["mean"] == 3600.0


def test_without_dependencies_nothing_is_said_of_eligible(tmp_path):
    log, document = site(tmp_path, [row(n, submit=n * HOUR, wait=60) for n in range(1, 5)])
    _, _, work = prepared(log, document, 0)
    assert wait_note(work) is None


# Advice


@pytest.fixture
def late_partition(tmp_path):
    """Two partitions of which one waited for what the settings do not have."""
    rows = []
    for n in range(60):
        slow = n % 2
        rows.append(row(n + 1, submit=n * 2 * HOUR, wait=20 * HOUR * slow, run=HOUR // 2,
                        Timelimit="00:40:00", Partition="gpu" if slow else "short"))  # fmt: skip
    log, document = site(tmp_path, rows)
    cluster, config, work = prepared(log, document, 0)
    return work, replay_site(cluster, work.jobs, config)


def test_advice_does_not_doubt_nodes_that_were_given(late_partition):
    work, run = late_partition
    inferred = " ".join(advice(work, run))
    assert "partition gpu are 20 h too short: check its nodes, which are inferred" in inferred
    given = " ".join(advice(work, run, ["node.n[1-2].gpus", "qos.normal.Priority"]))
    assert "partition gpu are 20 h too short: look for a limit" in given
    assert "its nodes" not in given and "show qos" not in given and "show assoc" in given


def test_no_advice_on_what_ties_alone_can_move(late_partition):
    work, run = late_partition
    assert advice(work, run) and not [
        text for text in advice(work, run, noise_s=30 * HOUR) if "too short" in text
    ]


# What the site has and the model lacks


def lacking(folder, rows, conf=CONF):
    log, document = site(folder, rows, conf)
    return lacks_of(log, document, prepared(log, document, 0)[0])


def test_what_touches_over_one_percent_is_said(tmp_path):
    plain = [row(n, submit=n * HOUR, wait=600) for n in range(1, 97)]
    odd = [
        row(201, wait=6000, Reason="Licenses"),
        row(202, wait=600, Reason="QOSMaxCpuPerUserLimit"),
        row(203, State="PREEMPTED", wait=600),
        row(203, submit=3 * HOUR, wait=600),
        row(204, wait=600, AllocTRES="cpu=64,mem=64000M,gres/gpu=1"),
        row(205, wait=600, AllocTRES="cpu=8,mem=500G,gres/gpu=1"),
        *(row(300 + n, AllocTRES="cpu=8,mem=1000M") for n in range(3)),
    ]
    lacks = {lack.name: lack for lack in lacking(tmp_path, plain + odd)}
    assert {name: lack.jobs for name, lack in lacks.items()} == {
        "licenses": 1, "CPU jobs in GPU partitions": 3,
    }  # fmt: skip
    assert lacks["licenses"].wait_share == pytest.approx(6000 / (100 * 600 + 6000))
    few = {lack.name for lack in lacking(tmp_path, plain[:40] + odd)}
    assert few == {
        "licenses", "CPU jobs in GPU partitions", "preemption", "limits on CPUs, memory or nodes",
        "CPUs beyond the share of a job's GPUs", "memory beyond the share of a job's GPUs",
    }  # fmt: skip


def test_nothing_is_said_where_nothing_lacks(tmp_path):
    rows = [row(n, submit=n * HOUR, wait=600) for n in range(1, 30)]
    assert lacking(tmp_path, rows) == () and lacks_text(()) is None
    conf = CONF.replace(" CPUs=64 RealMemory=512000", "")  # capacities unknown
    big = [row(n, AllocTRES="cpu=64,mem=500G,gres/gpu=1") for n in range(1, 30)]
    assert lacking(tmp_path, big, conf) == ()


def test_calibrate_and_whatif_say_it_first(tmp_path, gpuplan):
    rows = [row(n, submit=n * HOUR, wait=600, Reason="Licenses" if n % 2 else "None")
            for n in range(1, 60)]  # fmt: skip
    site(tmp_path, rows)
    log, twin = tmp_path / "sacct.txt", tmp_path / "twin.toml"
    code, _, err = gpuplan("calibrate", log, "--slurm-conf", tmp_path / "slurm.conf", "-o", twin)
    assert code == 0 and re.search(r"warning: the site has what the model lacks: licenses, 30 jobs",
                                   err), err  # fmt: skip
    code, _, err = gpuplan("whatif", log, "--twin", twin, "--add-nodes", "gpu=1")
    assert code == 0 and "the site has what the model lacks: licenses" in err


def test_jobs_that_ran_and_never_start_are_a_warning(tmp_path, gpuplan):
    rows = [row(n, submit=n * HOUR, wait=60, Timelimit="2-00:00:00" if n % 2 else "01:00:00")
            for n in range(1, 60)]  # fmt: skip
    site(tmp_path, rows)
    _, _, err = gpuplan(
        "calibrate", tmp_path / "sacct.txt", "--slurm-conf", tmp_path / "slurm.conf"
    )
    assert "jobs ran and never start under these settings" in err and "PartitionTimeLimit" in err


def test_scores_of_groups_keep_the_time_before_eligible(tmp_path):
    rows = [row(n, submit=n * HOUR, wait=HOUR, Eligible=moment(n * HOUR + 600 * (n % 2)))
            for n in range(1, 51)]  # fmt: skip
    log, document = site(tmp_path, rows)
    cluster, config, work = prepared(log, document, 0)
    score = score_run("fifo", work, replay_site(cluster, work.jobs, config))
    assert score.held_mean_s == 300.0
    assert score.held_mean_s + score.recorded_mean_s == HOUR
    assert pl.Series([group.held_mean_s for group in score.by["partition"]]).to_list() == [300.0]
