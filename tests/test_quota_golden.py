"""Golden cases of Kueue and KAI, where they lie beside the project."""

import os
import subprocess
import sys

import golden_kueue
import pytest

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize(
    "name", ["kai_cases", "kueue_replay_r1", "kueue_replay_r2", "kueue_replay_r6"]
)
def test_golden_replays_are_equal(shared, name):
    assert list(golden_kueue.differences(shared / f"golden/kueue/{name}.json")) == []


def test_golden_moments_are_equal(shared):
    """Cases of one cycle use parts of the kernels alone: as plain Python, so none is compiled."""
    found = subprocess.run(
        [sys.executable, golden_kueue.__file__, shared / "golden/kueue/kueue_cases.json"],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert (found.returncode, found.stdout) == (0, "kueue_cases.json: 0 differences\n")
