"""The sampler against exact answers, against its own other schemes, and against fair games with planted bugs."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import chi2, norm
from tests.inference.chains.gibbs_problems import (
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

from bagwise.bag_models.counts import ProbitCounts
from bagwise.bags import ragged_ranges
from bagwise.evidence.counts import CountEvidence
from bagwise.inference.chains import gibbs
from bagwise.inference.chains.gibbs import Sweep, draw_by_labels, plan_of, truncated

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
    plan = plan_of(
        ProbitCounts(evidence).chunk(slice(0, len(sizes)), DOUBLE, torch.device("cpu")), segments, z.shape[1]
    )
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


@pytest.mark.parametrize("scheme", gibbs.SCHEMES)
def test_chains_that_start_absurdly_far_away_come_home(scheme):
    evidence = CountEvidence(np.array([[1.0], [0.0]]), np.array([2, 2]))
    sampler = sampler_of(
        np.full((4, 1), 300.0), np.zeros(4), evidence, sizes=np.array([2, 2]), scheme=scheme, n_chains=50
    )
    draws, means = run(sampler, 0, 200)
    assert np.isfinite(draws).all()
    assert np.isfinite(means).all()
    assert np.abs(draws[-1]).max() < 0.02  # contradictory bags: 300 v must be near zero


def test_shares_keep_their_digits_after_many_bags():
    """A bag that is hardly ever positive, behind two hundred bags whose exponents are huge."""
    quiet = torch.tensor([[-7.0], [-7.5]], dtype=DOUBLE)
    loud = torch.full((600, 1), 20.0, dtype=DOUBLE)
    z = torch.cat([loud, quiet]).repeat(1, 4000)
    m, _ = label_draw(z, [1] * 201, [3] * 200 + [2])
    first = (m[-2:] > 0).argmax(0)
    expected = norm.cdf(-7.0) / (norm.cdf(-7.0) + norm.cdf(-7.5))
    assert abs((first == 0).mean() - expected) < 4 * np.sqrt(expected * (1 - expected) / 4000)


def test_truncated_normals_in_both_tails():
    z = torch.tensor([-30.0, -3.0, 0.0, 3.0, 30.0], dtype=DOUBLE)[:, None].repeat(1, 20_000)
    u = torch.tensor(np.random.default_rng(0).random(z.shape).clip(1e-300))
    below = truncated(z, torch.ones_like(z), torch.special.log_ndtr(-z), u).numpy()
    above = truncated(z, -torch.ones_like(z), torch.special.log_ndtr(z), u).numpy()
    assert (below < 0).all()
    assert (above > 0).all()
    expected = z[:, 0].numpy() + np.exp(norm.logpdf(z[:, 0].numpy()) - norm.logcdf(z[:, 0].numpy()))
    assert (np.abs(above.mean(1) - expected) < 4 * above.std(1) / np.sqrt(20_000)).all()
    assert (np.abs(below.mean(1) + expected[::-1]) < 4 * below.std(1) / np.sqrt(20_000)).all()


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
    draws, _ = run(both, 40, 20)
    for column in range(2):
        alone = sampler_of(phi, left, CountEvidence(labels[:, [column]], sizes), sizes=sizes, n_chains=300, seed=8)
        expected, _ = run(alone, 40, 20)
        found = draws[:, :, column * 300 : (column + 1) * 300]
        error = np.hypot(found.mean(0).std(1), expected.mean(0).std(1)) / np.sqrt(300)
        assert (np.abs(found.mean((0, 2)) - expected.mean((0, 2))) < 4 * error).all()
        np.testing.assert_allclose(
            both.conditional.factors[both.conditional.factor_of[column]], alone.conditional.factors[0]
        )


def test_without_evidence_the_chain_draws_the_prior():
    phi, left, sizes, labels = random_problem()
    silent = CountEvidence(np.full_like(labels, np.nan), sizes)
    draws, means = run(sampler_of(phi, left, silent, sizes=sizes, n_chains=200), 5, 20)
    assert (means == 0).all()
    assert np.abs(draws.mean((0, 2))).max() < 4 / np.sqrt(4000)
    assert np.abs(draws.std((0, 2)) - 1).max() < 4 * 0.71 / np.sqrt(4000)


# ---------------------------------------------------------------- fair games: Geweke's joint-distribution test


class Game:
    """v → Y → m → v, every step exact if the sampler is: chains begun in the prior must stay there.

    v → Y forgets everything but v and draws new labels; Y, v → m and m → v are the sampler. Thousands of chains run
    side by side, each with labels of its own, so the errors of averages over chains are plain.
    """

    def __init__(self, n_chains, seed, noise="exact"):
        rng = np.random.default_rng(4)
        self.sizes = np.array([1, 2, 3, 4, 5, 2, 3])
        self.phi = 0.6 * rng.normal(size=(self.sizes.sum(), 4))
        self.left = rng.uniform(1.0, 3.0, len(self.phi))
        silent = CountEvidence(np.zeros((len(self.sizes), 1)), self.sizes)
        sampler = sampler_of(self.phi, self.left, silent, sizes=self.sizes, n_chains=n_chains, noise=noise)
        self.chunk = chunks_of(self.phi, self.left, self.sizes, silent, noise=noise).chunks[0]
        self.segments, self.conditional = self.chunk.design.segments, sampler.conditional
        self.plan = plan_of(self.chunk.evidence, self.segments, n_chains)
        self.rng, self.n_chains = np.random.default_rng(seed), n_chains
        self.v = self.rng.normal(size=(4, n_chains))

    def labels(self, v):
        z = self.phi @ v
        positive = z + np.sqrt(1.0 + self.left)[:, None] * self.rng.normal(size=z.shape) > 0
        return np.maximum.reduceat(positive, np.cumsum(self.sizes) - self.sizes)

    def round(self):
        labels = torch.tensor(self.labels(self.v))
        plan = replace(self.plan, positive=labels, negative=~labels, positive_rows=self.segments.spread(labels))
        z = self.chunk.design.phi @ torch.tensor(self.v)
        uniforms = torch.tensor(self.rng.random((2, *z.shape)).clip(1e-300))
        m, _ = gibbs.draw_block(z, self.chunk, plan, Sweep(z, *uniforms))
        found = self.functions(self.v, m.numpy(), labels.numpy().astype(float))
        pull = (m.T @ self.chunk.design.phi).T
        normals = torch.tensor(self.rng.normal(size=self.v.shape))
        self.v = self.conditional.draw(pull, m.square().sum(0), normals, self.rng)[1].numpy()
        return found

    def functions(self, v, m, labels):
        """Fourteen functions of (v, m̃, Y)."""
        return np.stack([
            v[0], v[1], v[0] ** 2, v[3] ** 2, v[0] * v[1], (v**2).sum(0), np.abs(v[2]),
            m[0], m[5] ** 2, (m**2).mean(0), (m > 0).mean(0), m[4] * m[9],
            labels.mean(0), labels[0] * v[0],
        ])  # fmt: skip

    def prior(self, n=400_000):
        """Their expectations, by independent draws of (v, m̃, Y), and the errors of those."""
        v = self.rng.normal(size=(4, n))
        m = (self.phi @ v) / np.sqrt(1.0 + self.left)[:, None] + self.rng.normal(size=(len(self.phi), n))
        labels = np.maximum.reduceat(m > 0, np.cumsum(self.sizes) - self.sizes).astype(float)
        values = self.functions(v, m, labels)
        return values.mean(1), values.std(1) / np.sqrt(n)

    def scores(self, n_rounds):
        """z-scores of all functions, averaged over rounds."""
        each = np.mean([self.round() for _ in range(n_rounds)], axis=0)
        expected, uncertain = self.prior()
        error = np.hypot(each.std(1, ddof=1) / np.sqrt(self.n_chains), uncertain)
        return (each.mean(1) - expected) / error


def uniform_first(log_negative, z, segments, plan, signs):
    """A wrong first positive: any instance of the bag, whatever its chances."""
    place = torch.arange(len(z))[:, None] - segments.spread(plan.starts)[:, None]
    chosen = segments.spread(torch.floor(signs[plan.starts] * segments.sizes[:, None]))
    return place >= chosen, torch.zeros(len(segments), z.shape[1], dtype=DOUBLE)


def test_the_joint_law_is_left_alone():
    scores = Game(2000, seed=1).scores(30)
    assert np.abs(scores).max() < 4, scores


def test_the_joint_law_shows_noise_without_kappa():
    assert np.abs(Game(2000, seed=1, noise="published").scores(30)).max() > 6


def test_the_joint_law_shows_a_wrong_first_positive(monkeypatch):
    monkeypatch.setattr(gibbs, "first_positive", uniform_first)
    assert np.abs(Game(2000, seed=1).scores(30)).max() > 6


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [21, 22, 23])
def test_the_joint_law_is_left_alone_in_the_long_run(seed):
    scores = Game(10_000, seed=seed).scores(300)
    assert np.abs(scores).max() < 4, scores


# ---------------------------------------------------------------- simulation-based calibration


def calibration_ranks(n_sets, n_draws, thin, seed, noise="exact"):
    """Rank of the truth among the draws, (5, data sets): uniform on 0 … n_draws if the posterior is right.

    All data sets share their features and run side by side, one label column and one chain each.
    """
    game = Game(n_sets, seed)
    truth = game.v
    evidence = CountEvidence(game.labels(truth).astype(float), game.sizes)
    sampler = sampler_of(game.phi, game.left, evidence, sizes=game.sizes, n_chains=1, seed=seed, noise=noise)
    rows, chunks = game.phi[[0, 7]], chunks_of(game.phi, game.left, game.sizes, evidence)
    log_z = chunks.chunks[0].evidence.terms
    design = chunks.chunks[0].design

    def quantities(v):
        likelihood = log_z(design.phi @ torch.tensor(v), design.segments)[0].sum(0).numpy()
        return np.stack([v[0], (v**2).sum(0), *(rows @ v), likelihood])

    run(sampler, 199, 1)
    goal, ranks = quantities(truth), 0
    for _ in range(n_draws):
        draws, _ = run(sampler, thin - 1, 1)
        ranks = ranks + (quantities(draws[0]) < goal)
    return ranks


def uniformity(ranks, n_draws, bins=16):
    """p-values of Pearson's chi-squared for every quantity."""
    counts = np.stack([np.bincount(row * bins // (n_draws + 1), minlength=bins) for row in ranks])
    expected = ranks.shape[1] / bins
    return chi2.sf(((counts - expected) ** 2 / expected).sum(1), bins - 1)


def test_posteriors_are_calibrated():
    p = uniformity(calibration_ranks(250, 31, thin=8, seed=31), 31)
    assert p.min() > 0.001, p


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [32, 33])
def test_posteriors_of_500_data_sets_are_calibrated(seed):
    p = uniformity(calibration_ranks(500, 63, thin=25, seed=seed), 63)
    assert p.min() > 0.001, p


@pytest.mark.statistical
def test_calibration_shows_a_wrong_noise():
    assert uniformity(calibration_ranks(4000, 63, thin=25, seed=34, noise="published"), 63).min() < 1e-6
