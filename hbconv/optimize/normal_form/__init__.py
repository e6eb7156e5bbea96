"""The normal form of the linear part of a graph, after EinNet's derivation of tensor expressions.

Scalers, products, unions, sums, squares and look-ups are polynomials of degree 2 at most in the
columns of some leaves. So all of them between two nonlinear nodes are one polynomial, with one
matrix of weights, however many steps the source took. The files, in their order:

1. ``linear_part``: which nodes belong to it, and the roots at which others read them.
2. ``region``: what lies between some roots and their leaves.
3. ``zeros``: the zeros of its scalers, about which a form may be centred.
4. ``expand``: the ``form`` of a root; ``products`` hands on the weights of products of columns.
5. ``instance`` writes it as nodes: a product over columns and squares, a full quadratic form where
   columns are multiplied with each other, and a look-up.
6. ``verify`` judges the result on the rows of ``probe``, with ``evaluate`` in ``double_double``.
7. ``derive`` does all that for a group of roots.

L. Zheng and others, "EINNET: Optimizing Tensor Programs with Derivation-Based Transformations",
OSDI 2023.
"""

from hbconv.optimize.normal_form.derive import Derived, derive, multiplications
from hbconv.optimize.normal_form.expand import LinearPart

__all__ = ["Derived", "LinearPart", "derive", "multiplications"]
