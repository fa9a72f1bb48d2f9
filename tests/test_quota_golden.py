"""Golden cases of Kueue and KAI, where they lie beside the project."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

spec = spec_from_file_location("golden_kueue", Path(__file__).with_name("golden_kueue.py"))
golden_kueue = module_from_spec(spec)
spec.loader.exec_module(golden_kueue)

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize(
    "name",
    [
        "kueue_cases",
        "kai_cases",
        "kueue_replay_r1",
        "kueue_replay_r2",
        "kueue_replay_r6",
    ],
)
def test_golden_cases_are_equal(shared, name):
    assert list(golden_kueue.differences(shared / f"golden/kueue/{name}.json")) == []
