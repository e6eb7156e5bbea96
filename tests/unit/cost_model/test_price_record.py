"""Records of prices: read back whole and from this machine, or not at all."""

import json
import logging
import os
import sys
from dataclasses import asdict, replace
from importlib import metadata

import pytest

from hbconv.cost_model import (
    Caches,
    Factors,
    PriceRecord,
    describe_host,
    find_prices,
    find_record,
    show_prices,
)
from hbconv.cost_model import price_record as module
from hbconv.cost_model.price_record import (
    ENTRY,
    FORMAT,
    MEMBER,
    PACKAGES,
    describe_versions,
    forget_record,
    keep_record,
    read_record,
)
from hbconv.cost_model.shipped import KERNEL_PRICES, LOWERED_PRICES, PRIMITIVE_PRICES
from hbconv.system.cache import Cache
from hbconv.target import Target

TORCH = Target("torch")


@pytest.fixture
def record():
    factors = {"torch": Factors(products=2.0, trees=4.0)}
    return PriceRecord(describe_host(), describe_versions(), factors, "2026-01-31")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and nothing in memory before or after."""
    monkeypatch.setenv("HBCONV_CACHE", str(tmp_path / "cache"))
    find_record.cache_clear()
    yield Cache.chosen()
    find_record.cache_clear()


def write(cache, record, **changes):
    fields = {"format": FORMAT, **asdict(record), **changes}
    cache.write(ENTRY, {MEMBER: json.dumps(fields).encode()})


def test_the_suite_runs_at_the_shipped_prices():
    assert find_record() is None
    assert show_prices(TORCH) == "prices: shipped"


def test_a_record_is_read_back(cache, record):
    assert find_record() is None
    assert keep_record(record, cache)
    assert find_record() == record


def test_the_file_is_read_once(cache, record, monkeypatch):
    keep_record(record, cache)
    assert find_record() == record
    monkeypatch.setattr(module, "read_record", None)
    assert find_record() == record


def test_prices_are_multiplied(cache, record):
    keep_record(record, cache)
    found = find_prices(TORCH, "", native=False)
    shipped = PRIMITIVE_PRICES["torch"]
    doubled = {name: 2 * getattr(shipped, name) for name in ("multiplication", "padding")}
    assert found == replace(shipped, **doubled)
    assert find_prices(Target("torchscript"), "", native=False) == found
    kernel = find_prices(TORCH, "select", native=True)
    assert kernel.visit == 4 * KERNEL_PRICES["torch", "select"].visit
    assert kernel.operator == KERNEL_PRICES["torch", "select"].operator
    lowered = find_prices(TORCH, "gemm", native=False)
    assert lowered.sum == 4 * LOWERED_PRICES["torch", "gemm"].sum
    assert show_prices(TORCH) == "prices: of this machine, measured 2026-01-31"


@pytest.mark.parametrize("target", [Target("tvm"), Target("torch", device="cuda")], ids=str)
def test_what_was_not_measured_has_the_shipped_prices(cache, record, target):
    before = find_prices(target, "", native=False)
    keep_record(record, cache)
    assert find_prices(target, "", native=False) == before
    assert show_prices(target) == "prices: shipped"


HOSTILE = {
    "another format": {"format": 2},
    "no format": {"format": None},
    "factors in a list": {"factors": [1.0]},
    "a list of a backend": {"factors": {"torch": [1.0] * 6}},
    "no groups": {"factors": {"torch": {}}},
    "another group": {"factors": {"torch": {**asdict(Factors()), "more": 1.0}}},
    "a day of no calendar": {"day": "2026-02-31"},
    "a number for a day": {"day": 20260131},
    "a long day": {"day": "2026-01-31" * 1000},
    "another field": {"more": 1},
}
VALUES = (1, True, "1.0", None, {}, -1.0, 0.0, 1e308, float("nan"), float("inf"))


@pytest.mark.parametrize("changes", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_record_counts_as_none(cache, record, changes, caplog):
    write(cache, record)
    assert read_record(cache) == record
    write(cache, record, **changes)
    with caplog.at_level(logging.INFO):
        assert read_record(cache) is None
    assert "they are damaged" in caplog.text


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_hostile_factor_counts_as_none(cache, record, value):
    write(cache, record, factors={"torch": {**asdict(Factors()), "reads": value}})
    assert read_record(cache) is None
    assert find_prices(TORCH, "", native=False) == PRIMITIVE_PRICES["torch"]


@pytest.mark.parametrize("data", [b"", b"{", b"null", b"[" * 100_000, b"\xff", b"3"])
def test_a_damaged_file_counts_as_none(cache, data):
    cache.write(ENTRY, {MEMBER: data})
    assert read_record(cache) is None
    cache.write(ENTRY, {"another": b"{}"})
    assert read_record(cache) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("find_processor", "of another machine"),
        ("describe_versions", "of other versions"),
        ("find_caches", "of another machine"),
    ],
)
def test_another_machine_or_version_counts_as_none(
    cache, record, monkeypatch, caplog, name, reason
):
    keep_record(record, cache)
    other = {
        "find_processor": lambda: "another",
        "describe_versions": lambda: {**describe_versions(), "torch": "0.1"},
        "find_caches": lambda: Caches(level1=1),
    }
    monkeypatch.setattr(module, name, other[name])
    with caplog.at_level(logging.INFO):
        assert read_record(cache) is None
    assert reason in caplog.text


def test_limited_instructions_are_another_machine(cache, record, monkeypatch):
    keep_record(record, cache)
    monkeypatch.setenv("HBCONV_MACHINE", "/16")
    assert read_record(cache) is None


@pytest.mark.skipif(sys.platform == "win32", reason="folders of Windows tell no others apart")
@pytest.mark.parametrize("shared", ["file", "folder"])
def test_what_others_may_write_counts_as_none(cache, record, shared):
    keep_record(record, cache)
    path = cache.folder / ENTRY if shared == "file" else cache.folder
    os.chmod(path, path.stat().st_mode | 0o022)
    assert read_record(cache) is None


def test_no_cache_means_no_record(cache, record, monkeypatch):
    monkeypatch.setenv("HBCONV_CACHE", "0")
    assert not keep_record(record, Cache.chosen())
    assert find_record() is None


def test_a_record_is_forgotten(cache, record):
    keep_record(record, cache)
    assert find_record() == record
    assert forget_record(cache)
    assert find_record() is None
    assert not forget_record(cache)


def test_versions_are_those_of_the_metadata():
    found = describe_versions()
    for package in PACKAGES:
        try:
            assert found[package] == metadata.version(package)
        except metadata.PackageNotFoundError:
            assert package not in found


def test_the_first_of_two_installed_versions_counts(tmp_path, monkeypatch):
    (tmp_path / "Apache.TVM-9.9+cpu.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert describe_versions()["apache-tvm"] == "9.9+cpu"


def test_a_folder_that_is_missing_holds_none(monkeypatch):
    monkeypatch.setattr("sys.path", ["/no/such/folder"])
    assert describe_versions().keys() == {"python"}
