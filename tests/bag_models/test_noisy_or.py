"""q(y) of noisy bag labels: enumeration, slow loops, and what must not matter."""

import itertools
import math
import time

import numpy as np
import pytest
import torch
from scipy.special import expit, log_expit
from tests.problems import segments_of

from bagwise import Evidence, count, fraction, label
from bagwise.bag_models.noisy_or import (
    BagStatements,
    Noise,
    NoisyOrEvidence,
    factorised_belief,
    parallel_logits,
    position_order,
    sequential_logits,
    structured_belief,
)
from bagwise.evidence.counts import CountEvidence
from bagwise.evidence.statements import log_potentials

NAN = np.nan
CPU = torch.device("cpu")
YES, NO = torch.tensor([True]), torch.tensor([False])
TRUST = [10.0, 100.0, 1e4, 1e8, math.inf]


def statements(labels, sizes, known=None) -> BagStatements:
    labels = np.asarray(labels, dtype=float).reshape(len(sizes), -1)
    known = np.full(sum(sizes), NAN) if known is None else np.asarray(known, dtype=float)
    return BagStatements(
        torch.tensor(labels), torch.tensor(known), (None,) * labels.shape[1], segments_of(np.asarray(sizes))
    )


def label_potential(y, n, H):
    """p(T | k) for k = 0 … n."""
    fits = (np.arange(n + 1) >= 1) == (y == 1)
    return np.where(fits, 1.0 / (1.0 + 1.0 / H), 1.0 / (1.0 + H))


def enumerated(eta, psi, known):
    """log Σ_y ψ(Σy) exp(Σ yη) and P(y = 1), going through every labelling that the known instances allow."""
    total, first = 0.0, np.zeros(len(eta))
    for signs in itertools.product([0, 1], repeat=len(eta)):
        s = np.array(signs)
        if (s != known)[~np.isnan(known)].any():
            continue
        mass = psi[s.sum()] * np.exp(s @ eta)
        total += mass
        first += mass * s
    return np.log(total), first / total


# ---------------------------------------------------------------- structured


KNOWN = [{}, {2: 0.0}, {1: 0.0, 5: 0.0}, {3: 1.0}, {3: 1.0, 4: 0.0}]


def contradicts_itself(H, y, known):
    """A known positive in a bag whose negative label is never wrong: such a bag is refused before it comes here."""
    return math.isinf(H) and y == 0 and 1.0 in known.values()


@pytest.mark.parametrize(
    ("H", "y", "known"),
    [case for case in itertools.product(TRUST, [0.0, 1.0], KNOWN) if not contradicts_itself(*case)],
)
def test_structured_beliefs_equal_enumeration_on_bags_of_eight(H, y, known):
    given = np.full(8, NAN)
    given[list(known)] = list(known.values())
    for seed in range(4):
        eta = np.random.default_rng(seed).normal(-1.0, 2.0, size=8)
        said = statements([[y]], [8], given)
        belief = structured_belief(torch.tensor(eta)[:, None], said, Noise.of(H), NO)
        log_z, pi = enumerated(eta, label_potential(y, 8, H), given)
        np.testing.assert_allclose(belief.pi[:, 0], pi, rtol=0, atol=1e-12)
        uninformed = ~said.informed[:, 0].numpy()  # free ones beside a known positive: they add nothing to the bound
        alone = np.sum(np.logaddexp(0, eta[uninformed]))
        mean = np.where(uninformed, 0.0, pi) @ eta
        assert belief.own.item() == pytest.approx(log_z - alone - mean, abs=1e-10)
        assert uninformed.any() == (1.0 in known.values())


STATEMENTS = {
    "exactly 3": count(3, 3),
    "between 2 and 6": count(2, 6),
    "at most 2": count(0, 2),
    "fraction, confident": fraction(0.3, 1000.0),
    "fraction, loose": fraction(0.6, 2.0),
}


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize("known", [[], [(1, 1.0), (6, 0.0)]])
def test_counts_in_structured_beliefs_equal_enumeration(name, known):
    rng = np.random.default_rng(3)
    sizes = np.array([8, 2, 8])
    statement = Evidence.concat([STATEMENTS[name], label(1), count(NAN, NAN)])
    given = np.full(18, NAN)
    for place, value in known:
        given[place] = value
    table = log_potentials(statement, sizes)
    labels = np.array([[NAN], [1.0], [NAN]])
    evidence = CountEvidence(labels, sizes, (table,), (np.array([True, False, False]),), given)
    said = NoisyOrEvidence(evidence).chunk(slice(0, 3), torch.float64, CPU)
    eta = rng.normal(size=18)
    belief = structured_belief(torch.tensor(eta)[:, None], said, Noise.of(100.0), NO)
    log_z, pi = enumerated(eta[:8], np.exp(table[:9]), given[:8])
    log_z2, pi2 = enumerated(eta[8:10], label_potential(1.0, 2, 100.0), given[8:10])
    np.testing.assert_allclose(belief.pi[:8, 0], pi, rtol=0, atol=1e-10)
    np.testing.assert_allclose(belief.pi[8:10, 0], pi2, rtol=0, atol=1e-12)
    assert belief.own.item() == pytest.approx(log_z - pi @ eta[:8] + log_z2 - pi2 @ eta[8:10], abs=1e-10)
    assert said.informed[:10].all()
    assert not said.informed[10:].any()


def test_structured_beliefs_survive_where_probabilities_underflow():
    """All log odds far below zero in a positive bag: π must still add up to one positive, shared as e^η."""
    eta = np.array([-800.0, -801.0, -900.0])
    said = statements([[1.0]], [3])
    belief = structured_belief(torch.tensor(eta)[:, None], said, Noise.of(math.inf), NO)
    share = np.exp(eta - eta.max())
    np.testing.assert_allclose(belief.pi[:, 0], share / share.sum(), rtol=1e-12)
    assert np.isfinite(belief.own.item())


@pytest.mark.parametrize("H", [10.0, 1e8])
def test_trusting_beliefs_are_those_of_labels_that_are_never_wrong(H):
    rng = np.random.default_rng(0)
    said, eta = statements([[1.0], [0.0], [1.0]], [4, 3, 1]), torch.tensor(rng.normal(size=(8, 1)))
    trusting = structured_belief(eta, said, Noise.of(H), YES)
    certain = structured_belief(eta, said, Noise.of(math.inf), NO)
    torch.testing.assert_close(trusting.pi, certain.pi, rtol=0, atol=1e-14)
    assert trusting.own.item() == pytest.approx(certain.own.item() - 3 * math.log1p(1 / H), abs=1e-12)
    best = structured_belief(eta, said, Noise.of(H), NO)
    assert (trusting.own + (trusting.pi * eta).sum()).item() <= (best.own + (best.pi * eta).sum()).item()


def test_trusting_beliefs_leave_alone_what_known_instances_have_decided():
    said = statements([[0.0], [1.0]], [2, 2], [1.0, NAN, 0.0, 0.0])  # both labels are wrong, and known to be
    belief = structured_belief(torch.zeros(4, 1).double(), said, Noise.of(100.0), YES)
    assert belief.own.item() == pytest.approx(-2 * math.log1p(100.0), abs=1e-12)
    torch.testing.assert_close(belief.pi[:, 0], torch.tensor([1.0, 0.5, 0.0, 0.0]).double())


# ---------------------------------------------------------------- factorised


def slow_update(eta, logits, labels, sizes, known, log_H, sequential):
    """(5.3) straight from the paper's words: one bag after the other, one instance after the other."""
    out, start = logits.copy(), 0
    for size, y in zip(sizes, labels, strict=True):
        rows = np.arange(start, start + size)
        pi = np.where(np.isnan(known[rows]), expit(logits[rows]), known[rows])
        before = pi.copy()
        for i in range(size):
            seen = pi if sequential else before
            coupling = 0.0 if np.isnan(y) else (2 * y - 1) * log_H * np.prod(1 - np.delete(seen, i))
            out[rows[i]] = eta[rows[i]] + coupling
            if np.isnan(known[rows[i]]):
                pi[i] = expit(out[rows[i]])
        start += size
    return out


@pytest.mark.parametrize("sequential", [True, False])
@pytest.mark.parametrize("sizes", [[3, 1, 5, 2], [1], [40, 2, 2], [6] * 30, list(range(1, 25))])
def test_updates_equal_a_loop_over_single_instances(sequential, sizes):
    rng = np.random.default_rng(len(sizes))
    n = sum(sizes)
    eta, logits = rng.normal(-1, 2, size=n), rng.normal(-1, 1, size=n)
    labels = rng.choice([0.0, 1.0, NAN], len(sizes))
    known = np.where(rng.random(n) < 0.1, 0.0, NAN)
    said = statements(labels, sizes, known)
    rule = sequential_logits if sequential else parallel_logits
    found = rule(torch.tensor(eta)[:, None], torch.tensor(logits)[:, None], said, Noise.of(1e4))[:, 0].numpy()
    expected = slow_update(eta, logits, labels, sizes, known, math.log(1e4), sequential)
    free = np.isnan(known)
    np.testing.assert_allclose(found[free], expected[free], rtol=0, atol=1e-10)


@pytest.mark.parametrize("rule", [sequential_logits, parallel_logits])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_beside_a_known_positive_the_label_says_nothing(rule, value):
    eta, logits = torch.tensor([[-1.0], [0.5], [2.0]]).double(), torch.zeros(3, 1).double()
    found = rule(eta, logits, statements([value], [3], [NAN, 1.0, NAN]), Noise.of(100.0))
    torch.testing.assert_close(found[[0, 2]], eta[[0, 2]])


def test_columns_are_updated_as_if_each_were_alone():
    rng = np.random.default_rng(5)
    sizes = [3, 2, 9, 1]
    labels = rng.choice([0.0, 1.0, NAN], (4, 3))
    eta, logits = torch.tensor(rng.normal(size=(15, 3))), torch.tensor(rng.normal(size=(15, 3)))
    together = sequential_logits(eta, logits, statements(labels, sizes), Noise.of(100.0))
    for k in range(3):
        alone = sequential_logits(eta[:, [k]], logits[:, [k]], statements(labels[:, [k]], sizes), Noise.of(100.0))
        torch.testing.assert_close(together[:, [k]], alone, rtol=0, atol=1e-12)


def test_factorised_bound_equals_its_definition():
    rng = np.random.default_rng(1)
    sizes, labels = [3, 4, 1, 2], [1.0, 0.0, NAN, 1.0]
    known = np.full(10, NAN)
    known[[4, 9]] = 0.0, 1.0
    said = statements(labels, sizes, known)
    logits = rng.normal(size=10)
    pi = np.where(np.isnan(known), expit(logits), known)
    total, start = 0.0, 0
    for size, y in zip(sizes, labels, strict=True):
        own = pi[start : start + size]
        if not np.isnan(y):
            some = 1 - np.prod(1 - own)
            fits = some if y == 1 else 1 - some
            total += fits * math.log(100) - math.log(101)
        start += size
    entropy = -(pi * log_expit(logits) + (1 - pi) * log_expit(-logits))
    counted = [0, 1, 2, 3, 5, 6]  # not the known ones, not the unlabelled bag, not the one beside a known positive
    belief = factorised_belief(torch.tensor(logits)[:, None], said, Noise.of(100.0))
    assert belief.own.item() == pytest.approx(total + entropy[counted].sum(), abs=1e-12)
    np.testing.assert_allclose(belief.pi[:, 0], pi, atol=1e-15)


def test_instances_are_visited_by_their_position_in_the_longest_bags_first():
    order = position_order(np.array([1, 1, 0, 1, 1, 1, 1], dtype=bool), np.array([0, 0, 0, 1, 2, 2, 2]), 3)
    assert order.bags.tolist() == [2, 0, 1]
    assert order.rows.tolist() == [4, 0, 3, 5, 1, 6]
    assert order.ends.tolist() == [3, 5, 6]


def test_very_large_bags_take_no_absurd_time():
    """One bag of 10,000 among small ones: a sweep must not cost a Python step of tensors per instance."""
    sizes = [10_000, 4, 4, 4, 7]
    said = statements([1.0, 0.0, 1.0, 0.0, 1.0], sizes)
    eta = torch.tensor(np.random.default_rng(0).normal(-6, 1, size=(sum(sizes), 1)))
    sequential_logits(eta, eta, said, Noise.of(100.0))
    start = time.process_time()
    for _ in range(5):
        sequential_logits(eta, eta, said, Noise.of(100.0))
    assert (time.process_time() - start) / 5 < 0.1
