"""Records: what is read back, and what counts as none."""

import dataclasses
import json

import pytest

from hbconv.cost_model.tuning_record import Tuning, TuningRecord, read_record, write_record

RECORD = TuningRecord("key", "b", {"a": 2e-3, "b": 1e-3}, 8, "2026-01-31")


def test_a_record_is_read_back():
    assert read_record(write_record(RECORD), "key") == RECORD
    assert (
        str(RECORD)
        == "b took 1.000 ms against a 2.000 ms (8 rows a call, timed here on 2026-01-31)"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"key": "another"},
        {"chosen": "c"},
        {"chosen": None},
        {"chosen": ["b"]},
        {"seconds": {"b": -1.0}},
        {"seconds": {"b": 0.0}},
        {"seconds": {"b": 1}},
        {"seconds": {"b": "1"}},
        {"seconds": {}},
        {"seconds": [["b", 1.0]]},
        {"seconds": {"b": 1.0, "x" * 10_001: 1.0}},
        {"rows": 0},
        {"rows": True},
        {"rows": 1.5},
        {"day": "yesterday"},
        {"day": "20260131"},
        {"day": 20260131},
        {"more": 1},
    ],
)
def test_what_no_timing_writes_counts_as_none(change):
    data = json.dumps({**dataclasses.asdict(RECORD), **change}).encode()
    assert read_record(data, "key") is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'{"key": "key"}',
        b'{"seconds": Infinity}',
    ],
)
def test_damage_counts_as_none(data):
    assert read_record(data, "key") is None


def test_times_that_are_no_numbers_count_as_none():
    for word in (b"NaN", b"Infinity"):
        assert read_record(write_record(RECORD).replace(b"0.002", word), "key") is None


def test_records_of_a_model_file_are_looked_at_too():
    unsound = dataclasses.replace(RECORD, seconds={"b": 0.0})
    assert Tuning((RECORD,)).find("key") == RECORD
    assert Tuning((unsound,)).find("key") is None
    assert Tuning((RECORD,)).find("another") is None
