"""Learn about individuals when only groups are labelled."""

from typing import TYPE_CHECKING

from bagwise._lazy import lazy_names

if TYPE_CHECKING:
    from bagwise._version import __version__ as __version__
    from bagwise.bags import Bags
    from bagwise.evidence.levels import two_levels
    from bagwise.evidence.statements import Evidence, count, fraction, guessed_fractions, label
    from bagwise.exceptions import (
        BagDataError,
        BagDataWarning,
        BagwiseError,
        ConvergenceWarning,
        LearnedNothingWarning,
        ModelFileError,
    )
    from bagwise.gp.feature_maps import register_feature_map
    from bagwise.models import load
    from bagwise.models.bag_gp import BagGP
    from bagwise.models.gpmil import GPMIL
    from bagwise.models.group_kernel_machine import GroupKernelMachine
    from bagwise.models.mil_gp_probit import MILGPProbit
    from bagwise.models.miplgp import MIPLGP
    from bagwise.models.vgpmil import LMVGPMIL, VGPMIL
    from bagwise.per_instance import PerInstance
    from bagwise.pipeline import BagPipeline, make_pipeline

__all__ = [
    "GPMIL",
    "LMVGPMIL",
    "MIPLGP",
    "VGPMIL",
    "BagDataError",
    "BagDataWarning",
    "BagGP",
    "BagPipeline",
    "Bags",
    "BagwiseError",
    "ConvergenceWarning",
    "Evidence",
    "GroupKernelMachine",
    "LearnedNothingWarning",
    "MILGPProbit",
    "ModelFileError",
    "PerInstance",
    "count",
    "fraction",
    "guessed_fractions",
    "label",
    "load",
    "make_pipeline",
    "register_feature_map",
    "two_levels",
]

# Where each of these names is defined. A test compares this table with the imports above, which are for type checkers.
_WHERE = {
    "__version__": "bagwise._version",
    "Bags": "bagwise.bags",
    "two_levels": "bagwise.evidence.levels",
    "Evidence": "bagwise.evidence.statements",
    "count": "bagwise.evidence.statements",
    "fraction": "bagwise.evidence.statements",
    "guessed_fractions": "bagwise.evidence.statements",
    "label": "bagwise.evidence.statements",
    "BagDataError": "bagwise.exceptions",
    "BagDataWarning": "bagwise.exceptions",
    "BagwiseError": "bagwise.exceptions",
    "ConvergenceWarning": "bagwise.exceptions",
    "LearnedNothingWarning": "bagwise.exceptions",
    "ModelFileError": "bagwise.exceptions",
    "register_feature_map": "bagwise.gp.feature_maps",
    "load": "bagwise.models",
    "BagGP": "bagwise.models.bag_gp",
    "GPMIL": "bagwise.models.gpmil",
    "GroupKernelMachine": "bagwise.models.group_kernel_machine",
    "MILGPProbit": "bagwise.models.mil_gp_probit",
    "MIPLGP": "bagwise.models.miplgp",
    "LMVGPMIL": "bagwise.models.vgpmil",
    "VGPMIL": "bagwise.models.vgpmil",
    "PerInstance": "bagwise.per_instance",
    "BagPipeline": "bagwise.pipeline",
    "make_pipeline": "bagwise.pipeline",
}
_SUBMODULES = (
    "active",
    "aggregates",
    "baselines",
    "bench",
    "compare",
    "datasets",
    "exceptions",
    "inspection",
    "io",
    "labelling",
    "metrics",
    "model_selection",
    "models",
    "plots",
    "report",
    "scale",
    "testing",
)

__getattr__, __dir__ = lazy_names(__name__, _WHERE, _SUBMODULES)
