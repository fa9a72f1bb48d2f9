"""Every command that a page of support_examples.PAGES shows prints what the page says."""

import re

import pytest
import support_examples as examples

QUICK_PAGES = ("README.md", "index.md", "tutorial.md")
"""Pages that everyone begins with; the slow tests run the commands of all others."""


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page.name in QUICK_PAGES else pytest.mark.slow)
        for page in examples.PAGES
    ],
    ids=lambda page: page.name,
)
def test_commands_print_what_is_written(page, tmp_path):
    for step, printed in examples.play(page.read_text(encoding="utf-8"), tmp_path / "here"):
        assert examples.agrees(printed, step.written), (
            f"{page.name}:{step.line}: {step.command}\n"
            "prints now (python -m tests.support.support_examples writes it there):\n"
            + "\n".join(printed)
        )


@pytest.mark.parametrize("page", examples.PAGES, ids=lambda page: page.name)
def test_no_command_is_shown_without_being_run(page):
    for fence, steps in examples.fences(page.read_text(encoding="utf-8")):
        if not steps and not examples.TITLE.search(fence["rest"]):
            assert not re.search(r"^(\$ )?gpuplan ", fence["body"], re.MULTILINE), fence["body"]


PAGE = """
```toml title="a.txt"
one
two
```

```console
$ cat a.txt \\
    a.txt
one
...
two

$ echo three; ls nowhere
other
```
"""


def test_a_page_runs_in_order_and_is_compared(tmp_path):
    (first, printed), (second, missing) = examples.play(PAGE, tmp_path / "here")
    assert (first.line, first.command) == (8, "cat a.txt \\\n    a.txt")
    assert printed == ["one", "two", "one", "two"]
    assert examples.agrees(printed, first.written)
    assert not examples.agrees(printed, ["one", "...", "three"])
    assert not examples.agrees(printed, ["one", "two", "one"])
    assert missing[0] == "three" and "nowhere" in missing[1]
    assert not examples.agrees(missing, second.written)


def test_a_page_is_written_anew(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("one\n...\ntwo\n\n", "1\n...\n2\n\n").replace("; ls nowhere", ""))
    assert examples.renew(page) == 2
    changed = PAGE.replace("; ls nowhere", "").replace("other", "three")
    assert page.read_text() == changed
    assert examples.renew(page) == 0


def test_parts_of_an_output_are_written_anew_where_they_stand():
    printed = ["head 2", "a", "b 3", "c 4", "d", "tail"]
    written = ["head 1", "...", "b 1", "c 1", "...", "tail"]
    assert examples.renewed(printed, written) == ["head 2", "...", "b 3", "c 4", "...", "tail"]
    assert examples.renewed(printed, ["...", "x", "...", "tail"]) == printed
    assert examples.renewed(printed, ["head 1", "..."]) == ["head 2", "..."]
    assert examples.renewed(printed, ["head 1", "tail"]) == printed
