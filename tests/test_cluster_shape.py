"""The shape of a cluster as users write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.simkit.cluster_shape import ClusterShape, GpuPool

TYPES = st.sampled_from(["A100", "T4", "H100-80GB"])
SIZES = st.integers(1, 2000)


@pytest.mark.parametrize(
    ("text", "pools"),
    [
        ("512", [(512, None, None)]),
        ("1000x4", [(4000, 4, None)]),
        ("A100=32", [(32, None, "A100")]),
        ("A100=4x8,T4=12x4", [(32, 8, "A100"), (48, 4, "T4")]),
        ("x4", [(None, 4, None)]),
        ("T4=x8", [(None, 8, "T4")]),
        (" A100 = 4 x 8 , T4=2X4 ", [(32, 8, "A100"), (8, 4, "T4")]),
    ],
)
def test_every_form_by_hand(text, pools):
    shape = ClusterShape.parse(text)
    assert [(pool.gpus, pool.gpus_per_node, pool.gpu_type) for pool in shape.pools] == pools
    counts = [gpus for gpus, _, _ in pools]
    assert shape.gpus == (None if None in counts else sum(counts))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must be like"),
        ("many", "got 'many'"),
        ("4x", "got '4x'"),
        ("x", "got 'x'"),
        ("x0", "got 'x0'"),
        ("A100=", "got 'A100='"),
        ("-4", "got '-4'"),
        ("A100=0", "got 'A100=0'"),
        ("4x0", "got '4x0'"),
        ("99999999999999999999999999", "1 to 16,777,216"),
        ("100000000", "1 to 16,777,216"),
        ("8,16", "a GPU type each"),
        ("A100=8,16", "a GPU type each"),
        ("A100=8,A100=16", "A100 is given twice"),
        ("A100=10000000,T4=10000000", "at most 16,777,216"),
    ],
)
def test_what_is_wrong_is_said(text, said):
    with pytest.raises(ValueError, match=said):
        ClusterShape.parse(text)


def test_a_pool_holds_whole_nodes():
    with pytest.raises(ValueError, match="10 is not a multiple of 4"):
        GpuPool(10, 4)
    with pytest.raises(ValueError, match="or GPUs per node"):
        GpuPool(None)


def test_the_only_pool():
    assert ClusterShape.parse("A100=4x8").pool == GpuPool(32, 8, "A100")
    with pytest.raises(ValueError, match="one type, got A100, T4"):
        _ = ClusterShape.parse("A100=4x8,T4=8").pool


@given(st.dictionaries(TYPES, st.tuples(st.none() | SIZES, st.none() | SIZES), min_size=1))
def test_a_shape_is_read_as_it_is_written(pools):
    shape = ClusterShape(
        tuple(
            GpuPool(None, each or 1, name)
            if nodes is None
            else GpuPool(nodes * (each or 1), each, name)
            for name, (nodes, each) in pools.items()
        )
    )
    assert ClusterShape.parse(str(shape)) == shape
    assert shape.gpu_types == tuple(pools)
