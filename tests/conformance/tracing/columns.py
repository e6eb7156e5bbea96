"""Functions of arrays that take, make, join and reduce columns, as notebooks write them."""

import itertools

import numpy as np

PAIRS = [(0, 1), (1, 2), (3, 4)]
ROTATION = np.array([[0.6, -0.8], [0.8, 0.6]])
WEIGHTS = np.linspace(-1, 1, 15).reshape(5, 3)
CENTRE = np.array([0.0, 30.0, 4.0, 0.0, 0.5])
BOXES = [(0, 2, 1.0), (2, 4, 0.5)]

ROOMS_IX, AGE_IX, SIZE_IX, GAP_IX = 0, 1, 2, 3


def add_extra_features(X, add_per_room=True):
    per_age = X[:, SIZE_IX] / X[:, AGE_IX]
    if add_per_room:
        per_room = X[:, SIZE_IX] / X[:, ROOMS_IX]
        return np.c_[X, per_age, per_room]
    return np.c_[X, per_age]


def column_ratio(X):
    return X[:, [0]] / X[:, [1]]


def all_pairs(x):
    made = [x]
    for i, j in itertools.combinations(range(x.shape[1]), 2):
        made.append((x[:, i] * x[:, j]).reshape(-1, 1))
    return np.hstack(made)


def named_pairs(x):
    return np.column_stack([x[:, i] - x[:, j] for i, j in PAIRS])


def polynomial(x):
    return np.concatenate([x**k for k in range(1, 4)], axis=1)


def vander(x):
    return np.vander(x[:, 0], 4)


def rotated(x):
    return x[:, :2] @ ROTATION


def projected(x):
    return np.dot(x - CENTRE, WEIGHTS)


def einsum_rows(x):
    return np.einsum("ij,jk->ik", x, WEIGHTS)


def weighted(x):
    return (x * CENTRE).sum(axis=1, keepdims=True)


def distances(x):
    return np.sqrt(((x - CENTRE) ** 2).sum(axis=1)).reshape(-1, 1)


def to_centres(x):
    centres = np.array([[0.0, 0.0], [1.0, 2.0], [-1.0, 5.0]])
    return np.linalg.norm(x[:, None, :2] - centres[None], axis=2)


def haversine(x):
    lat1, lon1, lat2, lon2 = (np.radians(x[:, j]) for j in range(4))
    a = np.sin((lat2 - lat1) / 2) ** 2
    a = a + np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
    return (2 * 6371 * np.arcsin(np.sqrt(np.clip(a, 0, 1))))[:, np.newaxis]


def manhattan(x):
    return (np.abs(x[:, 0] - x[:, 2]) + np.abs(x[:, 1] - x[:, 3])).reshape(-1, 1)


def bearing(x):
    return np.degrees(np.arctan2(x[:, 1], x[:, 0]))[:, None] % 360


def polar(x):
    radius = np.hypot(x[:, 0], x[:, 1])
    return np.stack((radius, np.arctan2(x[:, 1], x[:, 0])), axis=-1)


def row_statistics(x):
    return np.column_stack((x.mean(axis=1), x.std(axis=1), x.min(axis=1), x.max(axis=1)))


def nan_statistics(x):
    return np.c_[np.nanmean(x, axis=1), np.nanmax(x, axis=1), np.isnan(x).sum(axis=1)]


def row_median(x):
    return np.median(x, axis=1, keepdims=True)


def row_quantiles(x):
    return np.percentile(x, [25, 75], axis=1).T


def row_range(x):
    return np.ptp(x, axis=1).reshape(-1, 1)


def shares(x):
    positive = np.abs(x)
    return positive / positive.sum(axis=1, keepdims=True)


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def unit_length(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def row_centred(x):
    return x - np.mean(x, axis=1)[:, None]


def row_standard(x):
    return (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)


def largest_place(x):
    return np.argmax(x, axis=1).reshape(-1, 1)


def sorted_rows(x):
    return np.sort(x, axis=1)


def ranks_in_rows(x):
    return np.argsort(x, axis=1)


def running_sums(x):
    return np.cumsum(x, axis=1)


def running_products(x):
    return np.cumprod(x[:, :3], axis=1)


def differences(x):
    return np.diff(x, axis=1)


def growth(x):
    return x[:, 1:] / x[:, :-1] - 1


def gradient_rows(x):
    return np.gradient(x, axis=1)


def count_positive(x):
    return (x > 0).sum(axis=1).reshape(-1, 1)


def count_nonzero(x):
    return np.count_nonzero(x, axis=1)[:, None]


def any_missing(x):
    return np.isnan(x).any(axis=1).astype(int)[:, None]


def all_above(x):
    return np.all(x[:, :3] > 0, axis=1)[:, None]


def filled_by_row_mean(x):
    mean = np.nanmean(x, axis=1, keepdims=True)
    return np.where(np.isnan(x), mean, x)


def first_known(x):
    return np.where(np.isnan(x[:, 0]), x[:, 1], x[:, 0]).reshape(-1, 1)


def dropped(x):
    return np.delete(x, [1, 3], axis=1)


def inserted(x):
    return np.insert(x, 0, 1.0, axis=1)


def reversed_columns(x):
    return x[:, ::-1]


def swapped(x):
    out = x.copy()
    out[:, [0, 1]] = x[:, [1, 0]]
    return out


def intercept_first(x):
    return np.hstack((np.ones((x.shape[0], 1)), x))


def padded(x):
    return np.pad(x, ((0, 0), (1, 0)), constant_values=1.0)


def appended(x):
    return np.append(x, x[:, [0]] + x[:, [1]], axis=1)


def tiled(x):
    return np.tile(x[:, :2], (1, 3)) * np.repeat([1.0, 2.0, 3.0], 2)


def repeated(x):
    return np.repeat(x[:, :2], 2, axis=1)


def rolled(x):
    return x - np.roll(x, 1, axis=1)


def split_halves(x):
    left, right = np.split(x[:, :4], 2, axis=1)
    return left * right


def windows(x):
    return np.stack([x[:, k : k + 3].mean(axis=1) for k in range(3)], axis=1)


def basis(x):
    centres = np.arange(-2, 3)
    return np.exp(-((x[:, :1] - centres) ** 2))


def fourier(x):
    k = np.arange(1, 4)
    return np.hstack([np.sin(x[:, [0]] * k), np.cos(x[:, [0]] * k)])


def one_hot_digit(x):
    return (np.floor(x[:, [1]] / 20) == np.arange(5)).astype(float)


def quadrant(x):
    return ((x[:, 0] > 0) * 2 + (x[:, 1] > 30)).reshape(-1, 1)


def compound(x):
    out = np.zeros((len(x), 3))
    out[:, 0] = x[:, 0] + x[:, 1]
    out[:, 1] = np.where(x[:, 4] > 0, x[:, 2], x[:, 3])
    out[out[:, 1] < 0, 2] = 1
    return out


def boxes(x):
    parts = []
    for start, stop, weight in BOXES:
        parts.append(weight * x[:, start:stop].sum(axis=1))
    return np.array(parts).T


def by_transposed(x):
    a, b, *_ = x.T
    return np.vstack([a + b, a - b]).T


def along_axis(x):
    return np.apply_along_axis(lambda row: np.array([row[0] + row[1], row[2]]), 1, x)


def listed_rows(x):
    return np.array([[row[0] * 2, row[1]] for row in x])


def outer_rows(x):
    return (x[:, :2, None] * x[:, None, 2:4]).reshape(len(x), -1)


def triangle(x):
    i, j = np.triu_indices(3)
    return x[:, i] * x[:, j]


def averaged(x):
    return np.average(x, axis=1, weights=[1, 2, 3, 2, 1]).reshape(-1, 1)


def trapezoid(x):
    return ((x[:, 1:] + x[:, :-1]) / 2).sum(axis=1)[:, None]


def entropy(x):
    p = np.abs(x) + 1e-9
    p /= p.sum(axis=1, keepdims=True)
    return -(p * np.log(p)).sum(axis=1, keepdims=True)


def take_columns(x):
    return np.take(x, [0, 2], axis=1)


def checked_width(X):
    X = np.asarray(X, dtype=np.float64)
    if X.ndim == 1:
        X = X.reshape(-1, 1)
    _n, k = X.shape
    assert k == 5, "five columns"
    return X[:, :3]


ROWS = {
    f.__name__: f
    for f in (
        add_extra_features, column_ratio, all_pairs, named_pairs, polynomial, vander, rotated,
        projected, einsum_rows, weighted, distances, to_centres, haversine, manhattan, bearing,
        polar, row_statistics, nan_statistics, row_median, row_quantiles, row_range, shares,
        softmax, unit_length, row_centred, row_standard, largest_place, sorted_rows,
        ranks_in_rows, running_sums, running_products, differences, growth, gradient_rows,
        count_positive, count_nonzero, any_missing, all_above, filled_by_row_mean, first_known,
        dropped, inserted, reversed_columns, swapped, intercept_first, padded, appended, tiled,
        repeated, rolled, split_halves, windows, basis, fourier, one_hot_digit, quadrant,
        compound, boxes, by_transposed, along_axis, listed_rows, outer_rows, triangle, averaged,
        trapezoid, entropy, take_columns, checked_width,
    )
}  # fmt: skip
