"""The rows made to hurt do lie where tests of trees switch."""

import numpy as np
import pytest
from optimizer.chains import CHAINS, chain_rows, fitted_chain
from optimizer.hurting import Before, fitted_values, hurting_rows, switch_points

ROWS = 200


def points_of(estimator, rows):
    return switch_points(estimator, rows, np.random.default_rng(0), 40)


@pytest.mark.parametrize("chain", CHAINS)
def test_trees_take_another_side_just_above_a_switch_point(chain):
    estimator, rows = fitted_chain(chain, "forest"), chain_rows(chain, ROWS, 1)
    before = Before(estimator, rows)
    points = points_of(estimator, rows)
    assert sum(map(len, points)) >= 6
    for column, values in enumerate(points):
        base = np.nan_to_num(np.repeat(rows[:1], len(values), axis=0))
        below, above = base.copy(), base.copy()
        below[:, column], above[:, column] = values, np.nextafter(values, np.inf)
        switched = [sides(before, b) != sides(before, a) for b, a in zip(below, above, strict=True)]
        assert all(switched)


def sides(before, row):
    """Return the side of every threshold that a row takes."""
    found = []
    for node, values in zip(before.inputs, before(row[None]), strict=True):
        for column, value in enumerate(values[0]):
            thresholds = before.thresholds(node, column) if is_tested(before, node, column) else []
            found += [bool(value <= t) for t in thresholds]
    return found


def is_tested(before, node, column):
    return any(column in f.forest.feature.data for f in before.forests if f.inputs[0] is node)


def test_fills_and_knots_are_among_the_values():
    imputed = fitted_chain("imputed, quantiles", "forest")
    values = fitted_values(imputed, 4)
    for column, own in enumerate(values):
        assert imputed[0].statistics_[column] in own
        assert set(imputed[1].quantiles_[:, column]) <= set(own)


def test_rows_hold_switch_points_their_neighbours_and_special_values():
    chain = "imputed, standard"
    estimator, rows = fitted_chain(chain, "forest"), chain_rows(chain, ROWS, 1)
    points = points_of(estimator, rows)
    made = hurting_rows(estimator, rows, 2000, missing=True)
    for column, own in enumerate(points):
        assert np.isin(own, made[:, column]).mean() > 0.5
        assert np.isin(np.nextafter(own, np.inf), made[:, column]).mean() > 0.5
        assert np.isnan(made[:, column]).any()
        zeros = made[made[:, column] == 0, column]
        assert set(np.signbit(zeros)) == {True, False}
