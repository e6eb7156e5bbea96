"""Machines: the environment variable limits the host; vectors do not depend on its level."""

from __future__ import annotations

import pytest

from hbconv.backends.tvm.binary.cache_key import function_key
from hbconv.backends.tvm.machine.machine import LEVELS, VECTOR, VECTORS, Machine
from hbconv.errors import OptionError


def named(monkeypatch, value):
    monkeypatch.setenv("HBCONV_MACHINE", value)
    return Machine.host()


def test_vectors_are_as_long_as_registers_unless_told_otherwise():
    assert {level: Machine(level).vector for level in LEVELS} == {
        level: VECTOR.get(level, 16) for level in LEVELS
    }
    assert (
        Machine("x86-64-v3") == Machine("x86-64-v3", vector=32) != Machine("x86-64-v3", vector=64)
    )


@pytest.mark.parametrize("vector", VECTORS)
def test_the_variable_names_a_level_and_a_vector(vector, monkeypatch):
    host = named(monkeypatch, "")
    assert named(monkeypatch, f"/{vector}") == Machine(
        host.level, host.extras, host.level1, host.level2, host.level3, host.cores, vector
    )
    least = named(monkeypatch, f"{host.architecture}/{vector}")
    assert (least.level, least.vector, least.extras) == (host.architecture, vector, frozenset())
    assert host.runs(least)


@pytest.mark.parametrize("value", ["/24", "x86-64/", "/", "/128", "x86-64/64/64"])
def test_vectors_of_other_sizes_are_refused(value, monkeypatch):
    with pytest.raises(OptionError, match=r"after the slash.*Known: 16, 32, 64"):
        named(monkeypatch, value)


def test_shuffles_are_chosen_by_a_flag():
    shuffles = {
        (level, vector): Machine(level, vector=vector).shuffles
        for level in LEVELS
        for vector in VECTORS
    }
    assert {level for level, vector in shuffles if shuffles[level, vector]} == {
        "x86-64-v3",
        "x86-64-v4",
    }
    assert all(
        shuffles["x86-64-v3", vector] and not shuffles["x86-64", vector] for vector in VECTORS
    )


def test_code_is_kept_under_the_bytes_of_its_vectors():
    assert len(
        {function_key("main", "", Machine("x86-64-v3", vector=vector)) for vector in VECTORS}
    ) == len(VECTORS)
