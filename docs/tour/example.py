"""The pipeline of the tour: iris flowers, scaled, then a tree of depth two."""

from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

X, y = load_iris(return_X_y=True)
tree = DecisionTreeClassifier(max_depth=2, random_state=0)
pipeline = make_pipeline(StandardScaler(), tree).fit(X, y)
