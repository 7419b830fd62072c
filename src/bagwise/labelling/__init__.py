"""The labelling page: a person answers what ``bagwise.active.suggest`` asks for, in a browser on the same machine.

``journal`` keeps every answer, ``pool`` is what there is to label, ``learner`` fits again, ``session`` puts them
together, ``server`` lets one browser in, ``export`` writes a table that ``bagwise fit`` reads.
"""
