"""The caches of a machine: as the system tells them, and how much of a table they miss."""

import pytest

from hbconv.cache import read_caches
from hbconv.cost_model import Caches, find_caches


def tell(folder, index, **files):
    (folder / f"index{index}").mkdir()
    for name, text in files.items():
        (folder / f"index{index}" / name).write_text(text)


def test_sizes_are_read_and_instructions_left_out(tmp_path):
    tell(tmp_path, 0, type="Data\n", level="1\n", size="48K\n")
    tell(tmp_path, 1, type="Instruction\n", level="1\n", size="64K\n")
    tell(tmp_path, 2, type="Unified\n", level="2\n", size="2048K\n")
    assert read_caches(tmp_path) == Caches(48 << 10, 2 << 20, Caches().level3)


@pytest.mark.parametrize("size", ["", "large", "12M", "K"])
def test_what_the_system_does_not_tell_is_the_common_size(tmp_path, size):
    tell(tmp_path, 0, type="Data\n", level="1\n", size=size)
    tell(tmp_path, 1, type="Unified\n", size="1K\n")
    assert read_caches(tmp_path) == Caches()
    assert read_caches(tmp_path / "nowhere") == Caches()


def test_this_machine_has_caches_that_grow():
    caches = find_caches()
    assert 0 < caches.level1 <= caches.level2 <= caches.level3


def test_shares_beyond_a_cache_grow_to_all():
    caches = Caches(1000, 10_000, 100_000)
    assert caches.beyond(0) == caches.beyond(1000) == (0, 0, 0)
    shares = [caches.beyond(10**exponent) for exponent in range(3, 9)]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx((1, 1, 1), abs=1e-2)
    assert shares[1] == (0.9, 0, 0)
