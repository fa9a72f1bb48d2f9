"""The style of the pictures: reproducible, swappable to dark, text as text."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from support_traces import lab_trace

from gpuplan.analysis.trace import read_trace
from gpuplan.cli.figures.palette import BASELINES, KINDS, LOOKS
from gpuplan.cli.figures.policies import _alike, _name, cost_by_kind, draw_policies
from gpuplan.cli.figures.style import DARK, INK, PAPER, TEXT, new_figure, on_paper, save
from gpuplan.cli.figures.sweep import draw_sweep
from gpuplan.planner.allpass.sweep import Grid, sweep
from gpuplan.planner.boa.baselines.registry import BASELINES as KNOWN_BASELINES
from gpuplan.planner.compare import Contender, compare
from gpuplan.planner.policies import POLICIES
from gpuplan.planner.workload import COLUMNS, jobs_of
from gpuplan.simkit.allpass.parameters import Allpass


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return lab_trace(tmp_path_factory.mktemp("lab") / "lab.parquet")


def drawn():
    figure = new_figure(2)
    left, right = figure.axes
    left.plot([1, 2, 3], [1, 4, 9])
    left.annotate("a label", (3, 9))
    right.set_xlabel("Budget, GPUs")
    return figure


def test_the_same_picture_gives_the_same_bytes(tmp_path):
    for suffix in (".svg", ".png"):
        first, again = tmp_path / f"first{suffix}", tmp_path / f"again{suffix}"
        save(drawn(), first)
        save(drawn(), again)
        assert first.read_bytes() == again.read_bytes()


def test_an_svg_swaps_paper_and_ink_where_the_reader_prefers_dark(tmp_path):
    path = tmp_path / "picture.svg"
    save(drawn(), path)
    text = path.read_text()
    assert "prefers-color-scheme: dark" in text
    # The swap goes by colour, so every colour it names must be one the picture uses.
    assert f"fill: {PAPER}" in text.split("</style>", 1)[1]
    assert f"fill: {INK}" in text.split("</style>", 1)[1]


def test_text_in_an_svg_is_text(tmp_path):
    path = tmp_path / "picture.svg"
    save(drawn(), path)
    assert ">Budget, GPUs</text>" in path.read_text()
    assert ">a label</text>" in path.read_text()


def test_every_policy_and_baseline_has_a_look_of_its_own():
    assert set(LOOKS) == set(POLICIES) and len(set(LOOKS.values())) == len(LOOKS)
    assert set(BASELINES) == set(KNOWN_BASELINES)
    assert len(set(BASELINES.values())) == len(BASELINES)


def contrast(one, other):
    """Contrast ratio of WCAG 2: 1 to 21."""

    def light(colour):
        rgb = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
        return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colour", TEXT)
def test_coloured_text_can_be_read_on_light_and_on_dark_pages(colour):
    assert contrast(on_paper(colour), PAPER) >= 4.5
    assert contrast(DARK[on_paper(colour)], DARK[PAPER]) >= 4.5


def test_a_cost_is_stacked_by_what_is_told_and_the_rest_is_conventional():
    told = {"cost_usd": 10.0, "cost_serverless_usd": 6.0, "cost_marketplace_usd": 4.0}
    assert cost_by_kind(told) == dict(zip(KINDS, (6.0, 4.0, 0.0), strict=True))
    assert cost_by_kind({"cost_usd": 10.0}) == dict(zip(KINDS, (0.0, 0.0, 10.0), strict=True))


def test_curves_that_look_the_same_share_a_name():
    curve = np.array([1.0, 10.0, 100.0])
    assert _alike([curve, 2 * curve, 1.01 * curve]) == [[0, 2], [1]]
    assert _name(["fifo", "sjf"]) == "fifo, sjf"
    assert _name(["fifo", "sjf", "las"]) == "fifo and 2 alike"


def test_a_sweep_is_drawn_with_everything_serverless_and_a_line_of_what_nothing_dominates(lab):
    jobs = jobs_of(read_trace(lab, columns=COLUMNS), np.random.default_rng(0))
    grid = Grid([30.0, 300.0, 3600.0], capacities=(2, None))
    found = sweep(jobs, Allpass(), grid, np.random.default_rng(5))
    for case in (found.cases[0], replace(found.cases[0], recommended=None)):
        figure = draw_sweep(replace(found, cases=(case,)))
        axes = figure.axes[0]
        joined = [line for line in axes.lines if len(line.get_xdata()) > 1]
        assert len(joined) == 1
        minutes, usd = joined[0].get_data()
        # To the left it only gets dearer.
        assert (np.diff(minutes) <= 0).all() and (np.diff(usd) >= 0).all()
        assert found.reference.cost_usd in [float(line.get_ydata()[0]) for line in axes.lines]
        texts = [text.get_text() for text in axes.texts]
        assert any(text.startswith("everything serverless") for text in texts)
        (best,) = [text for text in texts if "recommended" in text]
        expected = "everything serverless (" if case.recommended is None else "no limit, "
        assert expected in best
        named = [text.get_text() for text in figure.legends[0].get_texts()]
        assert named == [
            *("fixed", "adaptive", "everything serverless"),
            *("2 workers", "no limit"),
        ]


def test_policies_are_told_apart_and_no_text_leaves_its_panel(lab):
    jobs = jobs_of(read_trace(lab, columns=COLUMNS), np.random.default_rng(0))
    long = {"preemptive": False, "skipping": True, "gpus": 40}
    found = compare(
        jobs,
        [
            Contender("hpa", "hpa", {}),
            Contender("fifo", "fifo", {"gpus": 40}),
            Contender("fifo:preemptive=false,skipping=true", "fifo", long),
            Contender("2d-las", "2d-las", {"gpus": 40}),
        ],
        np.random.default_rng(1),
    )
    figure = draw_policies(found)
    figure.draw_without_rendering()
    bars = figure.axes[1]
    inside = bars.get_window_extent()
    for text in bars.texts:
        assert text.get_window_extent().x1 <= inside.x1 + 1
    looks = [(bar.get_edgecolor(), bar.get_linestyle()) for bar in bars.containers[-1]]
    assert len(set(looks)) == 4 and len({colour for colour, _ in looks}) == 3
    (legend,) = figure.legends
    title = bars._left_title.get_window_extent()
    assert not legend.get_window_extent().overlaps(title)
    assert "fifo:preemptive=false,\nskipping=true" in [t.get_text() for t in bars.get_yticklabels()]


def test_points_of_a_sweep_at_one_place_have_one_name(lab):
    jobs = jobs_of(read_trace(lab, columns=COLUMNS), np.random.default_rng(0))
    grid = Grid([30.0, 300.0], capacities=(0, None))  # 0 workers: everything serverless thrice more
    figure = draw_sweep(sweep(jobs, Allpass(), grid, np.random.default_rng(5)))
    texts = [text.get_text().partition(" (")[0] for text in figure.axes[0].texts]
    assert texts.count("everything serverless") == texts.count("adaptive") == 1
