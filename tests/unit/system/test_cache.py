"""The cache of files; the entries of compiled code have tests of their own."""

import sys

import hbconv.system.cache as cache_module
from hbconv.system.cache import Cache


def test_an_entry_is_removed_once(tmp_path):
    cache = Cache(tmp_path / "cache")
    cache.write("key", {"a": b"1"})
    assert cache.remove("key")
    assert cache.read("key") is None
    assert not cache.remove("key")


def test_nothing_is_removed_where_nothing_is_kept(tmp_path):
    assert not Cache(None).remove("key")
    assert not Cache(tmp_path / "missing").remove("key")


def test_without_the_package_that_knows_the_folder_nothing_is_kept(monkeypatch):
    monkeypatch.delenv("HBCONV_CACHE")
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    assert Cache.chosen().folder is None


def test_entries_are_listed_seldom(tmp_path, monkeypatch):
    """Listing them at each write took longer than compiling, once there were thousands."""
    listed = []
    real = cache_module._entries
    monkeypatch.setattr(
        cache_module, "_entries", lambda folder: listed.append(folder) or real(folder)
    )
    cache = Cache(tmp_path / "cache", limit=64_000)
    for position in range(200):
        cache.write(f"{position}", {"a": bytes(400)})
    assert 2 <= len(listed) < 110
    assert sum(path.stat().st_size for path in cache.folder.iterdir()) <= 64_000 * (1 + 1 / 32)
