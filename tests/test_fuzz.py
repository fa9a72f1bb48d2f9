"""A few hundred cases of `make fuzz`, in this process, and what the fuzzer itself must do."""

import os
import re
import signal
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CASES = {
    "readers": 60,
    "prices": 50,
    "mapped": 40,
    "traces": 40,
    "options": 50,
    "option files": 30,
    "scenarios": 25,
    "paths": 30,
    "disks": 10,
    "sites": 30,
    "lending": 10,
    "several GPU types": 10,
    "sharing": 20,
    "metrics": 20,
    "demand": 20,
    "plans": 20,
    "Kubernetes": 30,
}
QUICK = 0.4
"""Of the cases of each kind, so many belong to `make test`; `make test-slow` runs the others."""

LONGEST_S = 60

pytestmark = [
    pytest.mark.skipif(not (ROOT / "fuzz").is_dir(), reason="needs the repository"),
    pytest.mark.no_cover,  # what random cases reach is not tested
]


@pytest.fixture(autouse=True)
def fuzz(monkeypatch):
    """Make the folder of the repository importable."""
    monkeypatch.syspath_prepend(ROOT)
    return pytest.importorskip("fuzz.run")


@pytest.fixture
def place(tmp_path, monkeypatch):
    from fuzz.workspace import Place

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Place(tmp_path, None)


@pytest.fixture
def watch():
    """Fail instead of hanging."""

    def late(number, frame):
        raise TimeoutError(f"a case takes over {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, late)
    yield signal.alarm
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("is_quick", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", CASES)
def test_no_case_breaks_a_rule(fuzz, place, watch, kind, is_quick):
    broken, quick = [], int(QUICK * CASES[kind])
    for number in range(quick) if is_quick else range(quick, CASES[kind]):
        watch(LONGEST_S)
        result = fuzz.run_case(7, number, place, kind=kind)
        if result.failures:
            again = f"python -m fuzz --seed 7 --kind '{kind}' --case {number}"
            broken.append(f"{again}: {result.failures[0]}: {result.command[:300]}")
    assert not broken


def test_a_case_is_the_same_each_time(fuzz):
    from fuzz.cases import build

    for number in range(40):
        assert build(3, number) == build(3, number)
    assert build(3, 1) != build(4, 1)


def test_every_kind_has_a_share_and_cases(fuzz):
    from fuzz.kinds import KINDS, WEIGHTS

    assert list(KINDS) == list(WEIGHTS)
    assert sum(WEIGHTS.values()) == pytest.approx(100)
    assert set(CASES) == set(KINDS) - {"signals"}


def test_the_docs_list_every_kind_with_its_share(fuzz):
    from fuzz.kinds import WEIGHTS

    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| ([\w ]+) \| ([\d.]+)% \| ", page, re.MULTILINE)
    assert [(name, float(share)) for name, share in listed] == list(WEIGHTS.items())


def test_every_kind_of_the_hostile_inputs_has_command_lines_of_its_own(fuzz):
    from fuzz.kinds.subjects import SUBJECTS

    commands = {line[0] for subject in SUBJECTS.values() for line in subject.lines}
    assert commands >= {
        *("calibrate", "whatif", "compare", "simulate", "share", "profile", "forecast", "bill"),
        *("size", "plan", "waste", "eta", "waits", "ingest"),
    }


def lines_of_subjects():
    from fuzz.kinds.subjects import SUBJECTS

    return [(kind, line) for kind, subject in SUBJECTS.items() for line in subject.lines]


@pytest.mark.parametrize("is_quick", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_lines_of_a_subject_are_not_refused_before_they_are_damaged(fuzz, place, is_quick):
    """A line that ends with 2 as it is tests the reading of options and nothing behind."""
    from fuzz.cases import Case
    from fuzz.in_process import run_inside
    from fuzz.kinds.subjects import SUBJECTS

    lines = lines_of_subjects()
    for kind, line in lines[::9] if is_quick else lines:
        place.lay_out(Case(kind, line[0], list(line), dict(SUBJECTS[kind].files())))
        outcome = run_inside(list(line), place.folder)
        assert outcome.code == 0, (kind, line, outcome.err)


def test_every_format_is_fuzzed(fuzz):
    from fuzz.corpus import job_logs, price_lists
    from gpuplan.analysis.log_formats.registry import FORMATS
    from gpuplan.analysis.price_formats.registry import PRICE_FORMATS

    assert set(FORMATS) == {name for name, _, _ in job_logs().values()}
    assert len(price_lists()) >= len(PRICE_FORMATS)


def test_every_command_and_every_option_is_fuzzed(fuzz):
    from fuzz.kinds.commands import BASES
    from fuzz.options import WRITES, options_of, path_options
    from gpuplan.cli.app.lazy import COMMANDS

    assert set(BASES) == set(COMMANDS)
    assert all(options_of(name) for name in COMMANDS)
    reads = {
        "--contracts",
        "--queue",
        "--throughputs",
        "--node-types",
        "--checkpoints",
        "--like",
        "--model",
        "--functions",
        "--keep",
    }
    reads |= {
        "--invoice",
        "--metrics",
        "--slurm-conf",
        "--scontrol",
        "--sacctmgr",
        "--sshare",
        "--twin",
        "--before",
        "--after",
        "--baseline",
        "--site",
        "--spot-availability",
        "--profile",
    }
    assert path_options() == WRITES | reads, "say in fuzz/options.py whether it is written"


@pytest.mark.parametrize("name", ["opencost.json", "kueue.json", "kueue.toml"])
def test_files_of_options_are_used_before_they_are_damaged(fuzz, place, name):
    from fuzz.cases import Case
    from fuzz.in_process import run_inside
    from fuzz.kinds.commands import material
    from fuzz.kinds.files import USES

    files = material()
    for line in (list(words) for used, words in USES if used == name):
        named = {word: files[word] for word in line if word in files}
        assert name in named
        place.lay_out(Case("option files", name, line, named))
        outcome = run_inside(line, place.folder)
        assert outcome.code == 0, outcome


def test_a_broken_rule_is_found(fuzz, place, monkeypatch):
    """Each oracle sees what it is there for."""
    from fuzz.cases import Case
    from fuzz.in_process import Outcome
    from fuzz.oracles import failures

    case = Case("options", "x", ["x", "--output-format", "json"], {"in.csv": b"a"})
    case.written = {"out.json", "old.json"}
    case.old = {"old.json": b"{}"}

    def rules(code=0, out=b"{}", err=b"", write=()):
        place.lay_out(case)
        before = place.seen()
        for name, data in write:
            (place.folder / name).write_bytes(data)
        done = Outcome(code, out, err, 0.0)
        return {rule for rule, _ in failures(case, done, before, place.seen(), place.folder)}

    assert rules() == set()
    assert rules(70, err=b"error: internal error (X: y)") == {"exit code 70"}
    assert rules(3) == {"failure without a message"}
    assert rules(3, err=b"error: x\x1b[31m") == {"control character on stderr"}
    assert rules(out=b'{"a": NaN}') == {"stdout is not JSON"}
    assert rules(err=b"Traceback (most recent call last)") == {"noise on stderr"}
    assert rules(err=b"/a/b.py:3: RuntimeWarning: overflow") == {"warning of a library"}
    assert rules(write=[("in.csv", b"bb")]) == {"an input is changed"}
    assert rules(write=[("out.json", b'{"a"')]) == {"an output is not whole"}
    assert rules(write=[("new.json", b"{}")]) == {"a file nobody asked for"}
    assert rules(write=[(".gpuplan.1.partial.json", b"")]) == {"a partial file is left"}
    assert rules(2, err=b"error: x", write=[("out.json", b"{}")]) == {"an output after a failure"}
    assert "an older output is changed after a failure" in rules(
        2, err=b"error: x", write=[("old.json", b"{1")]
    )


def test_rows_that_are_lost_are_found(fuzz, place):
    from fuzz.cases import Case
    from fuzz.corpus import job_logs
    from fuzz.in_process import run_inside
    from fuzz.oracles import account

    files = job_logs()["sia"][1]
    line = ["ingest", "log.csv", "-o", "out.parquet", "--max-rejects", "100%"]
    broken = {"log.csv": files["log.csv"] + b"x,y,z,1,1\n"}
    case = Case("readers", "sia", line, broken, account="jobs")
    place.lay_out(case)
    assert run_inside(line, place.folder).code == 0
    case.rows = files["log.csv"].count(b"\n")
    assert list(account(case, place.folder)) == []
    case.rows += 1
    assert [rule for rule, _ in account(case, place.folder)] == ["rows are not counted"]
    os.remove(place.folder / "out.rejects.parquet")
    case.rows = None
    assert [rule for rule, _ in account(case, place.folder)] == ["rows are lost"]


def test_a_hang_and_a_crash_of_a_worker_are_failures(fuzz, tmp_path):
    from fuzz import pool

    class Dead:
        base = tmp_path

        def ask(self, **request):
            return {"code": "died -6", "how": "memory allocation of 9 bytes failed"}

    now = '{"number": 5, "kind": "readers", "label": "seren", "code": ""}'
    (tmp_path / "now.json").write_text(now)
    result = pool.result_of(Dead(), 1, 5, None, "")
    assert result.code == "died -6"
    assert result.failures and "memory allocation" in result.signature


def test_outcomes_are_counted_by_kind_and_exit_code(fuzz):
    from fuzz.report import Tally

    tally = Tally()
    for number, code in enumerate("0033"):
        tally.add(fuzz.Result(number, "readers", "seren", code))
    failed = fuzz.Result(4, "disks", "run", "70", [("exit code 70", "")], "ValueError at x")
    tally.add(failed)
    lines = tally.table().splitlines()
    assert lines[2].startswith("| readers | 4 | 2 | 2 | 0 | 0 |")
    assert lines[4].startswith("| all | 5 | 2 | 2 | 1 | 1 |")


def test_the_folder_that_a_damaged_scenario_names_may_be_written(fuzz):
    from fuzz.kinds.scenarios import _output_folder

    assert _output_folder(b"[output]\ndir = 'power:0.8'\n") == "power:0.8"
    for text in (b"", b"[output\n", b"output = 3", b"[output]\ndir = 3\n", b"\xff", b"[output]"):
        assert _output_folder(text) is None
