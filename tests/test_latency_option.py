"""Latencies as options take them: with a unit, and above 0."""

import pytest

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.requests.profile import read_latency


@pytest.mark.parametrize("text", ["-1", "0", "inf", "nan", "1e400", "0ms"])
def test_a_latency_that_no_unit_repairs_gets_no_hint_with_one(text):
    with pytest.raises(UsageError) as caught:
        read_latency(text, "--slo")
    expected = "expected a number above 0 with a unit, such as 80ms"
    assert str(caught.value) == f"--slo {text}: {expected}"


def test_a_bare_number_gets_a_hint_with_its_units():
    with pytest.raises(UsageError, match="next: --slo 80ms, or --slo 80s"):
        read_latency("80", "--slo")
