"""The sampler against exact answers, against its own other schemes, and against fair games with planted bugs."""

import numpy as np
import pytest
import torch
from scipy.stats import chi2, norm

from bagwise.bag_models.counts import CountEvidence
from bagwise.bags import ragged_ranges
from bagwise.inference import gibbs
from bagwise.inference.gibbs import Gibbs, Sweep, draw_by_labels, plan_of, truncated
from tests.inference.gibbs_problems import (
    LABELS,
    SIZES,
    chunks_of,
    exact_table,
    grid_moments,
    label_table,
    moment_scores,
    run,
    sampler_of,
    soft_table,
    tabled,
    tiny,
)
from tests.problems import segments_of

DOUBLE = torch.float64
EVIDENCE = {
    "labels": (CountEvidence(LABELS[:, None], SIZES), label_table()),
    "labels as a table": (tabled(label_table()), label_table()),
    "exactly one": (tabled(exact_table()), exact_table()),
    "soft table": (tabled(soft_table()), soft_table()),
}


# ---------------------------------------------------------------- against a grid


def check_against_grid(name, kappa, n_chains, n_samples, seed, **settings):
    phi, left = tiny(kappa)
    evidence, table = EVIDENCE[name]
    draws, means = run(sampler_of(phi, left, evidence, n_chains=n_chains, seed=seed, **settings), 40, n_samples)
    mean, covariance = grid_moments(phi, 1.0 + left, table)
    scores = moment_scores(draws, mean, covariance)
    assert np.abs(scores).max() < 4, scores
    error = means.mean(0).std(1, ddof=1) / np.sqrt(n_chains)
    assert (np.abs(means.mean((0, 2)) - mean) < 4 * error).all(), "the Rao–Blackwell mean is off"


@pytest.mark.parametrize("kappa", [True, False], ids=["kappa", "no kappa"])
@pytest.mark.parametrize("name", EVIDENCE)
def test_moments_agree_with_a_grid(name, kappa):
    check_against_grid(name, kappa, n_chains=400, n_samples=60, seed=1)


@pytest.mark.parametrize("settings", [{"scheme": "single-site"}, {"rescale": False}], ids=str)
def test_every_variant_samples_the_same_posterior(settings):
    check_against_grid("labels", True, n_chains=400, n_samples=60, seed=2, **settings)


@pytest.mark.statistical
@pytest.mark.parametrize("kappa", [True, False], ids=["kappa", "no kappa"])
@pytest.mark.parametrize("name", EVIDENCE)
@pytest.mark.parametrize("seed", [11, 12])
def test_moments_agree_with_a_grid_closely(name, kappa, seed):
    check_against_grid(name, kappa, n_chains=4000, n_samples=200, seed=seed)


@pytest.mark.statistical
@pytest.mark.parametrize("settings", [{"scheme": "single-site"}, {"rescale": False}], ids=str)
def test_every_variant_samples_the_same_posterior_closely(settings):
    check_against_grid("labels", True, n_chains=4000, n_samples=200, seed=13, **settings)


def test_known_instances_and_uninformed_ones():
    """Known labels inside bags; a bag of which one instance is known and nothing else says nothing of the others."""
    known = np.full(SIZES.sum(), np.nan)
    known[[0, 4, 7]] = 1.0, 0.0, 0.0
    table = soft_table()
    table[-3:] = 0.0
    phi, left = tiny()
    sampler = sampler_of(phi, left, tabled(table, known), n_chains=400, seed=4)
    draws, _ = run(sampler, 40, 60)
    scores = moment_scores(draws, *grid_moments(phi, 1.0 + left, table, known))
    assert np.abs(scores).max() < 4, scores
    informed = np.ones(len(phi), dtype=bool)
    informed[8] = False
    rows = phi[informed] / np.sqrt(1.0 + left[informed])[:, None]
    factor = sampler.conditional.factors[0].numpy()
    np.testing.assert_allclose(factor @ factor.T, np.eye(2) + rows.T @ rows)


def test_the_published_noise_samples_the_model_without_kappa():
    phi, left = tiny()
    evidence, table = EVIDENCE["labels"]
    draws, _ = run(sampler_of(phi, left, evidence, n_chains=400, seed=5, noise="published"), 40, 60)
    assert np.abs(moment_scores(draws, *grid_moments(phi, np.ones(len(phi)), table))).max() < 4
    assert np.abs(moment_scores(draws, *grid_moments(phi, 1.0 + left, table))).max() > 6


# ---------------------------------------------------------------- one draw of m


def label_draw(z, labels, sizes, seed=0):
    """One draw for every column of z (n, S) under labels (b,)."""
    rng = np.random.default_rng(seed)
    segments = segments_of(sizes)
    evidence = CountEvidence(np.asarray(labels, dtype=float)[:, None], np.asarray(sizes))
    plan = plan_of(evidence.chunk(slice(0, len(sizes)), DOUBLE, torch.device("cpu")), segments, z.shape[1])
    uniforms = torch.tensor(rng.random((2, *z.shape)).clip(1e-300))
    m, log_z = draw_by_labels(z, segments, plan, Sweep(z, *uniforms))
    return m.numpy(), log_z.numpy()


def test_a_positive_bag_is_drawn_from_its_exact_law():
    z = np.array([-0.5, 0.3, -1.2, 0.1])
    m, log_z = label_draw(torch.tensor(z)[:, None].repeat(1, 40_000), [1], [4])
    positive = 1.0 - np.prod(norm.cdf(-z))
    np.testing.assert_allclose(log_z, np.log(positive))
    assert (m > 0).any(0).all()
    expected = norm.cdf(z) / positive  # P(m_i > 0 | some m > 0)
    found, error = (m > 0).mean(1), np.sqrt(0.25 / 40_000)
    assert (np.abs(found - expected) < 4 * error).all()
    mean = z + norm.pdf(z) / norm.cdf(-z) * (1 - positive) / positive  # f + G, (1.4)
    assert (np.abs(m.mean(1) - mean) < 4 * m.std(1) / 200).all()


def test_a_negative_bag_is_below_zero_and_a_silent_one_is_not_used():
    m, log_z = label_draw(torch.zeros(5, 1000, dtype=DOUBLE), [0, np.nan], [2, 3])
    assert (m[:2] < 0).all()
    np.testing.assert_allclose(log_z, 2 * np.log(0.5))


@pytest.mark.parametrize("level", [-1e3, -60.0, -38.3, -37.0, -9.0, 40.0, 1e3])
def test_extreme_scores_are_safe(level):
    """Where every instance is almost surely negative, the one that is positive is chosen in proportion to cdf(z)."""
    z = torch.tensor([[level], [level + 1e-3], [level], [3.0]], dtype=DOUBLE).repeat(1, 4000)
    m, log_z = label_draw(z, [1, 0], [3, 1])
    assert np.isfinite(m).all()
    assert np.isfinite(log_z).all()
    assert (m[:3] > 0).any(0).all() or level < -500  # at −1000 the draw is 0 up to rounding
    assert (m[3] < 0).all()
    if -500 < level < -30:
        share = np.exp(norm.logcdf(z[:3, 0].numpy()) - np.logaddexp.reduce(norm.logcdf(z[:3, 0].numpy())))
        first = (m[:3] > 0).argmax(0)
        found = np.bincount(first, minlength=3) / 4000
        assert (np.abs(found - share) < 4 * np.sqrt(0.25 / 4000)).all()


def test_shares_keep_their_digits_after_many_bags():
    """A bag that is hardly ever positive, behind a thousand bags whose exponents are huge."""
    quiet = torch.tensor([[-7.0], [-7.5]], dtype=DOUBLE)
    loud = torch.full((3000, 1), 20.0, dtype=DOUBLE)
    z = torch.cat([loud, quiet]).repeat(1, 4000)
    m, _ = label_draw(z, [1] * 1001, [3] * 1000 + [2])
    first = (m[-2:] > 0).argmax(0)
    expected = norm.cdf(-7.0) / (norm.cdf(-7.0) + norm.cdf(-7.5))
    assert abs((first == 0).mean() - expected) < 4 * np.sqrt(expected * (1 - expected) / 4000)


def test_truncated_normals_in_both_tails():
    z = torch.tensor([-30.0, -2.0, 0.0, 3.0, 30.0], dtype=DOUBLE)[:, None].repeat(1, 20_000)
    u = torch.tensor(np.random.default_rng(0).random(z.shape).clip(1e-300))
    below = truncated(z, torch.ones_like(z), torch.special.log_ndtr(-z), u).numpy()
    above = truncated(z, -torch.ones_like(z), torch.special.log_ndtr(z), u).numpy()
    assert (below < 0).all()
    assert (above > 0).all()
    expected = z[:, 0].numpy() + np.exp(norm.logpdf(z[:, 0].numpy()) - norm.logcdf(z[:, 0].numpy()))
    assert (np.abs(above.mean(1) - expected) < 4 * above.std(1) / np.sqrt(20_000)).all()
    np.testing.assert_allclose(below, -above[::-1] * 1.0, atol=np.inf)  # finite, same shape


# ---------------------------------------------------------------- what a chain may depend on


def random_problem(columns=1, seed=0, n_bags=30):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, n_bags)
    phi, left = rng.normal(size=(sizes.sum(), 5)), rng.uniform(0, 1, sizes.sum())
    labels = (rng.random((n_bags, columns)) < 0.6).astype(float)
    return phi, left, sizes, labels


@pytest.mark.parametrize("scheme", gibbs.SCHEMES)
def test_chunking_does_not_matter(scheme):
    phi, left, sizes, labels = random_problem()
    evidence = CountEvidence(labels, sizes)
    settings = {"sizes": sizes, "seed": 3, "scheme": scheme}
    whole, _ = run(sampler_of(phi, left, evidence, **settings), 0, 20)
    cut, _ = run(sampler_of(phi, left, evidence, cuts=(1, 2, 11, 25), **settings), 0, 20)
    np.testing.assert_allclose(cut, whole, atol=1e-8)


def test_chunking_does_not_matter_for_counts():
    phi, left, sizes, _ = random_problem()
    k = ragged_ranges(np.zeros(len(sizes), dtype=np.int64), sizes + 1)
    table = -0.5 * (k - np.repeat(sizes / 2, sizes + 1)) ** 2
    evidence = CountEvidence(np.full((len(sizes), 1), np.nan), sizes, (table,), (np.ones(len(sizes), dtype=bool),))
    whole, _ = run(sampler_of(phi, left, evidence, sizes=sizes, seed=3), 0, 20)
    cut, _ = run(sampler_of(phi, left, evidence, sizes=sizes, cuts=(4, 19), seed=3), 0, 20)
    np.testing.assert_allclose(cut, whole, atol=1e-8)


def test_the_seed_decides_and_a_sweep_can_be_repeated():
    phi, left, sizes, labels = random_problem()
    evidence = CountEvidence(labels, sizes)
    first, same, other = (run(sampler_of(phi, left, evidence, sizes=sizes, seed=s), 0, 10)[0] for s in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).min() > 0
    again = sampler_of(phi, left, evidence, sizes=sizes, seed=1)
    again.resume(torch.tensor(first[4]), 4)
    np.testing.assert_array_equal(run(again, 0, 6)[0], first[4:])


def test_columns_with_their_own_missing_labels():
    """Two columns side by side have the law of each alone."""
    phi, left, sizes, labels = random_problem(columns=2)
    labels[3:9, 1] = np.nan
    both = sampler_of(phi, left, CountEvidence(labels, sizes), sizes=sizes, n_chains=300, seed=7)
    draws, _ = run(both, 50, 40)
    for column in range(2):
        alone = sampler_of(phi, left, CountEvidence(labels[:, [column]], sizes), sizes=sizes, n_chains=300, seed=8)
        expected, _ = run(alone, 50, 40)
        found = draws[:, :, column * 300 : (column + 1) * 300]
        error = np.hypot(found.mean(0).std(1), expected.mean(0).std(1)) / np.sqrt(300)
        assert (np.abs(found.mean((0, 2)) - expected.mean((0, 2))) < 4 * error).all()
        np.testing.assert_allclose(both.conditional.factors[both.conditional.factor_of[column]], alone.conditional.factors[0])


def test_without_evidence_the_chain_draws_the_prior():
    phi, left, sizes, labels = random_problem()
    silent = CountEvidence(np.full_like(labels, np.nan), sizes)
    draws, means = run(sampler_of(phi, left, silent, sizes=sizes, n_chains=200), 5, 20)
    assert (means == 0).all()
    assert np.abs(draws.mean((0, 2))).max() < 4 / np.sqrt(4000)
    assert np.abs(draws.std((0, 2)) - 1).max() < 4 * 0.71 / np.sqrt(4000)


# ---------------------------------------------------------------- fair games: Geweke's joint-distribution test


def forward(phi, variance, v, sizes, rng):
    """Labels (b, S) of data sets with weights v (R, S)."""
    z = phi @ v
    positive = z + np.sqrt(variance)[:, None] * rng.normal(size=z.shape) > 0
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return np.maximum.reduceat(positive, starts).astype(float)


def joint_scores(n_chains, n_rounds, seed, noise="exact"):
    """z-scores of twelve functions of (v, m, Y) after going round v → Y → m → v, every chain begun in the prior.

    The round leaves the joint law alone, so after any number of rounds v is standard normal and (m, Y) are what the
    prior says. Chains are independent of each other, so the errors of their averages are plain.
    """
    phi, left, sizes, _ = random_problem(seed=4, n_bags=8)
    rng = np.random.default_rng(seed)
    variance = 1.0 + left
    v = rng.normal(size=(phi.shape[1], n_chains))
    sums = 0.0
    for _ in range(n_rounds):
        labels = forward(phi, variance, v, sizes, rng)
        chunks = chunks_of(phi, left, sizes, CountEvidence(labels, sizes), noise=noise)
        sampler = Gibbs(chunks, torch.ones(labels.shape, dtype=torch.bool), n_rows=len(phi), n_chains=1,
                        seed=int(rng.integers(2**31)), scheme="block")  # fmt: skip
        sampler.resume(torch.tensor(v), 0)
        sampler.sweep()
        v = sampler.weights.numpy()
        sums = sums + functions(phi, variance, v, labels, sampler)
    each = sums / n_rounds
    expected = prior_expectations(phi, variance, sizes)
    return (each.mean(1) - expected) / (each.std(1, ddof=1) / np.sqrt(n_chains))


def functions(phi, variance, v, labels, sampler):
    """(12, S): of v, of m through its conditional mean w (E w wᵀ = I − A⁻¹ in the prior), of Y, and of pairs."""
    w = sampler.means.numpy()
    return np.stack([
        v[0], v[1], v[0] ** 2, v[3] ** 2, v[0] * v[1], (v**2).sum(0), w[0], (w**2).sum(0),
        labels[0], labels[1], labels.mean(0), np.abs(v[2]),
    ])  # fmt: skip


def prior_expectations(phi, variance, sizes):
    scaled = phi / np.sqrt(variance)[:, None]
    trace = phi.shape[1] - np.trace(np.linalg.inv(np.eye(phi.shape[1]) + scaled.T @ scaled))
    rng = np.random.default_rng(0)
    labels = np.concatenate(
        [forward(phi, variance, rng.normal(size=(phi.shape[1], 20_000)), sizes, rng) for _ in range(50)], axis=1
    ).mean(1)
    return np.array([0, 0, 1, 1, 0, phi.shape[1], 0, trace, labels[0], labels[1], labels.mean(), np.sqrt(2 / np.pi)])
