"""Changes of a site of Kueue that do not fit it: another cluster's, or more than there is."""

import json
from importlib.resources import files
from pathlib import Path

import pytest
from support_kueue import cluster_queue, local_queue, teams, workload, write_list

pytestmark = pytest.mark.compiled


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    """A dump of two teams, one with a fifth of the workloads."""
    jobs = [
        workload(f"j{i}", "team-b" if i % 5 == 0 else "team-a", 100 * i, 100 * i, 100 * i + 900)
        for i in range(60)
    ]
    path = tmp_path_factory.mktemp("wrong") / "k.json"
    return write_list(path, [*teams(), *jobs])


def other_site(path, *names):
    queues = [cluster_queue(f"{name}-cq", 16) for name in names]
    return write_list(path, [*queues, *(local_queue(name, f"{name}-cq") for name in names)])


def test_the_site_of_another_cluster_is_refused(gpuplan, dump, tmp_path):
    code, out, err = gpuplan("whatif", dump, "--site", other_site(tmp_path / "o.json", "lab"))
    assert code == 3 and not out
    assert "no Workload is of a queue of site o.json" in err
    assert "lab-cq" in err and "team-a-cq" in err and "next: give the site of the same" in err


def test_a_log_of_another_kind_of_site_is_named(gpuplan, dump, tmp_path):
    """The log of a Slurm site, and a plain one, with settings of Kueue: the settings are wrong."""
    twin, trace = tmp_path / "twin.toml", tmp_path / "t.parquet"
    assert gpuplan("calibrate", dump, "-o", twin)[0] == 0
    slurm = Path(str(files("gpuplan.sample_traces"))) / "slurm_site" / "sacct.txt"
    assert gpuplan("ingest", slurm, "-o", trace)[0] == 0
    plain = tmp_path / "t.csv"
    plain.write_text("job_id,submit_time,duration_s,num_gpus\na,2026-01-01T00:00:00Z,9,1\n")
    for log, name in ((slurm, "slurm"), (trace, "slurm"), (plain, "canonical")):
        code, _, err = gpuplan("whatif", log, "--twin", twin, "--scale-load", "1.1")
        text = " ".join(err.split())
        assert code == 3 and f"twin.toml: is of a site of Kueue, and {log} is a {name} log" in text
        assert "kubectl" not in text


def test_queues_that_the_new_site_lacks_are_named(gpuplan, dump, tmp_path):
    site = other_site(tmp_path / "o.json", "team-a")
    code, out, err = gpuplan("whatif", dump, "--site", site)
    assert code == 0 and "12 of 60 jobs never start with it; where" in " ".join(out.split())
    assert "has no queue team-b-cq, so that 12 workloads of them never start" in err


def test_no_mean_is_told_where_most_jobs_never_start(gpuplan, dump, tmp_path):
    site = other_site(tmp_path / "o.json", "team-b")
    code, out, _ = gpuplan("whatif", dump, "--site", site)
    text = " ".join(out.split())
    assert code == 0 and "48 of 60 jobs never start with it; no mean wait is given" in text
    assert "Effect on waits" not in text and "longer" not in text
    code, out, _ = gpuplan("whatif", dump, "--site", site, "--output-format", "json")
    assert json.loads(out)["results"]["changes"][0]["rejected"] == {"never": 48}


def test_parts_of_a_gpu_are_no_quota(gpuplan, dump):
    code, _, err = gpuplan("whatif", dump, "--set", "clusterqueue.team-a-cq.nominalQuota=1.5")
    assert code == 2 and "must be a whole number of nvidia.com/gpu, got 1.5" in err


def test_gpus_on_no_node_are_told_with_the_effect(gpuplan, dump):
    for more in ("1000000", "+999984"):
        code, out, _ = gpuplan(
            "whatif", dump, "--set", f"clusterqueue.team-a-cq.nominalQuota={more}"
        )
        text = " ".join(out.split())
        assert code == 0
        said = f"nominalQuota={more} (999,984 more GPUs, which no node in the dump shows): "
        assert said in text[:150]
    code, out, _ = gpuplan("whatif", dump, "--set", "clusterqueue.team-a-cq.nominalQuota=8")
    assert code == 0 and "no node" not in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--add-nodes", "default=4@ghost"),
         "ghost has no quota of default; expected one of team-a-cq, team-b-cq, team-c-cq"),
        (("--add-nodes", "a100=4"), "no flavor a100; expected TYPE=N with one of default"),
        (("--set", "clusterqueue.ghost.nominalQuota=4"), "no clusterqueue ghost"),
        (("--set", "clusterqueue.team-a-cq.queueingStrategy=Fifo"), "found 'Fifo', expected Best"),
    ],
)  # fmt: skip
def test_a_change_that_cannot_be_made_says_where_the_names_are(gpuplan, dump, words, said):
    code, _, err = gpuplan("whatif", dump, *words)
    assert code == 2 and said in err and err.count("next: ") == 1
    assert "next: names and values of today are in the file that gpuplan calibrate" in err


def test_a_workload_that_never_fits_says_what_to_do(gpuplan, dump, tmp_path):
    twin = tmp_path / "twin.toml"
    assert gpuplan("calibrate", dump, "-o", twin)[0] == 0
    code, _, err = gpuplan("eta", dump, "--twin", twin, "--gpus", 100, "--account", "team-a")
    assert code == 2 and "would never have its quota" in err and "next: fewer --gpus" in err


def test_the_size_of_a_replay_of_quotas_is_that_of_the_quotas(gpuplan, dump):
    words = ("simulate", dump, "--policy", "kueue", "--site", dump, "--gpus", 32)
    code, _, err = gpuplan(*words)
    assert code == 2 and "--gpus 32: kueue runs jobs on the GPUs of the site" in err
    assert "next: leave it out, or give another --site" in err and "no cluster" not in err


def test_a_tripped_gate_of_any_team_names_the_team(gpuplan, dump):
    quota = ("--set", "clusterqueue.team-a-cq.borrowingLimit=0", "--set",
             "clusterqueue.team-a-cq.nominalQuota=2", "--together")  # fmt: skip
    gate = "mean_wait_growth[any team] > 20%"
    code, _, err = gpuplan("whatif", dump, *quota, "--by", "namespace", "--fail-if", gate)
    assert code == 1 and "growth[any team].mean_wait_growth is" in err
    assert "% (team-a), limit 20.0%" in err


def test_a_twin_of_slurm_is_named_as_one(gpuplan, dump, tmp_path):
    twin = tmp_path / "slurm.toml"
    twin.write_text("[node.n1]\ngpus = 8\n")
    for words in (("whatif", dump, "--set", "clusterqueue.team-a-cq.nominalQuota=8"),
                  ("eta", dump, "--gpus", "8")):  # fmt: skip
        code, _, err = gpuplan(*words, "--twin", twin)
        assert code == 3 and "is of a Slurm site" in err and "next: gpuplan calibrate" in err


def test_characterize_takes_the_quotas_of_the_dump_for_the_cluster(gpuplan, tmp_path):
    # Jobs of 8 GPUs wait behind each other, though the quotas have 40: no more than 8 are held.
    jobs = [workload(f"j{i}", "team-a", 0, 900 * i, 900 * i + 900, gpus=8) for i in range(9)]
    path = write_list(tmp_path / "k.json", [*teams(), *jobs])
    code, out, err = gpuplan("characterize", path)
    told = " ".join(out.split())
    assert code == 0 and "waiting" in told, err
    assert "cluster is assumed" not in told
    code, out, _ = gpuplan("characterize", write_list(tmp_path / "w.json", jobs))
    assert code == 0 and "The cluster is assumed to be the 8 GPUs" in " ".join(out.split())


def test_waits_take_the_quotas_of_the_dump_for_the_cluster(gpuplan, dump):
    code, out, _ = gpuplan("waits", dump, "--full", "--output-format", "json")
    assert code == 0
    (kind,) = json.loads(out)["results"]["gpu_types"]
    assert (kind["gpus"], kind["source"]) == (40, "quotas in the dump")


def test_a_number_that_no_integer_holds_is_named_with_its_key(gpuplan, tmp_path):
    queue = cluster_queue("a-cq", 16)
    queue["spec"]["preemption"] = {"reclaimWithinCohort": 10**20 - 1}
    jobs = [workload(f"j{i}", "a", i, i, i + 900) for i in range(9)]
    path = write_list(tmp_path / "k.json", [queue, local_queue("a", "a-cq"), *jobs])
    code, out, err = gpuplan("whatif", path, "--site", path)
    assert code == 3 and not out
    assert "preemption.reclaimWithinCohort: found 99999999999999999999" in err
