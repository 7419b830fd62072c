"""Evidence that a model does not take."""

import pytest

from bagwise import BagDataError
from bagwise.evidence.declared import refuse_undeclared
from bagwise.evidence.statements import Evidence, fraction, label


def test_evidence_of_another_kind_is_refused_by_the_name_of_its_bag(bags):
    said = Evidence.concat([label([1, 0]), fraction([0.5])])
    with pytest.raises(BagDataError, match="bag 'c' states a fraction, but Model takes label"):
        refuse_undeclared("Model", ("label",), bags, said)
