"""Trees in preorder as one bit a node: whether it is a test.

Libraries that grow trees depth first number their nodes so, and scikit-learn is one of them. Then
the bits tell all children, and a file needs no other numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.trees.forest import Forest
from hbconv.trees.forest_check import follow_links

__all__ = ["LINKS", "PARENT", "find_preorder", "links_of_preorder"]

LINKS = ("left", "right", "roots", "first_leaf")
"""Fields of a forest that the bits tell."""
PARENT = "parent"
"""The node above each node, -1 above a root, which the bits tell too."""
Ints = npt.NDArray[np.int64]


def find_preorder(forest: Forest) -> npt.NDArray[np.bool_] | None:
    """Return whether each node is a test, tree after tree in preorder; None if numbered otherwise.

    Before a test come the tests of smaller numbers, and the leaves before the first one below it.
    """
    first_leaf = ~follow_links(forest.left.data.astype(np.int64))
    is_test = np.zeros(forest.n_tests + forest.n_leaves, np.bool_)
    is_test[np.minimum(np.arange(forest.n_tests) + first_leaf, len(is_test) - 1)] = True
    if np.count_nonzero(is_test) != forest.n_tests or not _are_trees(is_test):
        return None
    links = links_of_preorder(is_test)
    same = all(np.array_equal(links[name].data, getattr(forest, name).data) for name in LINKS)
    return is_test if same else None


def links_of_preorder(is_test: npt.NDArray[np.bool_]) -> dict[str, Array]:
    """Return the children of each test, the roots, the first leaf of each tree, and all parents.

    1. Before each node, count tests less leaves: the count grows to the left child of a test, and
       is back at the right one. So the right child is the next node of the same count.
    2. A tree begins where the count is lower than ever before.

    Raises
    ------
    ValueError
        The nodes end within a tree.

    Examples
    --------
    >>> links = links_of_preorder(np.array([True, False, True, False, False]))
    >>> links["right"].data.tolist(), links["parent"].data.tolist()
    ([1, -3], [-1, 0, 0, 2, 2])
    """
    if not _are_trees(is_test):
        raise ValueError("the nodes of a forest end within a tree")
    tests_before = np.cumsum(is_test, dtype=np.int32) - is_test
    codes = np.where(is_test, tests_before, tests_before - np.arange(len(is_test)) - 1)
    count = 2 * tests_before - np.arange(len(is_test))  # 1
    following = _next_alike(count)
    tests = np.flatnonzero(is_test)
    starts = np.flatnonzero(count < np.minimum.accumulate(np.append(1, count))[:-1])  # 2
    leaves_before = starts - tests_before[starts]
    n_leaves = len(is_test) - len(tests)
    parent = np.full(len(is_test), -1, np.int32)
    parent[tests + 1] = parent[following[tests]] = tests
    links = {
        PARENT: parent,
        "left": codes[tests + 1],
        "right": codes[following[tests]],
        "roots": codes[starts],
        "first_leaf": np.append(leaves_before, n_leaves),
    }
    return {name: Array.of(link, np.int32) for name, link in links.items()}


def _are_trees(is_test: npt.NDArray[np.bool_]) -> bool:
    """Whether the last tree is whole: behind all nodes the count is lower than ever before."""
    count = np.cumsum(np.where(is_test, 1, -1))
    return not len(count) or bool(count[-1] < np.append(0, count[:-1]).min())


def _next_alike(numbers: Ints) -> Ints:
    """Return the place of the next equal number, or the own place where none follows."""
    lowest = int(numbers.min(initial=0))
    # Numbers of 16 bits are sorted by counting: 25 ms for 2 million.
    narrow = np.min_scalar_type(int(numbers.max(initial=0)) - lowest)
    order = np.argsort((numbers - lowest).astype(narrow), kind="stable")
    following = np.arange(len(numbers))
    alike = np.flatnonzero(numbers[order[1:]] == numbers[order[:-1]])
    following[order[alike]] = order[alike + 1]
    return following
