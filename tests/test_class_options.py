"""Options that say something of one class or GPU type."""

import pytest

from gpuplan.analysis.base.amounts import parse_by_type, parse_usd
from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.elastic.class_options import parse_caps, parse_limits
from gpuplan.planner.money.price_book import Prices


def test_what_can_be_said():
    assert parse_caps(["bert <= 2h", "my class<=90s"]) == {"bert": 7200, "my class": 90}
    assert parse_limits(["bert=16", "a=b = 4"]) == {"bert": 16, "a=b": 4}
    assert parse_by_type(["T4", "A100=2.5"], "--gpu", 1.0) == {"T4": 1, "A100": 2.5}
    assert parse_caps([]) == {}
    assert parse_by_type(["T4,A100=2.5"], "--gpu", 1.0) == {"T4": 1, "A100": 2.5}
    each = {"V100": 1, "H100": 3, "A100": 2}
    assert parse_usd(["V100=1, H100=3,A100=2"], "--price") == each
    assert parse_usd(["V100=1", "H100=3,A100=2"], "--price") == each
    assert parse_usd(["1.29", "T4=1"], "--price") == {"": 1.29, "T4": 1}


@pytest.mark.parametrize(
    ("parse", "texts", "said"),
    [
        (parse_caps, ["bert < 2h"], "expected 'CLASS <= TIME'"),
        (parse_caps, ["<= 2h"], "expected 'CLASS <= TIME'"),
        (parse_caps, ["bert <= soon"], "expected a duration"),
        (parse_caps, ["bert <= 2"], "a time needs a unit, such as 2h or 2m"),
        (parse_caps, ["a<=1h", "a<=2h"], "'a' is given twice"),
        (parse_limits, ["bert"], "expected CLASS=GPUS"),
        (parse_limits, ["bert=1.5"], "expected CLASS=GPUS"),
        (parse_limits, ["a=1", "a=1"], "'a' is given twice"),
        (lambda texts: parse_usd(texts, "--price"), ["A100=T4=1"], "expected dollars per GPU-hour"),
        (lambda texts: parse_usd(texts, "--price"), [","], "expected dollars per GPU-hour"),
        (lambda texts: parse_usd(texts, "--price"), ["T4=1,T4=2"], "'T4' is given twice"),
        (lambda texts: parse_by_type(texts, "--price"), ["T4"], "--price 'T4': expected TYPE="),
        (lambda texts: parse_by_type(texts, "--price"), ["T4=0"], "above 0"),
        (lambda texts: parse_by_type(texts, "--price"), ["T4=inf"], "finite"),
        (lambda texts: parse_by_type(texts, "--price"), ["T4=1", "T4=2"], "given twice"),
    ],
)
def test_what_cannot(parse, texts, said):
    with pytest.raises(UsageError, match=said):
        parse(texts)


def test_a_price_of_a_type_that_is_not_there_is_named():
    prices = Prices({"": 1.0, "A100": 2.0, "H1000": 3.0})
    (note,) = prices.unmatched_note(["A100-80GB", None, "T4"])
    assert note == "--price: the price of H1000 is not used; the GPU types are A100-80GB, T4"
    assert prices.unmatched_note(["A100", "H1000"]) == ()
