"""What ``bagwise models`` lists."""

from tests.cli.command import done

from bagwise.models import cards


def test_every_model_is_listed_with_its_evidence_and_source():
    listed = done("models").output
    for name, card in cards().items():
        assert f"{name} " in listed
        assert ", ".join(card.evidence) in listed
        assert card.source in listed
