"""``gpuplan size --twin``: nodes of a type under the site's own rules."""

import csv
import json
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.site.document import read_twin
from gpuplan.analysis.site.log import read_site_log
from gpuplan.cli.documents.verdict import ADVICE
from gpuplan.cli.tables.commitment_tables import show_dollars
from gpuplan.planner.engine import THREADS
from gpuplan.planner.requests.replays import ReplayRequest
from gpuplan.planner.requests.size import SizeRequest
from gpuplan.planner.site.node_replays import node_types
from gpuplan.planner.site.site_sizes import held_jobs
from gpuplan.planner.sizing.search import Candidates, unclear_of
from gpuplan.planner.sizing.sized_replay import SizedReplay, UnclearSizes
from gpuplan.planner.sizing.targets import parse_target
from gpuplan.planner.studies.size_pool import _chance_s
from gpuplan.planner.studies.size_site import _cheapest, _Cost
from gpuplan.planner.twin.calibrate import prepared
from gpuplan.planner.twin.workload import SiteWorkload
from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.site import SiteCluster, SiteJob, SiteNode, SitePartition

pytestmark = pytest.mark.compiled
SITE = Path(str(files("gpuplan.sample_traces"))) / "slurm_site"
LOG = SITE / "sacct.txt"
DUMPS = ("assoc.txt", "qos.txt", "events.txt")
SITELAB = "data/sitelab"


def site_of(*groups, **partitions):
    """Return a site of ``(letters, count, gpus, type)`` and partitions of its nodes."""
    nodes = tuple(
        SiteNode(f"{letters}{i}", gpus, kind)
        for letters, count, gpus, kind in groups
        for i in range(count)
    )
    parts = tuple(
        SitePartition(name, tuple(n.name for n in nodes if n.name[0] in of) if isinstance(of, str)
                      else tuple(of))
        for name, of in partitions.items()
    )  # fmt: skip
    return SiteCluster(nodes, parts)


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    from gpuplan.cli.app.main import main

    path = tmp_path_factory.mktemp("twin") / "twin.toml"
    dumps = [part for name in DUMPS for part in ("--sacctmgr", str(SITE / name))]
    words = ["calibrate", str(LOG), "--slurm-conf", str(SITE / "slurm.conf"), *dumps]
    assert main([*words, "-o", str(path)]) == 0
    return path


def sized(gpuplan, *words, code=0):
    found, out, err = gpuplan("size", *words, "--output-format", "json")
    assert found == code, err
    return json.loads(out)["results"] if code == 0 else err


def test_types_are_counted_where_most_of_their_nodes_are():
    site = site_of(
        ("h", 4, 8, "h100"), ("a", 6, 4, "a100"), h100="h", a100="a", short=["a0", "a1"], all="ha"
    )
    types = {nodes.name: nodes for nodes in node_types(site)}
    assert {name: nodes.count for name, nodes in types.items()} == {"h100": 4, "a100": 6}
    assert types["a100"].choice.partitions == ("a100",)
    (short,) = node_types(site, "SHORT")
    assert (short.choice.partitions, short.count, short.gpus_per_node) == (("short",), 2, 4)
    with pytest.raises(UsageError, match="there are GPU types"):
        node_types(site, "t4")


def test_more_nodes_join_one_partition_and_fewer_leave_all():
    site = site_of(("a", 6, 4, "a100"), a100="a", short=["a0", "a1"])
    (nodes,) = node_types(site)
    assert nodes.on(site, 6) is site
    more, fewer = nodes.on(site, 8), nodes.on(site, 4)
    sizes = {p.name: len(p.nodes) for p in more.partitions}
    assert sizes == {"a100": 8, "short": 2} and len(more.nodes) == 8
    assert {p.name: len(p.nodes) for p in fewer.partitions} == {"a100": 4, "short": 2}


def test_the_fewest_nodes_hold_the_widest_job():
    site = site_of(("a", 6, 4, "a100"), a100="a")
    (nodes,) = node_types(site)
    jobs = SiteJobs.of(
        [SiteJob(i, i, n, 4, 100, 100, partition="a100") for i, n in enumerate((1, 3))]
    )
    assert nodes.least(site, jobs) == 3


def test_jobs_that_the_rules_do_not_explain_wait_as_recorded():
    rows = [SiteJob(i, i, 1, 1, 9, 9, pinned=0 if i == 0 else None) for i in range(6)]
    work = SiteWorkload(
        SiteJobs.of(rows),
        ("a", "b", "c", "c", "d", "e"),
        np.array([0, 5, 6, 30, -1, 9]),
        np.array([False, True, True, False, False, False]),
        np.zeros(6, bool),
        {},
        0,
        (),
    )
    # Not the pinned first, the scored ones, the second run of c, nor d, which never started.
    assert held_jobs(work).tolist() == [False, False, False, False, False, True]


def test_a_target_names_a_group():
    target = parse_target("p95_wait[account = vision] <= 4h")
    assert target.group == ("account", "vision") and target.limit == 4 * 3600
    assert parse_target("wait_over_10m[qos=high] <= 5%").group == ("qos", "high")
    assert parse_target("p95_wait <= 4h").group is None
    with pytest.raises(UsageError, match="expected a target"):
        parse_target("p95_wait[vision] <= 4h")


def test_nodes_are_sized_under_the_rules_of_the_site(gpuplan, twin):
    results = sized(
        gpuplan, LOG, "--twin", twin, "--gpu-type", "h100", "--target", "p95_wait <= 12h"
    )
    fidelity = results["fidelity"]
    assert fidelity["verdict"] == "agrees" and fidelity["policy"] == "the site's rules"
    assert fidelity["replayed_mean_wait_s"] == pytest.approx(
        fidelity["recorded_mean_wait_s"], rel=0.05
    )
    (pool,) = results["pools"]
    assert pool["name"] == "h100" and pool["nodes"] * 8 == pool["gpus"] == results["gpus"]
    points = {point["nodes"]: point for point in results["points"]}
    assert points[pool["nodes"]]["meets"] and points[pool["nodes"]]["p95_wait_s"] <= 12 * 3600
    assert not points[pool["nodes"] - 1]["meets"]
    low, high = (pool["interval"][f"{end}_gpus"] for end in ("low", "high"))
    assert low <= pool["gpus"] <= high
    assert 4 in points  # today's


def test_rules_that_do_not_explain_the_log_name_no_size(gpuplan, twin, tmp_path):
    poor = tmp_path / "poor.toml"
    poor.write_text(twin.read_text().replace('level = "events"', 'level = "fifo"'))
    words = (LOG, "--twin", poor, "--gpu-type", "h100", "--ci", 0, "--target", "p95_wait <= 12h")
    results = sized(gpuplan, *words)
    assert results["fidelity"]["verdict"] == "contradicts"
    assert results["gpus"] is None and results["pools"][0]["gpus"] is None
    assert {point["meets"] for point in results["points"]} == {None}
    _, out, _ = gpuplan("size", *words)
    assert "See which rule is missing: gpuplan calibrate ... --advice" in " ".join(out.split())


def test_types_are_alternatives_and_groups_have_their_own_targets(gpuplan, twin):
    words = ("--twin", twin, "--ci", 0)
    results = sized(gpuplan, LOG, *words, "--target", "p95_wait[account=nlp] <= 8h")
    assert [pool["name"] for pool in results["pools"]] == ["h100", "a100"]
    assert results["gpus"] is None
    _, out, _ = gpuplan("size", LOG, *words, "--target", "p95_wait[account=nlp] <= 8h")
    assert out.startswith("For p95_wait[account=nlp] <= 8h under the site's rules you need")
    message = sized(gpuplan, LOG, *words, "--target", "p95_wait[account=nlq] <= 8h", code=2)
    assert "no account nlq" in message and "nlp" in message


def test_where_no_number_of_nodes_will_do_the_curves_of_all_types_say_so(gpuplan, twin):
    words = ("size", LOG, "--twin", twin, "--ci", 0, "--target", "p95_wait[account=nlp] <= 1s")
    code, out, err = gpuplan(*words, "--output-format", "json")
    assert code == 4
    assert "no number of nodes that was tried meets p95_wait[account=nlp] <= 1s" in err
    results = json.loads(out)["results"]
    assert results["gpus"] is None
    assert {pool["name"]: pool["gpus"] for pool in results["pools"]} == {"h100": None, "a100": None}
    for pool in results["pools"]:
        sizes = [point["gpus"] for point in results["points"] if point["gpu_type"] == pool["name"]]
        assert pool["today"]["cluster_gpus"] in sizes and len(sizes) >= 3
    _, out, _ = gpuplan(*words)
    first = " ".join(out.split("\n\n")[0].split())
    assert "h100 nodes still give a P95 wait of nlp of" in first
    assert "a100 nodes still give a P95 wait of nlp of" in first
    assert "p95_wait[account=nlp]" in out.split("Waits and cost by size")[1]


def test_today_s_nodes_give_the_waits_of_the_log(gpuplan, twin):
    # What the model gets wrong today is in both replays of a pair: only the effect counts.
    words = (LOG, "--twin", twin, "--gpu-type", "h100", "--ci", 0, "--gpus", "32,40")
    results = sized(gpuplan, *words, "--target", "p95_wait <= 12h")
    points = {point["gpus"]: point for point in results["points"]}
    today, more = points[results["pools"][0]["today"]["cluster_gpus"]], points[40]
    assert today["target_errors"] == [0.0] and today["target_values"] == [today["p95_wait_s"]]
    log = read_site_log(LOG, None)
    document, calibration = read_twin(twin)
    work = prepared(log, document, calibration.warmup_s, calibration.limit_factor)[2]
    counts = work.scored | held_jobs(work)
    recorded = np.percentile(work.recorded_wait[counts], 95)
    assert today["p95_wait_s"] == pytest.approx(recorded, rel=0.01)
    assert more["p95_wait_s"] < today["p95_wait_s"] and more["target_errors"][0] > 0


@pytest.mark.parametrize(
    ("gpu_type", "gpus", "held"), [("h100", "32,64", 22.96), ("a100", "24,48", 13.86)]
)
def test_the_use_of_nodes_is_of_their_gpus_alone(gpuplan, twin, gpu_type, gpus, held):
    # GPUs held from the first to the last submission, summed by hand from the NodeList of sacct.
    words = (LOG, "--twin", twin, "--gpu-type", gpu_type, "--ci", 0, "--gpus", gpus)
    for point in sized(gpuplan, *words)["points"]:
        assert point["utilization"] * point["gpus"] == pytest.approx(held, rel=0.03)


def test_alternatives_cost_so_much_more_than_today(gpuplan, twin):
    words = (LOG, "--twin", twin, "--ci", 0, "--target", "p95_wait <= 17.5h")
    words += ("--price", "H100=2,A100=0.5")
    results = sized(gpuplan, *words)
    h100, a100 = results["pools"]
    for pool, usd in ((h100, 2.0), (a100, 0.5)):
        more = (pool["gpus"] - pool["today"]["cluster_gpus"]) * usd * 730.5
        assert pool["over_today_usd_per_month"] == pytest.approx(more) and more > 0
    text = " ".join(gpuplan("size", *words)[1].split())
    assert f"(today 4, {show_dollars(h100['over_today_usd_per_month'])} a month more; a P95" in text
    assert (results["cheapest"] is None) == ("Which costs least is too close to tell." in text)


def test_no_type_is_the_cheapest_within_the_error():
    def named(*costs):
        return _cheapest([SimpleNamespace(cost=lambda cost=cost: cost) for cost in costs])

    sure, open_end = _Cost("a", 20, 10, 30), _Cost("a", 20, 10, np.inf)
    assert named(sure, _Cost("b", 50, 40, np.inf), None) == "a"
    assert named(sure, _Cost("b", 50, 30, 60)) is None
    assert named(open_end, _Cost("b", 50, 40, 60)) is None
    assert named(sure) is None and named(_Cost("a", 5, 5, 5), _Cost("b", 5, 5, 5)) is None


def test_the_headline_has_one_range_and_the_waits_of_the_table(gpuplan, twin):
    words = (LOG, "--twin", twin, "--gpu-type", "h100", "--target", "p95_wait <= 12h")
    (pool,) = sized(gpuplan, *words)["pools"]
    assert pool["interval_is_open"] and pool["interval"]["high_gpus"] == 64
    answer, rows = gpuplan("size", *words)[1].split("\n\n", 1)
    answer = " ".join(answer.split())
    assert "90% interval 5 or more)" in answer and "unclear" not in answer
    assert "P95 wait 18.1 h (20.5 h from submission, of all jobs)" in answer
    assert " 18.1 h " in next(row for row in rows.splitlines() if row.endswith("today"))
    words = (*words[:-1], "p95_wait <= 19h", "--ci", 0)
    assert "Today's nodes already meet the target." in " ".join(gpuplan("size", *words)[1].split())


def test_waits_that_differ_by_chance_save_nothing():
    def replay(*mean_waits_s):
        return SizedReplay(8, {}, None, None, (), False, mean_waits_s=mean_waits_s)

    # Differences 1, 0, -1, 2: their standard error is 0.65, the quantile for 4 pairs 2.1.
    assert _chance_s(replay(9, 9, 9, 9), replay(8, 9, 10, 7)) == pytest.approx(1.36, abs=0.05)
    assert _chance_s(replay(9, 9), replay(7, 7)) == 0
    assert _chance_s(replay(), replay()) == 0


def test_an_error_that_spans_the_target_leaves_sizes_unclear(gpuplan, twin):
    words = (LOG, "--twin", twin, "--gpu-type", "h100", "--ci", 0, "--target", "p95_wait <= 12h")
    results = sized(gpuplan, *words)
    (pool,) = results["pools"]
    points = {point["gpus"]: point for point in results["points"]}
    value, error = (points[pool["gpus"]][f"target_{name}"][0] for name in ("values", "errors"))
    assert value <= 12 * 3600 < value + error
    # More nodes than 8 were not tried, and even these do not make sure.
    assert pool["unclear"] == {"low_gpus": pool["gpus"], "high_gpus": None}
    assert max(points) == 64 and sum(points[64][f"target_{name}"][0] for name in
                                     ("values", "errors")) > 12 * 3600  # fmt: skip
    _, out, _ = gpuplan("size", *words)
    assert f"unclear from {pool['nodes']} on" in " ".join(out.split())


def test_a_report_names_the_type_whose_nodes_are_counted():
    pool = {"name": "a100", "gpus": 92, "today": {"cluster_gpus": 80}}
    results = {"gpus": 92, "usd_per_month": 86_700.0, "pools": [pool]}
    figure = ADVICE["size"](results, {"peak_gpus": 198})
    assert figure.value == "92 a100 GPUs (+12)"
    assert "a100: 92 instead of 80" in figure.detail and "198" not in figure.detail


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--policy", "easy"), "--policy: not with --twin"),
        (("--cluster", "8x8"), "--cluster: not with --twin"),
        (("--where", "num_gpus > 1"), "--where"),
        (("--growth", "20%"), "--growth: not with --twin"),
        (("--by", "class"), "--by: with --twin group or user"),
        (("--gpu-type", "t4"), "--gpu-type: no GPU type, partition or node is named t4"),
        (("--gpus", "30", "--gpu-type", "h100"), "--gpus 30: must be a multiple of 8"),
        (("--gpus", "32"), "--gpus: of which type"),
    ],
)
def test_what_the_rules_of_a_site_replace_is_refused(gpuplan, twin, words, problem):
    message = sized(gpuplan, LOG, "--twin", twin, "--target", "p95_wait <= 9h", *words, code=2)
    assert problem in message


def test_groups_and_types_need_the_rules_of_a_site():
    def request(**fields):
        return SizeRequest(replay=ReplayRequest(LOG), **fields)

    with pytest.raises(UsageError, match="needs the site's rules"):
        request(target=("p95_wait[user=ada] <= 1h",)).check()
    with pytest.raises(UsageError, match="--gpu-type: needs --twin"):
        request(target=("p95_wait <= 1h",), gpu_type="a100").check()


@pytest.fixture(scope="module")
def birch(shared, tmp_path_factory):
    """The site whose truth is known: its log, and its settings."""
    from gpuplan.cli.app.main import main

    folder = shared / SITELAB
    if not folder.exists():
        pytest.skip("needs ../shared/data/sitelab")
    dumps, path = folder / "dumps", tmp_path_factory.mktemp("birch") / "twin.toml"
    settings = [part for name in DUMPS for part in ("--sacctmgr", str(dumps / name))]
    words = ["calibrate", str(dumps / "sacct.txt.gz"), "--slurm-conf", str(dumps / "slurm.conf")]
    words += [*settings, "--sshare", str(dumps / "sshare.txt")]
    assert main([*words, "--time-zone", "America/New_York", "-o", str(path)]) == 0
    return folder, path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpu_type", "hours", "away"),
    [("h100", 14, 1), ("h100", 24, 0), ("a100", 12, 1), ("a100", 14, 1), ("a100", 18, 1)],
)
def test_nodes_needed_are_those_of_the_truth(gpuplan, birch, gpu_type, hours, away):
    folder, twin = birch
    rows = csv.DictReader((folder / "truth/size.csv").open())
    truth = {(row["type"], float(row["target_p95_h"])): row["least_nodes"] for row in rows}
    words = ("--twin", twin, "--gpu-type", gpu_type, "--ci", 0, "--target")
    results = sized(gpuplan, folder / "dumps/sacct.txt.gz", *words, f"p95_wait <= {hours}h")
    assert results["fidelity"]["verdict"] == "agrees"
    least = int(truth[gpu_type, hours])
    assert abs(results["nodes"] - least) <= away
    if results["nodes"] != least:  # then the answer says that it is not sure
        (pool,) = results["pools"]
        each, high = pool["gpus"] // pool["nodes"], pool["unclear"]["high_gpus"]
        assert pool["unclear"]["low_gpus"] <= least * each
        assert high is None or least * each <= high


@pytest.mark.slow
def test_no_number_of_nodes_is_named_where_limits_make_jobs_wait(gpuplan, birch):
    folder, twin = birch
    words = ("--twin", twin, "--gpu-type", "h100", "--ci", 0, "--target", "p95_wait <= 10h")
    code, out, err = gpuplan(
        "size", folder / "dumps/sacct.txt.gz", *words, "--output-format", "json"
    )
    assert code == 4 and json.loads(out)["results"]["gpus"] is None
    assert "no number of nodes that was tried meets p95_wait <= 10h" in err


@pytest.mark.slow
def test_gpus_that_shorten_no_wait_have_no_price_of_an_hour(gpuplan, birch):
    folder, twin = birch
    words = ("--twin", twin, "--gpu-type", "l40s", "--ci", 0, "--gpus", "24,40,48,96")
    for point in sized(gpuplan, folder / "dumps/sacct.txt.gz", *words, "--price", 0.9)["points"]:
        assert point["usd_per_wait_h_saved"] is None
        # By hand from sacct: 31.1% of the 24 GPUs of today.
        assert point["utilization"] * point["gpus"] == pytest.approx(0.311 * 24, rel=0.02)


class Curve(Candidates):
    """Sizes whose value falls by one for each GPU, from 40, with an error of 3."""

    targets, confidence, rules, least = (), None, "rules", 1

    def enough(self):
        return 60

    def replayed(self, sizes):
        return [
            SizedReplay(
                gpus, {}, None, None, (40.0 - gpus,), 40 - gpus <= 10,
                could_meet=37 - gpus <= 10, could_miss=43 - gpus > 10,
            )
            for gpus in sizes
        ]  # fmt: skip


def test_sizes_within_the_error_of_the_target_are_unclear():
    # The value is 10 at 30 GPUs; with its error it may be there from 27 on, and is from 33 on.
    assert unclear_of(Curve(1, THREADS), 30) == UnclearSizes(27, 33)
    assert unclear_of(Curve(2, THREADS), 30) == UnclearSizes(28, 34)


def test_jobs_that_are_as_recorded_say_nothing_for_the_rules_of_a_site(monkeypatch):
    from types import SimpleNamespace

    from gpuplan.planner.site import site_sizes

    hour = 3600
    scored = np.arange(100) < 50
    # Half of the jobs are held for 20 h, which no rule makes; the others wait four times as long.
    recorded = np.where(scored, 2 * hour, 20 * hour)
    work = SimpleNamespace(
        jobs=None, scored=scored, recorded_wait=recorded, held=np.zeros(100, np.int64)
    )
    monkeypatch.setattr(site_sizes, "first_started", lambda _: np.ones(100, np.bool_))

    def verdict(times):
        run = SimpleNamespace(wait=recorded * times, start=np.zeros(100, np.int64))
        monkeypatch.setattr(site_sizes, "site_run", lambda *_: run)
        return site_sizes.fidelity_of_site(SimpleNamespace(gpus=8), None, work)

    assert verdict(1).verdict == "agrees"
    contradicted = verdict(4)
    assert contradicted.verdict == "contradicts"
    assert (contradicted.jobs, contradicted.replayed_mean_wait_s) == (50, 8 * hour)


def test_a_site_whose_jobs_are_all_in_the_warm_up_has_no_size(gpuplan, twin, tmp_path):
    text = twin.read_text().replace("[calibration]\n", "[calibration]\nwarmup_s = 999999999\n", 1)
    (tmp_path / "twin.toml").write_text(text)
    words = (LOG, "--twin", tmp_path / "twin.toml", "--price", "2", "--target", "p95_wait <= 1h")
    err = sized(gpuplan, *words, code=3)
    assert "has no job whose wait can be judged" in err and "a shorter warmup_s" in err
    picture = ("--add-nodes", "h100=1", "--plot", tmp_path / "p.svg")
    assert gpuplan("whatif", *words[:3], *picture)[0] == 0
