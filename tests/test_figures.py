"""The style of the pictures: reproducible, swappable to dark, text as text."""

from gpuplan.cli.figures.style import INK, PAPER, new_figure, save


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
