"""Price books: what they say, and the line and reason of what they cannot say."""

from fractions import Fraction

import pytest

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.prices.contracts import read_contracts

BOOK = """\
[[commitment]]
gpu_type = "A100-80GB"
gpus = 32
usd_per_gpu_h = 0.90
from = 2026-01-01
until = 2027-01-01

[[owned]]
gpu_type = "NVIDIA A100-SXM4-80GB"
gpus = 8

[[price]]
gpu_type = "A100-80GB"
kind = "on-demand"
usd_per_gpu_h = 2.60

[[price]]
gpu_type = "A100-80GB"
kind = "on_demand"
usd_per_gpu_h = 3
from = 2026-04-01T02:00:00+02:00
"""
DAY_US = 86_400_000_000
JANUARY_US = 20_454 * DAY_US  # 2026-01-01


def written(tmp_path, text):
    path = tmp_path / "contracts.toml"
    path.write_text(text)
    return path


def test_a_book_is_read_exactly_and_owned_gpus_fill_first(tmp_path):
    book = read_contracts(written(tmp_path, BOOK))
    assert [(pool.market, pool.gpu_type, pool.gpus) for pool in book.pools] == [
        ("owned", "A100-80GB", 8), ("committed", "A100-80GB", 32),
    ]  # fmt: skip
    assert book.pools[0].usd_per_gpu_h == 0 and book.pools[1].usd_per_gpu_h == Fraction(9, 10)
    assert (
        book.pools[1].from_us == JANUARY_US and book.pools[1].until_us == JANUARY_US + 365 * DAY_US
    )
    assert [price.usd_per_gpu_h for price in book.prices] == [Fraction(26, 10), 3]
    assert book.prices[1].from_us == JANUARY_US + 90 * DAY_US  # 31 + 28 + 31 days
    assert book.inputs[0].rows == 4 and len(book.inputs[0].sha256) == 64


def test_a_date_is_midnight_of_the_time_zone(tmp_path):
    book = read_contracts(written(tmp_path, BOOK), "Africa/Johannesburg")
    assert book.pools[1].from_us == JANUARY_US - DAY_US // 12
    assert book.prices[1].from_us == JANUARY_US + 90 * DAY_US  # an offset is that instant


def test_commitments_fill_by_their_begin_then_as_written(tmp_path):
    text = "".join(
        f'[[commitment]]\ngpu_type = "T4"\ngpus = {gpus}\nusd_per_gpu_h = {gpus}\nfrom = {begin}\n'
        for gpus, begin in ((1, "2026-03-01"), (2, "2026-01-01"), (3, "2026-03-01"))
    )
    assert [pool.gpus for pool in read_contracts(written(tmp_path, text)).pools] == [2, 1, 3]


def test_equal_pools_are_one(tmp_path):
    pool = '[[owned]]\ngpu_type = "T4"\ngpus = {}\nusd_per_gpu_h = {}\n'
    text = pool.format(2, 1) + pool.format(4, 2) + pool.format(3, 1)
    pools = read_contracts(written(tmp_path, text)).pools
    assert [(pool.gpus, pool.usd_per_gpu_h) for pool in pools] == [(5, 1), (4, 2)]


def test_the_book_of_an_instant_has_what_is_in_force_then(tmp_path):
    book, types = read_contracts(written(tmp_path, BOOK)), ["A100-80GB"]
    march_us = JANUARY_US + 90 * DAY_US
    assert book.changes_us(types) == (JANUARY_US, march_us, JANUARY_US + 365 * DAY_US)
    assert book.changes_us([]) == ()
    before, within = book.in_force(JANUARY_US - 1, types), book.in_force(march_us, types)
    assert [pool.gpus for pool in before.pools] == [8]  # owned without a date
    assert [pool.gpus for pool in within.pools] == [8, 32]
    assert [price.usd_per_gpu_h for price in before.prices] == [Fraction(26, 10)]
    assert [price.usd_per_gpu_h for price in within.prices] == [3]
    assert within.changes_us(types) == ()
    assert book.in_force(JANUARY_US + 365 * DAY_US, types).pools == before.pools


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("gpus = 32", "gpus = 0", "contracts.toml:3: column 'gpus': found 0"),
        ("gpus = 32", 'gpus = "32"', "column 'gpus': found '32'; expected a whole number of GPUs"),
        ("gpus = 32", "gpus = 1.5", "contracts.toml:3: column 'gpus': found 1.5"),
        ("gpus = 32\n", "", "contracts.toml:1: [[commitment]] has no 'gpus'"),
        ("= 0.90", "= -1", "contracts.toml:4: column 'usd_per_gpu_h': found -1"),
        ("= 0.90", "= 1e-99999999", "contracts.toml:4: column 'usd_per_gpu_h': found 1E-99999999"),
        ("= 0.90", "= nan", "column 'usd_per_gpu_h': found NaN"),
        ("= 0.90", '= "0.9"', "column 'usd_per_gpu_h'"),
        ("2027-01-01", "2025-01-01", ".toml:6: column 'until': found 2025-01-01; expected"),
        ("from = 2026-01-01", "from = 12:00:00", "column 'from': found 12:00:00"),
        ("from = 2026-01-01", 'from = "soon"', "column 'from': found 'soon'"),
        ("on-demand", "weekly", ".toml:14: column 'kind': found 'weekly'; expected one of"),
        ("until =", "untill =", ".toml:6: column 'untill': is not known (did you mean until?)"),
        ("[[owned]]", "[[ownd]]", "unknown key 'ownd' (did you mean owned?)"),
        ("[[owned]]", "[owned]", "double brackets"),
        ("from = 2026-04-01T02:00:00+02:00\n", "", ".toml:17: a second price of A100-80GB"),
        ('"A100-80GB"\ngpus', '""\ngpus', "column 'gpu_type': found ''"),
    ],
)  # fmt: skip
def test_what_a_book_cannot_say_is_named_with_its_line(tmp_path, old, new, said):
    assert old in BOOK
    with pytest.raises(InputError) as caught:
        read_contracts(written(tmp_path, BOOK.replace(old, new, 1)))
    assert said in str(caught.value)


def test_a_book_without_entries_or_that_is_no_toml_is_refused(tmp_path):
    with pytest.raises(InputError, match="has no prices"):
        read_contracts(written(tmp_path, "# nothing\n"))
    with pytest.raises(InputError, match="not TOML"):
        read_contracts(written(tmp_path, "[[price]\n"))
    with pytest.raises(InputError, match="no such file"):
        read_contracts(tmp_path / "none.toml")
