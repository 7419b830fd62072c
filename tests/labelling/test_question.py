"""What is asked, and what is an answer."""

import pytest

from bagwise import BagGP, MILGPProbit
from bagwise.datasets import make_bags
from bagwise.exceptions import BagDataError
from bagwise.labelling.question import ONE_OF, SEVERAL, TWO, Question, question_for

YES_NO = Question(TWO, ("no", "yes"))


@pytest.mark.parametrize(
    ("question", "good", "bad"),
    [
        (YES_NO, [1], [[], [2], [0, 1], [1.0], [True], "1", None]),
        (Question(SEVERAL, ("a", "b")), [0, 0], [[0], [0, 2], [None, 1]]),
        (Question(ONE_OF, ("a", "b", "c")), [0, 1, 0], [[0, 0, 0], [1, 1, 0], [1]]),
    ],
)
def test_only_zeros_and_ones_of_the_right_number_are_an_answer(question, good, bad):
    assert question.checked(good) == tuple(good)
    for values in bad:
        with pytest.raises(BagDataError, match="expected a list of"):
            question.checked(values)


def test_model_that_cannot_be_told_is_refused():
    bags, y, _ = make_bags(12, 3, random_state=0)
    probit = MILGPProbit(n_inducing=4, random_state=0).fit(bags, y)
    with pytest.raises(BagDataError, match="MILGPProbit does not learn from single instances"):
        question_for(probit, "instances", [])
    fractions = BagGP(evidence="fraction", n_inducing=4, learn=False, random_state=0).fit(bags, y * 0.5)
    with pytest.raises(BagDataError, match="fitted to evidence of the kind fraction"):
        question_for(fractions, "bags", [])
    assert question_for(fractions, "instances", []).kind == TWO
