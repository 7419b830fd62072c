"""What is asked of a fitted model, with models whose answers are known."""

import numpy as np
import pytest
import torch

from bagwise import Bags
from bagwise.bench.description import Model, Part, Split
from bagwise.bench.measure import binary_answers, build, class_answers, lengthscale_answers
from bagwise.gp.kernels import make_kernel

BAGS = Bags(np.arange(5.0)[:, None], [0, 0, 1, 1, 2])


class Oracle:
    """Says of an instance what its feature says."""

    classes_ = np.array([0, 1])
    decides_by_mode = False

    def predict_instance_proba(self, bags):
        p = np.asarray(bags.X)[:, 0] / 10
        return np.stack([1 - p, p], axis=1)

    def predict_proba(self, bags):
        p = np.maximum.reduceat(self.predict_instance_proba(bags)[:, 1], bags.offsets[:-1])
        return np.stack([1 - p, p], axis=1)


def split(**truth):
    return Split({}, (Part(BAGS, ("row",), **truth),))


def test_binary_answers_are_per_level_and_undefined_where_one_class_is_alone():
    truth = np.array([0.0, 0.0, 1.0, np.nan, 1.0])
    found = binary_answers(Oracle(), split(bag_truth=np.zeros(3), instance_truth=truth))
    assert found.metrics["row"]["instance auc"] == 1.0
    assert found.metrics["row"]["instance log_likelihood"] == pytest.approx(
        np.mean(np.log([1 - 0.0, 1 - 0.1, 0.2, 0.4]))
    )
    assert found.metrics["row"]["bag accuracy"] == 1.0
    assert np.isnan(found.metrics["row"]["bag auc"])
    assert found.scores["row"]["bag score"] == pytest.approx([0.1, 0.3, 0.4])


def test_accuracy_of_a_model_that_decides_by_the_mode_is_that_of_its_decisions():
    class ByMode(Oracle):
        decides_by_mode = True

        def predict(self, bags):
            return np.array([0, 1, 1])

        def _several(self):
            return False

    found = binary_answers(ByMode(), split(bag_truth=np.array([0.0, 1.0, 1.0])))
    assert found.metrics["row"]["bag accuracy"] == 1.0
    assert found.scores["row"]["bag called"] == [0, 1, 1]
    assert binary_answers(Oracle(), split(bag_truth=np.array([0.0, 1.0, 1.0]))).metrics["row"]["bag accuracy"] < 0.5


def test_several_columns_fill_several_rows():
    class Two(Oracle):
        classes_ = np.array([[0, 1], [0, 1]])

        def predict_instance_proba(self, bags):
            p = super().predict_instance_proba(bags)[:, 1]
            return np.stack([p, 1 - p], axis=1)

    truth = np.array([[0, 0], [0, 0], [1, 0], [1, 1], [1, 1]], dtype=float)
    part = Part(BAGS, ("first", "second"), instance_truth=truth)
    found = binary_answers(Two(), Split({}, (part,))).metrics
    assert found["first"]["instance auc"] == 1.0
    assert found["second"]["instance auc"] == 0.0


def test_models_are_told_the_device_and_baselines_are_not():
    assert build(Model("a", "BagGP", {"learn": False}), 0, device="cuda:1").device == "cuda:1"
    assert "device" not in build(Model("b", "BagStatisticsSVM"), 0, device="cuda:1").get_params()


def test_class_answers_count_right_bags_and_instances_with_a_truth():
    class Classes:
        def predict_proba(self, bags):
            return np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]])

        def predict_instance_proba(self, bags):
            return np.array([[0.9, 0.1, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0]])

    truth = {"bag_truth": np.array([0.0, 1.0, 1.0]), "instance_truth": np.array([0.0, 2.0, 2.0, np.nan, 1.0])}
    found = class_answers(Classes(), split(**truth)).metrics["row"]
    expected = {"bag accuracy": 2 / 3, "instance accuracy": 0.5, "instances found": 0.5}
    ranked = {"instance average_precision": (0.5 + 0.25) / 2, "instance recall_at_precision_90": 0.0}
    assert found == pytest.approx(expected | ranked)


def test_lengthscale_answers_tell_the_learned_lengthscale():
    class Learned:
        class features_:
            kernel = make_kernel("rbf", 1, 2.5, torch.float64)

    assert lengthscale_answers(Learned(), split()).metrics == {"row": {"lengthscale": pytest.approx(2.5)}}


def test_instances_of_no_class_are_not_among_those_that_are_found():
    class Told:
        def predict_proba(self, bags):
            return np.array([[0.9, 0.1]])

        def predict_instance_proba(self, bags):
            return np.eye(3)[[0, 0, 2, 2]]

    bags = Bags(np.zeros((4, 1)), np.zeros(4))
    part = Part(bags, ("row",), np.array([0.0]), np.array([0.0, 1.0, 2.0, np.nan]))
    found = class_answers(Told(), Split({}, (part,))).metrics["row"]
    expected = {"bag accuracy": 1.0, "instance accuracy": 2 / 3, "instances found": 0.5}
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_training_bags_count_as_right_by_their_best_candidate():
    class Told:
        def predict_proba(self, bags):
            return np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]])[: len(bags)]

    bags = Bags(np.zeros((2, 1)), [0, 1])
    part = Part(bags, ("row",), np.array([1.0, 0.0]))
    told = {"candidates": (bags, np.array([[0, 1, 1], [0, 1, 1]]))}
    found = class_answers(Told(), Split(told, (part,), part)).metrics["row"]
    assert found == {"bag accuracy": 0.5, "candidate accuracy": 0.5}
