"""What the tables of Wang & Pinar have in common: their columns, and who is compared with whom."""

AUC, LOG, PRECISION = "instance auc", "instance log_likelihood", "instance average_precision"
COLUMNS = tuple((model, metric) for metric in (AUC, LOG, PRECISION) for model in ("MILGPProbit", "VGPMIL"))
COMPARISONS = (
    ("MILGPProbit", "VGPMIL"),
    ("MILGPProbit-converged", "VGPMIL-converged"),
    ("MILGPProbit", "LMVGPMIL"),
    ("MILGPProbit", "MILGPProbit-gibbs"),
    ("BagGP", "MILGPProbit"),
    ("BagGP", "SVM"),
)
