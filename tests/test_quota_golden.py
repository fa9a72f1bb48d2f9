"""Golden cases of Kueue and KAI, where they lie beside the project."""

import golden_kueue
import pytest

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
