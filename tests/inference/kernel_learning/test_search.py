"""The search for parameters of high evidence: optima, walls, restarts, interruption."""

import numpy as np
import pytest
import torch

from bagwise.exceptions import NumericalError
from bagwise.inference.kernel_learning.learn import TensorBlock
from bagwise.inference.kernel_learning.search import NOWHERE, Elsewhere, EvidenceSearch, as_matrix, differentiated
from bagwise.inference.loop import SILENT, Watch


class Numbers(TensorBlock):
    """A vector with a Gaussian prior."""

    def __init__(self, start, centre=0.0, spread=np.inf):
        self.tensor = torch.tensor(start, dtype=torch.float64)
        super().__init__(self.tensor)
        self.centre, self.spread = np.full(len(start), centre), np.full(len(start), spread)


def random(seed=0):
    return np.random.RandomState(seed)


def search(block, objective, n_restarts=1, max_iter=100, seed=0, watch=SILENT):
    return EvidenceSearch([block], differentiated(objective)).run(n_restarts, max_iter, random(seed), watch)


def valley(x):
    """−Rosenbrock's function, largest (0) at (1, 1)."""
    return -((1 - x[0]) ** 2) - 100 * (x[1] - x[0] ** 2) ** 2


def test_finds_the_optimum_of_a_known_function():
    block = Numbers([-1.2, 1.0])
    trace = search(block, lambda: valley(block.tensor), max_iter=200)
    assert trace.converged
    assert block.get() == pytest.approx([1.0, 1.0], abs=1e-2)
    assert trace.values[-1] == pytest.approx(0.0, abs=1e-4)


def test_the_prior_is_part_of_what_is_maximised():
    """Evidence −(x − 4)²/2 and prior N(1, ½²): the maximum is their precision-weighted mean."""
    block = Numbers([0.0], centre=1.0, spread=0.5)
    trace = search(block, lambda: -0.5 * (block.tensor[0] - 4.0) ** 2)
    assert block.get() == pytest.approx([(4.0 + 4.0 * 1.0) / 5.0], abs=1e-3)
    assert trace.values[-1] == pytest.approx(-0.5 * (1.6 - 4.0) ** 2 - 0.5 * (0.6 / 0.5) ** 2, abs=1e-5)


def test_search_without_prior_maximises_the_evidence_alone_and_still_draws_its_starts():
    block = Numbers([0.0], centre=1.0, spread=0.5)
    seen = []

    def objective():
        seen.append(float(block.get()[0]))
        return -0.5 * (block.tensor[0] - 4.0) ** 2

    trace = EvidenceSearch([block], differentiated(objective), prior=False).run(2, 100, random(), SILENT)
    assert block.get() == pytest.approx([4.0], abs=1e-3)
    assert trace.values[-1] == pytest.approx(0.0, abs=1e-5)
    assert any(abs(value - (1.0 + 0.5 * random().standard_normal())) < 1e-9 for value in seen)


def test_several_blocks_are_searched_together():
    first, second = Numbers([0.0]), Numbers([0.0, 0.0], centre=3.0, spread=1.0)

    def objective():
        return -((first.tensor[0] - 2.0) ** 2) - (first.tensor[0] + second.tensor[0]) ** 2

    trace = EvidenceSearch([first, second], differentiated(objective)).run(1, 100, random(), SILENT)
    assert trace.converged
    x, (y, z) = first.get()[0], second.get()
    assert z == pytest.approx(3.0, abs=1e-3)  # nothing but its prior speaks of it
    assert x - 2.0 + x + y == pytest.approx(0.0, abs=1e-2)
    assert 2 * (x + y) + (y - 3.0) == pytest.approx(0.0, abs=1e-2)


def test_the_trace_is_the_best_value_so_far():
    block = Numbers([-1.2, 1.0])
    trace = search(block, lambda: valley(block.tensor))
    assert trace.values[0] == pytest.approx(valley(torch.tensor([-1.2, 1.0])).item())
    assert (np.diff(trace.values) >= 0).all()


@pytest.mark.parametrize("failure", ["error", "nan", "infinite gradient"])
def test_regions_that_cannot_be_evaluated_are_walls(failure):
    """x − e^(x − 1) has its optimum at 1, and is so straight far below that a first guess goes much too far."""
    block, refused = Numbers([-8.0]), []

    def objective():
        x = block.tensor[0]
        if x > 1.5:
            refused.append(x.item())
            if failure == "error":
                raise NumericalError("not here")
            return x * float("nan") if failure == "nan" else torch.sqrt(x - x.detach())
        return 10 * (x - torch.exp(x - 1))

    search(block, objective)
    assert refused, "the search never met the wall"
    assert block.get() == pytest.approx([1.0], abs=1e-2)


def test_the_best_finite_point_is_kept_where_the_optimum_is_behind_a_wall():
    block, seen = Numbers([0.0]), []

    def objective():
        x = block.tensor[0]
        if x > 0.8:
            raise NumericalError("not here")
        seen.append(x.item())
        return -((x - 3.0) ** 2)

    search(block, objective)
    assert block.get()[0] == max(seen)
    assert 0.0 < block.get()[0] <= 0.8


def test_other_errors_are_not_swallowed():
    block = Numbers([0.0])

    def objective():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        search(block, objective)


def two_hills(x):
    """A low hill at −2 and a high one at 4."""
    return torch.exp(-0.5 * (x + 2) ** 2) + 5 * torch.exp(-0.5 * (x - 4) ** 2)


def test_restarts_find_the_higher_hill():
    ends = {}
    for n_restarts in (1, 12):
        block = Numbers([-2.5], centre=0.0, spread=20.0)
        search(block, lambda block=block: 50 * two_hills(block.tensor[0]), n_restarts=n_restarts)
        ends[n_restarts] = block.get()[0]
    assert ends[1] == pytest.approx(-2.0, abs=0.1)
    assert ends[12] == pytest.approx(4.0, abs=0.1)


def test_a_restart_that_finds_nothing_better_changes_nothing():
    block = Numbers([4.2], centre=0.0, spread=1.0)
    trace = search(block, lambda: 500 * two_hills(block.tensor[0]), n_restarts=4)
    assert block.get()[0] == pytest.approx(4.0, abs=0.1)
    assert trace.converged


def test_restarts_follow_the_random_numbers_they_are_given():
    starts = []
    for seed in (1, 1, 2):
        block, seen = Numbers([0.0], centre=0.0, spread=1.0), []

        def objective(block=block, seen=seen):
            seen.append(block.tensor.item())
            return -(block.tensor[0] ** 2)

        search(block, objective, n_restarts=3, seed=seed)
        starts.append(seen)
    assert starts[0] == starts[1] != starts[2]


def test_parameters_without_a_prior_restart_from_where_they_were():
    free, held = Numbers([7.0]), Numbers([0.0], spread=1.0)
    seen = []

    def objective():
        seen.append((free.tensor.item(), held.tensor.item()))
        return 0.0 * free.tensor[0] + 0.0 * held.tensor[0]

    EvidenceSearch([free, held], differentiated(objective)).run(3, 5, random(), SILENT)
    assert {first for first, _ in seen} == {7.0}
    assert len({second for _, second in seen}) >= 3


def test_too_few_iterations_are_said_to_be_too_few():
    block = Numbers([-1.2, 1.0])
    trace = search(block, lambda: valley(block.tensor), max_iter=3)
    assert not trace.converged
    assert valley(block.tensor).item() == pytest.approx(trace.values[-1])


def test_where_nothing_can_be_evaluated_the_start_remains_and_more_starts_are_tried():
    block, tried = Numbers([0.3], centre=0.0, spread=1.0), []

    def objective():
        tried.append(block.tensor.item())
        raise NumericalError("nowhere")

    trace = search(block, objective)
    assert not trace.converged
    assert not np.isfinite(trace.values).any()
    assert block.get()[0] == 0.3
    assert len(set(tried)) == 4


def test_a_start_that_cannot_be_evaluated_does_not_end_the_search():
    block = Numbers([9.0], centre=0.0, spread=1.0)

    def objective():
        if block.tensor[0] > 5.0:
            raise NumericalError("not here")
        return -(block.tensor[0] ** 2)

    trace = search(block, objective)
    assert trace.converged
    assert block.get()[0] == pytest.approx(0.0, abs=1e-2)


def test_interruption_keeps_the_best_point():
    block, best = Numbers([-1.2, 1.0]), []

    def objective():
        if len(best) == 12:
            raise KeyboardInterrupt
        value = valley(block.tensor)
        best.append((value.item(), tuple(block.get())))
        return value

    trace = search(block, objective)
    assert trace.interrupted
    assert not trace.converged
    assert len(trace) == 12
    assert tuple(block.get()) == max(best)[1]


def test_gradients_are_not_left_behind():
    block = Numbers([0.0, 0.0])
    search(block, lambda: valley(block.tensor))
    assert block.tensor.grad is None


def test_progress_is_shown_only_when_asked_for(capsys):
    block = Numbers([0.0, 0.0])
    search(block, lambda: valley(block.tensor))
    assert capsys.readouterr() == ("", "")
    search(block, lambda: valley(block.tensor), watch=Watch("learning", verbose=1))
    assert "learning" in capsys.readouterr().err


def test_a_judge_that_is_rough_is_not_asked_again_and_again_about_what_it_cannot_tell():
    """Noise of a twentieth of a nat: without a rule for it the line search ends only at its limit of evaluations."""
    block, noise = Numbers([0.0, 0.0]), np.random.default_rng(0)

    def objective():
        return -0.5 * (block.tensor - 1.0).square().sum() + 0.02 * noise.standard_normal()

    trace = EvidenceSearch([block], differentiated(objective), rough=0.05).run(1, 100, random(), SILENT)
    assert trace.converged
    assert len(trace) < 15
    assert block.get() == pytest.approx([1.0, 1.0], abs=0.4)


def test_a_first_step_into_a_wall_is_followed_by_a_shorter_one():
    """The first step of L-BFGS has length one; everything beyond 0.6 fails, the optimum is at 0.5."""
    block = Numbers([0.0])

    def objective():
        if block.tensor[0] > 0.6:
            raise NumericalError("too far")
        return -10.0 * (block.tensor[0] - 0.5) ** 2

    trace = search(block, objective)
    assert trace.converged
    assert len(trace) < 12
    assert block.get() == pytest.approx([0.5], abs=1e-2)


def test_the_gain_that_a_step_of_newton_promises_is_that_of_a_parabola():
    """−2(x − 3)² from x = 2: the step is 1 and gains 2."""
    block = Numbers([0.0])
    first = EvidenceSearch([block], differentiated(lambda: -2.0 * (block.tensor[0] - 3.0) ** 2))
    first.run(1, 100, random(), SILENT)
    block.set(np.array([2.0]))
    assert first.expected_gain(first.inverse_curvature, 1.0) == pytest.approx(2.0, rel=1e-3)
    assert first.expected_gain(first.inverse_curvature, 0.5) == pytest.approx(1.0, rel=1e-3)


# ---------------------------------------------------------------- Newton's method, where evaluations are dear


def bowl(x):
    """Largest (3) at (0.3, −0.2), with curvatures 40 and 2."""
    return 3.0 - 20.0 * (x[0] - 0.3) ** 2 - (x[1] + 0.2) ** 2


def refined(block, objective, curvature, enough=0.05):
    counted = []

    def judge():
        counted.append(1)
        return objective(block.tensor)

    found = EvidenceSearch([block], differentiated(judge)).refine(np.asarray(curvature), enough, 50, SILENT)
    return *found, len(counted)


def test_newton_with_the_right_curvature_is_there_after_one_step():
    block = Numbers([0.0, 0.5])
    trace, steps, evaluations = refined(block, bowl, np.diag([1 / 40, 1 / 2]))
    assert (steps, evaluations) == (1, 2)
    assert block.get() == pytest.approx([0.3, -0.2], abs=1e-8)
    assert trace.converged


@pytest.mark.parametrize("times", [0.2, 5.0])
def test_newton_with_a_wrong_curvature_comes_as_near_as_asked(times):
    block = Numbers([0.0, 0.5])
    trace, _, evaluations = refined(block, bowl, times * np.diag([1 / 40, 1 / 2]))
    assert bowl(block.tensor) > 3.0 - 0.2
    assert evaluations < 12
    assert trace.converged


def test_newton_stays_where_a_step_promises_too_little():
    block = Numbers([0.3, -0.2 + 0.1])
    trace, steps, evaluations = refined(block, bowl, np.diag([1 / 40, 1 / 2]))
    assert (steps, evaluations) == (0, 1)
    assert block.get() == pytest.approx([0.3, -0.1])
    assert trace.converged


def test_newton_goes_around_points_that_cannot_be_evaluated():
    def walled(x):
        if bool(x[1] < -0.15):
            raise NumericalError("there is nothing")
        return bowl(x)

    block = Numbers([0.0, 0.5])
    refined(block, walled, np.diag([1 / 40, 1 / 2]))
    assert bowl(block.tensor) > bowl(torch.tensor([0.0, 0.5]))
    nowhere = Numbers([0.0, -0.5])
    with pytest.raises(NumericalError):
        refined(nowhere, walled, np.diag([1 / 40, 1 / 2]))


def test_the_curvature_a_search_has_seen_serves_the_next_one():
    block = Numbers([0.0, 0.5])
    first = EvidenceSearch([block], differentiated(lambda: bowl(block.tensor)))
    first.run(1, 100, random(), SILENT)
    np.testing.assert_allclose(np.diag(as_matrix(first.inverse_curvature, 2)), [1 / 40, 1 / 2], rtol=0.3)


def test_the_judge_is_not_asked_twice_about_where_the_search_begins():
    block, asked = Numbers([0.0, 0.5]), []

    def told():
        asked.append(block.get())
        return bowl(block.tensor)

    search = EvidenceSearch([block], differentiated(told))
    promised = search.expected_gain(lambda slope: slope / 40, 1.0)
    assert promised > 0
    search.run(1, 100, random(), SILENT)
    assert len({point.tobytes() for point in asked}) == len(asked)
    np.testing.assert_allclose(block.get(), climbed_alone().get(), atol=1e-6)


def climbed_alone():
    """The block after a search that nobody has asked about before."""
    block = Numbers([0.0, 0.5])
    EvidenceSearch([block], differentiated(lambda: bowl(block.tensor))).run(1, 100, random(), SILENT)
    return block


def climbed(block, elsewhere):
    """From −3, which is 1 − exp(−½) = .39 below the low hill."""
    judge = differentiated(lambda: two_hills(block.tensor[0]))
    return EvidenceSearch([block], judge).run(1, 100, random(), SILENT, elsewhere)


def test_search_looks_elsewhere_only_where_the_usual_start_gains_too_little():
    others = [np.array([-1.5]), np.array([3.0])]
    usual, elsewhere, enough = (Numbers([-3.0]) for _ in range(3))
    low, high = climbed(usual, NOWHERE), climbed(elsewhere, Elsewhere(others, 0.5))
    assert usual.get() == pytest.approx([-2.0], abs=1e-2)
    assert elsewhere.get() == pytest.approx([4.0], abs=1e-2)
    assert high.converged
    assert high.gains == pytest.approx([0.393, 0.393, 4.393], abs=1e-2)
    assert low.gains == ()
    np.testing.assert_array_equal(climbed(enough, Elsewhere(others, 0.3)).values, low.values)  # no evaluation more


def test_search_that_finds_nothing_better_elsewhere_ends_where_it_was():
    block = Numbers([3.0])
    trace = climbed(block, Elsewhere([np.array([-1.5]), np.array([-2.5])], 9.0))
    assert block.get() == pytest.approx([4.0], abs=1e-2)
    assert trace.converged
    assert len(trace.gains) == 3
    assert trace.gains[0] == pytest.approx(trace.values[-1] - trace.values[0])
