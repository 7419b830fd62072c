"""What people use when they do not use these models: plain methods to measure against."""

from bagwise.baselines.bag_statistics_svm import BagStatisticsSVM

__all__ = ["BagStatisticsSVM"]
