"""What the twin reads: slurm.conf, dumps of Slurm's tools, logs, twin.toml."""

import gzip

import polars as pl
import pytest

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.job_table.notation import expand_hosts, gpu_limit, gpus_of, minutes_limit
from gpuplan.analysis.site.document import SiteDocument, read_twin, twin_text
from gpuplan.analysis.site.dumps import read_dump
from gpuplan.analysis.site.log import read_site_log
from gpuplan.analysis.site.slurm_conf import read_slurm_conf
from gpuplan.planner.twin.infer import complete, peak_use, plateau
from gpuplan.planner.twin.settings import config_of, site_of
from gpuplan.simkit.cluster_shape import ClusterShape
from tests.support.support_eta import DAY, MONDAY, past_jobs, write_log, write_twin


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n1", ["n1"]),
        ("n[01-03,7],login", ["n01", "n02", "n03", "n7", "login"]),
        ("r[1-2]n[08-10]", ["r1n08", "r1n09", "r1n10", "r2n08", "r2n09", "r2n10"]),
        ("a1,a1,b", ["a1", "b"]),
    ],
)
def test_host_lists(text, hosts):
    assert expand_hosts(text) == hosts


@pytest.mark.parametrize(
    "text",
    ["n[1-", "n]1", "n[a-b]", "n[9-1]", "n[1-99999999]", "[[1]]", "n[1]]", "a[1]" * 2000,
     f"n[{','.join(['0-99999'] * 600)}]", "[" * 100_000, f"{'n' * 10_000}[1-9999]"],
)  # fmt: skip
def test_host_lists_that_are_none(text):
    with pytest.raises(ValueError):
        expand_hosts(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60", 3600), ("30:15", 1815), ("01:30:00", 5400), ("2-00:00:00", 172800), ("1-12", 129600),
     ("UNLIMITED", None), ("", None)],
)  # fmt: skip
def test_times_of_slurm(text, seconds):
    assert minutes_limit(text) == seconds


def test_resources_of_slurm():
    assert gpus_of("gpu:a100:8(S:0-1)") == (8, "a100")
    assert gpus_of("gpu:4") == (4, "")
    assert gpus_of("cpu=8,gres/gpu:h100=2,gres/gpu=2") == (2, "h100")
    assert gpus_of("gpu:a100:4,gpu:v100:2") == (6, "")
    assert gpus_of("cpu=8") is None
    assert gpu_limit("cpu=64,gres/gpu=16") == 16
    with pytest.raises(ValueError, match="not a time"):
        minutes_limit("soon")


CONF = """
# a comment
clustername=x
Include more/nodes.conf
NodeSet=fast Nodes=h[01-02]
PartitionName=DEFAULT MaxTime=1-0 PriorityTier=3
PartitionName=gpu Nodes=fast,a1 \\
   QOS=pq OverSubscribe=NO
PARTITIONNAME=all nodes=ALL maxtime=unlimited priorityjobfactor=7
PartitionName=cpu Nodes=c1
PriorityType=priority/multifactor
prioritydecayhalflife=14-0
PriorityWeightTRES="CPU=10,GRES/gpu=3000"
PriorityFlags=NO_FAIR_TREE,SMALL_RELATIVE_TO_TIME
SchedulerParameters=bf_window=2880,bf_continue,\\
   default_queue_depth=50
SelectTypeParameters=CR_LLN
"""
NODES = """NodeName=DEFAULT Weight=5
NodeName=h[01-02] Gres=gpu:h100:8 State=UNKNOWN
NodeName=a1 Gres=gpu:a100:4 Weight=1
NodeName=c1 CPUs=64
"""


@pytest.fixture
def conf(tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "nodes.conf").write_text(NODES)
    (tmp_path / "slurm.conf").write_text(CONF)
    return tmp_path / "slurm.conf"


def test_slurm_conf(conf):
    document = read_slurm_conf(conf)
    site, config = site_of(document), config_of(document)
    assert [(n.name, n.gpus, n.gpu_type, n.weight) for n in site.nodes] == [
        ("h01", 8, "h100", 5), ("h02", 8, "h100", 5), ("a1", 4, "a100", 1)
    ]  # fmt: skip
    gpu, every = site.partitions
    assert (gpu.name, gpu.nodes, gpu.tier, gpu.max_time) == ("gpu", ("h01", "h02", "a1"), 3, 86400)
    assert (gpu.qos, every.max_time, every.job_factor) == ("pq", None, 7)
    assert (config.half_life, config.w_tres_gpu, config.fairshare) == (14 * 86400, 3000, "classic")
    assert (config.bf_window, config.queue_depth) == (2880 * 60, 50)
    assert config.placement == "least-loaded"
    assert {"clustername", "Node state", "Partition oversubscribe",
            "SchedulerParameters bf_continue"} <= set(document.unknown)  # fmt: skip
    assert any("cpu" in note for note in document.notes)
    assert document.sources["priority.PriorityDecayHalfLife"] == "given"


def test_slurm_conf_that_cannot_be_read(tmp_path):
    path = tmp_path / "slurm.conf"
    path.write_text("NodeName=n[1- Gres=gpu:1\n")
    with pytest.raises(InputError, match=r"slurm.conf:1: .*brackets"):
        read_slurm_conf(path)
    path.write_text("# jobs\njob_id,user\n1,ann\n")
    with pytest.raises(InputError, match=r"slurm.conf:2: found 'job_id,user'; expected Key=Value"):
        read_slurm_conf(path)
    path.write_text("Include slurm.conf\n")
    with pytest.raises(InputError, match="includes itself"):
        read_slurm_conf(path)
    path.write_text("\n\nPartitionName=p Nodes=n[x]\nNodeName=a Gres=gpu:1\n")
    with pytest.raises(InputError, match=r"slurm.conf:3"):
        read_slurm_conf(path)


def test_dumps(tmp_path):
    def dump(name, text):
        (tmp_path / name).write_text(text)
        return read_dump(tmp_path / name)

    document = SiteDocument()
    document.merge(dump("nodes", "NodeName=n1 Gres=gpu:a100:4(S:0-1) Weight=2 "
                        "OS=Linux 5.14 #1 SMP Boards=1\nNodeName=c1 Gres=(null)\n"))  # fmt: skip
    document.merge(dump("parts", "PartitionName=p AllowGroups=ALL MaxTime=UNLIMITED MaxNodes=2 "
                        "Nodes=n1 PriorityTier=4 QoS=N/A\n"))  # fmt: skip
    document.merge(dump("assoc", "Account|User|Share|ParentName|GrpTRES|MaxJobs\nroot||1|||\n"
                        "dep||10|root|gres/gpu=8|5\nteam||3|dep||\nteam|ann|parent|||2\n"
                        "team|bob|4|||\r\n"))  # fmt: skip
    document.merge(dump("qos", "Name|Priority|MaxTRESPU|GrpJobs|MaxWall\nnormal|0|gres/gpu=3||"
                        "\nlong|5||7|3-00:00:00\n"))  # fmt: skip
    document.merge(dump("events", "NodeName|TimeStart|TimeEnd|State|Reason\n"
                        "n1|2026-01-01T00:00:10|2026-01-01T00:00:40|DRAIN*|x\n"
                        "n1|2026-01-02T00:00:00|Unknown|DOWN|y\nn1|Unknown||IDLE|\n"))  # fmt: skip
    document.merge(dump("sshare", "Account|User|RawShares|NormShares|RawUsage|FairShare\n"
                        " team|ann|2|0.1|12345|0.5\n"))  # fmt: skip
    site = site_of(document, [("team", "bob"), ("team", "new")])
    (node,), (part,) = site.nodes, site.partitions
    assert (node.gpus, node.gpu_type, node.weight) == (4, "a100", 2)
    assert (part.tier, part.max_nodes, part.max_time, part.qos) == (4, 2, None, "")
    rows = {(row.account, row.user): row for row in site.assocs}
    assert (rows["dep", ""].grp_gpus, rows["team", ""].parent) == (8, "dep")
    assert rows["team", "ann"].max_jobs == 2
    assert rows["team", "bob"].max_jobs == rows["team", "new"].max_jobs == 5  # of the department
    assert (rows["team", "ann"].usage, rows["team", "ann"].shares) == (12345.0, 2)
    normal, long = site.qos
    assert (normal.user_gpus, long.grp_jobs, long.max_wall) == (3, 7, 3 * 86400)
    assert [(e.start % 86400, e.end - e.start == 30) for e in site.events] == [
        (10, True), (0, False)
    ]  # fmt: skip


def test_lines_of_any_length_are_read_in_one_pass(tmp_path):
    """Blanks, or letters without a value: a search from each of them to the end would not end."""
    much = 200_000
    path = tmp_path / "nodes.txt"
    path.write_text(
        f"NodeName=n1 Gres=gpu:4 Reason=a  b{' ' * much}c OS=x\nNodeName=n2 Gres=gpu:8 {'x' * much}"
    )
    assert list(read_dump(path).tables["node"]) == ["n1", "n2"]
    path = tmp_path / "slurm.conf"
    path.write_text(f"NodeName=n[1-2] Gres=gpu:1\n{'x' * much}\nClusterName {'9' * much}\n")
    assert len(read_slurm_conf(path).unknown) == 2


def test_a_drain_in_the_hour_that_a_clock_repeats_is_kept(tmp_path):
    path = tmp_path / "events.txt"
    path.write_text("NodeName|TimeStart|TimeEnd|State\n"
                    "n1|2026-10-25T02:50:00|2026-10-25T02:10:00|DRAIN\n")  # fmt: skip
    (event,) = read_dump(path, zone="Europe/Berlin").tables["event"]
    assert event["end"] == event["start"]


def test_a_file_that_is_no_dump(tmp_path):
    (tmp_path / "x").write_text("hello|world\n1|2\n")
    with pytest.raises(InputError, match="expected output of scontrol"):
        read_dump(tmp_path / "x")
    (tmp_path / "y").write_text("Account|User|GrpTRES|MaxJobs\na|u||many\n")
    with pytest.raises(InputError, match="y:2"):
        read_dump(tmp_path / "y")


SACCT = """JobID|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|Timelimit|NNodes|AllocTRES|Reason|NodeList|SubmitLine
1|ann|team|p|normal|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T00:02:00|2026-01-01T01:02:00|3600|02:00:00|1|billing=9,gres/gpu:a100=2,gres/gpu=2|None|n1|sbatch x
1.batch||team|||COMPLETED|2026-01-01T00:02:00||2026-01-01T00:02:00|2026-01-01T01:02:00|3600||1|gres/gpu=2||n1|
2|bob|team|p|normal|CANCELLED by 7|2026-01-01T00:00:00|Unknown|None|2026-01-01T00:05:00|0|UNLIMITED|1|gres/gpu=1|Priority||
3|bob|team|p|normal|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:00:20|10|30:00|2|gres/gpu=3|None|n[1-2]|srun -w n1 x
4|bob|team|p|normal|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:00:20|10|1-02:00:00|1|cpu=3|None|n1|
5|bob|team|p|long|RUNNING|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:00:10|Unknown|77|Partition_Limit|1|gres/gpu=1|None|n1|
"""  # noqa: E501


def test_a_log_of_sacct(tmp_path):
    (tmp_path / "s.txt").write_text(SACCT)
    log = read_site_log(tmp_path / "s.txt")
    rows = {row["job_id"]: row for row in log.jobs.rows(named=True)}
    assert list(rows) == ["1", "2", "5"]
    one = rows["1"]
    assert (one["eligible"] - one["submit"], one["start"] - one["submit"]) == (60, 120)
    assert (one["limit_s"], one["gpus"], one["gpu_type"], one["billing"]) == (7200, 2, "a100", 9.0)
    assert rows["2"]["start"] is None and rows["2"]["end"] - rows["2"]["submit"] == 300
    assert rows["5"]["limit_s"] is None and rows["5"]["run_s"] == 77
    assert log.left_out == {
        "without GPUs (CPU jobs)": 1, "whose GPUs are not a multiple of their nodes": 1
    }  # fmt: skip
    assert set(log.missing) == {"reservation"}


def test_a_log_without_optional_fields_tells_what_is_off(tmp_path):
    path = tmp_path / "s.txt.gz"
    text = ("JobID|Submit|Start|End|ReqTRES\n7|2026-01-01T00:00:00|2026-01-01T00:00:05|"
            "2026-01-01T00:01:00|gres/gpu=1\n")  # fmt: skip
    path.write_bytes(gzip.compress(text.encode()))
    off = " ".join(read_site_log(path).switched_off())
    for name in ("Eligible", "Timelimit", "User", "Account", "Partition", "QOS", "NodeList"):
        assert f"no {name}:" in off


def test_a_log_of_swf(tmp_path):
    lines = ["; UnixStartTime: 1000", "1 5 10 60 4 -1 -1 4 100 -1 1 3 2 -1 -1 8 -1 -1",
             "2 6 -1 -1 -1 -1 -1 4 -1 -1 5 3 2 -1 -1 8 -1 -1"]  # fmt: skip
    (tmp_path / "x.swf").write_text("\n".join(lines) + "\n")
    log = read_site_log(tmp_path / "x.swf")
    row = log.jobs.row(0, named=True)
    assert (row["submit"], row["start"], row["run_s"], row["limit_s"]) == (1005, 1015, 60, 100)
    assert (row["user"], row["account"], row["partition"], row["gpus"]) == ("3", "2", "8", 4)


@pytest.mark.compiled
def test_a_plain_table_of_jobs_is_calibrated_as_its_trace_is(gpuplan, tmp_path):
    """What `size` says of a CSV, to calibrate it, works on that very file."""
    log, trace = tmp_path / "jobs.csv", tmp_path / "t.parquet"
    rows = ["job_id,user,submit_time,queue_s,duration_s,num_gpus"]
    rows += [
        f"j{i},u{i % 3},2026-01-{1 + i // 24:02}T{i % 24:02}:00:00Z,{36000 * (i % 2)},3000,4"
        for i in range(240)
    ]
    log.write_text("\n".join(rows))
    code, out, err = gpuplan("size", log, "--target", "p95_wait <= 10m", "--cluster", "64")
    assert code == 0 and "gpuplan calibrate LOG -o twin.toml" in " ".join(out.split()), err
    settings = []
    assert gpuplan("ingest", log, "-o", trace)[0] == 0
    for name in (log, trace):
        code, _, err = gpuplan("calibrate", name, "-o", tmp_path / "w.toml")
        assert code != 0 and "--infer with --cluster" in err
        twin = tmp_path / f"{name.suffix[1:]}.toml"
        words = ("--infer", "--cluster", "8x8", "-o", twin)
        code, _, err = gpuplan("calibrate", name, *words)
        assert code == 0, err
        settings.append(twin.read_text().partition("[calibration]")[0])
    assert settings[0] == settings[1]
    words = ("--twin", tmp_path / "csv.toml", "--target", "p95_wait <= 10m")
    code, _, err = gpuplan("size", log, *words)
    assert code in (0, 4), err


def test_what_is_no_log_is_refused(tmp_path):
    (tmp_path / "x.txt").write_text("hello\n")
    with pytest.raises(InputError, match="neither sacct output nor an SWF log"):
        read_site_log(tmp_path / "x.txt")
    (tmp_path / "y.txt").write_text("JobID|State|ElapsedRaw\n1|COMPLETED|3\n")
    with pytest.raises(
        InputError,
        match=r"submissions \(Submit\); nor with starts \(Start\); nor with ends \(End\)",
    ):
        read_site_log(tmp_path / "y.txt")
    (tmp_path / "z.txt").write_text("JobID|Submit|Start|End|AllocTRES\n")
    with pytest.raises(InputError, match="no rows"):
        read_site_log(tmp_path / "z.txt")


def test_ingest_keeps_the_fields_and_calibrate_reads_them_again(gpuplan, tmp_path):
    (tmp_path / "s.txt").write_text(SACCT)
    out = tmp_path / "t.parquet"
    code, _, err = gpuplan("ingest", tmp_path / "s.txt", "-o", out, "--twin")
    assert code == 0, err
    assert "no Reservation:" in err
    table = pl.read_parquet(out)
    assert table.filter(pl.col("job_id") == "1")["limit_s"].item() == 7200
    log, again = read_site_log(tmp_path / "s.txt"), read_site_log(out)
    names = ["job_id", "account", "submit", "start", "run_s", "limit_s", "nodes", "gpus"]
    assert again.jobs.filter(pl.col("job_id") == "1")[names].rows() == (
        log.jobs.filter(pl.col("job_id") == "1")[names].rows()
    )
    assert gpuplan("characterize", out)[0] == 0
    code, _, err = gpuplan("ingest", tmp_path / "s.txt", "-o", out, "--twin",
                           "--source-format=csv")  # fmt: skip
    assert code == 2 and "--twin" in err


def test_twin_toml_comes_back(conf, tmp_path):
    document = read_slurm_conf(conf)
    document.put(32, "qos", 'a.b "c"', "MaxTRESPU", "gpu", source="inferred")
    document.tables["event"] = [{"node": "a1", "start": 5, "end": 9}]
    path = tmp_path / "twin.toml"
    path.write_text(twin_text(document, {"level": "bf", "within": 0.5}))
    found, calibration = read_twin(path)
    assert found.tables == document.tables
    assert calibration.level == "bf"
    assert site_of(found) == site_of(document)
    assert found.sources['qos.a.b "c".MaxTRESPU.gpu'] == "inferred"
    path.write_text("nonsense")
    with pytest.raises(
        InputError,
        match=r"twin.toml:1: not TOML: .*written by gpuplan calibrate\n  next: .*gpuplan calib",
    ):
        read_twin(path)
    path.write_text("[node.x]\ngpus = 1\n[strange]\n")
    with pytest.raises(InputError, match="strange: unknown key"):
        read_twin(path)


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("node", "n", "gpus"), "many", "node.n.gpus: found .many., expected a whole number"),
        (("node", "n[1-2]", "count"), 3, "but the name lists 2 hosts"),
        (("partition", "p", "Nodes"), "x9", "no node is named x9"),
        (("partition", "p", "MaxTime"), "soon", "partition.p.MaxTime"),
        (("priority", "PriorityWeigthAge"), 3, "unknown key"),
        (("qos", "q", "Priority"), -1, "qos.q.Priority"),
    ],
)
def test_settings_that_cannot_be_used(keys, value, message):
    document = SiteDocument()
    document.put(1, "node", "n", "gpus")
    document.put("ALL", "partition", "p", "Nodes")
    with pytest.raises(UsageError, match=message):
        document.put(value, *keys)
        site_of(document)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node = 5", r"node: found 5, expected a table"),
        ("[node]\nn = 5", r"node.n: found 5, expected a table"),
        ("[node.n]\ngpus = 0", r"node.n.gpus: found 0, expected a whole number >= 1"),
        ("[node.n]\ncount = 1000000000000", r"node.n.count: found 1000000000000, expected .*<= "),
        ("[node.n]\ngpu = 4", r"node.n.gpu: unknown key \(did you mean gpus\?\)"),
        ("[[event]]\nnode = 'n'\nstart = 3", r"event.0: has no end; expected node, start, end"),
        ("[[event]]\nnode = 'n'\nstart = 'x'\nend = 3", r"event.0.start: found 'x', expected"),
        (
            "[[event]]\nnode = 'n'\nstart = 3\nend = 2",
            r"event.0: found {'node': 'n', 'start': 3, 'end': 2}, expected end to be 3, its start",
        ),
        ("[qos.q]\nPriority = {}", r"qos.q.Priority: found {}, expected a whole number"),
        ("[qos.q.MaxTRESPU]\ngpus = 3", r"qos.q.MaxTRESPU.gpus: found 3, expected GPUs"),
        ("[qos.q]\nMaxTRESPU = 'many'", r"qos.q.MaxTRESPU: found 'many', expected GPUs"),
        ("[account.a]\nRawUsage = inf", r"account.a.RawUsage: found inf, expected a number <="),
        ("[account.a.user.u]\nMaxJobs = nan", r"a.user.u.MaxJobs: found nan, expected"),
        ("[account.a]\nuser = 3", r"account.a.user: found 3, expected a table"),
        (f"[priority]\nPriorityWeightAge = {'9' * 400}", r"PriorityWeightAge: found 9.*, expected"),
        ("[priority]\nFairShareDampeningFactor = nan", r"found nan, expected a number >="),
        ("[priority]\nPriorityMaxAge = 'soon'", r"found 'soon', expected a time such as"),
        ("[priority]\nPriorityCalcPeriod = '00:00:01'", r"time .*, at least a minute"),
        ("[priority]\nPriorityWeightAge = 1979-05-27", r"PriorityWeightAge: .*expected a whole"),
        ("[backfill]\nbf_interval = 0", r"bf_interval: found 0, expected a whole number >= 1"),
        ("[calibration]\nwithin = nan", r"calibration.within: found nan, expected a number"),
        ("[calibration]\ntime_zone = 'x'", r"--time-zone x: no such zone"),
        ("[calibration]\nsources = 3", r"calibration.sources: found 3, expected a table"),
        ("", r"has no nodes; expected a file written by gpuplan calibrate\n  next: .*calibrate"),
        ("[node.n]\ngpus = 1", r"has no partitions; expected a file written by"),
        ("[node.n]\ngpus = 1\ngpus = 2", r"not TOML: 'node.n.gpus' is given twice"),
        ("# no\n[partition.p]\nMaxTime = 1 2", r"not TOML: .*\n  next: write it again"),
        ("x = " + "[" * 9000, r"TOML that cannot be used: it is more than"),
    ],
)  # fmt: skip
def test_twin_toml_is_refused_with_file_key_found_and_expected(tmp_path, text, message):
    path = tmp_path / "twin.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"twin.toml(:\d+)?: .*{message}"):
        read_twin(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PriorityWeightAge=1e400", r"slurm.conf:2: priority.PriorityWeightAge: found '1e400'"),
        ("PriorityDecayHalfLife=nan", r"slurm.conf:2: priority.PriorityDecayHalfLife: found 'nan'"),
        ("SchedulerParameters=bf_interval=²", r"slurm.conf:2: backfill.bf_interval: found '²'"),
        ("NodeName=x Gres=gpu:4 Weight=x", r"slurm.conf:2: node.x.weight: found 'x'"),
        ("NodeName=x[1-99999] Gres=gpu:4", r"slurm.conf:2: names more than 100,000 nodes in all"),
        ("PartitionName=p Nodes=n MaxTime=x", r"slurm.conf:2: partition.p.MaxTime: found 'x'"),
        ("Include 0.conf", r"\d.conf: is one of more than 100 Include lines"),
    ],
)
def test_slurm_conf_is_refused_with_file_row_key_and_value(tmp_path, text, message):
    path = tmp_path / "slurm.conf"
    path.write_text(f"NodeName=n[1-2] Gres=gpu:1\n{text}\n")
    for i in range(30):  # each names the next twice: 2**30 files without a bound
        (tmp_path / f"{i}.conf").write_text(f"Include {i + 1}.conf\n" * 2)
    (tmp_path / "30.conf").write_text("ClusterName=x\n")
    with pytest.raises(InputError, match=message):
        read_slurm_conf(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Account|User|RawShares|RawUsage\na|u|1|inf\n", "account.a.user.u.RawUsage: found 'inf'"),
        ("Account|User|GrpTRES|MaxJobs|Share\na|u|||1e400\n", "account.a.user.u.Fairshare: found"),
        ("Name|Priority|MaxWall\nq|1|soon\n", "qos.q.MaxWall: found 'soon', expected a time"),
        ("Name|Priority|GrpJobs\nq|1|inf\n", "qos.q.GrpJobs: found 'inf', expected a whole"),
        (
            "NodeName|TimeStart|State\nn|99999999999999|DOWN\n",
            "event.0.start: found 99999999999999",
        ),
        ("NodeName=n Gres=gpu:4 Weight=²\n", "node.n.weight: found '²'"),
    ],
)
def test_dumps_are_refused_with_file_row_key_and_value(tmp_path, text, message):
    path = tmp_path / "dump.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"dump.txt:\d: {message}"):
        read_dump(path)


def test_a_site_may_have_so_many_nodes_and_no_more():
    document = SiteDocument()
    for name in "abcdefghijk":
        document.put(10_000, "node", name, "count")
    document.put("ALL", "partition", "p", "Nodes")
    with pytest.raises(UsageError, match="more than 100,000 nodes"):
        site_of(document)


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"ElapsedRaw": "999999999"}, "of a run over 20 years"),
        ({"ElapsedRaw": "99999999999"}, "that cannot be read"),
        ({"Eligible": "9999-12-31T00:00:00"}, "after 2200"),
        (
            dict.fromkeys(("Submit", "Eligible", "Start", "End"), "1970-01-02T03:00:00"),
            "submitted over 10 years from the others",
        ),
        ({"Start": "9999-12-31T00:00:00", "End": "9999-12-31T23:59:59"}, "that cannot be read"),
        ({"NNodes": "2000000"}, "of more than a million GPUs"),
        ({"NNodes": "9223372036854775807"}, "that cannot be read"),
    ],
)
def test_rows_beyond_any_site_are_left_out_and_counted(tmp_path, cells, reason):
    rows = [line.split("|") for line in SACCT.splitlines()]
    for name, cell in cells.items():
        rows[1][rows[0].index(name)] = cell
    usable = [row for row in rows[1:] if row is not rows[1]]
    rows += [[f"9{i}", *row[1:]] for i in range(50) for row in usable]  # far fewer than 1% are bad
    path = tmp_path / "s.txt"
    path.write_text("\n".join("|".join(row) for row in rows))
    log = read_site_log(path)
    assert "1" not in log.jobs["job_id"].to_list()
    assert any(reason in why for why in log.left_out)


@pytest.mark.parametrize(("billing", "kept"), [("9", 9.0), ("9" * 400, None)])
def test_a_limit_or_a_billing_beyond_any_site_is_cut(tmp_path, billing, kept):
    text = SACCT.replace("billing=9,", f"billing={billing},").replace("02:00:00", "9999999-0", 1)
    (tmp_path / "s.txt").write_text(text)
    row = read_site_log(tmp_path / "s.txt").jobs.row(0, named=True)
    assert row["limit_s"] == 20 * 366 * 86400 and row["billing"] == kept
    with pytest.raises(UsageError, match="no such zone"):
        read_site_log(tmp_path / "s.txt", "x")


def test_nodes_of_a_count_have_names():
    document = SiteDocument()
    document.put(12, "node", "n", "count")
    document.put("n", "partition", "p", "Nodes")
    names = [node.name for node in site_of(document).nodes]
    assert names[0] == "n01" and names[-1] == "n12"


def test_what_a_log_tells_of_its_site(tmp_path):
    (tmp_path / "s.txt").write_text(SACCT)
    log = read_site_log(tmp_path / "s.txt")
    document = SiteDocument()
    inferred = complete(document, log, cluster=None, infer=True)
    site = site_of(document)
    assert [(node.name, node.gpus) for node in site.nodes] == [("n1", 2)]  # NodeList tells
    assert {one.source for one in inferred} == {"inferred", "default"}
    with pytest.raises(
        UsageError, match="no nodes are known: no file of the site has a NodeName line"
    ):
        complete(SiteDocument(), log, cluster=None, infer=False)
    with_shape = SiteDocument()
    complete(with_shape, log, cluster=ClusterShape.parse("A100=2x4,H100=1x8"), infer=True)
    assert sum(node.gpus for node in site_of(with_shape).nodes) == 16


def test_a_plateau_of_a_user_is_a_limit():
    # One user, 2 GPUs at most although 4 are there: each next job waits for the one before.
    rows = [{"submit": 0, "eligible": None, "user": "u", "gpus": 2, "start": 10 * i,
             "stop": 10 * i + 10} for i in range(30)]  # fmt: skip
    rows += [{"submit": 0, "eligible": None, "user": "v", "gpus": 2, "start": 0, "stop": 300}]
    table = pl.DataFrame(rows, schema_overrides={"eligible": pl.Int64})
    cap, hits = plateau(table.filter(pl.col("user") == "u"))
    assert (cap, hits) == (2, 0)  # nobody ever held more, so there was no room
    rows += [{"submit": 500, "eligible": None, "user": "w", "gpus": 6, "start": 500, "stop": 510}]
    cap, hits = plateau(pl.DataFrame(rows, schema_overrides={"eligible": pl.Int64}))
    assert cap == 6 and hits == 0
    rows[-1]["gpus"] = 2
    rows += [{"submit": 500, "eligible": None, "user": user, "gpus": 2, "start": 500, "stop": 510}
             for user in "xyz"]  # fmt: skip
    cap, hits = plateau(pl.DataFrame(rows, schema_overrides={"eligible": pl.Int64}))
    assert cap == 2 and hits >= 20


def test_peak_use_frees_before_it_takes():
    assert peak_use([0, 10, 10], [10, 20, 15], [4, 3, 1]) == 4


def test_a_mistake_in_twin_toml_is_shown_where_it_stands(tmp_path):
    path = tmp_path / "twin.toml"
    for text, row in (
        ("# ours\n\n[node.n]\ngpus = -3\n", 4),
        ("[node.n]\ngpus = 1\n\n[strange]\n", 4),
        ("[node.n]\ngpus = 1\ngpus = 2\n", 3),
        ("[node.n]\ngpus = 1\n[partition.p]\nNodes = 'n\n", 4),
        ("[node.n]\ngpus = 1\n\n[partition", 4),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=rf"twin.toml:{row}: "):
            read_twin(path)


@pytest.mark.parametrize("command", ["waits", "whatif", "calibrate"])
def test_a_log_with_many_bad_rows_is_refused_by_every_command(gpuplan, tmp_path, command):
    rows = past_jobs(MONDAY + 4 * DAY, days=4)
    log = write_log(tmp_path / "log.txt", rows)
    twin = write_twin(tmp_path / "twin.toml")
    more = {
        "waits": [], "whatif": ["--twin", twin, "--add-nodes", "1"],
        "calibrate": ["--infer", "-o", tmp_path / "new.toml"],
    }  # fmt: skip
    log.write_text(log.read_text().rstrip("\n")[:-60])  # the last row ends in its middle
    assert len(rows) < 100
    code, _, err = gpuplan(command, log, *more[command])
    assert code == 3
    assert "cut_off" in err and "more than --max-rejects 1%" in err


def test_a_trace_of_which_no_twin_can_be_made_is_whole_and_told(gpuplan, tmp_path):
    log, out = tmp_path / "log.txt", tmp_path / "out.parquet"
    log.write_text(
        "JobID|User|State|Submit||End|ElapsedRaw|NNodes|AllocTRES\n"
        "700|ada|COMPLETED|2026-01-10T08:00:00|2026-01-10T08:00:05|2026-01-10T10:00:05|7200|1"
        "|gres/gpu:h100=2,gres/gpu=2\n"
    )
    code, _, err = gpuplan("ingest", log, "-o", out, "--source-format", "slurm", "--twin")
    assert code == 0
    assert out.is_file()
    assert "no twin of the site can be made" in err
