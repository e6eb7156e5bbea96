"""Ranks of values among thresholds, beside plain compares."""

import numpy as np
import pytest
import torch

from hbconv.backends.torch.tree_decisions import MAX_RANK, ComparedDecisions, RankedDecisions
from hbconv.backends.torch.tree_traversal import COLUMN_BITS, NodeSplits


def hurtful_rows(thresholds, dtype):
    """Return values on thresholds, one ulp beside them, and special ones."""
    t = thresholds.astype(dtype)
    beside = [np.nextafter(t, dtype(side)) for side in (-np.inf, np.inf)]
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324], dtype)
    return np.concatenate([t, *beside, special])


@pytest.mark.parametrize("kind", [ComparedDecisions, RankedDecisions])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "counts", [(1, 1), (1, 2, 0, 7), (2, 9, 3), (MAX_RANK, MAX_RANK + 1, 600, 1)]
)
def test_decisions_are_those_of_compares(kind, dtype, counts):
    rng = np.random.default_rng(0)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan]
    column = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    threshold = rng.normal(size=len(column)).astype(dtype)
    threshold[rng.permutation(len(threshold))[:5]] = special[: len(threshold)]
    order = rng.permutation(len(column))
    column, threshold = column[order], threshold[order]
    x = hurtful_rows(threshold[~np.isnan(threshold)], dtype)
    x = np.stack([rng.permutation(x) for _ in counts])

    decisions = kind(column, threshold)
    found = decisions(torch.from_numpy(x)).numpy()[decisions.of_split]

    assert found.dtype == np.int8
    np.testing.assert_array_equal(found[:-1].astype(bool), x[column] <= threshold[:, None])
    assert not found[-1].any()


@pytest.mark.parametrize("width", [3, 1 << COLUMN_BITS, (1 << COLUMN_BITS) + 50])
def test_nodes_tell_all_columns_apart(width):
    """Of more columns than 16 bits number, nodes are wider."""
    column = np.arange(width, dtype=np.int32)
    rng = np.random.default_rng(0)
    threshold = rng.normal(size=width)
    x = np.stack([threshold, np.nextafter(threshold, np.inf), *rng.normal(size=(5, width))], axis=1)

    splits = NodeSplits(column, threshold)
    values = splits(torch.from_numpy(x)).numpy()
    nodes = splits.find(column)
    found = nodes <= values[:, nodes & splits.last_column]

    np.testing.assert_array_equal(found.T, x <= threshold[:, None])
    assert nodes.dtype == (np.int64 if width > 1 << COLUMN_BITS else np.int32)
