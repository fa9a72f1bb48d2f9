"""Numbers and articles that agree with their nouns."""

import pytest

from gpuplan.analysis.base.words import a_log, counted, price_text
from gpuplan.analysis.log_formats.registry import FORMATS


@pytest.mark.parametrize(
    ("number", "message"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1200, "1,200 rows")]
)
def test_counted(number, message):
    assert counted(number, "row") == message


def test_articles_of_the_formats():
    an = {name for name in FORMATS if a_log(name) == f"an {name} log"}
    assert an == {"azure-functions", "azure-llm", "openb", "swf"}
    assert a_log("sia") == "a sia log"


@pytest.mark.parametrize(
    ("usd", "text", "mean"),
    [
        (2.0, "2", "2"),
        (2.4, "2.40", "2.40"),
        (1234.5, "1,234.50", "1,234.50"),
        (0.42, "0.42", "0.42"),
        (1.23456, "1.235", "1.23"),
        (0.0031234, "0.003123", "0.00312"),
        (1.9999, "2.00", "2.00"),
    ],
)
def test_a_price_has_cents(usd, text, mean):
    assert (price_text(usd), price_text(usd, 3)) == (text, mean)
