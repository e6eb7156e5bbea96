"""Estimators that cannot answer new rows, each with the reason that ``find_parser`` gives."""

from __future__ import annotations

__all__ = ["UNPREDICTIVE"]

_LABELS_FITTED = "it labels the rows it was fitted on and has no rule for others"
_PLACES_FITTED = (
    "it places the rows it was fitted on relative to each other and has no rule for others"
)
_BLOCKS_FITTED = (
    "it groups rows and columns of the one matrix it was fitted on and has no rule for other rows"
)
_TOGETHER = "it answers rows together, so that each answer depends on the others"
_MANY_ROWS = "it makes many rows of one image, and a model gives one answer a row"

_FITTING_ONLY = (
    "it changes the very rows it was fitted on, and passes others on; leave it out of the pipeline"
)

UNPREDICTIVE: dict[str, str] = {
    "lightgbm.CVBooster": "it holds a model of each fold; convert one of its .boosters",
    "sklego.preprocessing.OutlierRemover": _FITTING_ONLY,
    "sklego.preprocessing.RandomAdder": _FITTING_ONLY,
    "sklearn.cluster.AgglomerativeClustering": _LABELS_FITTED,
    "sklearn.cluster.DBSCAN": _LABELS_FITTED,
    "sklearn.cluster.HDBSCAN": _LABELS_FITTED,
    "sklearn.cluster.OPTICS": _LABELS_FITTED,
    "sklearn.cluster.SpectralBiclustering": _BLOCKS_FITTED,
    "sklearn.cluster.SpectralClustering": _LABELS_FITTED,
    "sklearn.cluster.SpectralCoclustering": _BLOCKS_FITTED,
    "sklearn.decomposition.MiniBatchNMF": _TOGETHER,
    "sklearn.feature_extraction.image.PatchExtractor": _MANY_ROWS,
    "sklearn.manifold.ClassicalMDS": _PLACES_FITTED,
    "sklearn.manifold.MDS": _PLACES_FITTED,
    "sklearn.manifold.SpectralEmbedding": _PLACES_FITTED,
    "sklearn.manifold.TSNE": _PLACES_FITTED,
}
"""By public dotted name: why no model can be made of it."""
