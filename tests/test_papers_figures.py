"""Figures and admissions of the pages on the papers: those of the scripts and of the code."""

import re

import pytest
from test_papers import ROWS

from benchmarks.docs_tables import DOCS, marked, section
from gpuplan.simkit.sharing.policies import PlacementSettings
from gpuplan.simkit.sharing.services import DILU_VERTICAL, REFERENCE_VERTICAL
from gpuplan.simkit.spot.parameters import SCHEDULERS

PAGES = {
    "BOA": "boa-paper.md",
    "Allpass": "allpass-paper.md",
    "FFT": "fft.md",
    "GFS": "gfs.md",
    "Dilu": "dilu.md",
}
FIGURE = re.compile(r"\$(\d+)|(\d[\d,]*(?:\.\d+)?)(?:x|%| times)|(\d[\d,]*\.\d+)")


def page_of(name):
    return (DOCS / name).read_text(encoding="utf-8")


def numbers_in(text):
    return [float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


def cells(table):
    """Return the rows of a Markdown table by their first cell."""
    lines = table.splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in rows}


@pytest.mark.parametrize("paper", PAGES)
def test_figures_of_the_overview_are_in_the_tables_that_scripts_write(paper):
    written = [number for *_, text in marked(page_of(PAGES[paper])) for number in numbers_in(text)]
    said = [
        (row[1], next(filter(None, found)).replace(",", ""))
        for row in ROWS
        if row[0] == paper
        for found in FIGURE.findall(re.sub("`[^`]*`", "", row[3]))
    ]
    unknown = [
        (what, figure)
        for what, figure in said
        if float(figure) not in {round(one, len(figure.partition(".")[2])) for one in written}
    ]
    assert unknown == []
    assert said or paper in ("GFS", "Dilu")  # these give their figures on their own pages


@pytest.mark.parametrize(
    ("paper", "row", "states", "words"),
    [
        ("Allpass", "SJF-P with proportional sharing", {"departs"}, "`srtf` stands in"),
        ("Allpass", "Trace statistics", {"partly"}, "match by construction"),
        ("Allpass", "Leases with a longest duration", {"here"}, "`lease_s`"),
        ("Allpass", "Spot instances, 30 s of grace", {"partly"}, "`grace_s`"),
        ("BOA", "Short of GPUs, one job runs on what is left", {"here", "departs"}, "--overflow"),
        ("FFT", "Cost of JCT", {"departs"}, "`phi=total` is the paper"),
        ("FFT", "Theorem 4.2", {"partly"}, "the constant is not stated"),
        ("GFS", "Business attributes with attention", {"departs"}, "a constant per group"),
        ("GFS", "Quota checked for high-priority tasks too", {"departs"}, "only spot has a quota"),
        ("GFS", "Fewest evictions", {"partly"}, "blocking queues"),
        ("Dilu", "Interference beyond shares", {"absent"}, "its own share alone"),
        ("Dilu", "Pauses of training", {"absent"}, "computes all the time"),
        ("Dilu", "Placement", {"here"}, "for 3,200 generated instances as a plain twin of ours"),
        ("Dilu", "Tokens every 5 ms", {"partly"}, "the paper gives no thresholds"),
    ],
)
def test_what_is_otherwise_than_in_a_paper_is_said(paper, row, states, words):
    (found,) = (one for one in ROWS if one[0] == paper and one[1].startswith(row))
    assert found[2] in states and words in found[3]


def test_constants_that_the_paper_on_dilu_does_not_give_are_those_of_the_code():
    page = page_of("dilu.md")
    table = cells("| constant" + page.partition("| constant")[2].partition("\n\n")[0])
    settings = PlacementSettings()
    assert table["growth of batch time that is an emergency"][0] == f"{DILU_VERTICAL.violation:.0%}"
    assert table["step of a growing quota"][0] == f"{DILU_VERTICAL.increase:g}"
    (idle,) = (row[0] for name, row in table.items() if name.startswith("periods without use"))
    assert idle == f"{DILU_VERTICAL.window} ({5 * DILU_VERTICAL.window} ms)"
    assert table["weights `alpha`, `beta`"][0] == f"{settings.alpha:g}, {settings.beta:g}"
    said = " ".join(page.partition("The authors' program has other constants")[2].split())
    theirs = REFERENCE_VERTICAL
    assert (
        f"an emergency at {theirs.violation:.0%} (LLMs {theirs.violation_llm:.0%}), a window of "
        f"{theirs.window} periods, a floor of {theirs.floor:.0%} of the request"
    ) in said
    assert theirs.calm == 5 and "after five batches in a row" in said
    assert f"with dT below {theirs.calm_change:.0%}" in said
    assert DILU_VERTICAL.floor == 1 and "Training keeps at least its request (floor 1)" in page


def test_what_the_page_on_gfs_says_of_its_tables_is_in_them():
    page = page_of("gfs.md")
    rows = cells(section(page, "gfs-policies"))
    wasted = {name: numbers_in(row[1]) for name, row in rows.items()}
    waits = {name: numbers_in(row[2]) for name, row in rows.items()}
    text = " ".join(page.split())
    assert (
        f"At x1 `yarn-cs` waits {waits['yarn-cs'][0]} s blocking and "
        f"{waits['yarn-cs, passing'][0]} s passing; GFS waits {waits['gfs'][0]} s"
    ) in text
    ratios = [p / own for p, own in zip(wasted["gfs-p"], wasted["gfs"], strict=True)]
    assert f"`gfs-p` wastes {ratios[0]:.1f}, {ratios[1]:.1f} and {ratios[2]:.1f} times" in text
    # The claim is against those that evict, and chronus is told beside it.
    assert all(min(wasted["chronus"]) < value for value in wasted["gfs"])
    assert "It wastes less than GFS" in text
    for other in ("yarn-cs", "lyra", "fgd", "first-fit"):
        assert all(own < theirs for own, theirs in zip(wasted["gfs"], wasted[other], strict=True))
    assert set(rows) >= set(SCHEDULERS)


def test_what_the_page_on_gfs_says_against_the_paper_is_in_its_tables():
    """Each claim of the page that something is the other way round than in the paper."""
    page = page_of("gfs.md")
    rows, beside = cells(section(page, "gfs-policies")), cells(section(page, "gfs-paper"))
    evicted = {name: numbers_in(row[0]) for name, row in rows.items()}
    waits = {name: numbers_in(row[3]) for name, row in rows.items()}
    for less in (1, 2):  # x2 and x4
        assert waits["gfs-s"][less] <= waits["gfs"][less]
        assert evicted["gfs-s"][less] <= evicted["gfs"][less]
        assert waits["gfs-sp"][less] <= waits["gfs"][less]
    assert all(e < own for e, own in zip(evicted["gfs-e"], evicted["gfs"], strict=True))
    assert min(waits["gfs-e"]) > 2 * 86_400 and evicted["gfs-d"][2] < evicted["gfs"][2]
    paper_wait, our_wait = (
        {name: numbers_in(row[1])[side] for name, row in beside.items()} for side in (0, 1)
    )
    assert paper_wait["gfs-s"] > paper_wait["gfs"] and paper_wait["gfs-sp"] > paper_wait["gfs"]
    assert our_wait["gfs, H = 2 h"] > our_wait["gfs"]
    assert paper_wait["gfs, H = 2 h"] < paper_wait["gfs"]
    paper_evicted = {name: numbers_in(row[3])[0] for name, row in beside.items()}
    assert min(paper_evicted["gfs-e"], paper_evicted["gfs-d"]) > paper_evicted["gfs"]
