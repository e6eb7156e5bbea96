"""Pages show names of strangers cut, escaped and without control characters."""

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import hbconv

HURTS = "</script><b>\x1b]0;owned\x07" + "long" * 50_000


def test_no_name_acts_in_a_page_or_fills_it():
    x = np.random.default_rng(0).normal(size=(40, 2))
    source = LogisticRegression().fit(pd.DataFrame(x, columns=[HURTS, "b"]), x[:, 0] > 0)
    page = hbconv.convert(source, backend="reference").explain().to_html()
    assert "\x1b" not in page
    assert "\x07" not in page
    assert "</script><b>" not in page
    assert page.count("long") < 60_000
