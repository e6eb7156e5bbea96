"""Records on disk: under the same rules of trust as compiled code."""

import os
import sys

import pytest

from hbconv.cost_model.tuning_record import TuningRecord, write_record
from hbconv.runtime.timing.tune import MEMBER, RecordCache
from hbconv.system.cache import Cache

KEY = "0" * 64
RECORD = TuningRecord(KEY, "b", {"a": 2e-3, "b": 1e-3}, 8, "2026-01-31")


@pytest.fixture
def cache(tmp_path):
    found = RecordCache(Cache(tmp_path / "cache"))
    found.write(RECORD)
    return found


def entry(tmp_path):
    (path,) = (tmp_path / "cache").iterdir()
    return path


def test_a_record_is_read_back(cache):
    assert cache.read(KEY) == RECORD
    assert cache.read("1" * 64) is None


def test_damage_counts_as_none(cache, tmp_path):
    path = entry(tmp_path)
    whole = path.read_bytes()
    for damaged in (b"", whole[:-9], whole.replace(b"2026", b"2O26")):
        path.write_bytes(damaged)
        assert cache.read(KEY) is None


def test_a_record_under_another_name_counts_as_none(cache, tmp_path):
    path = entry(tmp_path)
    path.rename(path.with_name(path.name.replace("0", "1")))
    assert cache.read("1" * 64) is None


def test_an_archive_of_a_hostile_record_counts_as_none(tmp_path):
    files = Cache(tmp_path / "cache")
    for data in (b"null", write_record(RECORD).replace(b"0.002", b"-1.0")):
        files.write(f"times-{KEY}", {MEMBER: data})
        assert RecordCache(files).read(KEY) is None
    files.write(f"times-{KEY}", {"another": b"{}"})
    assert RecordCache(files).read(KEY) is None


@pytest.mark.skipif(sys.platform == "win32", reason="folders of Windows tell no others apart")
@pytest.mark.parametrize("shared", ["file", "folder"])
def test_what_others_may_write_counts_as_none(cache, tmp_path, shared):
    path = entry(tmp_path) if shared == "file" else tmp_path / "cache"
    os.chmod(path, path.stat().st_mode | 0o022)
    assert cache.read(KEY) is None


def test_no_cache_keeps_nothing(monkeypatch):
    monkeypatch.setenv("HBCONV_CACHE", "0")
    cache = RecordCache()
    cache.write(RECORD)
    assert cache.read(KEY) is None
