"""The normal form of the linear part of a graph, after EinNet's derivation of tensor expressions.

Scalers, products, unions, sums, squares and look-ups are polynomials of degree 2 at most in the
columns of some leaves. So all of them between two nonlinear nodes are one polynomial, with one
matrix of weights, however many steps the source took. The files, in their order:

1. ``expand``: which nodes are the linear part, the region below some roots, and each root as a
   polynomial about a centre.
2. ``form``: that polynomial, and the products of two columns in it.
3. ``zeros``: the zeros of the region's scalers, about which a form may be centred.
4. ``evaluate``: the values of nodes in double-double, with a running bound of rounding.
5. ``derive``: expand the roots of a group, write them as nodes, and judge the result.

L. Zheng and others, "EINNET: Optimizing Tensor Programs with Derivation-Based Transformations",
OSDI 2023.
"""

from hbconv.optimize.normal_form.derive import Derived, derive, multiplications
from hbconv.optimize.normal_form.expand import LinearPart

__all__ = ["Derived", "LinearPart", "derive", "multiplications"]
