"""The count programme against enumeration, against itself in other forms, and against its own derivatives."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from tests.numerics.counting.counted_bags import (
    INF,
    POTENTIALS,
    arbitrary,
    beta_fraction,
    close,
    full_programme,
    one_bag,
    ragged,
    table,
    together,
    weights,
)
from torch import Tensor

import bagwise.numerics.counting.potentials as potentials_module
import bagwise.numerics.counting.programme as programme
from bagwise.exceptions import BagDataError, NumericalError
from bagwise.numerics.counting.programme import (
    CountPotentials,
    count_posterior,
    draw_labels,
    log_normaliser,
    pair_covariance,
)

# ---------------------------------------------------------------- potentials (section 2.1) and slow references


def enumerated(log_p: Tensor, log_q: Tensor, log_psi: Tensor) -> tuple[Tensor, Tensor]:
    """All 2^n labellings and the log weight of each."""
    states = torch.tensor(list(itertools.product([False, True], repeat=len(log_p))))
    return states, torch.where(states, log_p, log_q).sum(1) + log_psi[states.sum(1)]


def reference(log_p: Tensor, log_q: Tensor, log_psi: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    states, log_weight = enumerated(log_p, log_q, log_psi)
    log_z = log_weight.logsumexp(0)
    share = (log_weight - log_z).exp()
    return log_z, share @ states.double(), share @ (~states).double()


# ---------------------------------------------------------------- Z and r


@pytest.mark.parametrize("name", POTENTIALS)
def test_posterior_equals_enumeration(name):
    log_psi, (log_p, log_q) = POTENTIALS[name](8), weights(8)
    log_z, r, rbar = reference(log_p, log_q, log_psi)
    found = count_posterior(log_p, log_q, one_bag(log_psi))
    close(found.log_z[0], log_z)
    close(found.log_r.exp(), r)
    close(found.log_rbar.exp(), rbar)
    close(log_normaliser(log_p, log_q, one_bag(log_psi))[0], log_z)


@pytest.mark.parametrize("name", POTENTIALS)
def test_weights_need_not_add_to_one(name):
    log_p, log_q = (torch.randn(8, generator=torch.Generator().manual_seed(seed)).double() for seed in (1, 2))
    log_z, r, _ = reference(log_p, log_q, POTENTIALS[name](8))
    found = count_posterior(log_p, log_q, one_bag(POTENTIALS[name](8)))
    close(found.log_z[0], log_z)
    close(found.log_r.exp(), r)


@pytest.mark.parametrize("name", ["label 0", "at least all but one", "fraction 1", "between", "fraction 0"])
def test_mirrored_bags_give_the_same_posterior(name):
    log_psi, (log_p, log_q) = POTENTIALS[name](8), weights(8)
    bag, mirror = one_bag(log_psi), one_bag(log_psi.flip(0))
    assert bag.plan[0].mirrored != mirror.plan[0].mirrored
    found, reflected = count_posterior(log_p, log_q, bag), count_posterior(log_q, log_p, mirror)
    close(found.log_z, reflected.log_z, 1e-14)
    close(found.log_r, reflected.log_rbar, 1e-14)
    close(found.log_rbar, reflected.log_r, 1e-14)


@pytest.mark.parametrize("name", POTENTIALS)
def test_truncated_equals_full_programme(name):
    log_psi, (log_p, log_q) = POTENTIALS[name](40), weights(40, scale=2.0)
    found, full = count_posterior(log_p, log_q, one_bag(log_psi)), full_programme(log_p, log_q, log_psi)
    close(found.log_z, full.log_z, 1e-12)
    close(found.log_r, full.log_r[:, 0], 1e-12)
    close(found.log_rbar, full.log_rbar[:, 0], 1e-12)


@pytest.mark.parametrize("name", ["label 1", "exactly", "arbitrary", "fraction with confidence"])
def test_known_instances_equal_enumeration(name):
    log_psi, (log_p, log_q) = POTENTIALS[name](8), weights(8)
    log_q[2] = -INF
    log_p[[4, 7]] = -INF
    log_z, r, rbar = reference(log_p, log_q, log_psi)
    found = count_posterior(log_p, log_q, one_bag(log_psi))
    close(found.log_z[0], log_z)
    close(found.log_r.exp(), r)
    close(found.log_rbar.exp(), rbar)
    assert found.log_r[2] == 0.0
    assert found.log_rbar[2] == -INF
    assert (found.log_r[[4, 7]] == -INF).all()


@pytest.mark.parametrize("depth", [-1e3, -1e4])
def test_positive_bag_of_almost_impossible_positives(depth):
    # All but the first term of Z = sum_i p_i + O(p^2) vanish: r_i = p_i / sum_j p_j.
    log_p = depth + torch.linspace(0.0, 2.0, 6, dtype=torch.float64)
    log_q = torch.zeros(6, dtype=torch.float64)
    found = count_posterior(log_p, log_q, one_bag(POTENTIALS["label 1"](6)))
    close(found.log_z[0], log_p.logsumexp(0))
    close(found.log_r, log_p - log_p.logsumexp(0))
    close(found.log_r.exp().sum(), torch.tensor(1.0, dtype=torch.float64))
    close(found.log_rbar.exp(), 1.0 - found.log_r.exp())
    free = count_posterior(log_p, log_q, one_bag(arbitrary(6)))
    close(free.log_r, log_p + arbitrary(6)[1] - arbitrary(6)[0])


def test_large_bags_with_a_short_table_stay_linear_in_memory():
    log_psi, (log_p, log_q) = table(1000, lambda k: k >= 3), weights(3000)
    log_p = log_p - 6.0  # about two and a half positives expected: the evidence matters
    bags = together([log_psi] * 3)
    assert [tuple(bucket.table.shape) for bucket in bags.plan] == [(4, 3)]
    found = count_posterior(log_p, log_q, bags)
    for bag in range(3):
        rows = slice(1000 * bag, 1000 * (bag + 1))
        full = full_programme(log_p[rows], log_q[rows], log_psi)
        close(found.log_z[bag], full.log_z[0], 1e-12)
        close(found.log_r[rows], full.log_r[:, 0], 1e-11)


# ---------------------------------------------------------------- batches


def rows_of(potentials: CountPotentials, bag: int) -> slice:
    return slice(int(potentials.offsets[bag]), int(potentials.offsets[bag + 1]))


def test_ragged_batch_equals_bag_by_bag():
    potentials, log_p, log_q = ragged()
    found = count_posterior(log_p, log_q, potentials)
    for bag in range(len(potentials)):
        rows = rows_of(potentials, bag)
        alone = count_posterior(log_p[rows], log_q[rows], potentials.of_bag(bag))
        close(found.log_z[bag], alone.log_z[0], 1e-13)
        close(found.log_r[rows], alone.log_r, 1e-13)
        close(found.log_rbar[rows], alone.log_rbar, 1e-13)


def test_leading_dimensions_equal_a_loop():
    potentials, _, _ = ragged()
    log_p, log_q = weights(2, 3, int(potentials.offsets[-1]))
    found = count_posterior(log_p, log_q, potentials)
    assert found.log_z.shape == (2, 3, len(potentials))
    for i, j in itertools.product(range(2), range(3)):
        alone = count_posterior(log_p[i, j], log_q[i, j], potentials)
        for actual, expected in zip(found, alone, strict=True):
            close(actual[i, j], expected, 1e-13)


def test_chunking_changes_nothing(monkeypatch):
    potentials, _, _ = ragged()
    log_p, log_q = weights(5, int(potentials.offsets[-1]))
    uniforms = torch.rand(5, log_p.shape[1], dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    whole, labels = count_posterior(log_p, log_q, potentials), draw_labels(log_p, log_q, potentials, uniforms)
    for cells in (1, 300):
        monkeypatch.setattr(potentials_module, "_CHUNK_CELLS", {"cpu": cells})
        for actual, expected in zip(count_posterior(log_p, log_q, potentials), whole, strict=True):
            close(actual, expected, 1e-13)
        assert torch.equal(draw_labels(log_p, log_q, potentials, uniforms), labels)


def test_contradiction_is_confined_to_its_bag():
    tables = [arbitrary(8), table(8, lambda k: k >= 7), arbitrary(8, seed=6), table(8, lambda k: k >= 1)]
    potentials, (log_p, log_q) = together(tables), weights(32)
    log_p[8:10] = -INF
    log_p[24:] = -INF
    found = count_posterior(log_p, log_q, potentials)
    assert found.log_z[[1, 3]].tolist() == [-INF, -INF]
    for bag in (0, 2):
        rows = rows_of(potentials, bag)
        log_z, r, _ = reference(log_p[rows], log_q[rows], tables[bag])
        close(found.log_z[bag], log_z)
        close(found.log_r[rows].exp(), r)
    with pytest.raises(NumericalError, match=r"bag number [13]"):
        draw_labels(log_p, log_q, potentials, torch.rand(32))


def test_float32_comes_back_as_float32():
    log_p, log_q = weights(8)
    found = count_posterior(log_p.float(), log_q.float(), one_bag(arbitrary(8)))
    assert {part.dtype for part in found} == {torch.float32}
    close(found.log_r.double(), count_posterior(log_p, log_q, one_bag(arbitrary(8))).log_r, 1e-5)


def test_bad_input_is_refused():
    with pytest.raises(BagDataError, match=r"9 in all.*got 8"):
        CountPotentials(torch.zeros(8), torch.tensor([3, 4]))
    with pytest.raises(BagDataError, match="bag number 1 is empty"):
        CountPotentials(torch.zeros(5), torch.tensor([3, 0]))
    with pytest.raises(BagDataError, match="bag number 1: log psi is nan"):
        CountPotentials(torch.tensor([0.0, 0.0, 0.0, math.nan]), torch.tensor([1, 1]))
    with pytest.raises(BagDataError, match=r"\(\.\.\., 4\)"):
        count_posterior(torch.zeros(5), torch.zeros(5), one_bag(torch.zeros(5)))
    with pytest.raises(BagDataError, match="one shape"):
        count_posterior(torch.zeros(2, 4), torch.zeros(4), one_bag(torch.zeros(5)))
    with pytest.raises(NumericalError, match="instance 2 of bag number 1"):
        count_posterior(torch.tensor([0.0, 0.0, math.nan]), torch.zeros(3), together([arbitrary(2), arbitrary(1)]))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_posterior_is_a_probability(data):
    n = data.draw(st.integers(1, 12))
    logs = st.one_of(st.just(-INF), st.floats(-500.0, 0.0))
    log_psi = torch.tensor(data.draw(st.lists(logs, min_size=n + 1, max_size=n + 1)), dtype=torch.float64)
    log_p, log_q = (
        torch.tensor(data.draw(st.lists(logs, min_size=n, max_size=n)), dtype=torch.float64) for _ in range(2)
    )
    fewest, most = int((log_q == -INF).sum()), int((log_p > -INF).sum())
    counts = [k for k in range(fewest, most + 1) if log_psi[k] > -INF]
    possible = bool(counts) and not bool(((log_p == -INF) & (log_q == -INF)).any())
    found = count_posterior(log_p, log_q, one_bag(log_psi))
    assert (found.log_z[0] > -INF) == possible
    if possible:
        r, rbar = found.log_r.exp(), found.log_rbar.exp()
        assert ((r >= 0.0) & (r <= 1.0)).all()
        close(r + rbar, torch.ones(n, dtype=torch.float64), 1e-12)
        assert counts[0] - 1e-9 <= float(r.sum()) <= counts[-1] + 1e-9


# ---------------------------------------------------------------- derivatives


def test_gradient_of_log_normaliser():
    potentials, log_p, log_q = ragged()
    few = together([POTENTIALS["exactly"](4), arbitrary(3), POTENTIALS["label 1"](5)])
    inputs = [array[None, :12].repeat(2, 1).requires_grad_() for array in (log_p, log_q)]
    assert torch.autograd.gradcheck(lambda p, q: log_normaliser(p, q, few), inputs)

    log_p.requires_grad_()
    log_normaliser(log_p, log_q, potentials).sum().backward()
    with torch.no_grad():
        step = torch.zeros_like(log_p)
        for i in (0, 4, 20, 60):
            step[i] = 1e-5
            change = log_normaliser(log_p + step, log_q, potentials) - log_normaliser(log_p - step, log_q, potentials)
            assert log_p.grad[i].item() == pytest.approx(change.sum().item() / 2e-5, abs=1e-8)
            step[i] = 0.0


def test_second_derivative_is_refused():
    log_p, log_q = weights(8)
    log_p.requires_grad_()
    value = log_normaliser(log_p, log_q, one_bag(arbitrary(8))).sum()
    (gradient,) = torch.autograd.grad(value, log_p, create_graph=True)
    with pytest.raises(NumericalError, match="once only"):
        gradient.sum().backward()


@pytest.mark.parametrize("name", POTENTIALS)
def test_pair_covariance_equals_enumeration(name):
    log_psi, (log_p, log_q) = POTENTIALS[name](8), weights(2, 16)
    known = log_q if log_psi[1:].max() > -INF else log_p
    known[1, 11] = -INF
    potentials = together([arbitrary(8), log_psi])
    found = pair_covariance(log_p, log_q, potentials, 1)
    for lead in range(2):
        states, log_weight = enumerated(log_p[lead, 8:], log_q[lead, 8:], log_psi)
        share, y = log_weight.softmax(0), states.double()
        r = share @ y
        close(found[lead], (y.T * share) @ y - r[:, None] * r)


@pytest.mark.parametrize("name", ["label 1", "exactly", "fraction with confidence", "noisy label"])
def test_curvature_in_the_latent_values(name):
    # (2.3) and (2.3b): the Hessian of log Z in f, with p = cdf(f), against differences of its gradient (2.1).
    f = torch.randn(6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    potentials = one_bag(POTENTIALS[name](6))

    def hazard(x: Tensor) -> Tensor:
        return (-0.5 * x * x - 0.5 * math.log(2.0 * math.pi) - torch.special.log_ndtr(x)).exp()

    def gradient(x: Tensor) -> Tensor:
        _, log_r, log_rbar = count_posterior(torch.special.log_ndtr(x), torch.special.log_ndtr(-x), potentials)
        return log_r.exp() * hazard(x) - log_rbar.exp() * hazard(-x)

    covariance = pair_covariance(torch.special.log_ndtr(f), torch.special.log_ndtr(-f), potentials, 0)
    a = hazard(f) + hazard(-f)
    hessian = covariance * a[:, None] * a
    hessian.diagonal().copy_(-f * gradient(f) - gradient(f) ** 2)
    step = 1e-5 * torch.eye(6, dtype=torch.float64)
    differences = torch.stack([(gradient(f + row) - gradient(f - row)) / 2e-5 for row in step])
    close(hessian, differences, 1e-8)


@pytest.mark.parametrize("name", ["exactly 40", "fraction", "unlabelled"])
def test_rank_one_covariance_above_the_exact_limit(name, monkeypatch):
    n = 100
    log_psi = {
        "exactly 40": table(n, lambda k: k == 40),
        "fraction": beta_fraction(n, 0.4, 100.0),
        "unlabelled": torch.zeros(n + 1, dtype=torch.float64),
    }[name]
    (log_p, log_q), bag = weights(n), one_bag(log_psi)
    exact = pair_covariance(log_p, log_q, bag, 0)
    monkeypatch.setattr(programme, "LARGEST_EXACT_COVARIANCE", 0)
    rough = pair_covariance(log_p, log_q, bag, 0)
    # Off-diagonal entries are of the order w_i w_j / sum w = 0.0025 here; the form is good to O(1/n) of that.
    close(rough, exact, 1.5e-4)
    close(rough.diagonal(), exact.diagonal(), 1e-14)
    assert float(torch.linalg.eigvalsh(rough)[0]) > -1e-10


# ---------------------------------------------------------------- draws


def draws(log_p: Tensor, log_q: Tensor, potentials: CountPotentials, number: int, seed: int = 0) -> Tensor:
    uniforms = torch.rand(number, len(log_p), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return draw_labels(log_p.expand(number, -1), log_q.expand(number, -1), potentials, uniforms)


@pytest.mark.parametrize("name", ["label 1", "exactly", "fraction with confidence", "at most", "arbitrary"])
def test_draws_follow_the_joint_law(name):
    log_psi, (log_p, log_q) = POTENTIALS[name](4), weights(4)
    labels = draws(log_p, log_q, one_bag(log_psi), 20_000)
    states, log_weight = enumerated(log_p, log_q, log_psi)
    expected = 20_000 * log_weight.softmax(0)
    code = torch.tensor([8, 4, 2, 1])
    observed = torch.bincount(labels.long() @ code, minlength=16)[states.long() @ code]
    assert observed[expected == 0.0].sum() == 0
    common = expected > 5.0
    assert observed[~common].sum() <= 10.0 + 3.0 * expected[~common].sum()
    frequent = expected[common] * observed[common].sum() / expected[common].sum()
    assert chisquare(observed[common].numpy(), frequent.numpy()).pvalue > 1e-3


def test_draw_frequencies_equal_r():
    potentials, log_p, log_q = ragged()
    r = count_posterior(log_p, log_q, potentials).log_r.exp()
    labels = draws(log_p, log_q, potentials, 20_000)
    error = (r * (1.0 - r) / 20_000).sqrt()
    assert ((labels.double().mean(0) - r).abs() <= 4.5 * error).all()


def test_draws_satisfy_hard_evidence():
    tables = [rule(8) for rule in POTENTIALS.values()]
    potentials, (log_p, log_q) = together(tables), weights(8 * len(tables), scale=4.0)
    free = torch.tensor([bool((entries > -INF).all()) for entries in tables]).repeat_interleave(8)
    log_q[free & (torch.arange(len(log_p)) % 8 == 3)] = -INF
    labels = draws(log_p, log_q, potentials, 2000)
    for bag, entries in enumerate(tables):
        assert (entries[labels[:, rows_of(potentials, bag)].sum(1)] > -INF).all()
    assert labels[:, log_q == -INF].all()


def test_draws_do_not_depend_on_company():
    potentials, log_p, log_q = ragged()
    uniforms = torch.rand(len(log_p), generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    labels = draw_labels(log_p, log_q, potentials, uniforms)
    for bag in range(len(potentials)):
        rows = rows_of(potentials, bag)
        alone = draw_labels(log_p[rows], log_q[rows], potentials.of_bag(bag), uniforms[rows])
        assert torch.equal(labels[rows], alone)
