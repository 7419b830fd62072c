"""What the tests of test_engines share."""

from bagwise.datasets import make_bags


def new_problem():
    bags, y, _ = make_bags(16, (3, 8), 2, random_state=0)
    return bags, y
