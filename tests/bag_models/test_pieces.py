"""Negative bags in pieces: where they are cut, and that the pieces together state what the bags do."""

import numpy as np
import pytest
import torch
from tests.bag_models.count_terms import CPU, NAN
from tests.problems import segments_of

from bagwise.bag_models.counts import ProbitCounts
from bagwise.bag_models.pieces import cut_bags, piece_rows
from bagwise.evidence.counts import CountEvidence
from bagwise.evidence.statements import count, log_potentials
from bagwise.gp.features import Design
from bagwise.inference.chunks import Chunk, PiecesOfColumn

SIZES = np.array([5, 3, 4, 2, 1])
Y = np.array([0.0, 1.0, 0.0, NAN, 0.0])


def labelled(y=Y, sizes=SIZES, **changes):
    y = np.asarray(y, dtype=float)
    return CountEvidence(y if y.ndim == 2 else y[:, None], np.asarray(sizes), **changes)


def whole_chunk(evidence, pieces, part=None):
    """Bags in a chunk whose rows are their own numbers."""
    part = slice(0, len(evidence.labels)) if part is None else part
    rows = torch.arange(evidence.offsets[part.start], evidence.offsets[part.stop], dtype=torch.float64)
    segments = segments_of(np.diff(evidence.offsets[part.start : part.stop + 1]))
    model = ProbitCounts(evidence, pieces=pieces)
    return Chunk(Design(rows[:, None], torch.zeros_like(rows), segments), model.chunk(part, torch.float64, CPU))


# ---------------------------------------------------------------- where bags are cut


def test_negative_bags_are_cut_into_equal_pieces_and_no_other_bag_is():
    found = cut_bags(Y, SIZES, 2, CPU)
    assert found.offsets.tolist() == [0, 1, 3, 5, 8, 10, 12, 14, 15]
    assert found.bag.tolist() == [0, 0, 0, 1, 2, 2, 3, 4]
    assert found.first.tolist() == [0, 3, 4, 6, 7]


@pytest.mark.parametrize("rows", [0, 5, 9])
def test_bags_stay_whole_where_pieces_may_be_as_large(rows):
    assert cut_bags(Y, SIZES, rows, CPU) is None


def test_bags_that_are_not_negative_stay_whole():
    assert cut_bags(np.array([1.0, NAN]), np.array([50, 60]), 1, CPU) is None


def test_no_piece_has_more_rows_than_allowed_and_none_is_empty():
    sizes = np.random.default_rng(0).integers(1, 200, 50)
    for rows in (1, 7, 30, 150):
        found = cut_bags(np.zeros(50), sizes, rows, CPU)
        lengths = np.diff(found.offsets.numpy())
        assert lengths.min() > 0
        assert lengths.max() <= rows
        np.testing.assert_array_equal(np.bincount(found.bag.numpy(), lengths), sizes)


def test_rows_of_a_piece_follow_from_how_many_there_may_be():
    both = labelled(np.column_stack([Y, 1.0 - Y]))  # ten rows in negative bags, and three
    np.testing.assert_array_equal(piece_rows(both, 4), [3, 1])
    np.testing.assert_array_equal(piece_rows(both, 100), [1, 1])
    np.testing.assert_array_equal(piece_rows(labelled(np.ones(5)), 4), [0])


def test_bags_whose_labels_may_be_wrong_stay_whole():
    noisy = labelled(label_noise=0.1)
    np.testing.assert_array_equal(piece_rows(noisy, 4), [0])
    assert len(PiecesOfColumn(0)(whole_chunk(noisy, 4)).design.segments) == len(SIZES)


# ---------------------------------------------------------------- what the pieces state


def test_pieces_add_up_to_the_bags():
    """log Z of a bag is the sum over its pieces, and G of every row is the same (13.5)."""
    chunk = whole_chunk(labelled(), 100)
    cut = PiecesOfColumn(0)(chunk)
    assert len(cut.design.segments) == 12
    f = torch.tensor(np.random.default_rng(1).normal(size=(15, 1)))
    log_z, g = chunk.evidence.terms(f, chunk.design.segments)
    log_z_cut, g_cut = cut.evidence.terms(f, cut.design.segments)
    bag = chunk.evidence.pieces[0].bag
    torch.testing.assert_close(torch.zeros_like(log_z).index_add(0, bag, log_z_cut), log_z, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(g_cut, g, rtol=1e-12, atol=1e-12)


def test_weights_and_numbers_of_bags_go_over_to_the_pieces():
    weights = np.array([2.0, 3.0, 0.5, 7.0, 1.5])
    cut = PiecesOfColumn(0)(whole_chunk(labelled(weight=weights), 5)).evidence
    np.testing.assert_array_equal(cut.labels[:, 0], Y[[0, 0, 0, 1, 2, 2, 3, 4]])
    np.testing.assert_array_equal(cut.weights.each, weights[[0, 0, 0, 1, 2, 2, 3, 4]])
    assert cut.n_labelled == (7,)  # the piece of unknown label is none of them


def test_statements_by_table_stay_with_their_bags():
    """Exactly one positive in the bag of unknown label: the pieces before it move its number, nothing else."""
    told = count([0, 0, 0, 1, 0], [9, 9, 9, 1, 9])
    by_table = np.arange(5) == 3
    evidence = labelled(tables=(log_potentials(told, SIZES),), by_table=(by_table,), known=np.full(15, NAN))
    chunk = whole_chunk(evidence, 100)
    cut = PiecesOfColumn(0)(chunk)
    f = torch.tensor(np.random.default_rng(2).normal(size=(15, 1)))
    log_z, g = chunk.evidence.terms(f, chunk.design.segments)
    log_z_cut, g_cut = cut.evidence.terms(f, cut.design.segments)
    assert log_z[3] != 0
    torch.testing.assert_close(log_z_cut[chunk.evidence.pieces[0].first[3]], log_z[3])
    torch.testing.assert_close(g_cut, g, rtol=1e-12, atol=1e-12)


def test_columns_are_cut_each_by_its_own_labels():
    both = whole_chunk(labelled(np.column_stack([Y, 1.0 - Y])), 100)
    assert [len(PiecesOfColumn(column)(both).design.segments) for column in (0, 1)] == [12, 7]


def test_pieces_are_the_same_in_whatever_chunks_bags_come():
    evidence = labelled()
    cuts = [slice(0, 2), slice(2, 5)]
    parts = [PiecesOfColumn(0)(whole_chunk(evidence, 4, part)).design.segments.offsets for part in cuts]
    together = PiecesOfColumn(0)(whole_chunk(evidence, 4)).design.segments.offsets
    assert [*parts[0].tolist(), *(8 + parts[1][1:]).tolist()] == together.tolist()
