"""The kernel of one cluster against its slow twin, and laws that hold for every schedule."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support_cluster import run_twin, without_repeats

from gpuplan.simkit.cluster.parameters import ORDERS, Cluster
from gpuplan.simkit.cluster.run import run_cluster
from gpuplan.simkit.workload import Workload

GPUS = 8


@st.composite
def workloads(draw, most=14):
    """Jobs that crowd 8 GPUs: many at one instant, some of no length, some with equal keys."""
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, 12),
                st.integers(0, 20),
                st.sampled_from([1, 1, 2, 3, 4, 5, 8]),
                st.integers(0, 60),
            ),
            min_size=1,
            max_size=most,
        )
    )
    submit, service, gpus, slack = (np.array(column) for column in zip(*sorted(rows), strict=True))
    return Workload.from_seconds(submit, service, gpus, submit + slack)


@st.composite
def clusters(draw):
    order = draw(st.sampled_from(ORDERS))
    return Cluster(
        gpus=GPUS,
        order=order,
        preemptive=draw(st.booleans()),
        skipping=draw(st.booleans()),
        checkpoint_s=draw(st.sampled_from([0.0, 0.0, 1.0, 2.5])),
        restore_s=draw(st.sampled_from([0.0, 1.0])),
        gpus_per_node=draw(st.sampled_from([None, None, 2, 4, 8])),
        limits=draw(st.sampled_from([(3.0, 9.0), (2.5,), (1.0, 2.0, 30.0)])),
        levels=draw(st.integers(1, 6)),
        starvation=draw(st.sampled_from([None, None, 0.5, 2.0])),
    )


def rows(run):
    columns = (run.start_us, run.finish_us, run.held_us, run.stops)
    timeline = zip(run.time_us.tolist(), run.used.tolist(), run.waiting.tolist(), strict=True)
    return [tuple(map(int, row)) for row in zip(*columns, strict=True)], without_repeats(
        list(timeline)
    )


@settings(max_examples=400)
@given(workloads(), clusters())
def test_the_kernel_does_what_its_twin_does(workload, cluster):
    assert rows(run_cluster(workload, cluster)) == run_twin(workload, cluster)
