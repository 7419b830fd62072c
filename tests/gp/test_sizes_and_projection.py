"""Features with a column of sizes, and rows of unit length on a few directions."""

import numpy as np
import pytest
import scipy.sparse
import torch
from tests.problems import features_of, random_bags, segments_of

from bagwise import Bags
from bagwise.gp.features import reassembled, traced_design


@pytest.fixture
def bags():
    return random_bags(np.random.default_rng(0), 12, (1, 9))


def sparse_bags(seed=0, n=40, width=60):
    X = scipy.sparse.random(n, width, density=0.1, random_state=seed, format="csr")
    return Bags(X, np.repeat(np.arange(n // 4), 4))


def design_of(features, some, sizes=None):
    ((_, design),) = features.designs(some, sizes)
    return design


# ---------------------------------------------------------------- a column of sizes


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_column_of_sizes_is_log_n_before_the_constant_and_no_part_of_kappa(bags, bias):
    plain = features_of(bags, bias=bias)
    sized = plain.with_sizes(bags.sizes)
    assert sized.n_columns == plain.n_columns + 1
    with_column, without = design_of(sized, bags), design_of(plain, bags)
    place = sized.n_inducing
    np.testing.assert_allclose(with_column.phi[:, place], np.log(bags.sizes)[bags.index])
    kept = [k for k in range(sized.n_columns) if k != place]
    assert torch.equal(with_column.phi[:, kept], without.phi)
    assert torch.equal(with_column.kappa, without.kappa)


def test_sizes_outside_the_fit_are_held_at_its_edge(bags):
    sized = features_of(bags).with_sizes(np.array([3, 5]))
    found = sized.log_sizes(np.array([1, 3, 4, 5, 1000]))
    np.testing.assert_allclose(found, np.log([3, 3, 4, 5, 5]))


def test_parts_of_larger_bags_have_the_size_they_are_given(bags):
    sized = features_of(bags).with_sizes(np.array([1, 100]))
    given = np.arange(len(bags)) + 50
    np.testing.assert_allclose(design_of(sized, bags, given).phi[:, sized.n_inducing], np.log(given)[bags.index])


@pytest.mark.parametrize("sized", [True, False])
def test_traced_design_equals_the_features(bags, sized):
    features = features_of(bags, bias=2.0)
    features = features.with_sizes(bags.sizes) if sized else features
    x = features.standardised(bags.X)
    traced = traced_design(
        features, features.kernel, features.inducing, x, segments_of(bags.sizes), features.log_sizes(bags.sizes)
    )
    design = design_of(features, bags)
    torch.testing.assert_close(traced.phi.detach(), design.phi, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(traced.kappa.detach(), design.kappa, rtol=1e-6, atol=1e-8)


def test_another_kernel_keeps_sizes_and_projection():
    some = sparse_bags()
    features = features_of(some, project=5).with_sizes(np.array([1, 9]))
    again = reassembled(features, kernel=features.kernel)
    assert again.size_range == features.size_range
    assert torch.equal(again.projection, features.projection)
    assert again.stretched


# ---------------------------------------------------------------- projection


def test_dense_and_sparse_storage_of_the_same_rows_give_the_same_features():
    some = sparse_bags()
    features = features_of(some, project=7)
    dense = Bags(some.X.toarray(), some.index)
    for part, other in zip(design_of(features, some)[:2], design_of(features, dense)[:2], strict=True):
        torch.testing.assert_close(part, other, rtol=0, atol=1e-12)


def test_projected_rows_all_have_the_length_of_the_root_of_their_width():
    some = sparse_bags()
    features = features_of(some, project=7)
    x = features.standardised(some.X)
    assert x.shape[1] == 7
    filled = some.X.getnnz(axis=1) > 0
    np.testing.assert_allclose(x.norm(dim=1)[torch.from_numpy(filled)], np.sqrt(7.0))


def test_a_row_with_words_that_nobody_has_seen_lies_where_it_would_without_them():
    seen = scipy.sparse.random(40, 60, density=0.1, random_state=0, format="csr")
    some = Bags(scipy.sparse.hstack([seen, scipy.sparse.csr_matrix((40, 5))]).tocsr(), np.repeat(np.arange(10), 4))
    features = features_of(some, project=7)
    unseen = scipy.sparse.csr_matrix(np.full((40, 5), 0.5))
    longer = scipy.sparse.hstack([seen, unseen]).tocsr()
    torch.testing.assert_close(features.standardised(longer), features.standardised(some.X), rtol=0, atol=1e-12)


def test_a_row_of_unseen_words_alone_lies_at_the_origin_and_one_of_hardly_any_other_near_it():
    some = Bags(scipy.sparse.csr_matrix(np.eye(8, 30)), np.repeat(np.arange(4), 2))
    features = features_of(some, project=7)
    strange = np.zeros((2, 30))
    strange[:, 29] = 1.0
    strange[1, :8] = 1e-9
    lengths = features.standardised(scipy.sparse.csr_matrix(strange)).norm(dim=1)
    assert lengths[0] == 0
    assert 0 <= lengths[1] < 1e-6


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1e200])
def test_scale_of_a_row_does_not_matter_once_it_has_unit_length(scale):
    some = sparse_bags()
    features = features_of(some, project=7)
    scaled = Bags(scale * some.X, some.index)
    torch.testing.assert_close(features.standardised(scaled.X), features.standardised(some.X), rtol=0, atol=1e-12)


def test_empty_rows_lie_at_the_origin_and_are_finite():
    features = features_of(sparse_bags(), project=7)
    empty = Bags(scipy.sparse.csr_matrix((3, 60)), [0, 0, 1])
    assert not features.standardised(empty.X).any()
    design = design_of(features, empty)
    assert torch.isfinite(design.phi).all()
    assert torch.isfinite(design.kappa).all()


@pytest.mark.parametrize("X", [np.zeros((8, 30)), np.ones((8, 30)), np.eye(8, 30), np.ones((8, 2))])
def test_rows_without_directions_of_their_own_are_projected_all_the_same(X):
    some = Bags(scipy.sparse.csr_matrix(X), np.repeat(np.arange(4), 2))
    design = design_of(features_of(some, project=50), some)
    assert torch.isfinite(design.phi).all()
    assert torch.isfinite(design.kappa).all()


def test_projected_features_do_not_depend_on_other_rows():
    some = sparse_bags()
    features = features_of(some, project=7)
    alone = torch.cat([design_of(features, some[[k]]).phi for k in range(len(some))])
    torch.testing.assert_close(alone, design_of(features, some).phi, rtol=0, atol=1e-12)
