"""What killed runs leave behind is removed by the next one; what lives or is not ours stays."""

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpuplan.analysis.storage import temporary
from gpuplan.analysis.storage.files import atomic_output, check_writable
from gpuplan.analysis.storage.temporary import (
    folder_next_to,
    release_all,
    remove_stale,
    temporary_file,
    temporary_folder,
)

HOLD = """
import sys
from pathlib import Path
from gpuplan.analysis.storage.files import atomic_output
from gpuplan.analysis.storage.temporary import temporary_folder
with atomic_output(Path(sys.argv[1])) as partial:
    partial.write_text("half")
    (temporary_folder().path / "spool").write_text("half")
    print("ready", flush=True)
    sys.stdin.read()
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def other(tmp_path, monkeypatch):
    """Another process in the middle of an output, whose temporary folder is `tmp_path` too."""
    monkeypatch.setattr(temporary, "tempfile_folder", lambda: str(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path / "out.json"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path, other):
    assert len(names(tmp_path)) == 2
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert len(names(tmp_path)) == 2
    check_writable(tmp_path / "out.json")
    assert names(tmp_path) == []


def test_what_a_living_run_writes_is_left(tmp_path, other):
    before = names(tmp_path)
    remove_stale(tmp_path)
    assert names(tmp_path) == before
    other.communicate()  # it ends its output
    assert "out.json" in names(tmp_path)


def test_what_other_machines_write_is_left(tmp_path, other, monkeypatch):
    other.kill()
    other.wait()
    before = names(tmp_path)
    monkeypatch.setattr(temporary, "_machine", lambda: "another-one")
    remove_stale(tmp_path)
    assert names(tmp_path) == before


def test_files_that_are_not_ours_are_left(tmp_path):
    ours = f"{temporary.PREFIX}.{temporary._machine()}."
    (tmp_path / "kept").write_text("")
    (tmp_path / f"{ours}link.partial").symlink_to("kept")
    os.mkfifo(tmp_path / f"{ours}pipe.partial")
    (tmp_path / ".gpuplan.of-a-person").write_text("")
    before = names(tmp_path)
    remove_stale(tmp_path)
    assert names(tmp_path) == before


def test_a_file_system_without_locks_has_nothing_removed(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(temporary.fcntl, "flock", no_locks)
    with atomic_output(tmp_path / "out") as partial:
        before = names(tmp_path)
        remove_stale(tmp_path)
        assert names(tmp_path) == before
        partial.write_text("")
    assert names(tmp_path) == ["out"]


def test_a_file_taken_for_stale_before_its_lock_is_made_again(tmp_path, monkeypatch):
    lock, removed = temporary._lock, []

    def removed_before(handle):
        if not removed:
            removed.extend(tmp_path.iterdir())
            removed[0].unlink()
        return lock(handle)

    monkeypatch.setattr(temporary, "_lock", removed_before)
    held = temporary_file(tmp_path, ".json")
    assert removed and names(tmp_path) == [held.path.name] != [removed[0].name]
    held.release()
    held.release()
    assert names(tmp_path) == []


def test_a_folder_taken_for_stale_before_it_is_open_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(temporary, "tempfile_folder", lambda: str(tmp_path))
    make, removed = os.open, []

    def removed_before(path, *how):
        if not removed:
            removed.append(path)
            path.rmdir()
        return make(path, *how)

    monkeypatch.setattr(os, "open", removed_before)
    held = temporary_folder()
    assert removed and names(tmp_path) == [held.path.name] != [removed[0].name]
    held.release()


def test_all_that_is_held_is_removed_from_whatever_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    temporary_file(Path())
    monkeypatch.setattr(temporary, "tempfile_folder", lambda: str(tmp_path))
    (temporary_folder().path / "inside").write_text("")
    assert len(names(tmp_path)) == 2
    monkeypatch.chdir("/")
    release_all()
    assert names(tmp_path) == []


def test_a_long_suffix_makes_no_name_too_long(tmp_path):
    path = tmp_path / f"a.{'x' * 250}"
    with atomic_output(path) as partial:
        partial.write_text("")
    assert names(tmp_path) == [path.name]


def test_a_file_that_another_run_has_locked_first_is_given_up(tmp_path, monkeypatch):
    """The other run found it between its creation and its lock, and is about to remove it."""
    answers = iter([False, True])
    monkeypatch.setattr(temporary, "_lock", lambda handle: next(answers))
    held = temporary.temporary_file(tmp_path)
    assert next(answers, None) is None  # the second file is the one in use
    assert len(list(tmp_path.iterdir())) == 2
    held.release()
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("made", [temporary_file, folder_next_to])
def test_an_interrupt_at_any_line_leaves_nothing(tmp_path, made):
    source, tracer = temporary.__file__, sys.gettrace()
    for line in itertools.count():
        to_go = line

        def interrupt(frame, event, _):
            nonlocal to_go
            if frame.f_code.co_filename != source:
                return None
            if event == "line":
                to_go -= 1
                if to_go < 0:
                    sys.settrace(tracer)
                    raise KeyboardInterrupt
            return interrupt

        try:
            sys.settrace(interrupt)
            made(tmp_path / "name" if made is folder_next_to else tmp_path).release()
        except KeyboardInterrupt:
            release_all()
            assert names(tmp_path) == [], f"after {line} lines"
        else:
            break
        finally:
            sys.settrace(tracer)
    assert line > 20
