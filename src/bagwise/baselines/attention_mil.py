"""Attention-based deep multiple instance learning: a small network that weighs the instances of a bag."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from bagwise import _validation as check
from bagwise.bags import Bags
from bagwise.baselines._base.baseline import Baseline
from bagwise.baselines._base.machines import Floats, Machine, rows_for_torch
from bagwise.baselines._base.parameters import documented_baseline
from bagwise.models._base.saved import ModelCard
from bagwise.numerics.segments import Segments

Weights = tuple[Tensor, ...]


@dataclass(frozen=True)
class AttentionNetwork(Machine):
    """Weights of the network, see ``bag_logits``."""

    embed: Floats  # (D, H)
    embed_bias: Floats  # (H,)
    attend: Floats  # (H, A)
    attend_bias: Floats  # (A,)
    gate: Floats  # (H, A)
    gate_bias: Floats  # (A,)
    mix: Floats  # (A,)
    decide: Floats  # (H,)
    decide_bias: Floats  # (1,)

    def scores(self, bags: Bags) -> Floats:
        """(B,) log odds before the calibration."""
        found: Floats = bag_logits(*rows_for_torch(bags), self._weights())[0].numpy()
        return found

    def attention(self, bags: Bags) -> Floats:
        """(N,) weight of every instance in its bag; they sum to one in a bag."""
        found: Floats = bag_logits(*rows_for_torch(bags), self._weights())[1].numpy()
        return found

    def _weights(self) -> Weights:
        return tuple(torch.from_numpy(value) for value in vars(self).values())


def bag_logits(X: Tensor, segments: Segments, weights: Weights) -> tuple[Tensor, Tensor]:
    """Log odds of every bag, and the attention of its instances (Ilse et al., equations 7 to 9).

    h = relu(x embed), a ∝ exp(mix · (tanh(h attend) ⊙ σ(h gate))) within the bag, z = Σ a h, log odds = decide · z.
    """
    embed, embed_bias, attend, attend_bias, gate, gate_bias, mix, decide, decide_bias = weights
    h = torch.relu(X @ embed + embed_bias)
    raw = (torch.tanh(h @ attend + attend_bias) * torch.sigmoid(h @ gate + gate_bias)) @ mix
    attention = torch.exp(raw - segments.spread(segments.logsumexp(raw)))
    pooled = segments.sum(attention[:, None] * h)
    return pooled @ decide + decide_bias, attention


@documented_baseline
class AttentionMIL(Baseline):
    """Attention-based deep multiple instance learning with a gate, in one hidden layer.

    A network embeds instances, weighs them within their bag and judges the weighted mean. It is trained by Adam on
    small sets of bags. ``predict_attention`` says how much each instance weighed in its bag; that is no probability of
    being positive: for that an instance is judged as a bag of one.

    It needs more bags than the other methods, and its result depends on the random start: compare several. Attention
    can be spread over instances that do not matter.

    Parameters
    ----------
    hidden : int
        Number of units of the embedding. Increase it for large data.
    attention : int
        Number of units of the attention and of its gate. Increase it for large data.
    n_epochs : int
        How often every bag is learned from. Increase it until the training bags are told apart, decrease it against
        overfitting.
    batch_bags : int
        Number of bags of one step. Increase it for steadier steps.
    learning_rate : float
        Size of the steps. Decrease it if the result depends strongly on the random start.
    weight_decay : float
        Pull of the weights towards 0 (AdamW). Increase it against overfitting.

    References
    ----------
    Ilse, Tomczak & Welling, Attention-based deep multiple instance learning, ICML 2018.
    """

    card = ModelCard("attention-mil", ("label",), "Ilse, Tomczak & Welling 2018", "calibrated")

    def __init__(
        self,
        hidden: int = 64,
        attention: int = 32,
        n_epochs: int = 40,
        batch_bags: int = 8,
        learning_rate: float = 2e-3,
        weight_decay: float = 1e-2,
        standardize: bool = True,
        calibration: str = "sigmoid",
        cv: int = 3,
        random_state: Any = None,
    ) -> None:
        self.hidden = hidden
        self.attention = attention
        self.n_epochs = n_epochs
        self.batch_bags = batch_bags
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.standardize = standardize
        self.calibration = calibration
        self.cv = cv
        self.random_state = random_state

    def predict_attention(self, bags: Any) -> Floats:
        """Weight of every instance in its bag, in the order of ``bags.X``, summing to one in a bag: (N,) or (N, K)."""
        rows = self._scaled(self._check_bags(bags))
        found = np.stack([_attention(machine, rows) for machine in self.machines_], axis=1)
        return found if self._several() else found[:, 0]

    def _check_settings(self) -> None:
        super()._check_settings()
        for name in ("hidden", "attention", "n_epochs", "batch_bags"):
            check.check_count(name, getattr(self, name))
        check.check_positive("learning_rate", self.learning_rate)
        check.check_positive("weight_decay", self.weight_decay, zero=True)

    def _learn(self, bags: Bags, y: Floats, random: np.random.RandomState) -> AttentionNetwork:
        weights = _start(bags.n_features, self.hidden, self.attention, random)
        optimiser = AdamW(weights, self.learning_rate, self.weight_decay)
        for _ in range(self.n_epochs):
            order = random.permutation(len(bags))
            for begin in range(0, len(order), self.batch_bags):
                part = order[begin : begin + self.batch_bags]
                logits, _ = bag_logits(*rows_for_torch(bags[part]), weights)
                loss = binary_cross_entropy_with_logits(logits, torch.from_numpy(y[part]))
                optimiser.step(torch.autograd.grad(loss, weights))
        return AttentionNetwork(*(weight.detach().numpy().copy() for weight in weights))


class AdamW:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019); torch's own takes seconds to import."""

    def __init__(self, weights: Weights, rate: float, decay: float) -> None:
        self.weights, self.rate, self.decay = weights, rate, decay
        self.first = [torch.zeros_like(weight) for weight in weights]
        self.second = [torch.zeros_like(weight) for weight in weights]
        self.steps = 0

    @torch.no_grad()
    def step(self, slopes: Weights) -> None:
        """One step along the slopes, each divided by the root of its mean square."""
        self.steps += 1
        size = self.rate * (1.0 - 0.999**self.steps) ** 0.5 / (1.0 - 0.9**self.steps)
        for weight, slope, first, second in zip(self.weights, slopes, self.first, self.second, strict=True):
            first.lerp_(slope, 0.1)
            second.lerp_(slope.square(), 0.001)
            weight.mul_(1.0 - self.rate * self.decay).addcdiv_(first, second.sqrt() + 1e-8, value=-size)


def _attention(calibrated: Any, bags: Bags) -> Floats:
    """All instances alike where there was nothing to learn."""
    even: Floats = 1.0 / bags.sizes[bags.index]
    return even if calibrated.machine is None else calibrated.machine.attention(bags)


def _start(n_features: int, hidden: int, attention: int, random: np.random.RandomState) -> Weights:
    """Normal weights of variance 1 / (number of inputs), biases of 0."""
    H, A = hidden, attention
    shapes: tuple[tuple[int, ...], ...] = ((n_features, H), (H,), (H, A), (A,), (H, A), (A,), (A,), (H,), (1,))
    drawn = [random.standard_normal(shape) / np.sqrt(shape[0]) for shape in shapes]
    biases = (1, 3, 5, 8)
    values = [np.zeros_like(value) if place in biases else value for place, value in enumerate(drawn)]
    return tuple(torch.tensor(value, requires_grad=True) for value in values)
