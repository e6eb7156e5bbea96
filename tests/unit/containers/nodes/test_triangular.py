"""Triangular systems are solved with the error of a substitution, however near to singular."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from hbconv.array import Array
from hbconv.backends.reference import evaluate
from hbconv.containers import Columns, Graph, Output, Schema, TriangularSolution
from hbconv.lower import lower


def test_digits_are_left_that_a_product_with_the_inverse_loses():
    """The condition is about 1e6; the squares of a solution add up to nearly 1."""
    points = np.sort(np.random.default_rng(0).normal(size=80))
    kernel = np.exp(-(np.subtract.outer(points, points) ** 2) / 2)
    triangle = cholesky(kernel + 1e-10 * np.eye(80), lower=True)
    x = kernel[:20]
    graph_x = Columns.of(Schema.matrix(80))
    graph = Graph(
        graph_x.schema, {"transform": Output(TriangularSolution(graph_x, Array(triangle)))}
    )
    left = {
        "source": solve_triangular(triangle, x.T, lower=True).T,
        "here": evaluate(lower(graph).program, {"x": x})["transform"],
        "inverse": x @ np.linalg.inv(triangle).T,
    }
    left = {name: 1 - np.sum(found**2, axis=1) for name, found in left.items()}
    assert np.abs(left["here"] - left["source"]).max() < 1e-14
    assert np.abs(left["inverse"] - left["source"]).max() > 1e-13


def test_a_matrix_of_another_width_is_no_fit():
    x = Columns.of(Schema.matrix(2))
    assert TriangularSolution(x, Array(np.eye(2))).check() is None
    assert "shape (3, 3)" in TriangularSolution(x, Array(np.eye(3))).check()
