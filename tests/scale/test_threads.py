"""The number of threads of every step, on which last digits depend, is known of every model."""

import torch

import bagwise
from bagwise import MILGPProbit
from bagwise.datasets import make_bags
from bagwise.models._base.state import pack, unpack


def fitted():
    bags, y, _ = make_bags(6, (2, 4), 2, random_state=0)
    return MILGPProbit(n_inducing=3, max_iter=1, random_state=0).fit(bags, y)


def test_number_of_threads_is_recorded_and_saved(tmp_path):
    with bagwise.scale.within(threads=3):
        model = fitted()
    model.save(tmp_path / "model")
    assert model.threads_ == bagwise.load(tmp_path / "model").threads_ == 3
    assert fitted().threads_ == torch.get_num_threads()


def test_model_file_that_does_not_tell_the_number_of_threads_is_read():
    description, tensors = pack(fitted())
    del description["fitted"]["threads"]
    assert unpack(MILGPProbit, description, tensors, torch.device("cpu")).threads_ is None
