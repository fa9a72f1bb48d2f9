"""One name per GPU, however it is written."""

import polars as pl
import pytest
from support_mixed import rows

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.job_table.gpu_names import (
    gpu_models,
    gpu_name,
    is_known_gpu,
    match_types,
    same_gpu,
)
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.policies.spot.pools import _owners
from gpuplan.planner.requests.clusters import ClusterListRequest
from gpuplan.planner.requests.shapes import read_shape
from gpuplan.planner.runs.job_rates import RateSource
from gpuplan.simkit.cluster_shape import ClusterShape


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("H100_80GB_SXM5", "H100-80GB"),
        ("H100_80GB", "H100-80GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA_A100_80GB_PCIe", "A100-80GB"),
        ("a100-80", "A100-80GB"),
        ("a100_80gb", "A100-80GB"),
        ("A100 PCIE 40GB", "A100-40GB"),
        ("A100", "A100"),  # 40 or 80: not given, not made up
        ("Tesla V100-SXM2-32GB", "V100-32GB"),
        ("V100M32", "V100-32GB"),
        ("nvidia h100 80gb hbm3", "H100-80GB"),
        ("NVIDIA L4", "L4"),
        ("L4-24GB", "L4"),  # one size only: it says nothing
        ("L40", "L40"),
        ("L40S", "L40S"),
        ("A10G", "A10G"),
        ("B200-180GB", "B200"),  # 180 of 192 are usable
        ("GH200-96GB", "GH200-96GB"),
        ("NVIDIA GH200 480GB", "GH200-96GB"),  # the memory of its CPU
        ("NVIDIA GH200 144G HBM3e", "GH200-144GB"),
        ("H100-MEGA-80GB", "H100-80GB"),
        ("NVIDIA RTX PRO 6000 Blackwell", "RTXPRO6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTXPRO6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTXPRO6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTXPRO6000"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("4090", "RTX4090"),
        ("RTX4090-48GB", "RTX4090-48GB"),  # a rare variant keeps its memory
        ("GTX 1080 Ti", "GTX1080Ti"),
        ("RTX A6000", "RTXA6000"),
        ("RTX 6000 Ada Generation", "RTX6000Ada"),
        ("AMD Instinct MI300X OAM", "MI300X"),
        ("K520", "K520"),
        ("  tpu-v3-8 ", "tpu-v3-8"),  # unknown: as it is
        ("my own card", "my own card"),
    ],
)
def test_names(written, name):
    assert gpu_name(written) == name
    assert gpu_name(name) == name


def test_memory_told_apart_is_taken_to_the_nearest_variant():
    assert gpu_name("A100", 81251 / 1024) == "A100-80GB"
    assert gpu_name("A100", 39.4) == "A100-40GB"
    assert gpu_name("RTX 5090", 32607 / 1024) == "RTX5090"
    assert gpu_name("A100-40GB", 80) == "A100-40GB"  # the name wins


def test_every_model_is_known_by_its_own_name():
    for model, sizes in gpu_models().items():
        assert gpu_name(model) == model
        for size in sizes:
            expected = model if len(sizes) == 1 else f"{model}-{size}GB"
            assert gpu_name(f"{model} {size} GB") == expected
    assert not is_known_gpu("tpu-v3-8")


def test_memory_that_is_not_told_fits_any():
    assert same_gpu("A100-80GB", "A100")
    assert same_gpu("A100", "A100-40GB")
    assert not same_gpu("A100-80GB", "A100-40GB")
    assert not same_gpu("A100", "H100")
    assert same_gpu("card", "card") and not same_gpu("card", "other")


def test_names_of_a_user_match_the_types_of_a_log():
    log = ["A100-80GB", "A100-40GB", "V100-SXM2-32GB", None]
    # A name without memory means all variants; the exact one wins; nothing matches None.
    assert match_types(["A100", "A100-40GB", "v100"], log, "--price") == {
        "A100-80GB": "A100", "A100-40GB": "A100-40GB", "V100-SXM2-32GB": "v100", None: None
    }  # fmt: skip
    assert match_types(["a100_80gb", "H100"], ["A100-80GB", "T4"], "--price") == {
        "A100-80GB": "a100_80gb", "T4": None
    }  # fmt: skip
    assert match_types(["A100-80GB"], ["A100"], "--cluster") == {"A100": "A100-80GB"}
    with pytest.raises(UsageError, match="--price: A100 of the log may be A100-40GB or A100-80GB"):
        match_types(["A100-40GB", "A100-80GB"], ["A100"], "--price")
    with pytest.raises(UsageError, match="--cluster: A100 is A100-80GB and A100-40GB in the log"):
        match_types(["A100"], log, "--cluster", one_type_each=True)


def test_every_option_matches_types_alike(tmp_path):
    """GPUs, speeds, rates and prices named A100 meet the A100-80GB of a log."""
    source = RateSource(None, {"A100": 1.0, "H100": 2.0}, ("A100", "H100"))
    jobs = rows(["A", "B"], [1, 1], [100, 100], ["A100-80GB", "H100-80GB"])
    found = source.apply(tmp_path, jobs)
    assert found.jobs["duration_s"].to_list() == [50.0, 100.0]  # on H100
    assert not any("assumed to have run" in note for note in found.notes)
    table = tmp_path / "rates.csv"
    table.write_text("job_class,gpu_type,gpus,rate\nA,A100,1,1\nA,H100,1,2\n")
    measured = RateSource(str(table), {}, ("A100", "H100")).apply(tmp_path, jobs[:1])
    assert measured.jobs["duration_s"].to_list() == [50.0]
    assert Prices({"A100": 2.0, "H100": 3.0}).usd("A100-80GB") == 2.0
    with pytest.raises(UsageError, match="--gpu-speed: has A100, H100, and jobs of the log ran"):
        source.apply(tmp_path, rows(["A"], [1], [100], ["T4"]))
    shape = ClusterShape.parse("A100=1x8,T4=1x8")
    assert _owners(pl.Series(["A100-80GB", "T4", "A100-40GB"]), shape).tolist() == [0, 1, 0]
    with pytest.raises(UsageError, match="A100-80GB and a100-80 are one GPU type"):
        read_shape("A100-80GB=1x8,a100-80=1x8", "--cluster")
    with pytest.raises(UsageError, match="A100 is given twice"):
        ClusterListRequest(cluster="A100=1x8,T4=1x8,A100=2x8").sizes()
    assert len(ClusterListRequest(cluster="A100=1x8,A100=2x8").sizes()) == 2
