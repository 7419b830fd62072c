"""log Z and G of any evidence against enumeration of all sign patterns, and what the chunks make of it."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import scipy.special
import torch
from scipy.stats import norm
from tests.bag_models.count_terms import CPU, NAN, as_fitted, new_mixture, terms
from tests.numerics.digits import rounded
from tests.problems import enumerate_signs, segments_of

from bagwise.bag_models.counts import ProbitCounts, label_terms
from bagwise.evidence.counts import CountEvidence
from bagwise.evidence.statements import count, fraction, label, log_potentials
from bagwise.numerics.segments import Segments

RULES = {0.0: lambda k: float(k == 0), 1.0: lambda k: float(k >= 1)}


# Nine potentials on a bag of 8, with the noise of labels.
NINE = {
    "label 1": (label(1), 0.0),
    "label 0": (label(0), 0.0),
    "noisy label 1": (label(1), 0.1),
    "noisy label 0": (label(0), 0.1),
    "fraction, confident": (fraction(0.3, 1000.0), 0.0),
    "fraction, loose": (fraction(0.6, 2.0), 0.0),
    "fraction 1": (fraction(1.0, 5.0), 0.0),
    "exactly 3": (count(3, 3), 0.0),
    "between 2 and 6": (count(2, 6), 0.0),
}


def evidence_of(statement, sizes, known=None, noise=0.0):
    """Everything through tables, labels too."""
    sizes = np.asarray(sizes)
    table = log_potentials(statement, sizes, noise)
    known = np.full(sizes.sum(), NAN) if known is None else np.asarray(known, dtype=float)
    nothing = np.full((len(sizes), 1), NAN)
    return CountEvidence(nothing, sizes, (table,), (np.ones(len(sizes), dtype=bool),), known)


def enumerated(f, psi, known):
    """log Z, G and Var m of one bag, by going through every labelling that the known instances allow."""
    weight, first, second = 0.0, np.zeros(len(f)), np.zeros(len(f))
    for signs in itertools.product([0, 1], repeat=len(f)):
        s = np.array(signs)
        if (s != known)[~np.isnan(known)].any():
            continue
        mass = psi[s.sum()] * np.prod(norm.cdf(np.where(s == 1, f, -f)))
        mean = np.where(s == 1, f + norm.pdf(f) / norm.cdf(f), f - norm.pdf(f) / norm.cdf(-f))
        weight += mass
        first += mass * mean
        second += mass * (1 + f * mean)  # E[m²] of a normal cut at zero is 1 + f E[m]
    return np.log(weight), first / weight - f, second / weight - (first / weight) ** 2


@pytest.fixture
def mixture():
    return new_mixture()


# ---------------------------------------------------------------- plain labels


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
    assert log_z[1] == 0
    assert (g[2:5] == 0).all()
    torch.testing.assert_close(log_z[:1], alone, rtol=0, atol=1e-15)
    torch.testing.assert_close(g[:2], g_alone, rtol=0, atol=1e-15)


@pytest.mark.parametrize("far", [1e10, -1e10])
def test_a_missing_label_says_nothing_however_far_out_its_instances_lie(far):
    f, labels = torch.tensor([[far], [0.3]], dtype=torch.float64), torch.tensor([[torch.nan], [1.0]]).double()
    log_z, g = label_terms(f, labels, segments_of([1, 1]))
    assert log_z[0, 0] == g[0, 0] == 0.0
    assert bool(torch.isfinite(g).all())


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


# ---------------------------------------------------------------- nine potentials on bags of 8


KNOWN = {
    "none known": [NAN] * 8,
    "one of each": [NAN, 1, NAN, NAN, 0, NAN, NAN, NAN],
    "three positives": [1, NAN, 1, NAN, NAN, 1, NAN, NAN],
    "all but one": [1, 1, 0, NAN, 1, 0, 0, 0],
}


# A known instance can contradict its bag: these leave no labelling at all.
IMPOSSIBLE = {
    ("label 0", "one of each"),
    ("label 0", "three positives"),
    ("label 0", "all but one"),
    ("fraction 1", "one of each"),
    ("fraction 1", "all but one"),
}
CASES = [(name, known) for name in NINE for known in KNOWN if (name, known) not in IMPOSSIBLE]


@pytest.mark.parametrize(("name", "known"), CASES)
def test_normaliser_mean_and_variance_of_m_equal_enumeration(name, known):
    statement, noise = NINE[name]
    f = np.random.default_rng(3).normal(scale=1.5, size=8)
    z, expected, variance = enumerated(
        f, np.exp(log_potentials(statement, np.array([8]), noise)), np.array(KNOWN[known])
    )
    log_z, g = terms(evidence_of(statement, [8], KNOWN[known], noise), f)
    assert log_z[0] == pytest.approx(z, abs=1e-10)
    np.testing.assert_allclose(g, expected, atol=1e-10)
    np.testing.assert_allclose(1 - f * g - g**2, variance, atol=1e-10)  # (2.3)


@pytest.mark.parametrize(("name", "known"), CASES)
def test_g_of_a_table_is_the_gradient_of_log_z(name, known):
    statement, noise = NINE[name]
    evidence = evidence_of(statement, [8], KNOWN[known], noise)
    f, step = np.random.default_rng(4).normal(scale=1.5, size=8), 1e-5
    _, g = terms(evidence, f)
    for i in range(8):
        up, down = f.copy(), f.copy()
        up[i] += step
        down[i] -= step
        slope = (terms(evidence, up)[0] - terms(evidence, down)[0])[0] / (2 * step)
        assert g[i] == pytest.approx(slope, abs=1e-8)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_label_through_its_table_equals_the_closed_form(value):
    f = np.random.default_rng(5).normal(scale=2.0, size=11)
    sizes = [4, 1, 6]
    by_table = terms(evidence_of(label([value] * 3), sizes), f)
    closed = terms(CountEvidence(np.full((3, 1), value), np.array(sizes)), f)
    np.testing.assert_allclose(by_table[0], closed[0], atol=1e-13)
    np.testing.assert_allclose(by_table[1], closed[1], atol=1e-13)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_noisy_label_through_its_table_equals_the_closed_form(value):
    f = np.random.default_rng(6).normal(scale=2.0, size=11)
    sizes = [4, 1, 6]
    by_table = terms(evidence_of(label([value] * 3), sizes, noise=0.2), f)
    closed = terms(CountEvidence(np.full((3, 1), value), np.array(sizes), label_noise=0.2), f)
    np.testing.assert_allclose(by_table[0], closed[0], atol=1e-12)
    np.testing.assert_allclose(by_table[1], closed[1], atol=1e-12)


def test_a_known_instance_keeps_its_own_factor():
    """An instance that is known teaches its own latent value, and nothing about the others if nothing else is said."""
    f = np.array([0.4, -1.0, 0.7])
    log_z, g = terms(evidence_of(label(NAN), [3], [1, NAN, 0]), f)
    assert log_z[0] == pytest.approx(norm.logcdf(0.4) + norm.logcdf(-0.7), abs=1e-14)
    expected = [norm.pdf(0.4) / norm.cdf(0.4), 0.0, -norm.pdf(0.7) / norm.cdf(-0.7)]
    np.testing.assert_allclose(g, expected, atol=1e-14)


# ---------------------------------------------------------------- extremes


@pytest.mark.parametrize("f", [-40.0, 40.0])
@pytest.mark.parametrize("name", NINE)
def test_far_out_values_stay_finite_and_the_pull_stays_right(name, f):
    """With every f the same, by symmetry G = r h(f) − (1 − r) h(−f) with one r, the expected share of positives.

    Where the evidence contradicts f, log Z is about −f²/2 for every instance that must change sign.
    """
    statement, noise = NINE[name]
    values = np.full(8, f)
    log_z, g = terms(evidence_of(statement, [8], None, noise), values)
    assert np.isfinite(log_z).all()
    assert np.isfinite(g).all()
    np.testing.assert_allclose(g, g[0], rtol=1e-9)
    psi = log_potentials(statement, np.array([8]), noise)
    changed = np.arange(9) if f < 0 else np.arange(8, -1, -1)
    best = (psi + changed * norm.logcdf(-40.0)).max()
    assert best - 1e-6 <= log_z[0] <= best + np.log(9 * 70)  # at most C(8, 4) = 70 ways for each count


def test_one_positive_among_very_negative_instances_is_found():
    log_z, g = terms(evidence_of(count(1, 8), [8]), np.array([-40.0] * 7 + [-38.0]))
    assert log_z[0] == pytest.approx(norm.logcdf(-38.0), abs=1e-10)
    assert g[-1] == pytest.approx(38.0 + 1 / 38.0, rel=1e-4)
    assert np.abs(g[:-1]).max() < 1e-10


# ---------------------------------------------------------------- chunks


def test_kinds_mix_in_one_chunk(mixture):
    statement, sizes, known, f = mixture
    log_z, g = terms(as_fitted(*mixture[:3]), f)
    start = np.concatenate([[0], np.cumsum(sizes)])
    for b in range(len(sizes)):
        rows = slice(start[b], start[b + 1])
        psi = np.exp(log_potentials(statement[b], sizes[[b]]))
        z, expected, _ = enumerated(f[rows], psi, known[rows])
        assert log_z[b] == pytest.approx(z, abs=1e-10)
        np.testing.assert_allclose(g[rows], expected, atol=1e-10)


@pytest.mark.parametrize("cuts", [[0, 12], [0, 1, 12], [0, 5, 6, 12], list(range(13))])
def test_how_bags_are_cut_into_chunks_does_not_matter(mixture, cuts):
    statement, sizes, known, f = mixture
    evidence = as_fitted(statement, sizes, known)
    whole_z, whole_g = terms(evidence, f)
    start = np.concatenate([[0], np.cumsum(sizes)])
    found_z, found_g, found_informed = [], [], []
    for first, last in itertools.pairwise(cuts):
        chunk, segments = (
            ProbitCounts(evidence).chunk(slice(first, last), torch.float64, CPU),
            segments_of(sizes[first:last]),
        )
        log_z, g = chunk.terms(torch.tensor(f[start[first] : start[last], None]), segments)
        found_z.append(log_z[:, 0])
        found_g.append(g[:, 0])
        found_informed.append(chunk.informed(0, segments))
    np.testing.assert_allclose(torch.cat(found_z).numpy(), whole_z, atol=1e-13)
    np.testing.assert_allclose(torch.cat(found_g).numpy(), whole_g, atol=1e-13)
    whole = ProbitCounts(evidence).chunk(slice(0, 12), torch.float64, CPU).informed(0, segments_of(sizes))
    assert torch.equal(torch.cat(found_informed), whole)


# ---------------------------------------------------------------- who is informed


@pytest.mark.parametrize(
    ("statement", "known", "informed"),
    [
        (label(1), [NAN, NAN, NAN], [1, 1, 1]),
        (label(1), [NAN, 0, NAN], [1, 1, 1]),
        (label(1), [NAN, 1, NAN], [0, 1, 0]),  # the known positive fulfils the label alone
        (label(0), [NAN, 0, NAN], [1, 1, 1]),
        (label(NAN), [NAN, 0, NAN], [0, 1, 0]),
        (count(0, 3), [NAN, NAN, NAN], [0, 0, 0]),
        (count(1, 3), [1, NAN, NAN], [1, 0, 0]),
        (count(0, 2), [NAN, NAN, 0], [0, 0, 1]),
        (count(0, 2), [NAN, NAN, 1], [1, 1, 1]),
        (count(1, 2), [0, 1, NAN], [1, 1, 0]),
        (fraction(0.5, 10.0), [1, NAN, NAN], [1, 1, 1]),
        (fraction(0.5, 10.0), [1, 0, 1], [1, 1, 1]),
    ],
)
def test_free_instances_under_a_constant_potential_are_not_informed(statement, known, informed):
    evidence = evidence_of(statement, [3], known)
    chunk = ProbitCounts(evidence).chunk(slice(0, 1), torch.float64, CPU)
    assert chunk.informed(0, segments_of([3])).tolist() == [bool(one) for one in informed]
    g = terms(evidence, [0.3, -0.2, 0.9])[1]
    assert (np.abs(g) > 1e-12).tolist() == [bool(one) for one in informed]


def test_a_known_positive_leaves_a_noisy_label_nothing_to_say_about_the_others():
    evidence = evidence_of(label(1), [3], [NAN, 1, NAN], noise=0.1)
    assert ProbitCounts(evidence).chunk(slice(0, 1), torch.float64, CPU).informed(0, segments_of([3])).tolist() == [
        False,
        True,
        False,
    ]


def exact_g(bag, label):
    """G of (0.2) for one bag, by its definition."""
    with mpmath.workdps(900):
        f = [mpmath.mpf(float(value)) for value in bag]
        below = {value: mpmath.ncdf(-value) for value in set(f)}
        negative = mpmath.fprod(below[value] for value in f)
        weight = negative / (1 - negative) if label == 1 else mpmath.mpf(-1)
        pull = {value: float(mpmath.npdf(value) / below[value] * weight) for value in below}
        return [pull[value] for value in f]


BAGS = [
    [-45.0],
    [-40.0, -38.0, -45.0, -60.0],
    [-4.375, -30.0],  # log(-log P(all negative)) just below -12 …
    [-4.36, -30.0],  # … and just above
    [-3.1, -2.9, 0.0, 1.0],
    [-9.0, 20.0],
    [-8.0] * 500,
    [8.0, 9.0],
]


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-4)], ids=["double", "single"]
)
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_pull_of_a_label_against_900_digits(dtype, tolerance, label):
    sizes = [len(bag) for bag in BAGS]
    f = rounded([value for bag in BAGS for value in bag], dtype)
    segments = Segments(torch.tensor(np.concatenate([[0], np.cumsum(sizes)])))
    _, g = label_terms(f[:, None], torch.full((len(BAGS), 1), label, dtype=dtype), segments)
    expected = np.concatenate([exact_g(bag, label) for bag in f.double().split(sizes)])
    tiny = torch.finfo(dtype).tiny  # below it nothing can be asked of a relative error
    np.testing.assert_allclose(g[:, 0].double().numpy(), expected, rtol=tolerance, atol=10 * tiny)


def test_pull_where_the_naive_form_gives_nothing():
    """f = (-40, -38, -45, -60): the likeliest instance is pulled up by 38, not by 1e-14."""
    f = torch.tensor([[-40.0], [-38.0], [-45.0], [-60.0]], dtype=torch.float64)
    log_z, g = label_terms(f, torch.ones(1, 1, dtype=torch.float64), Segments(torch.tensor([0, 4])))
    assert g.max().item() == pytest.approx(38.0, abs=0.05)
    assert g.argmax().item() == 1
    assert log_z.item() == pytest.approx(scipy.special.log_ndtr(-38.0), rel=1e-12)


def test_pull_is_continuous_where_the_series_take_over():
    """A step of 1e-9 across every threshold moves G by about as much, in either arithmetic's direction."""
    for f0 in (-5.0, -3.0, scipy.special.ndtri_exp(-12.0), scipy.special.ndtri_exp(-20.0)):
        f = torch.tensor([[f0 - 1e-9], [f0 + 1e-9]], dtype=torch.float64)
        _, g = label_terms(f, torch.ones(2, 1, dtype=torch.float64), Segments(torch.tensor([0, 1, 2])))
        assert abs(float(g[0] - g[1])) < 1e-8


SIZES = [1, 3, 5, 2]


@pytest.fixture
def latent():
    return torch.tensor(np.random.default_rng(0).normal(size=(sum(SIZES), 1)), requires_grad=True)


@pytest.mark.parametrize("noise", [0.0, 1e-6, 0.05, 0.3, 0.499])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_noisy_label_is_right_or_wrong(latent, noise, value):
    labels = torch.full((len(SIZES), 1), value, dtype=torch.float64)
    found, _ = label_terms(latent, labels, segments_of(SIZES), noise)
    f, start = latent.detach().numpy()[:, 0], np.cumsum([0, *SIZES])
    for bag in range(len(SIZES)):
        negative = norm.cdf(-f[start[bag] : start[bag + 1]]).prod()
        right = negative if value == 0 else 1.0 - negative
        assert found[bag, 0].exp().item() == pytest.approx((1 - noise) * right + noise * (1 - right), rel=1e-12)


@pytest.mark.parametrize("noise", [1e-6, 0.05, 0.3])
def test_pull_of_a_noisy_label_is_the_gradient_of_its_log_probability(latent, noise):
    labels = torch.tensor([[1.0], [0.0], [1.0], [torch.nan]], dtype=torch.float64)
    log_z, pull = label_terms(latent, labels, segments_of(SIZES), noise)
    (gradient,) = torch.autograd.grad(log_z.sum(), latent)
    torch.testing.assert_close(pull, gradient, rtol=1e-9, atol=1e-12)
    assert log_z[3].item() == 0.0
    assert not pull[-2:].any()


def test_noise_bounds_what_a_label_can_say():
    f = torch.tensor([[-40.0], [40.0], [40.0]], dtype=torch.float64)
    labels = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    log_z, pull = label_terms(f, labels, segments_of([1, 2]), 0.1)
    np.testing.assert_allclose(log_z[:, 0], math.log(0.1), rtol=1e-12)
    np.testing.assert_allclose(pull, 0.0, atol=1e-12)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_closed_form_of_a_noisy_label_equals_its_table(latent, value):
    sizes = np.array(SIZES)
    table = log_potentials(label(np.full(len(sizes), value)), sizes, 0.2)
    by_table = np.ones(len(sizes), dtype=bool)
    tabled = CountEvidence(np.full((len(sizes), 1), np.nan), sizes, (table,), (by_table,))
    closed = CountEvidence(np.full((len(sizes), 1), value), sizes, label_noise=0.2)
    found = [
        ProbitCounts(evidence).chunk(slice(0, 4), torch.float64, CPU).terms(latent.detach(), segments_of(SIZES))
        for evidence in (closed, tabled)
    ]
    for part, other in zip(*found, strict=True):
        torch.testing.assert_close(part, other, rtol=1e-10, atol=1e-12)
