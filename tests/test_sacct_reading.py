"""What sacct writes: JSON and text alike, free text, cut logs, zones, GRES; and site files."""

import gzip
from pathlib import Path

import pytest
from support_ingest import ingest_text
from support_sacct_json import sacct_json
from support_slurm import log, notes

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.job_table.notation import gpus_of
from gpuplan.analysis.log_formats.sacct_command import SACCT_COMMAND, SACCT_FIELDS
from gpuplan.analysis.log_formats.slurm_cells import FOREVER_S
from gpuplan.analysis.log_formats.slurm_json import flatten
from gpuplan.analysis.reading.times import LOCAL_TIMES
from gpuplan.analysis.site.dumps import read_dump
from gpuplan.analysis.site.log import read_site_log
from gpuplan.analysis.site.slurm_conf import read_slurm_conf
from gpuplan.planner.twin.settings import site_of

HEADER = "|".join(SACCT_FIELDS)
JOB = {
    "JobID": "7", "User": "ada", "Account": "lab", "Partition": "gpu", "QOS": "normal",
    "State": "COMPLETED", "Submit": "2026-01-10T08:00:00", "Eligible": "2026-01-10T08:20:00",
    "Start": "2026-01-10T09:00:00", "End": "2026-01-10T10:00:00", "ElapsedRaw": "3600",
    "Timelimit": "04:00:00", "ReqNodes": "1", "NNodes": "1",
    "ReqTRES": "billing=4,cpu=8,gres/gpu=4,mem=1000M,node=1",
    "AllocTRES": "billing=4,cpu=8,gres/gpu=4,gres/gpu:a100=4,mem=1000M,node=1",
    "Priority": "12", "Reason": "Priority", "Flags": "SchedMain", "Reservation": "",
    "NodeList": "n1", "AdminComment": "", "SubmitLine": "sbatch job.sh",
}  # fmt: skip


def sacct(*rows):
    lines = ["|".join({**JOB, **row}[name] for name in SACCT_FIELDS) for row in rows]
    return "\n".join([HEADER, *lines]) + "\n"


def read(folder, text, name="sacct.txt", zone="UTC"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_site_log(path, zone)


ROWS = sacct(
    {},
    {"JobID": "8_2", "Timelimit": "UNLIMITED", "Reason": "QOSMaxGRESPerUser"},
    {"JobID": "9", "Timelimit": "Partition_Limit", "Eligible": "Unknown", "NodeList": "n[1-2]"},
    {"JobID": "10", "Timelimit": "2-12:30:00", "Reservation": "talk", "NNodes": "2",
     "AllocTRES": "cpu=8,gres/gpu=4,node=2"},
    {"JobID": "11", "State": "CANCELLED by 7", "Start": "None", "ElapsedRaw": "0", "NNodes": "1",
     "AllocTRES": "", "ReqNodes": "1", "SubmitLine": "sbatch --wrap 'a | b'"},
)  # fmt: skip


def test_json_and_text_of_the_same_jobs_are_the_same_log(tmp_path):
    text = read(tmp_path, ROWS)
    made = read(tmp_path, sacct_json(ROWS), "sacct.json")
    assert made.jobs.rows() == text.jobs.rows()
    assert (made.missing, made.left_out) == (text.missing, text.left_out) == ((), {})
    limits = dict(text.jobs.select("job_id", "limit_s").rows())
    assert limits == {"7": 14400, "8_2": FOREVER_S, "9": None, "10": 217800, "11": 14400}
    assert made.jobs.filter(job_id="7")["eligible"].item() - 1200 == (
        made.jobs.filter(job_id="7")["submit"].item()
    )


def test_the_lab_s_json_and_text_are_the_same_log(shared):
    dumps = shared / "data/sitelab/dumps"
    if not dumps.is_dir():
        pytest.skip("data/sitelab is not here")
    text, made = (
        read_site_log(dumps / f"sacct_tail.{kind}.gz", "America/New_York")
        for kind in ("txt", "json")
    )
    columns = [name for name in text.jobs.columns if name != "flags"]  # other words in JSON
    assert made.jobs.sort("submit", "job_id")[columns].rows() == (
        text.jobs.sort("submit", "job_id")[columns].rows()
    )
    assert made.missing == text.missing == ()


@pytest.mark.parametrize(
    ("limit", "cell"),
    [
        ({"set": True, "infinite": False, "number": 90}, "90"),
        ({"set": False, "infinite": True, "number": 0}, "UNLIMITED"),
        ({"set": False, "infinite": False, "number": 0}, None),
        (90, "90"),
        (4294967295, "UNLIMITED"),
        (4294967294, None),
        (None, None),
    ],
)
def test_limits_of_all_versions_of_json(limit, cell):
    assert flatten({"job_id": 1, "time": {"limit": limit}})["timelimit"] == cell


def test_older_json_has_its_words_elsewhere():
    cells = flatten({
        "job_id": 1, "state_reason": "Licenses", "state": "PENDING", "reservation": "talk",
        "association": {"user": "ada", "account": "lab"}, "flags": "A,B",
    })  # fmt: skip
    assert (cells["reason"], cells["reservation"], cells["user"]) == ("Licenses", "talk", "ada")
    assert (cells["account"], cells["flags"], cells["state"]) == ("lab", "A,B", "PENDING")


# Free text with the separator


def test_the_last_column_may_hold_the_separator(tmp_path):
    line = 'sbatch --wrap "cat x | sort | tee y"'
    text = sacct({}, {"JobID": "8", "SubmitLine": line}, {"JobID": "9"})
    jobs, _, rejects = ingest_text(tmp_path, text)
    assert jobs["job_id"].to_list() == ["7", "8", "9"] and rejects is None
    lines = read(tmp_path, text).jobs["submit_line"].to_list()
    assert lines == ["sbatch job.sh", line, "sbatch job.sh"]


def test_free_text_in_the_middle_and_a_bar_at_the_end_of_lines(tmp_path):
    header = "JobID|JobName|State|Submit|Start|End|Elapsed|NNodes|AllocTRES"
    text = log({"JobName": "a|b||c"}, {"JobID": "2", "JobName": "x"}, header=header)
    parsable = "".join(f"{line}|\n" for line in text.splitlines())
    for written in (text, parsable):
        jobs, _, rejects = ingest_text(tmp_path, written)
        assert jobs["job_id"].to_list() == ["1", "2"] and rejects is None
        assert jobs["num_gpus"].to_list() == [4.0, 4.0]


def test_a_separator_elsewhere_still_rejects_the_row_as_written(tmp_path):
    header = "JobID|User|State|Submit|Start|End|Elapsed|NNodes|AllocTRES"
    text = log({}, {"JobID": "2", "User": "a|b"}, header=header)
    _, _, rejects = ingest_text(tmp_path, text)
    assert rejects["reason"].to_list() == ["wrong_number_of_fields"]
    text = sacct({}, {"JobID": "8", "Submit": "soon", "SubmitLine": "a | b"})
    _, _, rejects = ingest_text(tmp_path, text)
    assert rejects["raw"].to_list() == [text.splitlines()[2]]


def test_no_row_of_the_lab_is_set_aside_for_its_submit_line(shared):
    path = shared / "data/sitelab/dumps/sacct.txt.gz"
    if not path.exists():
        pytest.skip("data/sitelab is not here")
    lines = gzip.open(path, "rt").read().splitlines()
    width = lines[0].count("|")
    surplus = [line for line in lines[1:] if line.count("|") > width]
    site_log = read_site_log(path, "America/New_York")
    assert surplus and "that cannot be read" not in site_log.left_out
    kept = set(site_log.jobs["submit_line"])
    assert {line.split("|", width)[-1] for line in surplus} <= kept


# Cut logs


def test_a_log_cut_in_its_last_row_is_called_cut(tmp_path, gpuplan):
    text = sacct({}, {"JobID": "8"}, {"JobID": "9"})
    cut = text[: text.rindex("|normal|") + 4]
    jobs, result, rejects = ingest_text(tmp_path, cut)
    assert jobs["job_id"].to_list() == ["7", "8"]
    assert rejects.select("row", "reason").rows() == [(4, "cut_off")]
    assert "it was cut" in " ".join(result.warnings)
    many = sacct(*({"JobID": f"{number}"} for number in range(100, 300)))
    site_log = read(tmp_path, many[: many.rindex("|normal|") + 4])
    assert site_log.jobs["job_id"].to_list() == [f"{number}" for number in range(100, 299)]
    assert site_log.left_out == {"that the end of the log cuts": 1}
    assert "it was cut" in " ".join(site_log.warnings)
    (tmp_path / "cut.txt").write_text(cut)
    code, _, err = gpuplan("characterize", tmp_path / "cut.txt", "--max-rejects", "2")
    assert code == 0 and "it was cut" in err


def test_a_whole_log_is_not_called_cut(tmp_path):
    text = sacct({}, {"JobID": "8"})
    _, result, _ = ingest_text(tmp_path, text)
    assert not [word for word in result.warnings if "cut" in word]
    assert read(tmp_path, text).warnings == ()


def test_a_last_row_without_a_line_end_is_kept_and_doubted(tmp_path):
    text = sacct({}, {"JobID": "8"})[:-6]  # in the middle of SubmitLine
    jobs, result, rejects = ingest_text(tmp_path, text)
    assert jobs.height == 2 and rejects is None
    assert "if the log was cut there" in " ".join(result.warnings)
    assert "if the log was cut there" in " ".join(read(tmp_path, text).warnings)


def test_cut_json_is_called_cut(tmp_path):
    text = sacct_json(ROWS)
    for end in (len(text) // 2, len(text) - 60):
        with pytest.raises(InputError, match="the file was cut"):
            read(tmp_path, text[:end], "cut.json")
    with pytest.raises(InputError, match="is not JSON"):
        read(tmp_path, text.replace('"user": "ada"', '"user": ada', 1), "bad.json")


# Zones


def test_every_command_that_reads_local_times_says_so(tmp_path, gpuplan):
    (tmp_path / "sacct.txt").write_text(sacct({}, {"JobID": "8"}))
    for _ in range(2):  # the second time from the cache
        code, _, err = gpuplan("characterize", tmp_path / "sacct.txt")
        assert code == 0 and err.count(LOCAL_TIMES) == 1
    for option in (("--time-zone", "Europe/Berlin"),):
        assert LOCAL_TIMES not in gpuplan("characterize", tmp_path / "sacct.txt", *option)[2]
    assert read(tmp_path, sacct({}), zone=None).notes == (LOCAL_TIMES,)
    assert read(tmp_path, sacct({}), zone="UTC").notes == ()
    assert read(tmp_path, sacct_json(ROWS), "s.json", zone=None).notes == ()


def test_a_start_in_the_hour_that_comes_twice_is_after_its_submission(tmp_path):
    # 2025-11-02, New York: clocks go back at 02:00. Submitted at 01:50, started 20 minutes later.
    row = {"Submit": "2025-11-02T01:50:00", "Eligible": "2025-11-02T01:55:00",
           "Start": "2025-11-02T01:10:00", "End": "2025-11-02T02:10:00"}  # fmt: skip
    site_log = read(tmp_path, sacct(row), zone="America/New_York")
    job = site_log.jobs.row(0, named=True)
    assert job["start"] - job["submit"] == 1200 and job["eligible"] - job["submit"] == 300
    (tmp_path / "x").mkdir()
    jobs, _, _ = ingest_text(tmp_path / "x", sacct(row), time_zone="America/New_York")
    assert jobs["queue_s"].to_list() == [1200.0]


# Accelerators that Slurm does not call gpu


@pytest.mark.parametrize(
    ("tres", "gpus", "kind"),
    [
        ("cpu=8,gres/npu=8,node=1", 8.0, "npu"),
        ("cpu=8,gres/npu=16,gres/npu:ascend910b=16", 16.0, "ascend910b"),
        ("cpu=8,gres/hpu:gaudi2=4", 4.0, "gaudi2"),
        ("cpu=8,gres/gpu=4,gres/gpu:a100=4,gres/nvme=900", 4.0, "A100"),
        ("cpu=8,gres/shard=4,gres/tmpdisk=400", 0.0, None),
        ("cpu=8,gres/local=400G", 0.0, None),
        ("cpu=8,gres/bytes=90000", 0.0, None),
    ],
)
def test_another_gres_is_an_accelerator_with_a_note(tmp_path, tres, gpus, kind):
    row = {"AllocTRES": tres, "ReqTRES": "cpu=8"}
    jobs, result, _ = ingest_text(tmp_path, sacct(row, {"JobID": "8"}))
    assert jobs.select("num_gpus", "gpu_type").row(0) == (gpus, kind)
    said = [what for what in notes(result) if "does not call gpu" in what]
    is_other = gpus > 0 and kind != "A100"
    assert bool(said) == is_other
    site_log = read(tmp_path, sacct(row, {"JobID": "8"}))
    assert site_log.jobs["gpus"].to_list() == ([int(gpus), 4] if gpus else [4])
    assert bool(site_log.notes) == is_other


def test_a_gres_per_node_counts_times_its_nodes(tmp_path):
    header = "JobID|State|Submit|Start|End|Elapsed|NNodes|AllocGRES"
    rows = ({"NNodes": "2", "AllocGRES": "npu:ascend:8"}, {"JobID": "2", "AllocGRES": "gpu:a100:4"})
    jobs, _, _ = ingest_text(tmp_path, log(*rows, header=header))
    assert jobs.select("num_gpus", "gpu_type").rows() == [(16.0, "ascend"), (4.0, "A100")]


def test_nodes_and_limits_count_the_same_accelerators():
    assert gpus_of("npu:ascend910b:8(S:0-1)") == (8, "ascend910b")
    assert gpus_of("cpu=4,gres/npu=8,node=1") == (8, "")
    assert gpus_of("gpu:a100:4,npu:2") == (4, "a100")
    assert gpus_of("cpu=4,mem=100,node=1") is gpus_of("tmpdisk:900") is None


# Messages and site files


def test_a_message_names_the_missing_columns(tmp_path, gpuplan):
    path = tmp_path / "four.txt"
    path.write_text("JobID|User|Account|Partition\n1|ada|lab|gpu\n")
    for command in ("characterize", "calibrate"):
        code, _, err = gpuplan(command, path)
        assert code == 3 and SACCT_COMMAND in err
        assert "submissions (Submit" in err and "GPUs (AllocTRES" in err
        assert "it has JobID, User, Account, Partition;" in err


def test_scontrol_in_any_form_is_the_same_site(tmp_path):
    one = ("PartitionName=gpu AllowGroups=ALL MaxTime=2-00:00:00 Nodes=n[1-2] PriorityTier=3 "
           "QoS=N/A State=UP\nPartitionName=cpu MaxTime=UNLIMITED Nodes=c1\n")  # fmt: skip
    several = ("PartitionName=gpu\n   AllowGroups=ALL\n   MaxTime=2-00:00:00 Nodes=n[1-2]\n"
               "   PriorityTier=3 QoS=N/A\n   State=UP\n\nPartitionName=cpu\n"
               "   MaxTime=UNLIMITED\n   Nodes=c1\n\n")  # fmt: skip
    tables = []
    for text in (one, several):
        (tmp_path / "p.txt").write_text(text)
        tables.append(read_dump(tmp_path / "p.txt").tables)
    assert tables[0] == tables[1]
    assert tables[0]["partition"]["gpu"]["PriorityTier"] == 3


def test_scontrol_show_config_has_priorities_and_backfill(tmp_path):
    (tmp_path / "c.txt").write_text(
        "Configuration data as of 2026-01-01T00:00:00\n"
        "AccountingStorageEnforce = limits,qos\n"
        "PriorityParameters      = (null)\n"
        "PriorityCalcPeriod      = 00:05:00\n"
        "PriorityFlags           = \n"
        "PriorityMaxAge          = 3-00:00:00\n"
        "PriorityWeightFairShare = 8000\n"
        "PriorityWeightTRES      = (null)\n"
        "SchedulerParameters     = bf_interval=60,bf_window=5760,bf_continue\n"
        "SchedulerTimeSlice      = 30 sec\n"
        "SLURM_VERSION           = 24.05.4\n\n"
        "Slurmctld(primary) at mgmt1 is UP\n"
    )
    document = read_dump(tmp_path / "c.txt")
    priority, backfill = document.settings.priority, document.settings.backfill
    assert priority.PriorityWeightFairshare == 8000 and priority.PriorityCalcPeriod.value == 300
    assert priority.PriorityMaxAge.value == 3 * 86400
    assert (backfill.bf_interval, backfill.bf_window) == (60, 5760)
    assert backfill.AccountingStorageEnforce == "limits,qos" and document.unknown == []


def test_what_several_files_say_of_a_node_is_said_once(tmp_path):
    (tmp_path / "slurm.conf").write_text(
        "NodeName=n[1-3] Gres=gpu:a100:4 Weight=5\nNodeName=c1 CPUs=4\n"
        "PartitionName=gpu Nodes=n[1-3]\nPartitionName=cpu Nodes=c1\n"
    )
    (tmp_path / "nodes.txt").write_text(
        "NodeName=n1 Gres=gpu:a100:4 Weight=5\nNodeName=n2 Gres=gpu:a100:2 Weight=5\n"
        "NodeName=c1 Gres=(null) CPUTot=4\n"
    )
    (tmp_path / "parts.txt").write_text(
        "PartitionName=gpu Nodes=n[1-3]\nPartitionName=cpu Nodes=c1\n"
    )
    document = read_slurm_conf(tmp_path / "slurm.conf")
    for name in ("nodes.txt", "parts.txt"):
        document.merge(read_dump(tmp_path / name))
    document.settle()
    site = site_of(document)
    assert {node.name: node.gpus for node in site.nodes} == {"n1": 4, "n2": 2, "n3": 4}
    (gpu,) = site.partitions
    assert sorted(gpu.nodes) == ["n1", "n2", "n3"]
    assert sum("cpu" in note for note in document.notes) == 1
    same = read_slurm_conf(tmp_path / "slurm.conf")
    same.merge(read_slurm_conf(tmp_path / "slurm.conf"))
    same.settle()
    assert list(same.tables["node"]) == ["n[1-3]"]


def test_pages_and_messages_show_the_one_command():
    root = Path(__file__).resolve().parents[1]
    for page in (root / "README.md", *sorted((root / "docs").rglob("*.md"))):
        text = page.read_text(encoding="utf-8").replace("\\\n    ", "").replace("\\\n", "")
        for line in text.splitlines():
            if line.strip().startswith("sacct -"):
                assert line.strip() == SACCT_COMMAND, page.name
    shown = [page for page in ("docs/twin.md", "docs/formats/schedulers.md")
             if SACCT_FIELDS[-1] in (root / page).read_text(encoding="utf-8")]  # fmt: skip
    assert len(shown) == 2
