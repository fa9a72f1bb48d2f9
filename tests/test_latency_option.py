"""Latencies as options take them: with a unit, and above 0."""

import pytest

from gpuplan.analysis.base.errors import UsageError
from gpuplan.cli.options.sharing_inputs import parse_latency


@pytest.mark.parametrize("text", ["-1", "0", "inf", "nan", "1e400", "0ms"])
def test_a_latency_that_no_unit_repairs_gets_no_hint_with_one(text):
    with pytest.raises(UsageError) as caught:
        parse_latency(text, "--slo")
    expected = "expected a number above 0 with a unit, such as 80ms"
    assert str(caught.value) == f"--slo {text}: {expected}"


def test_a_bare_number_gets_a_hint_with_its_units():
    with pytest.raises(UsageError, match="next: --slo 80ms, or --slo 80s"):
        parse_latency("80", "--slo")
