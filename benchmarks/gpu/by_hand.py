"""What fitted models compute, in the lines of torch that one would write by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["Made", "gaussian_process", "linear", "neighbours", "network", "support_vectors"]

Made = Callable[[Tensor], Any]


def neighbours(model: Any, put: Any) -> Made:
    """Five nearest of all points, by one product; then the class that most of them have."""
    points = put(model._fit_X)  # noqa: SLF001
    labels = torch.as_tensor(model._y, device=points.device)  # noqa: SLF001
    squares = (points * points).sum(1)

    def call(x: Tensor) -> Tensor:
        distances = torch.addmm(squares, x, points.T, alpha=-2)
        return labels[distances.topk(5, largest=False).indices].mode(1).values

    return call


def support_vectors(model: Any, put: Any) -> Made:
    """Return the sum over support vectors of a Gaussian of their distance."""
    points = put(model.support_vectors_)
    weights = put(model.dual_coef_[0])
    squares = (points * points).sum(1)
    gamma, offset = float(model._gamma), float(model.intercept_[0])  # noqa: SLF001

    def call(x: Tensor) -> Tensor:
        distances = torch.addmm(squares, x, points.T, alpha=-2) + (x * x).sum(1, keepdim=True)
        return torch.exp(-gamma * distances) @ weights + offset

    return call


def gaussian_process(model: Any, put: Any) -> Made:
    """Return the product of a kernel matrix and the weights of its points."""
    points, weights = put(model.X_train_), put(model.alpha_)
    length = float(model.kernel_.length_scale)

    def call(x: Tensor) -> Tensor:
        return torch.exp(-0.5 * (torch.cdist(x, points) / length) ** 2) @ weights

    return call


def linear(model: Any, put: Any) -> Made:
    """Return the softmax of one product."""
    weights, bias = put(model.coef_.T.copy()), put(model.intercept_)
    return lambda x: torch.softmax(torch.addmm(bias, x, weights), 1)


def network(model: Any, put: Any) -> Made:
    """Return the layers of a network, one after another."""
    layers = [*zip(map(put, model.coefs_), map(put, model.intercepts_), strict=True)]

    def call(x: Tensor) -> Tensor:
        for weights, bias in layers[:-1]:
            x = torch.relu(torch.addmm(bias, x, weights))
        return torch.softmax(torch.addmm(layers[-1][1], x, layers[-1][0]), 1)

    return call
