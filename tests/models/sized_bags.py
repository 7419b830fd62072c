"""What the tests of models share."""

SMALL = {"n_inducing": 15, "random_state": 0}
