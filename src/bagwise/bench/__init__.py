"""The tables of the papers, re-run: published and measured side by side.

A table is one description in ``tables/``. It says which data sets, models and metrics there are and what was
published; ``cells`` makes a list of independent pieces of work of it, ``run`` does them in parallel and keeps every
finished one, ``summary`` and ``render`` set them beside the published figures.
"""
