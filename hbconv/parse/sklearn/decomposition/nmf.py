"""NMF: the weights of fixed components in new rows.

LatentDirichletAllocation: the topics of documents.
"""

from __future__ import annotations

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Cast,
    Compare,
    IsOtherDtype,
    Linear,
    Node,
    NonNegativeWeights,
    TopicMixture,
)
from hbconv.parse.inverses import inverts
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses("sklearn.decomposition.NMF")
def parse_nmf(step: Step) -> Node:
    """Run at most ``max_iter`` rounds of coordinate descent, in the dtype of fitting.

    Rows of another dtype are refused, as the source model does. It stops all rows of a call at
    once, by a sum over them; here each row stops as it does there alone.
    The other solver starts from the mean of all rows.
    """
    est = step.estimator
    components = step.estimator.components_
    if est.solver != "cd":
        raise step.refuse(
            "solver",
            est.solver,
            "It starts from the mean of all rows, so that each answer depends on the others. "
            "Fit it with solver='cd'.",
        )
    step.require("shuffle", False)
    x = step.require_finite(Cast(step.x, "float"))
    dtype = components.dtype.name
    step.check(
        IsOtherDtype(x, dtype),
        f"{step.name} (step {step.where!r}) was fitted on {dtype} and takes no other floats.",
    )
    step.check(
        Compare.of(x, "lt", 0.0),
        f"Input X contains negative values, which {step.name} (step {step.where!r}) refuses.",
    )
    penalty = components.shape[1] * est.alpha_W
    return NonNegativeWeights(
        Cast(x, dtype),
        Array(components),
        penalty * est.l1_ratio,
        penalty * (1.0 - est.l1_ratio),
        float(est.tol),
        est.max_iter,
    )


@inverts("sklearn.decomposition.NMF", takes_sparse=True)
def invert_nmf(step: Step) -> Node:
    """Add up the components; the source model looks at no values, and its product is dense."""
    return Linear.of(step.x, step.estimator.components_)


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
