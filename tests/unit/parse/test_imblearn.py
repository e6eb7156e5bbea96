"""Pipelines of imbalanced-learn."""

from __future__ import annotations

import numpy as np
import pytest
from imblearn.pipeline import make_pipeline
from imblearn.under_sampling import RandomUnderSampler
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.errors import UnsupportedError

ROWS = np.random.default_rng(0).normal(size=(30, 3))
FLAGS = np.arange(30) % 5 == 0


def test_a_pipeline_that_ends_in_a_sampler_is_refused() -> None:
    """It resamples rows in fitting, and answers no new one."""
    pipeline = make_pipeline(StandardScaler(), RandomUnderSampler(random_state=0))
    pipeline.fit(ROWS, FLAGS)
    with pytest.raises(UnsupportedError, match="ends in a sampler answers no new row"):
        hbconv.convert(pipeline, "reference")
