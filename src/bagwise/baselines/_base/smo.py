"""A support vector machine whose examples have margins of their own, which the usual solvers do not offer."""

from typing import NamedTuple

import numpy as np

from bagwise.baselines._base.machines import Floats
from bagwise.exceptions import ConvergenceWarning, warn_user

_MOST_STEPS = 200_000


class DualSolution(NamedTuple):
    """f(x) = Σ_i weights_i k(x, x_i) + intercept."""

    weights: Floats  # y_i α_i
    intercept: float


def svm_with_margins(gram: Floats, y: Floats, margin: Floats, C: float, tol: float = 1e-3) -> DualSolution:
    """Minimise ½|w|² + C Σ max(0, margin_i - y_i f(x_i)) for y of -1 and 1.

    The dual is: minimise ½ Σ β_i β_j k_ij - Σ margin_i y_i β_i over β_i = y_i α_i with 0 ≤ α_i ≤ C and Σ β_i = 0.
    Each step moves weight between two examples (sequential minimal optimisation): the one whose increase gains most,
    and the partner with which the step gains most by second order (Fan, Chen & Lin 2005).
    """
    low, high = np.minimum(0.0, y * C), np.maximum(0.0, y * C)  # of β
    beta, diagonal = np.zeros(len(y)), np.diag(gram)
    slope = y * margin  # minus the gradient: what an increase of β_i gains
    for _ in range(_MOST_STEPS):
        up = np.where(beta < high, slope, -np.inf)
        down = np.where(beta > low, slope, np.inf)
        i = int(up.argmax())
        violation = np.maximum(up[i] - down, 0.0)
        if violation.max() < tol:
            break
        curvature = np.maximum(diagonal[i] + diagonal - 2.0 * gram[i], 1e-12)
        j = int(np.argmax(violation**2 / curvature))
        step = min(violation[j] / curvature[j], high[i] - beta[i], beta[j] - low[j])
        beta[i], beta[j] = beta[i] + step, beta[j] - step
        slope -= step * (gram[i] - gram[j])
    else:
        warn_user("the support vector machine did not settle; decrease C or standardise the rows.", ConvergenceWarning)
    return DualSolution(beta, float(0.5 * (up.max() + down.min())))
