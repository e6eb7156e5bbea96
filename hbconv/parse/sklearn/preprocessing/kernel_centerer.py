"""KernelCenterer: centre a kernel matrix without computing the features."""

from __future__ import annotations

from typing import Any

from hbconv.containers import Add, Affine, Cast, GroupSums, Node
from hbconv.parse.registry import parses
from hbconv.parse.step import Step

__all__ = ["centre_kernel"]


@parses("sklearn.preprocessing.KernelCenterer")
def parse_kernel_centerer(step: Step) -> Node:
    """Centre the rows of a kernel."""
    return centre_kernel(step.require_finite(Cast(step.x, "float")), step.estimator)


def centre_kernel(kernel: Node, centerer: Any) -> Node:
    """Subtract the fitted column means and the row mean, then add the overall mean.

    ``kernel`` has shape (n_rows, n_fitted_rows); the result keeps its dtype.
    """
    n = len(centerer.K_fit_rows_)
    less_mean = Affine.of(GroupSums(kernel, 1), div=-float(n))
    centred = Add((Affine.in_place(kernel, sub=centerer.K_fit_rows_), less_mean))
    return Affine.of(centred, add=centerer.K_fit_all_)
