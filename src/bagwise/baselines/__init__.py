"""What people used before: methods to measure against, under the same contract as the models."""

from bagwise.baselines.annealed_svm import ALPSVM, ALSVM, AWSVM
from bagwise.baselines.attention_mil import AttentionMIL
from bagwise.baselines.bag_statistics_svm import BagStatisticsSVM
from bagwise.baselines.citation_knn import CitationKNN
from bagwise.baselines.clpl import CLPL
from bagwise.baselines.conditional_mixture import ConditionalMixture
from bagwise.baselines.diverse_density import DD, EMDD
from bagwise.baselines.em_proportions import EMProportions
from bagwise.baselines.inv_cal import InvCal
from bagwise.baselines.mean_map import MeanMap
from bagwise.baselines.mi_svm import MiSVM
from bagwise.baselines.mi_svm_witness import MISVM
from bagwise.baselines.mica import MICA
from bagwise.baselines.miles import MILES
from bagwise.baselines.nsk import NSK
from bagwise.baselines.pl_aggd import PLAGGD
from bagwise.baselines.pl_knn import PLKNN
from bagwise.baselines.proportion_svm import ProportionSVM
from bagwise.baselines.sb_mil import SbMIL
from bagwise.baselines.sil import SIL
from bagwise.baselines.sure import SURE
from bagwise.baselines.totals.goodman import Goodman
from bagwise.baselines.totals.king import King2x2
from bagwise.baselines.totals.rate_bounds import RateBounds

__all__ = [
    "ALPSVM",
    "ALSVM",
    "AWSVM",
    "CLPL",
    "DD",
    "EMDD",
    "MICA",
    "MILES",
    "MISVM",
    "NSK",
    "PLAGGD",
    "PLKNN",
    "SIL",
    "SURE",
    "AttentionMIL",
    "BagStatisticsSVM",
    "CitationKNN",
    "ConditionalMixture",
    "EMProportions",
    "Goodman",
    "InvCal",
    "King2x2",
    "MeanMap",
    "MiSVM",
    "ProportionSVM",
    "RateBounds",
    "SbMIL",
]
