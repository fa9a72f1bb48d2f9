"""The values that occur in an array of integers, as both floors have it."""

import numpy as np
import pytest

from gpuplan.analysis.base import arrays as of_analysis
from gpuplan.simkit import arrays as of_simkit


@pytest.mark.parametrize("distinct", [of_analysis.distinct, of_simkit.distinct])
@pytest.mark.parametrize("size", [0, 1, 2, 1000])
def test_distinct_values_are_those_that_occur_ascending(distinct, size):
    values = np.random.default_rng(size).integers(-50, 50, size)
    kept = values.copy()
    assert distinct(values).tolist() == sorted(set(values.tolist()))
    assert distinct(values).dtype == np.int64
    assert (values == kept).all()
