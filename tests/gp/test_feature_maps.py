"""Feature maps: trained with the evidence, saved as numbers and a name, refused where they do not fit."""

import copy
import resource
import subprocess
import sys

import numpy as np
import pytest
import torch
from gpytorch import kernels as gpk
from sklearn.base import clone
from torch import nn

import bagwise
from bagwise import BagDataError, BagGP, Bags, ModelFileError, register_feature_map
from bagwise.datasets import make_bags
from bagwise.exceptions import NumericalError
from bagwise.gp.feature_maps import MLP, describe_feature_map, rebuild_feature_map
from bagwise.gp.kernels import MappedKernel, cross, diagonal, gram
from bagwise.inference.kernel_learning import search

SLOW_IS_FINE = pytest.mark.filterwarnings("ignore:the search for the kernel stopped:bagwise.ConvergenceWarning")


@pytest.fixture(scope="module")
def problem():
    bags, y, _ = make_bags(24, (2, 5), 3, random_state=0)
    return bags, y


@pytest.fixture(autouse=True)
def few_iterations(monkeypatch):
    """Enough to show that something is learned."""
    monkeypatch.setattr(search, "_MOST_ITERATIONS", 8)


def mapped(module, **changes):
    return BagGP(**{"feature_map": module, "n_inducing": 8, "random_state": 0} | changes)


def small(**changes):
    return MLP(3, (4,), 2, **changes)


class Normalised(nn.Module):
    """A map that remembers something besides its weights, and behaves otherwise while it is trained."""

    def __init__(self, n_out=2):
        super().__init__()
        self.configuration = {"n_out": n_out}
        self.norm, self.layer, self.drop = nn.BatchNorm1d(3), nn.Linear(3, n_out), nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.layer(self.norm(x)))


def normalised():
    """One whose running mean is not what it was made with."""
    torch.manual_seed(0)
    module = Normalised()
    module.norm.running_mean += torch.tensor([0.3, -0.2, 0.1])
    return module


# ---------------------------------------------------------------- the small network


def test_the_same_seed_makes_the_same_network_and_leaves_torchs_own_numbers_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, second, other = MLP(4, seed=1), MLP(4, seed=1), MLP(4, seed=2)
    assert torch.equal(torch.rand(3), expected)
    x = torch.ones(2, 4)
    assert torch.equal(first(x), second(x))
    assert not torch.equal(first(x), other(x))


@pytest.mark.parametrize("hidden", [(), (5,), (7, 6)])
def test_the_network_has_the_asked_for_shape(hidden):
    assert MLP(4, hidden, 3)(torch.zeros(10, 4)).shape == (10, 3)


# ---------------------------------------------------------------- learning


@SLOW_IS_FINE
def test_its_weights_are_learned_and_the_evidence_rises(problem):
    bags, y = problem
    module = small()
    fixed, learned = (mapped(module, learn=learn).fit(bags, y) for learn in (False, True))
    assert learned.log_evidence_ > fixed.log_evidence_ + 1.0
    for name in ("layers.0.weight", "layers.0.bias", "layers.2.weight"):  # the last bias moves nothing: k is stationary
        weights = module.get_parameter(name).double()
        assert torch.equal(fixed.kernel_.feature_map.get_parameter(name), weights)
        assert not torch.allclose(learned.kernel_.feature_map.get_parameter(name), weights, atol=1e-3)
    assert learned.relevance_ is None


@SLOW_IS_FINE
def test_the_users_module_and_kernel_stay_as_they_are(problem):
    bags, y = problem
    module, kernel = normalised().train(), gpk.ScaleKernel(gpk.RBFKernel())
    before = copy.deepcopy(module.state_dict()), copy.deepcopy(kernel.state_dict())
    mapped(module, kernel=kernel).fit(bags, y)
    for thing, state in zip((module, kernel), before, strict=True):
        for name, value in thing.state_dict().items():
            assert torch.equal(value, state[name])
            assert value.dtype == state[name].dtype
    assert module.training
    assert all(part.grad is None for part in module.parameters())


@SLOW_IS_FINE
def test_layers_that_behave_otherwise_in_training_do_not(problem):
    """Dropout would make the evidence a lottery, and batch statistics make a row depend on its company."""
    bags, y = problem
    first, second = (mapped(normalised().train()).fit(bags, y) for _ in range(2))
    np.testing.assert_array_equal(first.predict_proba(bags), second.predict_proba(bags))
    np.testing.assert_allclose(first.predict_proba(bags[3]), first.predict_proba(bags)[[3]], atol=1e-12)


def test_without_learning_it_is_used_as_it_is(problem):
    """An identity map is no map at all."""
    bags, y = problem
    plain = BagGP(n_inducing=8, random_state=0, learn=False).fit(bags, y)
    through = mapped(nn.Identity(), learn=False).fit(bags, y)
    np.testing.assert_allclose(through.predict_proba(bags), plain.predict_proba(bags), atol=1e-12)
    empty = mapped(nn.Sequential(), learn=False).fit(bags, y)
    np.testing.assert_array_equal(empty.predict_proba(bags), through.predict_proba(bags))


@SLOW_IS_FINE
def test_one_lengthscale_for_each_of_its_features(problem):
    bags, y = problem
    model = mapped(small(), ard=True).fit(bags, y)
    assert model.kernel_.base_kernel.base_kernel.lengthscale.shape == (1, 2)


@SLOW_IS_FINE
def test_single_precision_and_clones(problem):
    bags, y = problem
    model = mapped(small(), dtype="float32")
    copied = clone(model)
    assert copied.feature_map is not model.feature_map
    first, second = model.fit(bags, y).predict_proba(bags), copied.fit(bags, y).predict_proba(bags)
    np.testing.assert_array_equal(first, second)
    assert next(model.kernel_.feature_map.parameters()).dtype == torch.float32


def test_the_gradient_reaches_every_weight():
    """The kernel matrix, its diagonal (of a linear kernel, where it moves) and cross terms, by finite differences."""
    torch.manual_seed(0)
    kernel = MappedKernel(gpk.ScaleKernel(gpk.RBFKernel()) + gpk.LinearKernel(), small()).double()
    x, z = torch.randn(5, 3).double(), torch.randn(4, 3).double()
    weights = torch.randn(5, 4).double()

    def value():
        return (weights * cross(kernel, x, z)).sum() + gram(kernel, z)[0].sum() + diagonal(kernel, x).square().sum()

    value().backward()
    step = 1e-6
    for parameter in kernel.feature_map.parameters():
        for i in range(parameter.numel()):
            slopes = []
            for sign in (1, -2):
                with torch.no_grad():
                    parameter.view(-1)[i] += sign * step
                slopes.append(value().item())
            with torch.no_grad():
                parameter.view(-1)[i] += step
            found = parameter.grad.view(-1)[i].item()
            assert found == pytest.approx((slopes[0] - slopes[1]) / (2 * step), rel=1e-5, abs=1e-6)


# ---------------------------------------------------------------- registering, saving, loading


def test_a_name_belongs_to_one_class():
    class Mine(nn.Module):
        pass

    register_feature_map("test name", Mine)
    register_feature_map("test name", Mine)
    with pytest.raises(BagDataError, match="another feature map is already registered as 'test name'"):
        register_feature_map("test name", MLP)
    with pytest.raises(BagDataError, match="expected a class of torch modules for 'object'"):
        register_feature_map("object", MLP(3))


def test_a_description_makes_another_one_like_it():
    module = MLP(5, (7, 6), 3, seed=4)
    description = describe_feature_map(module)
    assert description == {"name": "mlp", "configuration": {"n_in": 5, "hidden": [7, 6], "n_out": 3, "seed": 4}}
    assert rebuild_feature_map(description, module.state_dict())(torch.zeros(2, 5)).shape == (2, 3)


class Loud(torch.nn.Linear):
    """Needs a number while it is built, which the device "meta" does not have."""

    def __init__(self, n_in):
        super().__init__(n_in, int(torch.tensor(2).item()))
        self.configuration = {"n_in": n_in}


def test_feature_map_that_cannot_be_measured_says_so_when_it_is_saved():
    register_feature_map("loud for tests", Loud)
    with pytest.raises(ModelFileError, match=r"'loud for tests' cannot be built .* on the device 'meta'"):
        describe_feature_map(Loud(3))


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({"n_in": 5, "hidden": [50_000, 50_000], "n_out": 3}, "does not hold the weights that its feature map"),
        ({"n_in": 5, "hidden": [2**40, 2**40], "n_out": 3}, "does not hold the weights|cannot be built"),
        ({"n_in": 5, "hidden": [1] * 200_000, "n_out": 3}, "200000 hidden layers were asked for"),
        ({"n_in": 6, "hidden": [7, 6], "n_out": 3}, "does not hold the weights"),
        ({"n_in": "five", "hidden": [7, 6], "n_out": 3}, "cannot be built"),
        ({"n_in": 5, "hidden": [7, 6], "n_out": 3, "seed": []}, "cannot be built"),
        ({"n_in": 5, "hidden": None, "n_out": 3}, "cannot be built"),
        ({"surprise": 5}, "cannot be built"),
        ([1, 2], "cannot be built"),
        (None, "cannot be built"),
    ],
)
def test_feature_map_larger_than_its_weights_is_never_built(configuration, message):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelFileError, match=message):
        rebuild_feature_map({"name": "mlp", "configuration": configuration}, MLP(5, (7, 6), 3).state_dict())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


_ELSEWHERE = """
import sys, numpy as np, torch, bagwise
from bagwise import ModelFileError
folder = sys.argv[1]
bags = bagwise.Bags.load(folder + "/bags.npz")
np.save(folder + "/mlp.npy", bagwise.load(folder + "/mlp").predict_proba(bags))
try:
    bagwise.load(folder + "/own")
except ModelFileError as error:
    print(error)
sys.path.insert(0, sys.argv[2])
from tests.gp.test_feature_maps import Normalised
bagwise.register_feature_map("normalised for tests", Normalised)
np.save(folder + "/own.npy", bagwise.load(folder + "/own").predict_proba(bags))
"""


@SLOW_IS_FINE
def test_a_new_process_loads_numbers_and_a_name(problem, tmp_path, request):
    """Weights and running means come from the file; a class that is not registered is asked for by its name."""
    bags, y = problem
    register_feature_map("normalised for tests", Normalised)
    models = {"mlp": mapped(small()), "own": mapped(normalised())}
    for name, model in models.items():
        model.fit(bags, y).save(tmp_path / name)
    bags.save(tmp_path / "bags.npz")
    arguments = [sys.executable, "-W", "ignore", "-c", _ELSEWHERE, str(tmp_path), str(request.config.rootpath)]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    assert "needs the feature map 'normalised for tests', which is not registered" in done.stdout
    for name, model in models.items():
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), model.predict_proba(bags))


@SLOW_IS_FINE
def test_the_setting_comes_back_as_it_was_given(problem, tmp_path):
    bags, y = problem
    module = small()
    mapped(module).fit(bags, y).save(tmp_path / "model")
    again = bagwise.load(tmp_path / "model")
    for name, weights in module.named_parameters():
        assert torch.equal(again.feature_map.get_parameter(name), weights)
    again.fit(bags, y)  # and can be used to fit once more


class Nameless(nn.Linear):
    """Not registered."""


class Unspeakable(nn.Linear):
    """Registered, but its configuration is not plain JSON."""

    def __init__(self, *shape):
        super().__init__(*shape)
        self.configuration = {"weights": torch.zeros(2)}


def test_a_map_that_cannot_be_saved_works_and_explains_itself(problem, tmp_path):
    bags, y = problem
    torch.manual_seed(0)
    model = mapped(Nameless(3, 2), learn=False).fit(bags, y)
    assert np.isfinite(model.predict_proba(bags)).all()
    with pytest.raises(ModelFileError, match=r"feature map Nameless cannot be saved \(it works otherwise\): register"):
        model.save(tmp_path / "model")
    register_feature_map("unspeakable", Unspeakable)
    with pytest.raises(ModelFileError, match="its `configuration` must hold plain numbers"):
        mapped(Unspeakable(3, 2), learn=False).fit(bags, y).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


# ---------------------------------------------------------------- maps that do not fit


class Odd(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.act = act

    def forward(self, x):
        return self.act(x)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("mlp", r"feature_map='mlp': expected a torch module"),
        (MLP, r"expected a torch module"),
        (MLP(5), r"it does not take 3 features per instance"),
        (Odd(lambda x: x[:, 0]), r"expected a matrix with \d+ rows, one for every row it was given, got \(\d+,\)"),
        (Odd(lambda x: x[:-1]), r"expected a matrix with \d+ rows"),
        (Odd(lambda x: x[:, :0]), r"expected a matrix with \d+ rows"),
        (Odd(lambda x: [x]), r"expected a matrix with \d+ rows.*got list"),
        (Odd(lambda x: x / 0.0), r"it returns values that are not finite"),
        (Odd(torch.log), r"it returns values that are not finite"),
        (Odd(lambda x: x.float()), r"it turns rows of torch.float64 into torch.float32"),
    ],
)
def test_maps_that_do_not_fit_are_refused(problem, module, message):
    bags, y = problem
    with pytest.raises(BagDataError, match=message):
        mapped(module).fit(bags, y)


def test_values_that_are_not_finite_are_found_whenever_they_come_up(problem):
    bags, y = problem
    model = mapped(Odd(lambda x: x / (x < 100.0)), learn=False).fit(bags, y)
    far = Bags(np.full((2, 3), 1e6), [0, 0])
    with pytest.raises(NumericalError, match="feature_map: it returns values that are not finite for some of the rows"):
        model.predict_proba(far)


def test_a_lengthscale_beside_a_gpytorch_kernel_is_refused(problem):
    bags, y = problem
    with pytest.raises(BagDataError, match="lengthscale is for kernels given by name"):
        mapped(small(), kernel=gpk.RBFKernel(), lengthscale=2.0).fit(bags, y)
