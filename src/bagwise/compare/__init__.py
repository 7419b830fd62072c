"""Which model is best for my data? Models and baselines cross-validated on one's own bags, on the same folds.

``run`` measures (resumable, with the machinery of ``bagwise.bench``), ``result`` holds means, errors and paired
differences, ``page`` writes them down.
"""

from bagwise.compare.result import ComparisonResult
from bagwise.compare.run import compare_models

__all__ = ["ComparisonResult", "compare_models"]
