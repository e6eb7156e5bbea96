"""The processor: as the system tells it, or as nothing does."""

import pytest

from hbconv.system import processor
from hbconv.system.processor import (
    Caches,
    find_caches,
    find_flags,
    find_processor,
    read_caches,
)


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


LINUX = "processor\t: 0\nmodel name\t: Fast 9\nflags\t\t: fpu avx2 fma\nflags\t\t: fpu\n"


def test_linux_tells_a_name_and_instructions(tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text(LINUX)
    monkeypatch.setattr(processor, "PROCESSOR", tmp_path / "cpuinfo")
    monkeypatch.setattr(processor.platform, "system", lambda: "Linux")
    assert find_processor() == "Fast 9"
    assert find_flags() == {"fpu", "avx2", "fma"}


def test_linux_tells_the_instructions_of_arm_as_features(tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nFeatures\t: fp asimd sve\n")
    monkeypatch.setattr(processor, "PROCESSOR", tmp_path / "cpuinfo")
    monkeypatch.setattr(processor.platform, "system", lambda: "Linux")
    assert find_flags() == {"fp", "asimd", "sve"}


@pytest.mark.parametrize("system", ["Linux", "Windows", "Darwin"])
def test_a_system_that_tells_nothing_has_a_name_and_no_instructions(tmp_path, monkeypatch, system):
    monkeypatch.setattr(processor, "PROCESSOR", tmp_path / "cpuinfo")
    monkeypatch.setattr(processor, "SYSCTL", str(tmp_path / "sysctl"))
    monkeypatch.setattr(processor.platform, "system", lambda: system)
    assert processor.platform.machine() in find_processor()
    assert find_flags() == frozenset()


def test_macos_tells_instructions_by_a_program(tmp_path, monkeypatch):
    program = tmp_path / "sysctl"
    program.write_text("#!/bin/sh\necho AVX2 FMA; echo BMI1\n")
    program.chmod(0o755)
    monkeypatch.setattr(processor, "SYSCTL", str(program))
    monkeypatch.setattr(processor.platform, "system", lambda: "Darwin")
    assert find_flags() == {"avx2", "fma", "bmi1"}
