"""``gpuplan plan --export``: what is written, and that it is read back as what the plan says."""

import json
import shutil
from collections import Counter
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest
from support_plan import BOTH, HOUR, refusal_of, results_of
from support_traces import write_trace

from gpuplan.analysis.job_table.notation import expand_hosts
from gpuplan.analysis.quota.kueue_site import read_quota_site
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.dumps import read_dump
from gpuplan.analysis.site.slurm_conf import read_slurm_conf
from gpuplan.planner.plan_exports.class_table import plain_names

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("few_resamples")]
LEVERS = (
    *("--spot", "job_class = 'b'", "--spot-price", "0.5"),
    *("--serverless", "T4=0.1,A100=9", "--slower", "2x"),
)


@pytest.fixture
def trace(tmp_path):
    """Six days of 4 hours: a on 21 A100 and b on 3 more, c on T4, half of it for a minute."""
    submit = [4 * HOUR * day + s for day in range(6) for s in (0, 0, HOUR, 2 * HOUR, 3 * HOUR)]
    return write_trace(
        tmp_path / "t.parquet",
        submit,
        [4 * HOUR, HOUR, 60.0, 2 * HOUR, HOUR] * 6,
        [21.0, 3.0, 1.0, 1.0, 6.0] * 6,
        job_class=["a", "b", "c", "c", "a"] * 6,
        gpu_type=["A100", "A100", "T4", "T4", "A100"] * 6,
    )


@pytest.fixture
def exported(gpuplan, trace, tmp_path):
    """Return a function that exports and returns the folder and the results."""

    def export(kind, *words):
        folder = tmp_path / "out"
        words = (*BOTH, *LEVERS, *words, "--export", kind, "-o", folder)
        return folder, results_of(gpuplan, trace, *words)

    return export


def gpus_of(results, gpu_type, name, key="peak_gpus"):
    rows = [r for r in results["markets"] if (r["gpu_type"], r["name"]) == (gpu_type, name)]
    return sum(row[key] for row in rows)


def test_slurm_is_read_back_by_the_readers_of_a_site(exported):
    folder, results = exported("slurm")
    assert sorted(path.name for path in folder.iterdir()) == ["classes.csv", "plan.conf", "qos.txt"]
    document = SiteDocument()
    document.merge(read_slurm_conf(folder / "plan.conf"))
    document.merge(read_dump(folder / "qos.txt"))
    document.settle()
    site = document.settings
    gpus = {host: node.gpus for names, node in site.node.items() for host in expand_hosts(names)}

    def of_partition(name):
        return sum(gpus[host] for host in expand_hosts(site.partition[name].Nodes))

    a100 = gpus_of(results, "A100", "committed", "gpus") + gpus_of(results, "A100", "on_demand")
    assert of_partition("a100") == a100 == site.qos["a100"].GrpTRES.value == 27
    assert of_partition("a100-spot") == 3 == site.qos["a100-spot"].GrpTRES.value
    assert site.qos["a100"].Priority > site.qos["a100-spot"].Priority
    assert {node.type for names, node in site.node.items() if names.startswith("t4")} == {"t4"}
    pool = [host for host in gpus if host.startswith("a100-pool")]
    assert sum(gpus[host] for host in pool) == gpus_of(results, "A100", "committed", "gpus")
    assert all(site.partition[name].QOS == name for name in site.partition)
    text = (folder / "plan.conf").read_text()
    assert "b, 2-4 GPUs: 100% to a100-spot, checkpoint every 27 min on 1 node" in text


def test_time_limits_of_slurm_are_the_thresholds(gpuplan, tmp_path):
    # GPUs that must cover every peak: 20 short jobs at once stay in containers, a long one leaves.
    submit = [HOUR * hour for hour in range(40) for _ in range(21)]
    run_s = [3000.0 if i % 21 == 0 else 50.0 for i in range(40 * 21)]
    trace = write_trace(tmp_path / "t.parquet", submit, run_s)
    words = ("--commit", "1", "--serverless", "3", "--slower", "4x", "--export", "slurm")
    classes = results_of(gpuplan, trace, *words, "-o", tmp_path / "o")["classes"]
    routes = {route["name"] for row in classes for route in row["routes"]}
    assert any(route.startswith("serverless ") and route[-1].isdigit() for route in routes)
    site = read_slurm_conf(tmp_path / "o" / "plan.conf").settings
    tiers = {name: part.MaxTime.value for name, part in site.partition.items()}
    for route in routes:
        if route.startswith("serverless ") and route != "serverless never":
            leave_s = int(route.split()[1])
            assert tiers[f"gpu-containers-{leave_s // 60}m"] == leave_s
        if route == "serverless never":
            assert tiers["gpu-containers"] is None


def test_containers_of_each_threshold_have_their_own_peak(gpuplan, tmp_path):
    """Two thresholds in one plan: the limit of each is the most that its own jobs hold."""
    run_s = [3000.0, *[50.0] * 20, 3000.0, *[250.0] * 10] * 40
    submit = [HOUR * hour for hour in range(40) for _ in range(32)]
    label = [*"a" * 21, *"b" * 11] * 40
    trace = write_trace(tmp_path / "t.parquet", submit, run_s, job_class=label)
    words = ("--commit", "1", "--serverless", "3", "--slower", "4x", "--export", "slurm")
    results = results_of(gpuplan, trace, *words, "-o", tmp_path / "o")
    site = SiteDocument()
    site.merge(read_slurm_conf(tmp_path / "o" / "plan.conf"))
    site.merge(read_dump(tmp_path / "o" / "qos.txt"))
    site.settle()
    tiers = {
        name: qos.GrpTRES.value
        for name, qos in site.settings.qos.items()
        if name.startswith("gpu-containers")
    }
    whole = gpus_of(results, "", "serverless")
    assert len(tiers) > 1 and all(0 < gpus <= whole for gpus in tiers.values())
    assert sum(tiers.values()) >= whole  # their peaks need not be at one time
    assert max(tiers.values()) < whole


@pytest.mark.parametrize("kind", ["slurm", "kueue"])
def test_pools_of_an_export_are_those_of_the_plan(gpuplan, trace, tmp_path, kind):
    """More GPUs under today's commitments than the plan has are said, and in no limit."""
    book = tmp_path / "book.toml"
    book.write_text(
        '[[commitment]]\ngpu_type = "A100"\ngpus = 26\nusd_per_gpu_h = 0.9\n'
        "from = 2020-01-01\nuntil = 2099-06-01\n"
        '[[price]]\ngpu_type = "A100"\nkind = "on_demand"\nusd_per_gpu_h = 1.0\n'
        '[[price]]\ngpu_type = "T4"\nkind = "on_demand"\nusd_per_gpu_h = 0.5\n'
    )
    words = ("--contracts", book, "--export", kind, "-o", tmp_path / "out")
    results = results_of(gpuplan, trace, *words)
    committed = gpus_of(results, "A100", "committed", "gpus")
    peak = committed + gpus_of(results, "A100", "on_demand")
    assert 0 < committed < 26 and peak == 27
    said = f"the plan commits to {committed:.0f}, and 26 until 2099-06-01 run on"
    if kind == "slurm":
        assert said in (tmp_path / "out" / "plan.conf").read_text()
        assert f"a100|1000|gres/gpu={peak:.0f}|" in (tmp_path / "out" / "qos.txt").read_text()
        return
    items = json.loads((tmp_path / "out" / "kueue.json").read_text())["items"]
    quotas = Counter()
    for item in items:
        for group in item["spec"].get("resourceGroups", []):
            for flavor in group["flavors"]:
                quotas[flavor["name"]] += flavor["resources"][0]["nominalQuota"]
    assert quotas["a100-pool"] == committed and quotas["a100-on-demand"] == peak - committed
    (notes,) = (i["metadata"]["annotations"] for i in items if i["kind"] == "Cohort")
    assert said in notes["gpuplan.io/commitments-that-run-on"]


@pytest.mark.compiled
def test_whatif_replays_the_exported_site(gpuplan, tmp_path):
    site = Path(str(files("gpuplan.sample_traces"))) / "slurm_site"
    twin, log, out = tmp_path / "twin.toml", site / "sacct.txt", tmp_path / "out"
    given = ("--slurm-conf", site / "slurm.conf", "--sacctmgr", site / "qos.txt")
    assert gpuplan("calibrate", log, *given, "-o", twin)[0] == 0
    words = ("--cluster", "h100=99x8,a100=99x4", "--export", "slurm", "-o", out)
    code, _, err = gpuplan("plan", log, *BOTH, *words)
    assert code == 0, err
    conf = out / "slurm.conf"
    rules = [
        line for line in (site / "slurm.conf").read_text().splitlines()
        if not line.startswith(("Partition", "Include"))
    ]  # fmt: skip
    debug = "PartitionName=debug Nodes=h100-pool-1 MaxTime=60"
    conf.write_text("\n".join([*rules, "Include plan.conf", debug]) + "\n")
    words = ("--twin", twin, "--slurm-conf", conf, "--output-format", "json")
    code, text, err = gpuplan("whatif", log, *words)
    assert code == 0, err
    assert json.loads(text)["results"]
    code, text, err = gpuplan("calibrate", log, "--slurm-conf", conf, "--sacctmgr", out / "qos.txt")
    assert code == 0, err


@pytest.mark.compiled
def test_limits_of_an_exported_site_are_those_that_jobs_wait_for(gpuplan, tmp_path):
    """Fewer GPUs in the plan, or in the limit of one of its QOS, make jobs wait in `whatif`."""
    site = Path(str(files("gpuplan.sample_traces"))) / "slurm_site"
    log, twin, planned = site / "sacct.txt", tmp_path / "twin.toml", tmp_path / "planned.toml"
    rules = [
        line for line in (site / "slurm.conf").read_text().splitlines()
        if not line.startswith(("Partition", "Include"))
    ]  # fmt: skip

    def conf_of(name, *words):
        code, _, err = gpuplan("plan", log, *BOTH, *words, "--export", "slurm", "-o", name)
        assert code == 0, err
        lines = [*rules, "Include plan.conf", "PartitionName=debug Nodes=h100-pool-1"]
        (name / "slurm.conf").write_text("\n".join(lines) + "\n")
        return name / "slurm.conf"

    def verdict(*words):
        code, out, err = gpuplan("whatif", log, *words, "--output-format", "json")
        assert code == 0, err
        (change,) = json.loads(out)["results"]["changes"]
        return change["verdict"]

    given = ("--slurm-conf", site / "slurm.conf", "--sacctmgr", site / "qos.txt")
    assert gpuplan("calibrate", log, *given, "-o", twin)[0] == 0
    free = conf_of(tmp_path / "free")
    few = conf_of(tmp_path / "few", "--cluster", "h100=3x8,a100=4x4")
    assert verdict("--twin", twin, "--slurm-conf", free) == "shorter"  # than on today's nodes
    assert verdict("--twin", twin, "--slurm-conf", few) == "longer"
    given = ("--slurm-conf", free, "--sacctmgr", tmp_path / "free" / "qos.txt")
    assert gpuplan("calibrate", log, *given, "-o", planned)[0] == 0
    limits = ("--twin", planned, "--level", "limits", "--set")
    assert verdict(*limits, "qos.a100.GrpTRES.gpu=8") == "longer"  # of 50 that it asks for
    assert verdict(*limits, "qos.a100.GrpTRES.gpu=51") == "no change"


def test_quotas_of_kueue_add_up_to_the_plan(exported):
    folder, results = exported("kueue")
    document = json.loads((folder / "kueue.json").read_text())
    items = document["items"]
    assert document["kind"] == "List"
    assert {item["apiVersion"] for item in items} == {"kueue.x-k8s.io/v1beta2"}
    kinds = Counter(item["kind"] for item in items)
    flavors = {i["metadata"]["name"]: i["spec"] for i in items if i["kind"] == "ResourceFlavor"}
    queues = {i["metadata"]["name"]: i["spec"] for i in items if i["kind"] == "ClusterQueue"}
    assert kinds["Cohort"] == 1 and kinds["LocalQueue"] == kinds["ClusterQueue"] == len(queues)
    quota = Counter()
    for spec in queues.values():
        for group in spec["resourceGroups"]:
            assert group["coveredResources"] == ["nvidia.com/gpu"]
            for flavor in group["flavors"]:
                (resource,) = flavor["resources"]
                assert resource["name"] == "nvidia.com/gpu"
                quota[flavor["name"]] += resource["nominalQuota"]
    assert set(quota) == set(flavors)
    assert flavors["a100-pool"]["nodeLabels"]["nvidia.com/gpu.product"] == "A100"
    assert quota["a100-pool"] == gpus_of(results, "A100", "committed", "gpus")
    assert quota["a100-spot"] == gpus_of(results, "A100", "spot")
    assert quota["a100-on-demand"] == gpus_of(results, "A100", "on_demand")
    assert queues["a"]["cohortName"] == queues["b"]["cohortName"] == "gpuplan"
    assert "cohortName" not in queues["b-spot"]
    local = {
        (i["metadata"]["namespace"], i["metadata"]["name"]): i["spec"]["clusterQueue"]
        for i in items if i["kind"] == "LocalQueue"
    }  # fmt: skip
    assert local["b", "b-spot"] == "b-spot"


def test_kueue_is_read_back_by_the_reader_of_quotas(exported):
    folder, results = exported("kueue")
    tables = read_quota_site(folder / "kueue.json").tables
    pool = sum(
        resource["nominalQuota"]
        for queue in tables["clusterqueue"].values()
        for group in queue["resourceGroups"]
        for flavor in group["flavors"]
        for resource in flavor["resources"]
        if flavor["name"] == "a100-pool"
    )
    assert pool == gpus_of(results, "A100", "committed", "gpus")


def test_the_table_has_every_route_of_every_class(exported):
    folder, results = exported("csv")
    table = pl.read_csv(folder / "classes.csv")
    shares = {
        (row["name"], row["gpu_type"], row["width_bucket"], route["name"]): route["share"]
        for row in results["classes"] for route in row["routes"]
    }  # fmt: skip
    read = {
        (row["class"], row["gpu_type"], str(row["width_bucket"]), row["route"]): row["share"]
        for row in table.to_dicts()
    }
    assert read == pytest.approx(shares)
    spot = table.filter(pl.col("market") == "spot").row(0, named=True)
    assert spot["checkpoint_every_s"] == pytest.approx(1609.97, abs=0.01)
    assert spot["market_peak_gpus"] == pytest.approx(3)


def test_an_export_is_written_whole_or_not_at_all(gpuplan, trace, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise OSError(28, "No space left on device")

    words = ("plan", trace, *BOTH, "--export", "slurm")
    monkeypatch.setattr(Path, "write_text", broken)
    code, _, err = gpuplan(*words, "-o", tmp_path / "deep" / "out")
    assert code != 0 and "No space left" in err
    monkeypatch.undo()
    assert not (tmp_path / "deep").exists()
    assert gpuplan(*words, "-o", tmp_path / "deep" / "out")[0] == 0
    assert gpuplan(*words, "-o", tmp_path / "deep" / "out", "-o", tmp_path / "p.toml")[0] == 0
    assert (tmp_path / "p.toml").exists()
    shutil.rmtree(tmp_path / "deep")


def test_mistakes_of_an_export(gpuplan, trace, tmp_path):
    def refused(code, *words):
        return refusal_of(gpuplan, code, trace, *BOTH, *words)

    assert "plan.conf, qos.txt, classes.csv in a folder" in refused(2, "--export", "slurm")
    code, _, err = gpuplan(
        "report", trace, "--study", "plan", "--set", "plan.export=csv", "-o", tmp_path / "r"
    )
    assert code == 2 and "export" in err  # a document has no folder for it
    assert "nomad" in refused(2, "--export", "nomad", "-o", tmp_path / "out")
    err = refused(2, "-o", tmp_path / "out")
    assert "has no suffix" in err and err.endswith(".png, .toml")
    (tmp_path / "file").write_text("")
    refused(3, "--export", "csv", "-o", tmp_path / "file" / "out")
    assert not (tmp_path / "out").exists()
    assert "is a file, not a folder" in refused(3, "--export", "csv", "-o", tmp_path / "file")


def test_names_are_those_that_slurm_and_kubernetes_take():
    names = plain_names(["A100 80GB", "a100-80gb", "", "Ärzte/ß", "x" * 99], "none")
    assert list(names.values()) == ["a100-80gb", "a100-80gb-2", "none", "rzte", "x" * 40]
