"""Bags to try things on: generators with known truth, handwritten digits, archives of real data."""

from bagwise.datasets.candidates import CandidateBags, make_candidate_bags
from bagwise.datasets.dealing import wave
from bagwise.datasets.groups import make_election, make_groups, vote_chance
from bagwise.datasets.labels import load_digit_bags, make_bags, make_molecule_bags
from bagwise.datasets.slides import write_digit_slides
from bagwise.io.npz import read_npz

__all__ = [
    "CandidateBags",
    "load_digit_bags",
    "make_bags",
    "make_candidate_bags",
    "make_election",
    "make_groups",
    "make_molecule_bags",
    "read_npz",
    "vote_chance",
    "wave",
    "write_digit_slides",
]
