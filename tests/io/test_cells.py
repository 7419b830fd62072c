"""Cells from AnnData, and predictions back."""

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from bagwise import BagDataError, Bags, MILGPProbit
from bagwise.io import add_to_anndata


def names(prefix, count):
    """Text that every version of AnnData can write to a file."""
    return pd.Index([f"{prefix}{number}" for number in range(count)], dtype=object)


@pytest.fixture
def adata():
    donors = pd.Categorical.from_codes(np.repeat([3, 1, 4, 0, 2], 4), categories=names("d", 5))
    obs = pd.DataFrame({"disease": np.repeat([0, 1, 0, 1, 1], 4), "donor": donors}, index=names("cell ", 20))
    X = scipy.sparse.random(20, 6, 0.4, format="csr", random_state=0)
    made = anndata.AnnData(X=X, obs=obs.sample(frac=1.0, random_state=0), var=pd.DataFrame(index=names("gene ", 6)))
    made.obsm["X_pca"] = np.random.default_rng(0).normal(size=(20, 2))
    return made


def test_cells_become_instances_and_donors_bags(adata):
    bags, y = Bags.from_anndata(adata, bag="donor", features="X_pca", label="disease")
    assert bags.feature_names == ("X_pca_0", "X_pca_1")
    assert dict(zip(bags.ids, y, strict=True)) == {"d3": 0, "d1": 1, "d4": 0, "d0": 1, "d2": 1}
    np.testing.assert_array_equal(bags.X, adata.obsm["X_pca"][bags.rows])
    assert bags.meta["cell"].tolist() == adata.obs_names[bags.rows].tolist()


def test_sparse_counts_stay_sparse_in_memory_and_backed(adata, tmp_path):
    plain = Bags.from_anndata(adata, "donor")
    assert scipy.sparse.issparse(plain.X)
    adata.write(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    found = Bags.from_anndata(backed, "donor")
    backed.file.close()
    assert scipy.sparse.issparse(found.X)
    assert (found.X != plain.X).nnz == 0
    assert found.ids == plain.ids


def test_predictions_are_written_back_cell_by_cell(adata):
    bags, y = Bags.from_anndata(adata, bag="donor", features="X_pca", label="disease")
    model = MILGPProbit(random_state=0).fit(bags, y)
    add_to_anndata(adata, model, bags[:2], probability="p", spread="sd", bag_probability="donor_p", given=y[:2])
    expected = dict(zip(bags.meta["cell"], model.predict_instance_proba(bags, given=y)[:, 1], strict=True))
    inside = adata.obs["donor"].isin(bags.ids[:2])
    assert adata.obs["p"][~inside].isna().all()
    for cell in adata.obs_names[inside]:
        assert adata.obs["p"][cell] == pytest.approx(expected[cell])
    assert (adata.obs["donor_p"][inside] == adata.obs["disease"][inside]).all()
    assert (adata.obs["sd"][inside] > 0).all()


def test_several_labels_go_into_obsm(adata):
    adata.obs["other"] = 1 - adata.obs["disease"]
    bags, y = Bags.from_anndata(adata, bag="donor", features="X_pca", label=["disease", "other"])
    add_to_anndata(adata, MILGPProbit(random_state=0).fit(bags, y), bags, probability="both")
    assert adata.obsm["both"].shape == (20, 2)


def test_missing_entries_are_refused_by_name(adata):
    with pytest.raises(BagDataError, match="no such entry in obsm; there are 'X_pca'"):
        Bags.from_anndata(adata, "donor", features="X_umap")
    with pytest.raises(BagDataError, match="no column 'patient'"):
        Bags.from_anndata(adata, "patient")
    with pytest.raises(BagDataError, match="expected an AnnData object, got dict"):
        Bags.from_anndata({}, "donor")
    bags, y = Bags.from_anndata(adata, bag="donor", features="X_pca", label="disease")
    model = MILGPProbit(random_state=0).fit(bags, y)
    with pytest.raises(BagDataError, match="do not know the names of their cells"):
        add_to_anndata(adata, model, bags.with_meta(None))
    adata.obs_names = names("another cell ", 20)
    with pytest.raises(BagDataError, match="adata has no cell"):
        add_to_anndata(adata, model, bags)
