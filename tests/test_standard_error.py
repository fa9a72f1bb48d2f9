"""What a library writes about its failures stays off the terminal; everything else gets there."""

import os
from threading import Event, Thread

import polars as pl
import pytest
from support_prices import HEADER
from support_traces import write_trace

from gpuplan.analysis.storage.standard_error import silent_on, terminal


def test_what_is_held_back_is_dropped_with_the_error_alone(capfd):
    with silent_on(KeyError):
        os.write(2, b"kept\n")
        os.write(terminal(), b"at once\n")
    assert capfd.readouterr().err == "at once\nkept\n"
    with pytest.raises(KeyError), silent_on(KeyError):
        os.write(2, b"panicked\n")
        raise KeyError
    assert capfd.readouterr().err == ""
    with pytest.raises(ValueError, match="other"), silent_on(KeyError):
        os.write(2, b"before it\n")
        raise ValueError("other")
    assert capfd.readouterr().err == "before it\n"
    assert terminal() == 2


def test_blocks_of_two_threads_that_overlap_let_it_go_after_the_last(capfd):
    first, second = Event(), Event()

    def other():
        with silent_on(KeyError):
            first.set()
            second.wait()

    thread = Thread(target=other)
    thread.start()
    first.wait()
    with silent_on(KeyError):
        second.set()
        thread.join()
        os.write(2, b"held back\n")
    os.write(2, b"after both\n")
    assert capfd.readouterr().err == "held back\nafter both\n"
    assert terminal() == 2


def panic(*_, **__):
    os.write(2, b"thread 'tokio' panicked at bitmap.rs\n")
    raise pl.exceptions.PanicException("assertion failed")


def test_a_panic_at_a_damaged_file_is_one_message(gpuplan, tmp_path, monkeypatch, capfd):
    trace, table, offers = (tmp_path / name for name in ("t.parquet", "p.parquet", "p.csv"))
    write_trace(trace, range(5), [60.0] * 5)
    offers.write_text(f"{HEADER}\n2024-03-01T00:00:00Z,vast,A100,,marketplace,1,\n")
    assert gpuplan("prices", offers, "-o", table)[0] == 0
    monkeypatch.setattr("gpuplan.analysis.prices.price_table._canonical", panic)
    monkeypatch.setattr("gpuplan.analysis.trace.trace._as_canonical", panic)
    capfd.readouterr()
    code, _, err = gpuplan("characterize", trace)
    assert code == 3 and "t.parquet" in err
    monkeypatch.undo()
    monkeypatch.setattr("gpuplan.analysis.prices.price_table._canonical", panic)
    code, _, err = gpuplan("simulate", trace, "--prices", table)
    assert code == 3 and "p.parquet: is a damaged price table (assertion failed)" in err
    assert "panicked" not in capfd.readouterr().err


def test_flipped_bits_of_a_trace_bring_no_panic(gpuplan, tmp_path, capfd):
    path = tmp_path / "t.parquet"
    write_trace(path, range(40), [60.0] * 40, user=[f"u{i % 3}" for i in range(40)])
    whole = path.read_bytes()
    for place in range(4, len(whole), 36):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        assert gpuplan("characterize", path)[0] in (0, 3)
    assert "panicked" not in capfd.readouterr().err
