"""Numbers and articles that agree with their nouns."""

import pytest

from gpuplan.analysis.base.words import a_log, counted
from gpuplan.analysis.log_formats.registry import FORMATS


@pytest.mark.parametrize(
    ("number", "message"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1200, "1,200 rows")]
)
def test_counted(number, message):
    assert counted(number, "row") == message


def test_articles_of_the_formats():
    an = {name for name in FORMATS if a_log(name) == f"an {name} log"}
    assert an == {"azure-llm", "openb", "swf"}
    assert a_log("sia") == "a sia log"
