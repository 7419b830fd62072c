import numpy as np
import pytest
import torch
from tests.problems import enumerate_signs, segments_of

from bagwise.bag_models.counts import label_terms

RULES = {0.0: lambda k: float(k == 0), 1.0: lambda k: float(k >= 1)}


@pytest.mark.parametrize("label", [0.0, 1.0])
@pytest.mark.parametrize("size", range(1, 9))
def test_mean_of_m_and_normaliser_equal_enumeration(label, size):
    f = np.random.default_rng(size).normal(scale=1.5, size=size)
    log_z, g = label_terms(torch.tensor(f)[:, None], torch.tensor([[label]]), segments_of([size]))
    z, mean = enumerate_signs(f, RULES[label])
    assert log_z.item() == pytest.approx(np.log(z), abs=1e-12)
    np.testing.assert_allclose(f + g[:, 0].numpy(), mean, atol=1e-12)


def test_a_missing_label_says_nothing_and_leaves_the_other_bags_alone():
    f = torch.randn(6, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    log_z, g = label_terms(f, torch.tensor([[1.0], [float("nan")], [0.0]], dtype=torch.float64), segments_of([2, 3, 1]))
    alone, g_alone = label_terms(f[:2], torch.tensor([[1.0]], dtype=torch.float64), segments_of([2]))
    assert log_z[1] == 0 and (g[2:5] == 0).all()
    torch.testing.assert_close(log_z[:1], alone, rtol=0, atol=1e-15)
    torch.testing.assert_close(g[:2], g_alone, rtol=0, atol=1e-15)


def test_g_is_the_gradient_of_log_z():
    generator = torch.Generator().manual_seed(1)
    f = torch.randn(9, 2, dtype=torch.float64, generator=generator)
    labels = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, float("nan")]], dtype=torch.float64)
    segments = segments_of([4, 2, 3])
    _, g = label_terms(f, labels, segments)
    step = 1e-6
    for i in range(9):
        for k in range(2):
            up, down = f.clone(), f.clone()
            up[i, k] += step
            down[i, k] -= step
            slope = (label_terms(up, labels, segments)[0] - label_terms(down, labels, segments)[0]).sum() / (2 * step)
            assert g[i, k].item() == pytest.approx(slope.item(), abs=1e-8)
