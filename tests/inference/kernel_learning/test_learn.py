"""Learning a kernel in stages: which bags take part, how many rows, and what chunks and interruptions leave of it."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from gpytorch import kernels as gpk
from tests.inference.kernel_learning.learning_problems import labels_of, settings, start
from tests.problems import features_of

from bagwise import Bags
from bagwise.datasets import make_bags
from bagwise.evidence.reading import CountReading, read_counts
from bagwise.exceptions import NumericalError
from bagwise.gp import kernels
from bagwise.gp.kernel_parameters import KernelParameters
from bagwise.inference.kernel_learning import judges, learn, search
from bagwise.inference.kernel_learning.judges import PIECES, LearningSet, judge_of
from bagwise.inference.kernel_learning.learn import learn_features
from bagwise.inference.loop import SILENT

ROWS_AND_BAGS = ((30_001, 30_001), (30_000, 20))


def many_sizes(n_bags=300, largest=1500):
    """Bags of one row up to many, whose single feature is the number of their bag."""
    sizes = np.unique(np.geomspace(1, largest, n_bags).astype(int)).repeat(3)
    index = np.repeat(np.arange(len(sizes)), sizes)
    bags = Bags(index[:, None].astype(float), index)
    return bags, labels_of(np.arange(len(bags)) % 2, bags)


def stages(bags, evidence, free=1, **changes):
    return [(some, stated) for some, stated, _ in learn._stages(bags, evidence, settings(**changes), free)]


def members(some):
    """Which bags of ``many_sizes`` are there."""
    return set(some.X[:, 0].astype(int).tolist())


def parameters(features):
    return KernelParameters(features.kernel, features.inducing.shape[1]).get()


# ---------------------------------------------------------------- which bags


def test_stages_are_nested_and_end_with_everything():
    bags, evidence = many_sizes()
    found = stages(bags, evidence)
    assert len(found) == 3
    for (fewer, _), (more, _) in itertools.pairwise(found):
        assert members(fewer) <= members(more)
    assert found[-1][0].n_instances == bags.n_instances
    assert all(len(some) == len(said.labels) for some, said in found)


@pytest.mark.parametrize("seed", range(3))
def test_no_bag_is_left_out_of_a_stage_for_its_size(seed):
    bags, evidence = many_sizes()
    large = set(np.flatnonzero(bags.sizes > learn.MOST_OF_A_BAG).tolist())
    share = len(large) / len(bags)
    for some, _ in stages(bags, evidence, seed=seed)[:2]:
        expected = share * len(some)
        assert abs(len(members(some) & large) - expected) < 4 * np.sqrt(expected * (1 - share)) + 1e-9
        assert members(some) & large


def test_large_bags_are_thinned_before_the_last_stage_and_whole_in_it():
    bags, evidence = many_sizes()
    found = stages(bags, evidence)
    for some, said in found[:-1]:
        assert some.sizes.max() <= learn.MOST_OF_A_BAG
        assert np.array_equal(np.diff(said.offsets), some.sizes)
        numbers = np.array(sorted(members(some)))
        assert np.array_equal(some.sizes, np.minimum(bags.sizes[numbers], learn.MOST_OF_A_BAG))
        assert np.array_equal(said.labels[:, 0], numbers % 2)
    assert found[-1][0].sizes.max() == bags.sizes.max()


def test_labels_that_the_user_gave_are_thinned_too():
    """What is read from labels has a table of which no bag makes use."""
    bags, _ = many_sizes()
    y = np.arange(len(bags)) % 2
    evidence = read_counts(y, bags, bags, CountReading("label", 1000.0, 0.0, closed_noise=True)).evidence
    assert stages(bags, evidence)[0][0].sizes.max() <= learn.MOST_OF_A_BAG


def test_search_for_large_bags_begins_at_the_best_of_several_kernels():
    """A judge that sees nothing but at large variances: from the first start its slope is zero."""
    kernel = kernels.make_kernel(gpk.ScaleKernel(gpk.RBFKernel()), 2, None, torch.float64)
    parameters = KernelParameters(kernel, 2)

    class Judge:
        def value(self):
            variance, lengthscale = kernel.outputscale.item(), kernel.base_kernel.lengthscale.item()
            if lengthscale > 2.0:
                raise NumericalError("not settled")
            return 10.0 if variance > 4.0 else 0.0

    first, start = parameters.get(), learn._best_start(parameters, Judge(), parameters.starts())
    parameters.set(start)
    assert kernel.outputscale.item() > 4.0
    assert kernel.base_kernel.lengthscale.item() == pytest.approx(2.0 * np.exp(first[1]), rel=1e-6)  # next to √2


def test_second_search_looks_at_the_usual_starts_again(problem, monkeypatch):
    """To the first bags the kernel that they end at looks best; to more of them another one does."""
    bags, y = problem
    monkeypatch.setattr(learn, "STAGES", (80, 160))
    monkeypatch.setattr(learn, "LEAST_BAGS", 5)
    begun, seen = [], []
    best = learn._best_start

    def told(parameters, judge, starts):
        begun.append(parameters.get())
        seen.append(list(starts))
        return best(parameters, judge, starts) if len(seen) == 1 else starts[-1]

    monkeypatch.setattr(learn, "_best_start", told)
    searched, ways = learn._searched, []
    monkeypatch.setattr(
        learn, "_searched", lambda search, last, *rest: (ways.append(last), searched(search, last, *rest))[1]
    )
    learn_features(start(bags), bags, labels_of(y, bags), settings(), SILENT)
    usual = KernelParameters(start(bags).kernel, 2).starts()
    assert len(seen) == 2  # not where a third search begins
    np.testing.assert_allclose(seen[0], usual)
    np.testing.assert_allclose(seen[1], [begun[1], *usual])
    assert ways[:2] == [None, None]  # a search of its own, no refinement of the first


def test_usual_starts_are_looked_at_again_only_where_there_are_more_bags_of_few_rows():
    last = learn.Stage(60, lambda vector: vector)
    few, many = (Bags(np.zeros((n_rows, 1)), np.arange(n_rows) % 61) for n_rows in (100, learn.STAGES[-1] + 1))
    assert learn._tells_more(few, last)
    assert not learn._tells_more(few, last._replace(n_bags=61))
    assert not learn._tells_more(many, last)


def test_few_rows_are_one_stage():
    bags, y, _ = make_bags(20, (2, 9), 2, random_state=0)
    ((some, said),) = stages(bags, labels_of(y, bags))
    assert np.array_equal(some.X, bags.X)
    assert np.array_equal(said.labels[:, 0], y)


def test_bags_that_say_nothing_take_no_part():
    bags, evidence = many_sizes()
    evidence.labels[::2] = np.nan
    for some, said in stages(bags, evidence):
        assert not any(number % 2 == 0 for number in members(some))
        assert not np.isnan(said.labels).any()


@pytest.mark.parametrize("rows", [2_000, 3_000, 20_000])
def test_learn_rows_limits_the_rows_of_every_stage(rows):
    bags, evidence = many_sizes()
    found = stages(bags, evidence, rows=rows)
    assert len(found) == 1 + (rows > learn.STAGES[0])
    most = max(some.n_instances for some, _ in found)
    floor = learn.LEAST_BAGS * learn.MOST_OF_A_BAG if rows < 20_000 else 0
    assert most <= max(rows + learn.MOST_OF_A_BAG, floor)
    assert most < bags.n_instances


def test_very_many_rows_must_promise_more_for_another_kernel():
    one_each, few = (Bags(np.zeros((n_rows, 1)), np.arange(n_rows) % n_bags) for n_rows, n_bags in ROWS_AND_BAGS)
    many = Bags(np.zeros((30_001, 1)), np.arange(30_001) % 20)
    assert learn._enough(few) < learn._enough(many) < learn._enough(one_each)
    assert learn._enough(one_each) == learn._NEGLIGIBLE * len(one_each)


def test_very_many_rows_are_judged_after_a_third_of_them_at_most():
    assert learn._row_limits(2_000) == [2_000]
    assert learn._row_limits(800_000) == [3_000, 30_000, 800_000]
    assert learn._row_limits(1_000_000) == [3_000, 30_000, 300_000, 1_000_000]
    assert learn._row_limits(10_000_000) == [3_000, 30_000, 300_000, 3_000_000, 10_000_000]


@pytest.mark.parametrize(("free", "asked"), [(1, [100, 200]), (200, [100, 200, 500])])
def test_no_more_bags_are_asked_than_matter_for_so_many_parameters(free, asked, monkeypatch):
    """That 200 bags are asked in place of 500 costs .0015 nats a bag with one parameter, and .3 with two hundred."""
    monkeypatch.setattr(learn, "STAGES", (1_000, 2_000))
    monkeypatch.setattr(learn, "LATER_STAGES", ())
    monkeypatch.setattr(learn, "LEAST_BAGS", 5)
    bags = Bags(np.zeros((5_000, 1)), np.repeat(np.arange(500), 10))
    found = stages(bags, labels_of(np.arange(500) % 2, bags), free=free)
    assert [len(some) for some, _ in found] == asked


def test_bags_that_were_seen_in_part_do_not_stand_for_more(monkeypatch):
    monkeypatch.setattr(learn, "STAGES", (1_000, 2_000))
    monkeypatch.setattr(learn, "LATER_STAGES", ())
    monkeypatch.setattr(learn, "LEAST_BAGS", 5)
    monkeypatch.setattr(learn, "MOST_OF_A_BAG", 9)
    bags = Bags(np.zeros((5_000, 1)), np.repeat(np.arange(500), 10))
    evidence = labels_of(np.arange(500) % 2, bags)
    assert len(stages(bags, evidence)) == 3
    assert len(stages(bags, evidence, by_bags=False)) == 2  # there all rows of a bag take part


def test_stages_between_keep_bags_whole(monkeypatch):
    monkeypatch.setattr(learn, "STAGES", (30,))
    monkeypatch.setattr(learn, "LATER_STAGES", (300,))
    monkeypatch.setattr(learn, "LEAST_BAGS", 2)
    monkeypatch.setattr(learn, "MOST_OF_A_BAG", 5)
    bags = Bags(np.zeros((6000, 1)), np.repeat(np.arange(300), 20))
    found = [some for some, _ in stages(bags, labels_of(np.arange(300) % 2, bags))]
    assert [(len(some), some.n_instances) for some in found] == [(6, 30), (15, 300), (300, 6000)]


def test_many_rows_refine_what_fewer_have_found(problem, monkeypatch):
    bags, y = problem
    monkeypatch.setattr(learn, "STAGES", (80,))
    monkeypatch.setattr(learn, "LEAST_BAGS", 5)
    asked = []
    refine = learn.EvidenceSearch.refine
    monkeypatch.setattr(learn.EvidenceSearch, "refine", lambda self, *rest: asked.append(1) or refine(self, *rest))
    staged = learn_features(start(bags), bags, labels_of(y, bags), settings(by_bags=False), SILENT)
    assert asked
    monkeypatch.setattr(learn, "STAGES", (10_000,))
    whole = learn_features(start(bags), bags, labels_of(y, bags), settings(by_bags=False), SILENT)
    assert staged.trace.values[-1] > whole.trace.values[-1] - 2 * learn._STAYS_OF_MANY


def test_at_least_so_many_bags_take_part_however_large_they_are():
    sizes = np.full(80, 600)
    index = np.repeat(np.arange(80), sizes)
    bags = Bags(index[:, None].astype(float), index)
    some, _ = stages(bags, labels_of(np.arange(80) % 2, bags))[0]
    assert len(some) == learn.LEAST_BAGS


def test_large_bags_count_as_the_rows_that_are_kept_of_them(monkeypatch):
    monkeypatch.setattr(learn, "MOST_OF_A_BAG", 5)
    monkeypatch.setattr(learn, "STAGES", (500,))
    bags = Bags(np.zeros((6000, 1)), np.repeat(np.arange(300), 20))
    evidence = labels_of(np.arange(300) % 2, bags)
    assert [len(some) for some, _ in stages(bags, evidence)] == [100, 300]
    assert [len(some) for some, _ in stages(bags, evidence, by_bags=False)] == [learn.LEAST_BAGS, 300]


def test_learn_rows_is_kept_to_whatever_the_bags():
    bags, evidence = many_sizes()
    for by_bags in (False, True):
        for rows in (200, 1000, 20_000):
            for some, _ in stages(bags, evidence, rows=rows, by_bags=by_bags):
                assert some.n_instances <= rows or len(some) == 1


def test_every_stage_has_more_bags_than_the_last():
    sizes = np.full(300, 600)
    bags = Bags(np.zeros((sizes.sum(), 1)), np.repeat(np.arange(300), sizes))
    evidence = labels_of(np.arange(300) % 2, bags)
    for rows, expected in ((4_000, [8]), (40_000, [60, 80]), (None, [60, 300])):
        assert [len(some) for some, _ in stages(bags, evidence, rows=rows)] == expected


def test_all_rows_of_few_bags_are_learned_from_unless_fewer_are_named():
    bags, evidence = many_sizes()
    assert stages(bags, evidence)[-1][0].n_instances == bags.n_instances
    assert stages(bags, evidence, rows=bags.n_instances - 1)[-1][0].n_instances < bags.n_instances
    assert stages(bags, evidence, rows=bags.n_instances)[-1][0].n_instances == bags.n_instances


def test_bags_with_other_evidence_than_labels_stay_whole():
    bags, evidence = many_sizes()
    for some, _ in stages(bags, evidence, by_bags=False):
        numbers = np.array(sorted(members(some)))
        assert np.array_equal(some.sizes, bags.sizes[numbers])


@pytest.mark.parametrize("size", [300, 2 * learn.MOST_OF_A_BAG])
def test_a_negative_bag_has_as_many_pieces_in_every_stage(size):
    """Also where a part of its rows stands for it. Cut finer, a few bags would ask for another kernel than all."""
    bags = Bags(np.zeros((100 * size, 1)), np.repeat(np.arange(100), size))
    kept, found = start(bags), []
    for some, stated, share in learn._stages(bags, labels_of(np.arange(100) % 2, bags), settings(), 2):
        learning = LearningSet(kept, kept.kernel, kept.inducing, some, stated, share).rows_in_pieces()
        cut = [chunk.evidence.pieces[0] for chunk in learning.chunks().chunks]
        counts = np.concatenate([np.bincount(pieces.bag) for pieces in cut if pieces is not None])
        found.append(set(counts[counts > 1].tolist()))
        assert (counts > 1).sum() == (stated.labels[:, 0] == 0).sum()
    assert found == [{PIECES // 50}] * 2


# ---------------------------------------------------------------- what is learned


@pytest.fixture(scope="module")
def problem():
    bags, y, _ = make_bags(40, (2, 12), 2, random_state=3)
    return bags, y


@pytest.mark.parametrize("by_bags", [True, False])
def test_chunks_of_rows_change_no_learned_kernel(problem, by_bags, monkeypatch):
    bags, y = problem
    whole = learn_features(start(bags), bags, labels_of(y, bags), settings(by_bags=by_bags), SILENT)
    monkeypatch.setattr(judges, "CHUNK_ROWS", 50)
    cut = learn_features(start(bags), bags, labels_of(y, bags), settings(by_bags=by_bags), SILENT)
    np.testing.assert_allclose(parameters(cut.features), parameters(whole.features), rtol=1e-5, atol=1e-5)
    assert not np.allclose(parameters(whole.features), parameters(start(bags)), atol=1e-2)


def test_learning_in_stages_comes_near_to_learning_from_all_rows(problem, monkeypatch):
    bags, y = problem
    whole = learn_features(start(bags), bags, labels_of(y, bags), settings(), SILENT)
    monkeypatch.setattr(learn, "STAGES", (80, 1_000))
    monkeypatch.setattr(learn, "LEAST_BAGS", 5)
    staged = learn_features(start(bags), bags, labels_of(y, bags), settings(), SILENT)
    assert np.abs(parameters(staged.features) - parameters(whole.features)).max() < 0.3
    assert staged.trace.converged


def test_going_on_after_the_first_rows_asks_no_more_about_these(problem, monkeypatch):
    bags, y = problem
    monkeypatch.setattr(learn, "STAGES", (80, 160))
    monkeypatch.setattr(learn, "LEAST_BAGS", 5)
    judged = []

    def counted(some, chosen):
        judged.append(some.bags.n_instances)
        return judge_of(some, chosen)

    monkeypatch.setattr(learn, "judge_of", counted)
    args = start(bags), bags, labels_of(y, bags)
    staged = learn_features(*args, settings(), SILENT)
    by_stages, judged[:] = list(judged), []
    first = learn_features(*args, settings(one_stage=True), SILENT)
    rest = learn_features(*args, settings(), SILENT, after=first)
    assert len(by_stages) > 1
    assert judged == by_stages  # the first rows once, by the first search
    assert list(rest.trace.values[: len(first.trace)]) == list(first.trace.values)
    assert np.abs(parameters(rest.features) - parameters(staged.features)).max() < 0.3


def test_what_did_not_settle_is_searched_again(problem):
    bags, y = problem
    args = start(bags), bags, labels_of(y, bags)
    first = learn_features(*args, settings(), SILENT)
    unsettled = first._replace(trace=replace(first.trace, converged=False))
    again = learn_features(*args, settings(), SILENT, after=unsettled)
    assert again.trace.converged
    assert again.trace is not first.trace


def test_a_kernel_with_nothing_free_is_left_alone_and_has_no_trace(problem):
    bags, y = problem
    kernel = gpk.RBFKernel()
    kernel.raw_lengthscale.requires_grad_(False)
    features = features_of(bags, kernel=kernel, lengthscale=None)
    learned = learn_features(features, bags, labels_of(y, bags), settings(), SILENT)
    assert learned.features is features
    assert learned.trace is None


def test_the_given_features_are_not_changed(problem):
    bags, y = problem
    features = start(bags)
    before = parameters(features)
    learn_features(features, bags, labels_of(y, bags), settings(learn_inducing=True), SILENT)
    assert np.array_equal(parameters(features), before)
    assert torch.equal(features.inducing, start(bags).inducing)


def test_interruption_keeps_the_best_kernel_so_far(problem, monkeypatch):
    bags, y = problem
    seen = []

    def interrupted(some, chosen):
        inner = judge_of(some, chosen)

        def judge():
            if len(seen) == 4:
                raise KeyboardInterrupt
            block = KernelParameters(some.kernel, 2)
            value = inner()
            seen.append(
                (value - 0.5 * float(np.square((block.get() - block.centre) / block.spread).sum()), block.get())
            )
            return value

        return judge

    monkeypatch.setattr(learn, "judge_of", interrupted)
    learned = learn_features(start(bags), bags, labels_of(y, bags), settings(), SILENT)
    assert learned.trace.interrupted
    assert not learned.trace.converged
    best = max(seen, key=lambda pair: pair[0])
    np.testing.assert_allclose(parameters(learned.features), best[1])


def test_a_kernel_that_can_be_judged_nowhere_stays_as_given_and_is_reported(problem, monkeypatch):
    bags, y = problem

    def never(some, chosen):
        def judge():
            raise NumericalError("does not settle")

        return judge

    monkeypatch.setattr(learn, "judge_of", never)
    learned = learn_features(start(bags), bags, labels_of(y, bags), settings(), SILENT)
    assert not learned.trace.converged
    assert "evaluated nowhere" in search.unsettled(learned.trace)
    np.testing.assert_allclose(parameters(learned.features), parameters(start(bags)))


def test_learning_by_bag_sites_stops_below_the_accuracy_of_its_judge(problem):
    bags, y = problem
    learned = learn_features(start(bags), bags, labels_of(y, bags), settings(), SILENT)
    assert learned.trace.converged
    assert len(learned.trace) < 40
