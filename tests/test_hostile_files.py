"""Files that cannot be read to their end, and options files of any size: an error, never a bug."""

import errno
import io
from pathlib import Path

import pytest
from support_ingest import SEREN
from support_sources import log_of, tarred, zipped
from support_traces import write_trace

from gpuplan.analysis.base.errors import GpuplanError, InputError, UsageError
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.reading import archives, source
from gpuplan.analysis.storage.files import read_small, sha256_of
from gpuplan.cli.scenario.source import read_source

MEMORY = Path("/proc/self/mem")  # a file whose first byte cannot be read
ZERO = Path("/dev/zero")
COMMANDS = (
    ("ingest", "BAD", "-o", "OUT"),
    ("ingest", "BAD", "--source-format", "wandb", "-o", "OUT"),
    ("ingest", "FOLDER", "-o", "OUT"),
    ("ingest", "GAVEL", "--throughputs", "BAD", "-o", "OUT"),
    ("prices", "BAD", "-o", "OUT"),
    ("characterize", "BAD"),
    ("characterize", "TRACE", "--prices", "BAD"),
    ("pareto", "TRACE", "--speedup", "table:BAD"),
    ("pareto", "TRACE", "--speedup", "pollux:BAD"),
    ("simulate", "BAD"),
    ("simulate", "TRACE", "--checkpoints", "BAD"),
    ("compare", "BAD"),
    ("synth", "--like", "BAD", "--jobs", "5", "-o", "OUT"),
    ("synth", "--model", "BAD", "--jobs", "5", "-o", "OUT"),
    ("run", "BAD"),
    ("diff", "BAD", "BAD"),
)


@pytest.fixture
def filled(tmp_path):
    """What the words of `COMMANDS` stand for, but for the bad file."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.csv").symlink_to(MEMORY)
    gavel = tmp_path / "gavel.trace"
    gavel.write_text("a\tcmd\t-n\t0\t100\t5.0\t1\n")
    trace = write_trace(tmp_path / "t.parquet", [0, 60], [600.0, 60.0])
    return {"OUT": tmp_path / "out.parquet", "TRACE": trace, "FOLDER": tmp_path / "logs",
            "GAVEL": gavel}  # fmt: skip


@pytest.mark.skipif(not MEMORY.is_file(), reason="the system has no file that cannot be read")
@pytest.mark.parametrize("bad", [MEMORY, ZERO], ids=["unreadable", "endless"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:3]))
def test_a_file_that_cannot_be_read_is_named(gpuplan, filled, command, bad):
    words = [part.replace("BAD", str(bad)) for part in command]
    code, _, err = gpuplan(*(filled.get(word, word) for word in words))
    assert code == 3, err
    assert str(filled["FOLDER"] if "FOLDER" in command else bad) in err
    assert not filled["OUT"].exists()


class Breaking(io.RawIOBase):
    """A file whose disk fails after some bytes."""

    def __init__(self, data: bytes, good: int) -> None:
        self._data, self._good = io.BytesIO(data), good

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if self._data.tell() >= self._good:
            raise OSError(errno.EIO, "Input/output error")
        return self._data.read(size)


@pytest.mark.parametrize("kind", ["plain", "zip", "tar"])
def test_a_disk_that_fails_in_the_middle_leaves_nothing(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(source, "HEAD_BYTES", 200)
    members = {"a.csv": SEREN, "b.csv": SEREN}
    log = {
        "plain": lambda: tmp_path / "log.csv",
        "zip": lambda: zipped(tmp_path / "log.csv", members),
        "tar": lambda: tarred(tmp_path / "log.csv", members, "w"),
    }[kind]()
    if kind == "plain":
        log.write_text(SEREN)
    monkeypatch.setattr(source.Source, "open", lambda self: Breaking(SEREN.encode(), 300))
    with pytest.raises(InputError, match=r"log\.csv.*: (cannot be read|is a damaged) .*output"):
        ingest([log], tmp_path / "t.parquet")
    assert not (tmp_path / "t.parquet").exists()


def test_a_pipe_that_breaks_is_no_full_disk(tmp_path, monkeypatch):
    pipe = Breaking(log_of("a").encode(), 10)
    with pytest.raises(InputError, match="log: cannot be read: Input/output error"):
        source.copy(pipe.read, io.BytesIO(), Path("log"), 100)
    monkeypatch.setattr(archives, "BLOCK_BYTES", -1)
    with pytest.raises(InputError, match="mem: cannot be read"):
        sha256_of(MEMORY)


def test_a_small_file_that_is_large_is_refused(tmp_path):
    (tmp_path / "x").write_bytes(bytes(3 << 20))
    with pytest.raises(InputError, match="x: is larger than 2 MiB"):
        read_small(tmp_path / "x", 2 << 20)
    assert len(read_small(tmp_path / "x", 3 << 20)) == 3 << 20


TOML = {
    "arrays": "a = " + "[" * 3_000 + "]" * 3_000,
    "tables": "a = " + "{b = " * 3_000 + "1" + "}" * 3_000,
    "key": ".".join(["a"] * 3_000) + " = 1",
    "header": "[" + ".".join(["a"] * 3_000) + "]",
    "number": "a = " + "9" * 5_000,
    "hex": "a = 0x" + "f" * 5_000,
    "level": "a = " + "[" * 51 + "]" * 51,
}


@pytest.mark.parametrize("what", TOML)
def test_toml_without_measure_is_told(gpuplan, tmp_path, what):
    path = tmp_path / "plan.toml"
    path.write_text(TOML[what])
    if what == "hex":  # Python takes it; what it means is another matter
        assert gpuplan("run", path)[0] in (2, 3)
        return
    with pytest.raises(InputError, match=r"plan\.toml: TOML that cannot be used: "):
        read_source(path)
    assert gpuplan("run", path)[0] == 3
    path.write_text("[study.pareto]\n")
    setting = TOML["key"] if what == "header" else TOML[what]
    with pytest.raises(UsageError, match="--set 'a"):
        read_source(path, [setting])


def test_a_scenario_of_fifty_levels_is_read(tmp_path):
    (tmp_path / "plan.toml").write_text("a = " + "[" * 48 + "]" * 48)
    assert "a" in read_source(tmp_path / "plan.toml").data


def test_a_large_scenario_is_refused(tmp_path):
    (tmp_path / "plan.toml").write_bytes(b"# no\n" * (1 << 18))
    with pytest.raises(GpuplanError, match="is larger than 1 MiB"):
        read_source(tmp_path / "plan.toml")
