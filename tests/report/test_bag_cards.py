"""Which bags are shown, and why."""

import numpy as np
import pytest

from bagwise.report.answers import collect
from bagwise.report.bag_cards import bag_cards, choose_bags, class_mistakes, label_mistakes, table_of_bags


def test_bags_are_chosen_once_and_for_a_reason():
    probability = np.array([0.9, 0.8, 0.1, 0.45, 0.05])
    chosen = choose_bags(probability, label_mistakes(probability, np.array([1, 0, 1, np.nan, 0])))
    assert chosen[0] == "most probable"
    assert chosen[2] == "judged wrongly"
    assert chosen[3] == "least certain"
    assert sorted(chosen) == [0, 1, 2, 3, 4]
    assert "judged wrongly" not in choose_bags(probability, label_mistakes(probability, None)).values()


def test_only_bags_that_are_judged_wrongly_are_called_so():
    probability = np.array([0.9, 0.7, 0.5, 0.5, 0.4, 0.2, 0.1])
    truth = np.array([0, 1, 1, 0, 0, 1, np.nan])
    assert label_mistakes(probability, truth).tolist() == [0, 5, 2]  # at one half a model says negative
    everything_right = (probability > 0.5).astype(float)
    assert len(label_mistakes(probability, everything_right)) == 0


def test_a_class_that_is_right_with_a_small_probability_is_no_mistake():
    probability, hits = np.array([0.3, 0.4, 0.8, 0.6]), np.array([1, 0, 0, np.nan])
    assert class_mistakes(probability, hits).tolist() == [2, 1]


def test_bags_are_ranked_by_the_surprise_of_their_shares(told):
    bags, numbers, model = told
    share = numbers / bags.sizes
    expected = model.predict_fraction(bags)
    share[7] = 1.0
    answers = collect(model, bags, share, None)
    surprise = answers.surprise()
    assert surprise.argmax() == 7
    assert surprise[7] == pytest.approx((1.0 - expected.mean[7]) / (expected.upper[7] - expected.mean[7]))
    assert bag_cards(answers, None)[0].why == "most surprising"
    table = table_of_bags(answers, 1, {})
    assert table.rows[0][0] == bags.ids[7]
    assert table.header[table.sorted] == "surprise"
