"""Changes of a site of Kueue that do not fit it: another cluster's, or more than there is."""

import json

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


def test_gpus_on_no_node_come_first(gpuplan, dump):
    for more in ("1000000000", "+999999984"):
        code, out, _ = gpuplan(
            "whatif", dump, "--set", f"clusterqueue.team-a-cq.nominalQuota={more}"
        )
        text = " ".join(out.split())
        assert (
            code == 0 and "999,999,984 GPUs of the quotas would be on no known node." in text[:150]
        )
    code, out, _ = gpuplan("whatif", dump, "--set", "clusterqueue.team-a-cq.nominalQuota=8")
    assert code == 0 and "no known node" not in out


def test_a_twin_of_slurm_is_named_as_one(gpuplan, dump, tmp_path):
    twin = tmp_path / "slurm.toml"
    twin.write_text("[node.n1]\ngpus = 8\n")
    for words in (("whatif", dump, "--set", "clusterqueue.team-a-cq.nominalQuota=8"),
                  ("eta", dump, "--gpus", "8")):  # fmt: skip
        code, _, err = gpuplan(*words, "--twin", twin)
        assert code == 3 and "is of a Slurm site" in err and "next: gpuplan calibrate" in err


def test_waits_take_the_quotas_of_the_dump_for_the_cluster(gpuplan, dump):
    code, out, _ = gpuplan("waits", dump, "--full", "--output-format", "json")
    assert code == 0
    (kind,) = json.loads(out)["results"]["gpu_types"]
    assert (kind["gpus"], kind["source"]) == (40, "quotas in the dump")
