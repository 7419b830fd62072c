"""``bagwise models``: what there is, and what each takes."""


def models() -> None:
    """List models and baselines, the evidence that each takes, where they and their probabilities come from."""
    from bagwise.models import cards

    known = cards()
    width = max(map(len, known))
    for name, card in known.items():
        print(f"{name:{width}s}  {', '.join(card.evidence)}\n{'':{width}s}  {card.source}")
        if card.probabilities != "own":
            print(f"{'':{width}s}  probabilities: {card.probabilities}")
