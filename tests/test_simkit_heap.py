"""The heap pops what `heapq` pops."""

import heapq

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.simkit.heap import new_heap, pop, push

PAIRS = st.tuples(st.integers(-50, 50), st.integers(-3, 3))


@pytest.mark.kernels
@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(PAIRS, st.none()), max_size=300))
def test_pushes_and_pops_agree_with_heapq(steps):
    heap, twin = new_heap(), []
    for step in steps:
        if step is not None:
            heap = push(heap, *step)
            heapq.heappush(twin, step)
        elif twin:
            assert tuple(heap[1]) == heapq.heappop(twin)
            pop(heap)
        assert heap[0, 0] == len(twin)


@pytest.mark.kernels
def test_the_heap_grows():
    heap = new_heap()
    for value in reversed(range(1000)):
        heap = push(heap, value, -value)
    found = []
    while heap[0, 0]:
        found.append((int(heap[1, 0]), int(heap[1, 1])))
        pop(heap)
    assert found == [(value, -value) for value in range(1000)]
