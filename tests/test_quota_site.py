"""The site of Kueue or KAI: JSON and YAML alike, both API versions, and what is refused."""

import copy
import itertools
import json

import pytest
from support_kueue import (
    ANYONE,
    cluster_queue,
    cohort,
    fair_sharing,
    local_queue,
    workload,
    write_list,
    write_yaml,
)

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.quota.amounts import gpus_of, quantity, units
from gpuplan.analysis.quota.kueue_site import read_quota_site
from gpuplan.analysis.quota.workloads import read_kueue_log
from gpuplan.planner.quota.kai_model import kai_model
from gpuplan.planner.quota.model import quota_model, total_gpus

SITE = [
    cluster_queue("a-cq", 16, limit=8, preemption=ANYONE, queueingStrategy="StrictFIFO"),
    cluster_queue("b-cq", 8, lend=4, fairSharing={"weight": "2500m"}),
    cohort("all", "root"),
    local_queue("team-a", "a-cq"),
    fair_sharing(),
]
KAI = [
    {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }
    for name, spec in {
        "top": {"resources": {"gpu": {"quota": -1}}},
        "team": {"parentQueue": "top", "resources": {"gpu": {"quota": 4.5, "limit": 8}}},
    }.items()
]


def test_json_yaml_and_a_folder_are_the_same_site(tmp_path):
    of_json = read_quota_site(write_list(tmp_path / "site.json", SITE))
    of_yaml = read_quota_site(write_yaml(tmp_path / "site.yaml", SITE))
    folder = tmp_path / "kueue"
    (folder / "queues").mkdir(parents=True)
    write_yaml(folder / "queues" / "a.yml", SITE[:2])
    write_yaml(folder / "rest.yaml", SITE[2:])
    (folder / "README.md").write_text("not a part of it")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "bad.yaml").write_text("{{")
    assert of_json.tables == of_yaml.tables == read_quota_site(folder).tables
    a, b = quota_model(of_json).site.queues
    assert (a.strategy, a.within_queue, a.reclaim_within_cohort) == (
        "StrictFIFO", "LowerPriority", "Any"
    )  # fmt: skip
    quota = a.groups[0][0].quotas["nvidia.com/gpu"]
    assert (quota.nominal, quota.borrowing_limit, quota.lending_limit) == (16, 8, None)
    assert b.weight == 2.5 and b.groups[0][0].quotas["nvidia.com/gpu"].lending_limit == 4
    assert quota_model(of_json).site.fair_sharing and total_gpus(of_json) == 24
    assert quota_model(of_json).of_local == {"team-a/main": "a-cq"}


def test_both_versions_of_the_api_say_the_same(tmp_path):
    new = cluster_queue(
        "a", flavorFungibility={"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}
    )
    old = json.loads(json.dumps(new))
    old["apiVersion"] = "kueue.x-k8s.io/v1beta1"
    old["spec"]["cohort"] = old["spec"].pop("cohortName")
    old["spec"]["flavorFungibility"] = {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}
    sites = [read_quota_site(write_list(tmp_path / "s.json", [one])) for one in (new, old)]
    assert sites[0].tables == sites[1].tables
    assert sites[0].settings.clusterqueue["a"].cohortName == "all"


def test_of_two_versions_in_a_dump_the_newest_counts(tmp_path):
    first, last = cluster_queue("a", 8), cluster_queue("a", 16)
    first["metadata"]["resourceVersion"], last["metadata"]["resourceVersion"] = "9", "10"
    for thing in (first, last):
        thing["metadata"]["uid"] = "u"
    for order in ([first, last], [last, first]):
        assert total_gpus(read_quota_site(write_list(tmp_path / "s.json", order))) == 16


@pytest.mark.parametrize("read", [read_quota_site, read_kueue_log])
def test_a_queue_that_is_there_twice_is_a_mistake(tmp_path, read):
    jobs = [workload("w", "a", 0, 1, 2)]
    twice = [cluster_queue("a-cq", 8), cluster_queue("a-cq", 99)]
    path = tmp_path / "s.json"
    with pytest.raises(InputError, match=r"ClusterQueue a-cq is there twice(.|\n)*next: kubectl"):
        read(write_list(path, [*twice, *jobs]))
    for queue in twice:
        queue["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    with pytest.raises(InputError, match="ClusterQueue a-cq is there twice"):
        read(write_list(path, [*twice, *jobs]))
    for version, queue in enumerate(twice):
        queue["metadata"]["resourceVersion"] = str(9 - version)
    for queues in (twice, [twice[0], twice[0]]):  # of versions the newest, and the same is no harm
        said = read(write_list(path, [*queues, *jobs]))
        assert total_gpus(getattr(said, "site", said)) == 8


def changed(name, *keys, value):
    """The site with one value changed in the object called ``name``."""
    objects = json.loads(json.dumps(SITE))
    table = next(thing for thing in objects if thing["metadata"]["name"] == name)
    for key in keys[:-1]:
        table = table[key]
    table[keys[-1]] = value
    return objects


GROUP = ("spec", "resourceGroups", 0)


@pytest.mark.parametrize(
    ("objects", "told"),
    [
        (changed("a-cq", "spec", "queueingStrategy", value="Fifo"),
         "ClusterQueue a-cq: spec.queueingStrategy: found 'Fifo', expected BestEffortFIFO or "),
        (changed("a-cq", "spec", "preemption", "reclaimWithinCohort", value="any"),
         "spec.preemption.reclaimWithinCohort: found 'any' (did you mean Any?), expected Never or"),
        (changed("b-cq", *GROUP, "flavors", 0, "resources", 0, "nominalQuota", value="8GPU"),
         "ClusterQueue b-cq: spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: found "
         "'8GPU', expected an amount such as 8"),
        (changed("b-cq", *GROUP, "flavors", 0, "resources", 0, "nominalQuota", value="7.5"),
         "flavor default, nvidia.com/gpu: nominalQuota is 7.5; expected a whole number of GPUs"),
        (changed("b-cq", *GROUP, "flavors", 0, "resources", 0, "nominalQuota", value="9999999999"),
         "nominalQuota is 9,999,999,999; expected a number of GPUs up to 10,000,000"),
        (changed("b-cq", *GROUP, "flavors", 0, "resources", 0, "lendingLimit", value="500m"),
         "lendingLimit is 0.5; expected a whole number of GPUs"),
        (changed("a-cq", *GROUP, "flavors", 0, "resources", 0, "borrowingLimit", value="-1"),
         "borrowingLimit: found '-1', expected an amount such as 8"),
        (changed("b-cq", *GROUP, "coveredResources", value=["cpu"]),
         "spec.resourceGroups[0]: flavor default has quotas of nvidia.com/gpu; expected one of "),
        (changed("all", "spec", "parentName", value="all"), "a ring, all -> all"),
        ([local_queue("a", "b")], "has no queue; expected ClusterQueues of Kueue, or Queues"),
        ([*KAI[:1], {**KAI[1], "spec": {"parentQueue": "nobody"}}],
         "Queue team: spec.parentQueue: found 'nobody'; expected one of team, top"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("write", [write_list, write_yaml])
def test_a_bad_value_is_named_with_file_object_and_key(objects, told, write, tmp_path):
    path = write(tmp_path / "site.any", objects)
    with pytest.raises(InputError) as error:
        read_quota_site(path)
    assert str(path) in str(error.value) and told in str(error.value)


def test_two_descriptions_in_yaml_are_a_mistake(tmp_path):
    path = write_yaml(tmp_path / "s.yaml", changed("b-cq", "metadata", "name", value="a-cq"))
    with pytest.raises(InputError, match="ClusterQueue a-cq is described otherwise in"):
        read_quota_site(path)
    assert read_quota_site(write_yaml(path, [*SITE, SITE[0]])).tables  # the same twice is no harm


def aliases():
    """A text of YAML that grows ninefold with each line."""
    names = "abcdefghij"
    lines = [
        f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in itertools.pairwise(names)
    ]
    return "\n".join(["a: &a [x, x, x]", *lines])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kind: {{ .Values.x }}\n", "next: helm template"),
        (aliases(), "too large"),
        ("a: 1\n b: 2\n", ":2: is not YAML"),
        ("!!python/object/apply:os.system [ls]\n", "is not YAML"),
        ("just text\n", "found 'just text'; expected objects of Kubernetes"),
        ("NAME   COHORT   PENDING WORKLOADS\na   all   3\n", "a table that kubectl prints"),
        ("", "is empty"),
    ],
)  # fmt: skip
def test_other_texts_are_refused(text, told, tmp_path):
    path = tmp_path / "site.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_quota_site(path)
    assert told in str(error.value)


def test_an_empty_folder_names_the_command(tmp_path):
    with pytest.raises(InputError, match="kubectl get workloads"):
        read_quota_site(tmp_path)


def test_the_shields_of_a_queue_of_kai_are_replayed(tmp_path):
    shielded = copy.deepcopy(KAI)
    shielded[1]["spec"] |= {"preemptMinRuntime": "90s", "reclaimMinRuntime": "1h"}
    document = read_quota_site(write_list(tmp_path / "kai.json", shielded))
    queues = {queue.name: queue for queue in kai_model(document).site.queues}
    assert (queues["team"].preempt_min_runtime, queues["team"].reclaim_min_runtime) == (90, 3600)
    assert queues["top"].preempt_min_runtime is None  # that of the queue above, else none


def test_queues_of_kai(tmp_path):
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    node = {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": labels},
        "status": {"allocatable": {"nvidia.com/gpu": "8"}},
    }  # fmt: skip
    site = read_quota_site(write_list(tmp_path / "kai.json", [*KAI, node])).settings
    gpu = site.kaiqueue["team"].resources.gpu
    assert (gpu.quota.value, gpu.limit.value) == (4.5, 8)
    assert site.kaiqueue["top"].resources.gpu.quota.value is None  # unlimited
    assert (site.node["n1"].gpus, site.node["n1"].type) == (8, "A100-80GB")


@pytest.mark.parametrize(
    ("text", "value"),
    [("8", 8), (8, 8), ("8.0", 8), ("8000m", 8), ("1e3", 1000), ("1E3", 1000), ("1E", 10**18),
     ("2Ki", 2048), (".5", 0.5), ("5u", 5e-6)],
)  # fmt: skip
def test_amounts(text, value):
    assert float(quantity(text)) == value


@pytest.mark.parametrize("text", ["", "eight", "8 GPUs", "1e99999", None, True, [], "8KiB", "--1"])
def test_what_is_no_amount(text):
    with pytest.raises(ValueError, match="an amount"):
        quantity(text)


def test_units_of_resources():
    assert units(quantity("1500m"), "cpu", rounds_up=True) == 1500
    assert units(quantity("1Gi"), "memory", rounds_up=True) == 1024
    assert units(quantity("1.5"), "nvidia.com/gpu", rounds_up=False) == 1
    assert gpus_of("nvidia.com/mig-3g.40gb") * 7 == 3 and gpus_of("cpu") == 0
