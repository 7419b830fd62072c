"""Deterministic annealing: mi-SVM and MI-SVM with beliefs about instances that harden slowly."""

from typing import Any

import numpy as np
from scipy.special import expit

from bagwise import _validation as check
from bagwise.bags import Bags
from bagwise.baselines._base.kernel_baseline import KernelBaseline
from bagwise.baselines._base.machines import Floats, LargestRow, RowFunction, largest
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.exceptions import BagDataError
from bagwise.models._base.saved import ModelCard

_COLDEST = 0.05  # temperature, in units of the penalty C
_SETTLED = 0.01  # a belief that moves by less has settled at its temperature
_HALVINGS = 60  # of the interval in which the multiplier of a bag is looked for


class AnnealedSVM(KernelBaseline):
    """Fits a weighted machine and beliefs about instances of positive bags in turn, while the temperature falls."""

    def __init__(
        self,
        kernel: str = "rbf",
        C: float = 10.0,
        gamma: float | None = None,
        temperature: float = 1.0,
        cooling: float = 2.0,
        max_rounds: int = 5,
        standardize: bool = True,
        calibration: str = "sigmoid",
        cv: int = 3,
        random_state: Any = None,
    ) -> None:
        super().__init__(kernel, C, gamma, standardize, calibration, cv, random_state)
        self.temperature = temperature
        self.cooling = cooling
        self.max_rounds = max_rounds

    def _check_settings(self) -> None:
        super()._check_settings()
        check.check_count("max_rounds", self.max_rounds)
        if check.check_positive("temperature", self.temperature) <= _COLDEST:
            raise BagDataError(f"temperature={self.temperature!r}: expected more than {_COLDEST}, where it ends.")
        if check.check_positive("cooling", self.cooling) <= 1.0:
            raise BagDataError(f"cooling={self.cooling!r}: expected a factor above 1.")

    def _learn(self, bags: Bags, y: Floats, random: np.random.RandomState, weight: Floats) -> LargestRow:
        gamma, positive = self._gamma(bags), bags[y == 1]
        of_row = weight[bags.index]
        negatives, times = bags.X[y[bags.index] == 0], (of_row[y[bags.index] == 1], of_row[y[bags.index] == 0])
        belief = self._start(positive)
        temperature = float(self.temperature)
        while temperature > _COLDEST:
            for _ in range(self.max_rounds):
                function = self._machine(positive.X, belief, negatives, times, gamma)
                before, belief = belief, self._believe(function.values(positive.X), positive, temperature)
                if np.abs(belief - before).max() < _SETTLED:
                    break
            temperature /= self.cooling
        return LargestRow(function)

    def _start(self, positive: Bags) -> Floats:
        """Beliefs before anything is known."""
        raise NotImplementedError

    def _machine(
        self, rows: Floats, belief: Floats, negatives: Floats, times: tuple[Floats, Floats], gamma: float
    ) -> RowFunction:
        """The machine that expects the least loss under the beliefs; ``times`` are weights of both kinds of rows."""
        raise NotImplementedError

    def _believe(self, f: Floats, positive: Bags, temperature: float) -> Floats:
        """The beliefs of least expected loss less temperature times entropy."""
        raise NotImplementedError


class AnnealedLabels(AnnealedSVM):
    """Beliefs that an instance of a positive bag is positive: it counts as both, each with its share."""

    def _start(self, positive: Bags) -> Floats:
        return np.ones(positive.n_instances)

    def _machine(
        self, rows: Floats, belief: Floats, negatives: Floats, times: tuple[Floats, Floats], gamma: float
    ) -> RowFunction:
        both = np.concatenate([rows, rows, negatives])
        labels = np.repeat([1, 0], [len(rows), len(rows) + len(negatives)])
        weight = np.concatenate([times[0] * belief, times[0] * (1.0 - belief), times[1]])
        used = weight > 1e-6
        return self._row_svm(both[used], labels[used], gamma, weight[used])

    def _believe(self, f: Floats, positive: Bags, temperature: float) -> Floats:
        gain = (np.maximum(0.0, 1.0 + f) - np.maximum(0.0, 1.0 - f)) / temperature
        return beliefs_with_sum(gain, positive, self._least(positive), exactly=self._is_exact())

    def _least(self, positive: Bags) -> Floats:
        """How many positives every positive bag is expected to hold at least."""
        return np.ones(len(positive))

    def _is_exact(self) -> bool:
        return False


@documented_baseline
class ALSVM(AnnealedLabels):
    """AL-SVM: mi-SVM by deterministic annealing.

    Every instance of a positive bag is positive with a probability that the fit finds, subject to at least one
    expected positive per positive bag. Objective: expected loss less temperature times entropy, while the temperature
    falls. A bag is as positive as its most positive instance.

    It is slower than mi-SVM and less bound to its start, not free of it. Nothing holds the number of positives in
    large bags down, so that too many instances become positive.

    References
    ----------
    Gehler & Chapelle, Deterministic annealing for multiple-instance learning, AISTATS 2007: section 3.
    """

    card = ModelCard("al-svm", ("label",), "Gehler & Chapelle 2007", "calibrated")


@documented_baseline
class ALPSVM(AnnealedLabels):
    """ALP-SVM: AL-SVM with a given share of positives in every positive bag.

    The probabilities of the instances of a positive bag sum to ``positive_share`` times its size, and to one at
    least. Otherwise as mi-SVM by deterministic annealing. A bag is as positive as its most positive instance.

    It needs the share, and the same one for every bag: where bags differ, it is wrong for most.

    Parameters
    ----------
    positive_share : float
        Share of positives in a positive bag, above 0 and at most 1. Change it to what you know, or compare several by
        cross-validation.

    References
    ----------
    Gehler & Chapelle, Deterministic annealing for multiple-instance learning, AISTATS 2007: section 3.
    """

    card = ModelCard("alp-svm", ("label",), "Gehler & Chapelle 2007", "calibrated")

    def __init__(
        self,
        kernel: str = "rbf",
        C: float = 10.0,
        gamma: float | None = None,
        positive_share: float = 0.5,
        temperature: float = 1.0,
        cooling: float = 2.0,
        max_rounds: int = 5,
        standardize: bool = True,
        calibration: str = "sigmoid",
        cv: int = 3,
        random_state: Any = None,
    ) -> None:
        super().__init__(kernel, C, gamma, temperature, cooling, max_rounds, standardize, calibration, cv, random_state)
        self.positive_share = positive_share

    def _check_settings(self) -> None:
        super()._check_settings()
        if check.check_positive("positive_share", self.positive_share) > 1.0:
            raise BagDataError(f"positive_share={self.positive_share!r}: expected a share of at most 1.")

    def _least(self, positive: Bags) -> Floats:
        least: Floats = np.maximum(1.0, self.positive_share * positive.sizes)
        return least

    def _is_exact(self) -> bool:
        return True


@documented_baseline
class AWSVM(AnnealedSVM):
    """AW-SVM: MI-SVM by deterministic annealing.

    One instance of every positive bag is its witness, each with a probability that the fit finds. Objective: expected
    loss of the witnesses less temperature times entropy, while the temperature falls. A bag is as positive as its most
    positive instance.

    Instances that are no witness do not count at all, so that little is learned from bags with many positives.

    References
    ----------
    Gehler & Chapelle, Deterministic annealing for multiple-instance learning, AISTATS 2007: section 3.
    """

    card = ModelCard("aw-svm", ("label",), "Gehler & Chapelle 2007", "calibrated")

    def _start(self, positive: Bags) -> Floats:
        even: Floats = 1.0 / positive.sizes[positive.index]
        return even

    def _machine(
        self, rows: Floats, belief: Floats, negatives: Floats, times: tuple[Floats, Floats], gamma: float
    ) -> RowFunction:
        used = belief > 1e-6
        weight = np.concatenate([(times[0] * belief)[used], times[1]])
        labels = np.repeat([1, 0], [int(used.sum()), len(negatives)])
        return self._row_svm(np.concatenate([rows[used], negatives]), labels, gamma, weight)

    def _believe(self, f: Floats, positive: Bags, temperature: float) -> Floats:
        gain = -np.maximum(0.0, 1.0 - f) / temperature
        share = np.exp(gain - largest(gain, positive)[positive.index])
        found: Floats = share / np.add.reduceat(share, positive.offsets[:-1])[positive.index]
        return found


def beliefs_with_sum(gain: Floats, bags: Bags, wanted: Floats, *, exactly: bool) -> Floats:
    """σ(gain + λ_b), λ_b such that the beliefs of bag b sum to ``wanted``; λ_b = 0 where they exceed it and may."""
    wanted = np.minimum(wanted, bags.sizes * (1.0 - 1e-9))
    reach = 50.0 + float(np.abs(gain).max())
    low, high = np.full(len(bags), -reach if exactly else 0.0), np.full(len(bags), reach)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        short = np.add.reduceat(expit(gain + middle[bags.index]), bags.offsets[:-1]) < wanted
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    found: Floats = expit(gain + low[bags.index])
    return found
