"""A quick pipeline."""

from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from bagwise import VGPMIL, Bags, make_pipeline
from bagwise.datasets import make_bags


def quick():
    return VGPMIL(n_inducing=6, max_iter=3, random_state=0)


def new_data():
    bags, y, _ = make_bags(24, (2, 5), 3, random_state=0)
    return Bags(bags.X, bags.index, feature_names=["u", "v", "w"]), y


def new_pipeline(data):
    return make_pipeline(StandardScaler(), PCA(2), quick()).fit(*data)
