"""The labelling page: a person answers what ``bagwise.active.suggest`` asks for, in a browser on the same machine.

``journal`` keeps every answer, ``pool`` is what there is to label, ``learner`` fits again, ``session`` puts them
together, ``gate`` and ``server`` let one browser in, ``export`` makes a table that ``bagwise fit`` reads.
"""

from bagwise.labelling.session import LabellingProgress, Session, open_session

__all__ = ["LabellingProgress", "Session", "open_session"]
