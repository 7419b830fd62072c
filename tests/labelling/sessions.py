"""Sessions without a server."""

from bagwise.labelling.journal import Journal
from bagwise.labelling.pool import make_pool
from bagwise.labelling.question import question_for
from bagwise.labelling.session import Session


def session_for(model, bags, y, folder, what="bags", labels=("a", "b")):
    question = question_for(model, what, list(labels))
    pool = make_pool(model, bags, y, what, question)
    return Session(model, pool, Journal(folder / "a.jsonl", what, question), in_background=False)
