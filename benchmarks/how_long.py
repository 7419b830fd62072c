"""How long do fit and prediction take, by the number of bags?

    python -m benchmarks.how_long [largest number of bags]

Generated bags of 10 instances with 20 features, one label per bag, every model at its defaults, one thread, seed 0.
Times are processor seconds of one fit, and of one prediction for as many bags and all of their instances.
"""

import os
import sys
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from bagwise import GPMIL, VGPMIL, BagGP, MILGPProbit
from bagwise.datasets import make_bags

SIZES = (100, 300, 1000, 3000, 10000)
MODELS = {
    "BagGP": BagGP(random_state=0),
    "BagGP, kernel not learned": BagGP(learn=False, random_state=0),
    "MILGPProbit": MILGPProbit(random_state=0),
    "VGPMIL": VGPMIL(random_state=0),
    "GPMIL": GPMIL(random_state=0),
}
SLOW = {"GPMIL": 300}  # not beyond this number of bags


def seconds(work):
    started = time.process_time()
    work()
    return time.process_time() - started


def main(largest="1000"):
    print("| model | bags | instances | fit s | predict s |\n|---|---:|---:|---:|---:|")
    warnings.simplefilter("ignore")  # of convergence: the time is what it is
    for name, model in MODELS.items():
        for n_bags in (size for size in SIZES if size <= min(int(largest), SLOW.get(name, int(largest)))):
            bags, y, _ = make_bags(n_bags, 10, 20, random_state=0)
            fitting = seconds(lambda model=model, bags=bags, y=y: model.fit(bags, y))
            predicting = seconds(
                lambda model=model, bags=bags: (model.predict_proba(bags), model.predict_instance_proba(bags))
            )
            print(f"| {name} | {n_bags:,} | {10 * n_bags:,} | {fitting:.1f} | {predicting:.1f} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:2])
