"""What compressed files may ask for: only what is asked of them is read, and no more than the limit."""

import numpy as np
import pytest
import scipy.sparse
from tests.cli.command import refused

from bagwise import Bags, MILGPProbit
from bagwise._archives import LIMIT_VARIABLE
from bagwise.exceptions import BagDataError

# ---------------------------------------------------------------- sparse matrices


def test_sparse_rows_that_do_not_fit_as_dense_ones_are_refused():
    X = scipy.sparse.csr_matrix((np.ones(300), (np.arange(300), np.arange(300))), shape=(300, 10**6))
    with pytest.raises(BagDataError, match=r"300 rows of 1,000,000 columns, which need 2.4 GB .* smaller n_inducing"):
        MILGPProbit(n_inducing=200).fit(Bags(X, np.arange(300)), np.arange(300) % 2)


# ---------------------------------------------------------------- tables


def test_the_command_line_tells_the_limit(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "x.npz", X=np.zeros((500, 300)), bag=np.arange(500), y=np.arange(500) % 2)
    monkeypatch.setenv(LIMIT_VARIABLE, "0.001")
    message = refused("fit", tmp_path / "x.npz", "-o", tmp_path / "m")
    assert f"set a higher limit, e.g. {LIMIT_VARIABLE}=1" in message
