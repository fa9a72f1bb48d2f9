"""The style of the pictures: reproducible, swappable to dark, text as text."""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Annotation

from gpuplan.analysis.trace.trace import read_trace
from gpuplan.cli.figures.hover import spots_of
from gpuplan.cli.figures.labels import place_labels
from gpuplan.cli.figures.palette import BASELINES, BESIDE_LENT, KINDS, LENT, LONG, LOOKS, MIXED
from gpuplan.cli.figures.policies import (
    LEVELS,
    _identical_curves,
    _name,
    _name_places,
    cost_by_kind,
    draw_policies,
)
from gpuplan.cli.figures.style import (
    DARK,
    INK,
    PAPER,
    TEXT,
    contrast,
    new_figure,
    on_paper,
    save,
)
from gpuplan.cli.figures.sweep import draw_sweep
from gpuplan.planner.compare import PolicySpec, compare
from gpuplan.planner.policies.cluster_settings import SCHEDULERS
from gpuplan.planner.registry import BASELINES as KNOWN_BASELINES
from gpuplan.planner.registry import POLICIES
from gpuplan.planner.runs.trace_jobs import COLUMNS, jobs_of
from gpuplan.planner.sweep.sweep import SweepGrid, sweep
from gpuplan.simkit.allpass.parameters import Allpass


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


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_a_name_in_any_script_is_drawn_without_a_warning(tmp_path, recwarn, suffix):
    figure = drawn()
    figure.axes[0].set_title("\u65e5\u672c\u8a9e \u05d0\u05d1 \U0001f600")
    save(figure, tmp_path / f"x{suffix}")
    assert not recwarn.list
    if suffix == ".svg":
        assert "\u65e5\u672c\u8a9e" in (tmp_path / "x.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("letter", ["\u6f22", "\ufdfd", "W"])
def test_long_names_leave_room_for_the_axes(tmp_path, recwarn, letter):
    figure = drawn()
    for number, axes in enumerate(figure.axes):
        axes.set_ylabel(f"{letter * 300} ({number})")
        axes.plot([1, 2], [1, 2], label=letter * 300)
        axes.set_yticks([1, 2], [letter * 300, f"GPUs of {letter * 300}"])
    figure.legend(loc="outside right upper")
    place_labels(figure.axes[0], [(1, 1)], [letter * 300], [INK])
    save(figure, tmp_path / "x.svg")
    text = (tmp_path / "x.svg").read_text(encoding="utf-8")
    assert not recwarn.list
    assert letter * 41 not in text and f"{letter * 15}" in text and "\u2026" in text


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
    assert set(LOOKS) <= set(POLICIES) and len(set(LOOKS.values())) == len(LOOKS)
    assert set(BASELINES) == set(KNOWN_BASELINES)
    assert len(set(BASELINES.values())) == len(BASELINES)


def seen_as(colour):
    """Lightness and the two axes of hue of CIE 1976 (L*, a*, b*), white of D65."""
    rgb = np.array(to_rgb(colour))
    rgb = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    ) @ rgb / [0.9505, 1, 1.089]  # fmt: skip
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("page", [lambda colour: colour, DARK.__getitem__], ids=["print", "dark"])
def test_policies_have_colours_far_apart(page):
    # 2.3 is just noticed side by side; lines of a picture are thin and apart.
    for (one, this), (other, that) in combinations(LOOKS.items(), 2):
        # Told apart by the length of their dashes, and by dots.
        if this.dash != that.dash and {this.dash, that.dash} & {LONG, MIXED, LENT, BESIDE_LENT}:
            continue
        apart = np.linalg.norm(seen_as(page(this.colour)) - seen_as(page(that.colour)))
        assert apart > 20, (one, other)
        if {one, other} <= set(SCHEDULERS):
            assert apart > 25 or this.dash != that.dash, (one, other)


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
    assert _identical_curves([curve, 2 * curve, 1.01 * curve]) == [[0, 2], [1]]
    assert _name(["fifo", "sjf"]) == "fifo, sjf"
    assert _name(["fifo", "sjf", "las"]) == "fifo, sjf, las"
    assert _name(["serverful-only", "las", "sjf"]) == "serverful-only, las,\nsjf"
    assert _name([f"fixed:threshold_s={i}00" for i in range(9)]) == (
        "fixed:threshold_s=000\nand 8 alike"
    )


def test_curves_that_part_at_a_few_levels_only_share_a_name():
    curve = np.geomspace(1.0, 1000.0, 201)
    tail, half = curve.copy(), curve.copy()
    tail[-8:] *= 3
    half[100:] *= 1.2
    assert _identical_curves([curve, tail, half]) == [[0, 1], [2]]


def test_a_sweep_is_drawn_with_everything_serverless_and_a_line_of_what_nothing_dominates(lab):
    jobs = jobs_of(read_trace(lab, columns=COLUMNS), np.random.default_rng(0))
    grid = SweepGrid([30.0, 300.0, 3600.0], capacities=(2, None))
    found = sweep(jobs, Allpass(), grid, np.random.default_rng(5))
    month = found.usd_per_month(1.0) or 1.0
    for case in (found.cases[0], replace(found.cases[0], best=None, rented=None)):
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
        expected = "everything serverless (" if case.best is None else "no limit, "
        if case.rented is not None:
            expected = "all on rented workers ("
        assert expected in best
        (ring,) = [line for line in axes.lines if line.get_markersize() == 15]
        chosen = found.recommended_in(case)
        assert ring.get_ydata()[0] == pytest.approx(chosen.cost_usd * month)
        named = [text.get_text() for text in figure.legends[0].get_texts()]
        assert named == [
            *("fixed", "adaptive", "everything serverless", "all on rented workers", "recommended"),
            *("2 workers", "no limit"),
        ]


def test_policies_are_told_apart_and_no_text_leaves_its_panel(lab):
    jobs = jobs_of(read_trace(lab, columns=COLUMNS), np.random.default_rng(0))
    long = {"preemptive": False, "skipping": True, "gpus": 40}
    found = compare(
        jobs,
        [
            PolicySpec("hpa", "hpa", {}),
            PolicySpec("fifo", "fifo", {"gpus": 40}),
            PolicySpec("fifo:preemptive=false,skipping=true", "fifo", long),
            PolicySpec("2d-las", "2d-las", {"gpus": 40}),
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
    grid = SweepGrid(
        [30.0, 300.0], capacities=(0, None)
    )  # 0 workers: everything serverless thrice more
    figure = draw_sweep(sweep(jobs, Allpass(), grid, np.random.default_rng(5)))
    texts = [text.get_text().partition(" (")[0] for text in figure.axes[0].texts]
    assert texts.count("everything serverless") == texts.count("adaptive") == 1


def boxes_of(figure, axes):
    """Boxes of the labels in a panel, and the ends of the lines from them to their points."""
    figure.draw_without_rendering()
    texts = [text for text in axes.texts if isinstance(text, Annotation)]
    boxes = [text.get_window_extent() for text in texts if text.get_text()]
    ends = [
        axes.transData.transform([text.xy])[0] + [(0, 0), np.array(text.xyann) * figure.dpi / 72]
        for text in texts
        if not text.get_text()
    ]
    return boxes, ends


def crossing(ends, boxes):
    """The boxes that a line meets, but for where it ends."""
    dots = np.linspace(*ends, 200)[:-8]
    return [box for box in boxes if any(box.contains(*dot) for dot in dots)]


def check_labels(figure):
    for axes in figure.axes:
        boxes, leaders = boxes_of(figure, axes)
        assert boxes and not any(a.overlaps(b) for a, b in combinations(boxes, 2))
        assert not any(crossing(ends, boxes) for ends in leaders)


def test_lines_from_labels_cross_no_label():
    figure = new_figure()
    axes = figure.axes[0]
    around = np.linspace(0, 2 * np.pi, 8)
    crowd = [(0.5 + 0.02 * np.cos(at), 0.5 + 0.03 * np.sin(at)) for at in around[1:]]
    points = [(0.0, 0.0), *crowd, (1.0, 1.0)]
    axes.plot(*zip(*points, strict=True), "o")
    place_labels(axes, points, ["a long label"] * len(points), [INK] * len(points))
    boxes, leaders = boxes_of(figure, axes)
    assert len(boxes) == len(points) and leaders
    check_labels(figure)


def test_a_label_that_is_not_needed_is_beside_its_own_point_or_left_out():
    figure = new_figure()
    axes = figure.axes[0]
    points = [(0.5, 0.5), (0.501, 0.5), (0.5, 0.502), (0.499, 0.5), (0.5, 0.498), (0.9, 0.5)]
    axes.plot(*zip(*points, strict=True), "o")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    names = ["first", "right", "above", "left", "below", "alone"]
    place_labels(axes, points, names, [INK] * 6, needed=1)
    written = [text.get_text() for text in axes.texts]
    assert {"first", "alone"} <= set(written) and len(written) < 7
    check_labels(figure)


@pytest.fixture(scope="module")
def grid_of_many(lab):
    jobs = jobs_of(read_trace(lab, columns=COLUMNS), np.random.default_rng(0))
    grid = SweepGrid(
        [30.0, 60.0, 120.0, 300.0, 600.0, 1800.0],
        capacities=[2, 8, 16, None],
        price_ratios=[0.3, 0.5, 1.0, 1.2],
    )
    now = PolicySpec("fifo:gpus=64", "fifo", {"gpus": 64, "usd_per_gpu_h": 2.0})
    return sweep(jobs, Allpass(), grid, np.random.default_rng(1), level=90, against=now)


@pytest.fixture(scope="module")
def drawn_grid(grid_of_many):
    return draw_sweep(grid_of_many)


def test_a_grid_names_what_matters(grid_of_many, drawn_grid):
    check_labels(drawn_grid)
    for axes, case in zip(drawn_grid.axes, grid_of_many.cases, strict=False):
        texts = [text.get_text() for text in axes.texts if text.get_text()]
        assert len(texts) <= len(case.non_dominated) + 4
        assert {"everything serverless", "against"} <= {text.partition(" (")[0] for text in texts}
        (best,) = [text for text in texts if "recommended" in text]
        assert "workers" in best or "no limit" in best or "everything" in best


def test_all_panels_have_the_same_scales_which_are_told(grid_of_many, drawn_grid):
    alone = draw_sweep(replace(grid_of_many, against=None))
    for figure in (drawn_grid, alone):
        axes = figure.axes
        assert len({(one.get_xscale(), one.get_yscale()) for one in axes}) == 1
        for one in axes:
            assert ("log scale" in one.get_ylabel()) == (one.get_yscale() == "log")
        assert ("log scale" in axes[-1].get_xlabel()) == (axes[0].get_xscale() == "log")
    assert axes[0].get_yscale() == "linear"
    assert drawn_grid.axes[0].get_yscale() == "log"
    assert "cost: $" in (told := "".join(spot.text for spot in spots_of(drawn_grid)))
    assert "log" not in told


def test_axes_begin_at_nothing_at_the_lowest(lab):
    jobs = jobs_of(read_trace(lab, columns=COLUMNS), np.random.default_rng(0))
    free = Allpass(marketplace_prices=(0.0,) * 9, conventional_price=0.0)
    axes = draw_sweep(sweep(jobs, free, SweepGrid([0.0, 60.0]), np.random.default_rng(1))).axes[0]
    assert axes.get_ylim()[0] >= 0 and axes.get_xlim()[0] >= 0


def test_price_ratios_without_a_panel_are_told(gpuplan, lab, tmp_path):
    asked = ("sweep", lab, "--threshold", "60", "--policy", "fixed")
    drawn = (*asked, "--plot", tmp_path / "s.svg", "--price-ratio")
    assert "no panel for the price ratio 0.7, 0.9" in gpuplan(*drawn, "0.3,0.5,1,0.7,0.9")[2]
    assert "no panel" not in gpuplan(*drawn, "0.3,0.5,1")[2]
    assert "no panel" not in gpuplan(*asked, "--price-ratio", "0.3,0.5,1,0.7")[2]


def test_a_threshold_of_ones_own_is_marked_at_the_prices_of_each_panel(gpuplan, lab, tmp_path):
    picture = tmp_path / "s.svg"
    asked = ("sweep", lab, "--threshold", "60", "--capacity", "8,none", "--price-ratio", "0.5,1")
    code, out, err = gpuplan(*asked, "--mark", "7m", "--plot", picture, "--output-format", "json")
    assert code == 0, err
    document = json.loads(out)
    assert document["parameters"]["mark"] == "7m"
    points = [p for p in document["results"]["points"] if p["threshold_s"] == 420]
    assert [(p["capacity"], p["price_ratio"]) for p in points] == [
        *((8, 0.5), (None, 0.5), (8, 1), (None, 1))
    ]
    assert ">marked: 7 min<" in picture.read_text()
    table = gpuplan(*asked, "--mark", "7m", "--quiet")[1].partition("Against")[0]
    marked = [line for line in table.splitlines() if "marked" in line]
    assert len(marked) == 4 and all(" 7 min " in line for line in marked)
    alone = gpuplan("sweep", lab, "--policy", "adaptive", "--mark", "none", "--quiet")[1]
    assert [line.split()[0] for line in alone.splitlines() if "marked" in line] == ["none"]


def test_a_marked_threshold_has_a_square_around_it(grid_of_many):
    figure = draw_sweep(grid_of_many, 300.0)
    for axes, case in zip(figure.axes, grid_of_many.cases, strict=False):
        squares = [line for line in axes.lines if line.get_markersize() == 12]
        assert [line.get_ydata()[0] for line in squares] == [
            point.cost_usd
            for point in grid_of_many.points
            if point.is_fixed_at(300.0) and point.price_ratio == case.price_ratio
        ]


def test_a_name_stands_where_a_curve_is_alone_and_not_where_one_step_is():
    curve = np.linspace(10.0, 100.0, LEVELS.size)
    other = curve.copy()
    other[40:43] *= 0.5  # a step that comes a little sooner
    other[120:160] *= 0.8
    (_, level), _ = _name_places([curve, other])
    assert LEVELS[124] <= level <= LEVELS[155]


def test_fairness_is_drawn_where_a_policy_measures_it(lab):
    jobs = jobs_of(read_trace(lab, columns=COLUMNS), np.random.default_rng(0))
    specs = [PolicySpec(name, name, {"gpus": 40}) for name in ("fft", "fifo", "tiresias")]
    found = compare(jobs, specs, np.random.default_rng(1))
    figure = draw_policies(found)
    _, fair, _ = figure.axes
    curves = {line.get_label(): line for line in fair.lines}
    assert {"fft", "tiresias"} <= curves.keys() and "fifo" not in curves
    one = found.outcomes[0]
    below = float((one.ftf < 1).mean())
    ratio, level = curves["fft"].get_data()
    assert level[ratio < 1].max() == pytest.approx(below, abs=0.01)
    assert [1.0, 1.0] in [list(line.get_xdata()) for line in fair.lines]  # the share
    texts = " ".join(text.get_text() for text in fair.texts)
    assert "fft" in texts and "tiresias" in texts
