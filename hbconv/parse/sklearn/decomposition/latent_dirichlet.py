"""LatentDirichletAllocation: the topics of documents."""

from __future__ import annotations

import numpy as np

from hbconv.array import Array
from hbconv.containers import Cast, Compare, Node, TopicMixture
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses("sklearn.decomposition.LatentDirichletAllocation")
def parse_latent_dirichlet_allocation(step: Step) -> Node:
    """Infer the topics of each row, in the dtype that the model was fitted in."""
    est = step.estimator
    topics = np.asarray(est.exp_dirichlet_component_, dtype=est.components_.dtype)
    if not np.isfinite(topics).all():
        raise step.damaged("exp_dirichlet_component_ holds numbers that are not finite")
    if not est.doc_topic_prior_ >= 0:
        raise step.damaged(f"doc_topic_prior_={est.doc_topic_prior_!r:.30}, which is not a prior")
    x = step.require_finite(Cast(step.x, topics.dtype.name))
    step.check(
        Compare.of(x, "lt", 0.0),
        f"Input X contains negative values, which {step.name} (step {step.where!r}) refuses.",
    )
    return TopicMixture(
        x,
        Array(topics),
        float(est.doc_topic_prior_),
        float(est.mean_change_tol),
        int(est.max_doc_update_iter),
    )
