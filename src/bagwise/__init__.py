"""Learn about individuals when only groups are labelled."""

from importlib.metadata import version

from bagwise.bags import Bags
from bagwise.evidence.levels import two_levels
from bagwise.evidence.statements import Evidence, count, fraction, guessed_fractions, label
from bagwise.exceptions import BagDataError, BagDataWarning, BagwiseError, ConvergenceWarning, ModelFileError
from bagwise.gp.feature_maps import register_feature_map
from bagwise.models import load
from bagwise.models.bag_gp import BagGP
from bagwise.models.gpmil import GPMIL
from bagwise.models.group_kernel_machine import GroupKernelMachine
from bagwise.models.mil_gp_probit import MILGPProbit
from bagwise.models.miplgp import MIPLGP
from bagwise.models.vgpmil import LMVGPMIL, VGPMIL
from bagwise.per_instance import PerInstance

__version__ = version("bagwise")

__all__ = [
    "GPMIL",
    "LMVGPMIL",
    "MIPLGP",
    "VGPMIL",
    "BagDataError",
    "BagDataWarning",
    "BagGP",
    "Bags",
    "BagwiseError",
    "ConvergenceWarning",
    "Evidence",
    "GroupKernelMachine",
    "MILGPProbit",
    "ModelFileError",
    "PerInstance",
    "count",
    "fraction",
    "guessed_fractions",
    "label",
    "load",
    "register_feature_map",
    "two_levels",
]
