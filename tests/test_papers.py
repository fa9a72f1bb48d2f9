"""docs/papers.md: every row has a state and a reason, and what it names exists."""

import re
from pathlib import Path

import pytest

from gpuplan.cli.app.lazy import COMMANDS
from gpuplan.planner.registry import POLICIES

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
STATES = {"here", "partly", "departs", "absent"}
PAPERS = {part.split(":")[0].strip(): part for part in re.split(r"^## ", PAGE, flags=re.M)[1:]}
ROWS = [
    (paper, *(cell.strip() for cell in line.strip("|").split("|")))
    for paper, part in PAPERS.items()
    for line in part.splitlines()
    if line.startswith("| ") and not line.startswith("| of the paper")
]


def test_each_paper_has_a_table():
    assert set(PAPERS) == {"BOA", "Allpass", "FFT", "GFS", "Dilu"}
    for paper in PAPERS:
        assert sum(row[0] == paper for row in ROWS) > 15


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}: {row[1]}"[:60])
def test_each_row_has_a_state_and_says_where_or_why(row):
    assert len(row) == 4 and row[2] in STATES, row
    assert row[1] and row[3]


def test_what_the_page_names_exists():
    for name in re.findall(r"`([^`]+)`", PAGE):
        if "/" in name:
            assert (ROOT / name).exists(), name
        elif name.startswith("python -m "):
            assert (ROOT / f"{name.split()[2].replace('.', '/')}.py").is_file(), name
        elif name.startswith("gpuplan "):
            assert name.split()[1] in COMMANDS, name
    for policy in ("2d-las", "sjf", "srtf", "hpa", "serverless-only", "gfs-e", "gfs-sp"):
        assert f"`{policy}`" in PAGE and policy in POLICIES
    for page in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (ROOT / "docs" / page).is_file(), page


def options():
    """Every option and setting that the page names."""
    named = re.findall(r"`(--[a-z-]+|[a-z_]+(?==)|[a-z]+(?:_[a-z]+)+)[ =`]", PAGE)
    return sorted({name for name in named if "." not in name})


def test_options_and_settings_on_the_page_exist():
    manual = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    settings = {name for policy in POLICIES.values() for name in policy.settings}
    results = {"efficiency", "timeline", "starvation_max_s"}
    of_share = {"tie_break"}  # gpuplan share --set
    for name in options():
        assert (
            f"`{name}`" in manual
            if name.startswith("--")
            else name in settings | results | of_share
        ), name
