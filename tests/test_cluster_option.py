"""The option ``--cluster`` of commands, and the key ``cluster`` of scenarios."""

import json

import pytest
from support_traces import write_trace

from gpuplan.analysis.base.errors import GpuplanError, UsageError
from gpuplan.cli.scenario.loading import load_scenario
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.requests.clusters import ClusterRequest, read_size
from gpuplan.planner.requests.policy_specs import read_reference, read_spec, read_specs
from gpuplan.planner.runs.cluster_setting import gpus_of, pool_of, shape_of
from gpuplan.simkit.cluster_shape import ClusterShape, GpuPool

shape = ClusterShape.parse


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    # Two jobs of 3 GPUs and one of 2: on nodes of 4 the third waits, on 8 plain GPUs it does not.
    path = tmp_path_factory.mktemp("trace") / "t.parquet"
    return write_trace(path, [0, 0, 1], [10.0, 20.0, 5.0], [3.0, 3.0, 2.0])


def document(gpuplan, *arguments):
    code, out, err = gpuplan(*arguments, "--output-format", "json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("given", "settings", "mean_jqt_s"),
    [
        (("--cluster", "8"), ("8", 8, None), 0.0),
        (("--gpus", "8"), ("8", 8, None), 0.0),
        (("--set", "gpus=8"), ("8", 8, None), 0.0),
        (("--cluster", "2x4"), ("2x4", 8, 4), 3.0),
        (("--set", "cluster=2x4"), ("2x4", 8, 4), 3.0),
        (("--cluster", "A100=2x4"), ("A100=2x4", 8, 4), 3.0),
        (("--cluster", "x4"), ("3x4", 12, 4), 0.0),
        ((), ("8", 8, None), 0.0),
    ],
)
def test_one_cluster_is_what_the_shape_says(gpuplan, trace, given, settings, mean_jqt_s):
    found = document(gpuplan, "simulate", trace, "--policy", "first-fit", *given)
    shown = found["parameters"]["settings"]
    assert (shown["cluster"], shown["gpus"], shown["gpus_per_node"]) == settings
    assert found["results"]["gpus"] == settings[1]
    assert found["results"]["mean_jqt_s"] == mean_jqt_s
    assert ("fragmented_share" in found["results"]) == (settings[2] is not None)


@pytest.mark.kernels
def test_compare_gives_every_policy_the_same_gpus(gpuplan, trace):
    both = ("--policy", "first-fit", "--policy", "serverful-only")
    found = document(gpuplan, "compare", trace, *both, "--cluster", "2x4")
    assert (found["parameters"]["cluster"], found["parameters"]["gpus"]) == ("2x4", 8)
    nodes, rented = (one["settings"] for one in found["parameters"]["policies"])
    assert (nodes["cluster"], nodes["gpus_per_node"], rented["capacity"]) == ("2x4", 4, 8)
    short = document(gpuplan, "compare", trace, *both, "--gpus", 8)
    assert short["results"] == document(gpuplan, "compare", trace, *both, "--cluster", 8)["results"]
    assert (short["parameters"]["cluster"], short["parameters"]["gpus"]) == ("8", 8)
    none = document(gpuplan, "compare", trace, *both)["parameters"]
    assert (none["cluster"], none["gpus"]) == (None, None)


@pytest.mark.kernels
def test_a_sweep_gives_it_to_what_it_is_set_against(gpuplan, trace):
    asked = ("sweep", trace, "--threshold", "60", "--resamples", "0")
    found = document(gpuplan, *asked, "--against", "first-fit", "--cluster", "2x4")
    own = document(gpuplan, *asked, "--against", "first-fit:cluster=2x4")
    assert found["parameters"]["cluster"] == "2x4" and own["parameters"]["cluster"] is None
    for one in (found, own):
        assert one["parameters"]["against"]["settings"]["cluster"] == "2x4"
        del one["results"]["against"]["label"], one["results"]["against"]["name"]
    assert found["results"] == own["results"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cluster", "x4"], "next: --cluster 8x4, or --against fifo --cluster x4"),
        (["--against", "fifo:gpus=9", "--cluster", "8"], "--cluster 8 and --against fifo:gpus=9"),
        (["--against", "serverless-only", "--cluster", "8"], "serverless-only has no cluster"),
        (["--set", "cluster=2x4"], "next: --against NAME --cluster 2x4 for a cluster"),
        (["--against", "fifo", "--cluster", "A=8,B=8"], "rates on A, B are needed"),
    ],
)
def test_what_a_sweep_refuses(gpuplan, trace, arguments, said):
    code, out, err = gpuplan("sweep", trace, *arguments)
    assert (code, out) == (2, "") and said in err


@pytest.mark.parametrize(
    ("given", "rented"),
    [
        (("--cluster", "x4"), (4, None, "x4")),
        (("--cluster", "16x4"), (4, 64, "16x4")),
        (("--cluster", "64"), (1, 64, "64")),
        (("--max-gpus", "64"), (1, 64, "64")),
        (("--cluster", "x4", "--max-gpus", "66"), (4, 66, "16x4")),
        ((), (1, None, None)),
    ],
)
def test_pareto_rents_whole_nodes_up_to_the_limit(gpuplan, trace, given, rented):
    found = document(gpuplan, "pareto", trace, "--budget", "1.5x", "--rescale", "0", *given)
    cluster = found["results"]["cluster"]
    shown = (cluster["node_gpus"], cluster["max_gpus"], found["parameters"]["cluster"])
    assert shown == rented


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cluster", "8x4", "--max-gpus", "9"], "--cluster 8x4 and --max-gpus 9"),
        (["--cluster", "T4=8x4,A100=8"], "next: --cluster 8x4"),
        (["--cluster", "T4=8x4"], "T4 is not a GPU to plan for"),
        (["--cluster", "0"], "--cluster '0': each number must be from 1 to"),
        (["--cluster", "x4", "--no-replay"], "--cluster needs the replay"),
        (["--node-gpus", "4"], "next: --cluster x8"),
    ],
)
def test_what_pareto_refuses(gpuplan, trace, arguments, said):
    code, out, err = gpuplan("pareto", trace, *arguments)
    assert (code, out) == (2, "") and said in err


@pytest.mark.parametrize("command", ["simulate", "compare", "sweep", "pareto"])
def test_help_shows_the_option_with_an_example(gpuplan, command):
    code, out, _ = gpuplan(command, "--help")
    assert code == 0 and "--cluster" in out and "nodes" in out and "--node-gpus" not in out


def test_a_row_of_its_own_counts_before_the_cluster_of_all():
    rows = ["fifo", "sjf:gpus=3", "srtf:cluster=2x2", "hpa:capacity=5", "serverless-only"]
    found = read_specs(rows, ["edf.gpus=1"][:0], read_size("8x4"))
    assert [dict(one.settings) for one in found] == [
        *({"cluster": shape("8x4")}, {"gpus": 3}, {"cluster": shape("2x2")}, {"capacity": 5}, {}),
    ]
    own, named, rented = read_specs(
        ["fifo", "sjf", "hpa"], ["cluster=2x4", "capacity=9", "sjf.gpus=7"]
    )
    assert own.settings == {"cluster": shape("2x4")}  # of its own name before the other's
    assert (named.settings, rented.settings) == ({"gpus": 7}, {"capacity": 9})


@pytest.mark.parametrize("text", ["fifo:gpus=3,cluster=3", "fifo:cluster=2x4,gpus=8"])
def test_a_row_has_one_cluster(text):
    with pytest.raises(UsageError, match="both are the size of the cluster"):
        read_specs([text], [])


def test_prices_are_of_the_gpu_of_the_cluster():
    size = read_size("T4=2x4")
    for policy in ("fifo", "hpa"):
        assert read_spec(policy, [], size, is_priced=True).settings["gpu"] == "T4"
        assert "gpu" not in read_spec(policy, [], size).settings
        with pytest.raises(
            UsageError, match="--cluster T4=2x4 and --set gpu=A100: the prices must be"
        ):
            read_spec(policy, ["gpu=A100"], size, is_priced=True)
    assert read_reference("fifo:cluster=L4=8", [], is_priced=True).settings["gpu"] == "L4"


def test_a_policy_may_take_several_gpu_types():
    size = read_size("A100=4x8,T4=12x4")
    assert read_spec("las", [], size).settings == {"cluster": size.shape}
    for text in ("sjf", "hpa"):
        with pytest.raises(UsageError, match=f"{text} takes one GPU type, got A100, T4; .*fft"):
            read_specs(["las", text], [], size)
    with pytest.raises(UsageError, match="--policy sjf:cluster=A100=4/T4=8: sjf takes one"):
        read_specs(["sjf:cluster=A100=4/T4=8"], [])
    with pytest.raises(UsageError, match="las is for one GPU type"):
        pool_of({"cluster": size.shape}, "las")


def test_the_library_takes_a_cluster_as_text():
    spec = PolicySpec("fifo", "fifo", {"cluster": "50x8"})
    assert spec.settings["cluster"].gpus == 400 and spec.gpu_type is None
    with pytest.raises(UsageError, match="cluster '50y8'"):
        PolicySpec("fifo", "fifo", {"cluster": "50y8"})


def test_the_library_takes_the_short_form_too():
    assert shape_of({}) is None and gpus_of({"gpus": None}) is None
    assert pool_of({"gpus": 8}, "fifo") == GpuPool(8)
    assert pool_of({"cluster": shape("2x4")}, "fifo") == GpuPool(8, 4)
    assert gpus_of({"cluster": shape("2x4")}) == 8
    with pytest.raises(UsageError, match="both are the size of the cluster"):
        shape_of({"gpus": 8, "cluster": shape("8")})
    with pytest.raises(UsageError, match="1 to 16,777,216"):
        shape_of({"gpus": 0})
    assert ClusterRequest().size() is None


CLOUDS = """
[workload]
trace = "{}"
[clouds]
{}
[study.compare]
policy = ["fifo", "hpa", "sjf:gpus=4"]
[study.simulate]
policy = "srtf"
[study.sweep]
against = "fifo"
[study.own]
command = "simulate"
policy = "srtf"
cluster = "2x8"
[study.against]
command = "sweep"
against = "fifo:gpus=9"
"""


def scenario(tmp_path, text):
    path = tmp_path / "s.toml"
    path.write_text(text, encoding="utf-8")
    return {study.name: list(study.arguments) for study in load_scenario(path).studies}


def test_a_scenario_has_one_key_for_all_studies(tmp_path, trace):
    found = scenario(tmp_path, CLOUDS.format(trace, 'cluster = "2x4"'))
    policies = ["--policy=fifo", "--policy=hpa", "--policy=sjf:gpus=4"]
    assert found == {
        "compare": ["--set=cluster=2x4", *policies],
        "simulate": ["--set=cluster=2x4", "--policy=srtf"],
        "sweep": ["--cluster=2x4", "--against=fifo"],
        "own": ["--policy=srtf", "--cluster=2x8"],
        "against": ["--against=fifo:gpus=9"],
    }
    found = scenario(tmp_path, CLOUDS.format(trace, 'capacity = 9\ncluster = "2x4"'))
    assert found["simulate"] == ["--set=cluster=2x4", "--policy=srtf"]
    own = "[policies.srtf]\ngpus = 5\n[clouds]\ncluster = '2x4'"
    found = scenario(tmp_path, CLOUDS.format(trace, "").replace("[clouds]", own))
    assert found["simulate"] == ["--set=gpus=5", "--policy=srtf"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ('cluster = "2x4"\ngpus = 8', "s.toml:6: [clouds] cluster and gpus: give one of the two"),
        ("cluster = 0", "s.toml:5: --set cluster '0': each number must be from 1 to"),
        ('cluster = "A=4,B=4"', "takes one GPU type"),
        ("gpus_per_node = 4", "s.toml:5: [clouds] no key 'gpus_per_node'\n  next: --cluster 4x4"),
    ],
)
def test_what_a_scenario_refuses(tmp_path, trace, keys, said):
    with pytest.raises(GpuplanError) as error:
        scenario(tmp_path, CLOUDS.format(trace, keys))
    assert said in str(error.value)


def test_a_former_key_of_a_study_names_the_new_one(tmp_path, trace):
    text = f"[workload]\ntrace = '{trace}'\n[study.pareto]\nnode_gpus = 4"
    with pytest.raises(GpuplanError, match="has no option 'node_gpus'\n  next: --cluster x4"):
        scenario(tmp_path, text)
