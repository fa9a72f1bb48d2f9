"""One name per GPU, however it is written."""

import pytest

from gpuplan.analysis.gpu_names import MODELS, gpu_name, is_known_gpu, same_gpu


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
    for model, sizes in MODELS.items():
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
