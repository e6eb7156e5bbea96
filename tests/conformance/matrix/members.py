"""Small estimators that stand inside others."""

from __future__ import annotations

from functools import partial

import lightgbm
import xgboost
from sklearn import linear_model, tree

__all__ = ["LIGHT", "LINEAR", "LOGISTIC", "REGRESSION_TREE", "RIDGE", "TREE", "XGB"]

LOGISTIC = linear_model.LogisticRegression(max_iter=50)
RIDGE = linear_model.Ridge()
LINEAR = linear_model.LinearRegression()
TREE = tree.DecisionTreeClassifier(max_depth=3, random_state=0)
REGRESSION_TREE = tree.DecisionTreeRegressor(max_depth=3, random_state=0)
LIGHT = partial(lightgbm.LGBMClassifier, n_estimators=4, num_leaves=5, verbosity=-1, n_jobs=1)
XGB = partial(xgboost.XGBClassifier, n_estimators=4, max_depth=3, n_jobs=1)
