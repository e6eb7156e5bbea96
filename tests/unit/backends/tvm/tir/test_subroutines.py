"""Subroutines: compiled once for all programs that share one, and for all models of a kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from forests import hostile_rows, random_forest

from hbconv.array import Array
from hbconv.backends.reference import evaluate
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.binary import build
from hbconv.backends.tvm.binary.code_generation import compile_functions
from hbconv.target import Target
from hbconv.tensor import Builder


def program_of(forest, finish=lambda scores: scores):
    b = Builder()
    return b.program(
        {
            "y": finish(
                b.op(
                    "tree_scores",
                    b.input("x", "float32", forest.n_features),
                    forest=forest,
                    strategy="select",
                )
            )
        }
    )


def forest_of(n_trees, seed=0):
    return random_forest(np.random.default_rng(seed), n_trees=n_trees, max_depth=3)


@pytest.fixture
def compiled(monkeypatch):
    """Names of the functions that are compiled."""
    monkeypatch.setenv("HBCONV_CACHE", "0")
    build._build.cache_clear()
    build._object.cache_clear()
    names, real = [], compile_functions
    for module in (build, build):
        monkeypatch.setattr(
            module,
            "compile_functions",
            lambda functions, machine: names.extend(functions) or real(functions, machine),
        )
    return names


def check(forest, program, finish=lambda scores: scores):
    x = hostile_rows(np.random.default_rng(1), forest, "float32", 70)
    np.testing.assert_array_equal(
        BACKEND.compile(program, Target("tvm")).run({"x": x})["y"], finish(forest.scores(x))
    )


def test_programs_share_the_code_of_their_trees(compiled):
    forest = forest_of(20)
    check(forest, program_of(forest))
    check(
        forest, program_of(forest, lambda scores: scores + scores), lambda scores: scores + scores
    )
    assert compiled == ["hbconv_kernel", "hbconv_kernel_part0", "hbconv_kernel"]


def test_models_of_a_kind_share_their_code(compiled):
    """One of them has more trees, so that its tables are longer and lie elsewhere."""
    for forest in (forest_of(200), forest_of(300, seed=1)):
        check(forest, program_of(forest))
    assert compiled == ["hbconv_kernel", "hbconv_kernel_part0"]


def test_a_program_calls_one_part_twice_and_another(compiled):
    forest = forest_of(40)
    other = replace(forest, values=Array(forest.values.data * 3))
    wide = random_forest(np.random.default_rng(2), n_trees=3, max_depth=9)
    b = Builder()
    x = b.input("x", "float32", forest.n_features)
    scores = {
        f"y{i}": b.op("tree_scores", x, forest=each, strategy="select")
        for i, each in enumerate((forest, wide, other))
    }
    rows = hostile_rows(np.random.default_rng(1), forest, "float32", 300)
    found = BACKEND.compile(b.program(scores), Target("tvm")).run({"x": rows})
    for name, each in zip(scores, (forest, wide, other), strict=True):
        np.testing.assert_array_equal(found[name], each.scores(rows))
    assert compiled == ["hbconv_kernel", "hbconv_kernel_part0", "hbconv_kernel_part1"]


def test_without_a_library_parts_are_compiled_together(compiled, monkeypatch):
    monkeypatch.setattr(build, "make_libraries", lambda _: ())
    check(forest_of(20), program_of(forest_of(20)))
    assert compiled[2:] == ["__tvm_ffi_call", "hbconv_kernel", "hbconv_kernel_part0"]


def test_trees_read_a_constant():
    forest = forest_of(20)
    b = Builder()
    x = b.input("x", "float32", 1)
    row = np.linspace(-2, 2, forest.n_features, dtype=np.float32)
    repeated = b.op("expand", x, b.constant(row, "float32"))
    program = b.program({"y": b.op("tree_scores", repeated, forest=forest, strategy="select")})
    found = BACKEND.compile(program, Target("tvm")).run({"x": np.zeros((5, 1), np.float32)})["y"]
    np.testing.assert_array_equal(found, forest.scores(np.tile(row, (5, 1))))


def rounds(n_rounds, n_columns=5):
    """Impute one column after the other from the rest; columns of some rounds are outputs too."""
    b, rng = Builder(), np.random.default_rng(3)
    x = b.input("x", "float64", n_columns)
    columns = [b.take(x, np.array([i], np.int32)) for i in range(n_columns)]
    outputs = {}
    for turn in range(n_rounds):
        j, others = turn % n_columns, rng.permutation(n_columns)[:3]
        product = b.matmul(
            b.concat([columns[i] for i in others]), b.constant(rng.normal(size=(3, 1)) / 3)
        )
        columns[j] = b.where(columns[j] > b.constant([0.5]), product, columns[j])
        if turn % 20 == 7:
            outputs[f"y{turn}"] = columns[j]
    return b.program({**outputs, "y": b.concat(columns)})


def test_rounds_share_their_code(compiled):
    """Weights, and where columns lie, are data."""
    program, x = rounds(60), np.random.default_rng(4).normal(size=(70, 5))
    got, want = BACKEND.compile(program, Target("tvm")).run({"x": x}), evaluate(program, {"x": x})
    assert compiled == ["hbconv_kernel", "hbconv_kernel_part0"]
    for name in program.outputs:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-12)


def test_long_programs_read_rows_and_entries_where_they_lie():
    """Products of a scaled input stay with the caller; many steps on each entry are outlined."""
    b, x = Builder(), np.random.default_rng(4).normal(size=(70, 8))
    rows = b.input("x", "float64", 8)
    scaled = rows * b.constant(np.arange(8.0))
    sums = [b.matmul(scaled, b.constant(np.eye(8)[:, [i % 8]] * (i + 1))) for i in range(60)]
    near = b.op("abs", b.concat(sums))
    far = rows
    for i in range(60):
        far = b.op("abs", far - b.constant([i / 60]))
    for program in (b.program({"near": near}), b.program({"far": far})):
        got, want = (
            BACKEND.compile(program, Target("tvm")).run({"x": x}),
            evaluate(program, {"x": x}),
        )
        assert {name: np.array_equal(got[name], want[name]) for name in want} == dict.fromkeys(
            want, True
        )
