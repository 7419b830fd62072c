import numpy as np
import torch
from scipy.optimize import minimize

from bagwise.inference.lbfgs import ColumnwiseLBFGS


def concave_columns(seed, size=6, columns=3):
    """−½ xᵀ A_k x + b_kᵀ x − Σ softplus-like terms with curvature at most one, so that the gradient step is safe."""
    rng = np.random.default_rng(seed)
    quadratics = []
    for _ in range(columns):
        q, _ = np.linalg.qr(rng.normal(size=(size, size)))
        quadratics.append(q @ np.diag(np.geomspace(1e-3, 0.7, size)) @ q.T)
    A = torch.tensor(np.stack(quadratics))
    b = torch.tensor(rng.normal(size=(size, columns)))

    def objective(x):
        curved = torch.einsum("kij,jk->ik", A, x)
        value = (-0.5 * x * curved + b * x - torch.log(torch.cosh(0.5 * x))).sum(0)
        return value, b - curved - 0.5 * torch.tanh(0.5 * x)

    return objective, torch.zeros(size, columns, dtype=torch.float64)


def test_every_column_reaches_the_optimum_that_scipy_finds():
    objective, start = concave_columns(0)
    climb = ColumnwiseLBFGS(objective, start)
    for _ in range(60):
        climb.step(objective)
    assert climb.gradient.abs().max() < 1e-9
    for k in range(3):

        def negative(x, k=k):
            full = start.clone()
            full[:, k] = torch.tensor(x)
            value, gradient = objective(full)
            return -value[k].item(), -gradient[:, k].numpy()

        best = minimize(negative, np.zeros(6), jac=True, method="BFGS", options={"gtol": 1e-10})
        np.testing.assert_allclose(climb.x[:, k], best.x, atol=1e-6)


def test_no_column_ever_falls_and_columns_do_not_influence_each_other():
    objective, start = concave_columns(1)
    together = ColumnwiseLBFGS(objective, start)
    columns = [lambda x, k=k: tuple(v[..., [k]] for v in objective(x.expand(-1, 3))) for k in range(3)]
    alone = [ColumnwiseLBFGS(column, start[:, [k]]) for k, column in enumerate(columns)]
    for _ in range(25):
        before = together.value
        together.step(objective)
        assert (together.value >= before - 1e-12).all()
        for k, climb in enumerate(alone):
            climb.step(columns[k])
            torch.testing.assert_close(together.x[:, [k]], climb.x, rtol=1e-6, atol=1e-6)  # rounding only


def test_a_function_that_is_not_concave_still_rises():
    def objective(x):  # sin has curvature at most one and both signs of it
        return torch.sin(x).sum(0) - 0.0 * x.sum(0), torch.cos(x)

    climb = ColumnwiseLBFGS(objective, torch.tensor([[4.0], [5.5], [-2.0]], dtype=torch.float64))
    values = [climb.value.item()]
    for _ in range(40):
        climb.step(objective)
        values.append(climb.value.item())
    assert np.diff(values).min() >= -1e-12
    assert climb.value.item() > 3 - 1e-9
