"""JSON that Python takes and no log means: odd numbers, half characters, depths without measure."""

import json

import pytest
from support_ingest import LOGS
from support_prices import aws_history, aws_record, prime_line

from gpuplan.analysis.base.errors import GpuplanError, InputError
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.job_table.reject_limit import Limit
from gpuplan.analysis.log_formats.gavel import read_throughputs
from gpuplan.analysis.prices.ingest import ingest_prices
from gpuplan.analysis.prices.price_table import read_prices
from gpuplan.analysis.reading.records import parsed
from gpuplan.analysis.synth.store import read_model
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.cli.diff.read import read_versions

ALL = Limit.of("100%")
MARK = "\x00mark"
TOKENS = {
    "1e999": "1e999",
    "NaN": "NaN",
    "-Infinity": "-Infinity",
    "-0": "-0",
    "long number": "9" * 5_000,
    "long negative": "-" + "9" * 400,
    "long fraction": "0." + "9" * 5_000,
    "lone surrogate": r'"\ud800"',
    "surrogate in text": r'"gres/gpu\udfff:a100=1"',
    "nothing": r'"\u0000"',
    "deep": "[" * 900 + "]" * 900,
    "deeper": "[" * 200_000 + "]" * 200_000,
    "deep record": '{"a":' * 400 + "1" + "}" * 400,
}
DEEP = ("deep", "deeper", "deep record")
SHALLOW = [token for what, token in TOKENS.items() if what not in DEEP]
JSON_LOGS = [name for name, (_, file, _) in LOGS.items() if file.endswith((".json", ".jsonl"))]
PRICES = {
    "h.json": aws_history(*(aws_record(f"2016-04-25T12:4{i}:29.000Z", "1.5") for i in range(3))),
    "l.jsonl": "\n".join(
        prime_line(f"2025-10-19T21:0{i}:58+00:00", {"a": {"min": 2, "count": 1}}) for i in range(3)
    ),
    "us-west-2a_v100_1.json": json.dumps(
        {"metadata": {"gap_seconds": 60}, "data": [1] * 3, "prices": [2.0] * 3}
    ),
}


def spots_of(node, path=()):
    """Yield the path of every value inside a JSON value."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from spots_of(value, (*path, key))


def with_token(value, path, token):
    """Return JSON with a token in place of one value."""
    copy = json.loads(json.dumps(value))
    node = copy
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = MARK
    return json.dumps(copy).replace(json.dumps(MARK), token)


def spoiled(records, tokens):
    """Return records as JSON texts, each with one of the tokens in place of one of its values."""
    return [
        with_token(record, path, token)
        for record in records
        for path in spots_of(record)
        for token in tokens
    ]


def records_of(text):
    """Return the records of a log and what makes a log of the texts of some."""
    lines = text.strip().splitlines()
    if len(lines) > 1 and lines[1].startswith("{"):
        return [json.loads(line) for line in lines], "\n".join
    document = json.loads(text)
    if isinstance(document, list):
        return document, lambda texts: f"[{','.join(texts)}]"
    key = next(key for key, value in document.items() if isinstance(value, list))
    return document[key], lambda texts: f'{{"{key}":[{",".join(texts)}]}}'


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("name", JSON_LOGS)
def test_a_hostile_value_of_a_log_is_rejected_or_told(tmp_path, name, deep):
    known, file, text = LOGS[name]
    records, log_of = records_of(text)
    for tokens in [[TOKENS[one]] for one in DEEP] if deep else [SHALLOW]:
        texts = spoiled(records[:2], tokens)
        (tmp_path / file).write_text(log_of(texts[:1] if deep else texts))
        try:
            result = ingest([tmp_path / file], tmp_path / "t.parquet", source_format=known,
                            limit=ALL)  # fmt: skip
            assert read_trace(result.output).rows == result.provenance.rows_kept
        except InputError as error:
            # Objects of one uid are one object: the last of them may be all that is left.
            is_one = known in ("kube", "kube-metrics") and "no usable rows" in str(error)
            assert deep or is_one, error


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("name", ["h.json", "l.jsonl"])
def test_a_hostile_value_of_a_price_list_is_rejected_or_told(tmp_path, name, deep):
    records, list_of = records_of(PRICES[name])
    for tokens in [[TOKENS[one]] for one in DEEP] if deep else [SHALLOW]:
        texts = spoiled(records[:2], tokens)
        whole = [json.dumps(record) for record in records]
        (tmp_path / name).write_text(list_of([*whole, *(texts[:1] if deep else texts)]))
        try:
            result = ingest_prices([tmp_path / name], tmp_path / "p.parquet", limit=ALL)
            assert read_prices(result.output).rows == result.provenance.rows_kept
        except InputError as error:
            assert deep, error


@pytest.mark.parametrize("token", TOKENS)
def test_a_hostile_value_of_an_availability_trace_is_rejected_or_told(tmp_path, token):
    folder = tmp_path / "aws-10-26-2022"
    folder.mkdir()
    document = json.loads(PRICES["us-west-2a_v100_1.json"])
    for path in spots_of(document):
        source = folder / "us-west-2a_v100_1.json"
        source.write_text(with_token(document, path, TOKENS[token]))
        try:
            result = ingest_prices([source], tmp_path / "p.parquet", limit=ALL)
            assert read_prices(result.output).rows == result.provenance.rows_kept
        except InputError as error:
            assert str(source) in str(error)


@pytest.mark.parametrize("token", TOKENS)
def test_a_hostile_value_of_any_other_json_file_is_told(tmp_path, token):
    texts = {
        "rates.json": '{"v100": {"(\'a\', 1)": {"null": MARK}}}',
        "keys.json": '{"v100": {"(MARK, 1)": {"null": 1}}}',
        "model.json": '{"version": MARK}',
        "result.json": '{"schema_version": 1, "command": "x", "gpuplan_version": MARK}',
    }
    readers = {
        "rates.json": lambda path: read_throughputs(path, None),
        "keys.json": lambda path: read_throughputs(path, None),
        "model.json": read_model,
        "result.json": lambda path: read_versions(path, path),
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.write_text(text.replace("MARK", TOKENS[token].strip('"')))
        try:
            readers[name](path)
        except GpuplanError as error:
            assert str(path) in str(error)


def test_a_long_whole_number_refuses_its_row_alone(tmp_path):
    text = LOGS["slurm_json"][2]
    document = json.loads(text)
    rows = len(document["jobs"])
    document["jobs"][1]["allocation_nodes"] = MARK
    spoilt = json.dumps(document).replace(json.dumps(MARK), "9" * 5_000)
    (tmp_path / "log.json").write_text(spoilt)
    result = ingest([tmp_path / "log.json"], tmp_path / "t.parquet", limit=ALL)
    assert result.provenance.rows_rejected == {"unreadable": 1}
    assert result.provenance.rows_read <= rows  # some are parts of one job
    assert parsed("[1, " + "9" * 5_000 + "]") == [1, float("inf")]


def test_throughputs_of_hundreds_of_digits_are_told(tmp_path):
    rates = tmp_path / "rates.json"
    rates.write_text('{"v100": {"(\'a\', 1)": {"null": ' + "9" * 400 + "}}}")
    with pytest.raises(InputError, match=r"rates\.json: is not a table of throughputs"):
        read_throughputs(rates, None)
