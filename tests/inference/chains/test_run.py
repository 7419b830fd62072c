"""What is kept of every sweep: chains and label columns stay apart."""

import torch

from bagwise.inference.chains.run import _by_chain

LABELS, CHAINS, SWEEPS, WEIGHTS = 2, 3, 4, 5


def test_column_k_c_plus_c_is_chain_c_of_label_k():
    numbers = torch.arange(SWEEPS * WEIGHTS * LABELS * CHAINS).reshape(SWEEPS, WEIGHTS, LABELS * CHAINS)
    found = _by_chain(list(numbers), CHAINS)
    assert found.shape == (LABELS, CHAINS, SWEEPS, WEIGHTS)
    for label in range(LABELS):
        for chain in range(CHAINS):
            assert torch.equal(found[label, chain], numbers[:, :, label * CHAINS + chain])
