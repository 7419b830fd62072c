"""Rates of groups from totals: do ranges hold on generated precincts, and how good are the answers on real counties?

Run: python -m benchmarks.elections coverage [--precincts 50 300] [--effect 0 0.3 1] [--repeats 20] [--seed 0]
     python -m benchmarks.elections counties [folder of data sets] [--set NAME] [--by-group] [--rounded]
            [--pyei] [--numpyro]
     python -m benchmarks.elections sizes [--effect 0.8] [--repeats 8] [--seed 0]
     python -m benchmarks.elections speed

``--rounded`` fits BagGP again with shares that are known to .005, as the model of NumPyro takes them. ``--pyei`` adds
the package PyEI, ``--numpyro`` a plain hierarchical model, if these packages are installed.
"""

import argparse
import time
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm

from bagwise import BagGP, Bags
from bagwise.aggregates import composition_check, group_table
from bagwise.exceptions import BagDataWarning
from bagwise.inference.laplace.effect_sizes import CORRELATION_SPREAD

DATA = Path(__file__).parents[2] / "shared" / "data"
COUNTIES = ("ei_registration_south", "ei_census1910_literacy", "ei_foreign_literacy_1930")
ASSUMED_TOTAL = 10_000  # people of a county in the last of them, which does not tell
GROUPS = ("first", "second")
LEVEL = 0.9
ROUNDED = 0.005  # standard deviation of a share in the model of NumPyro
HELD_OUT = 100

SETTINGS = {"group_effect": True, "random_state": 0}  # of the model; --by-group changes the first


def generated(n_precincts, effect, rng, rates=(0.25, 0.7), totals=(20, 5000), tied=0.0, own=None, apart=0.0):
    """People of two groups in every precinct, and how many of each are positive.

    ``effect`` is the standard deviation of the effects of precincts on the probit scale. A share ``own`` of their
    variance belongs to each group for itself, the rest is common to the precinct; None draws it as the prior of the
    model does. Groups have sizes of their own, which differ from ``effect`` by ``apart`` on the scale of logarithms
    (a standard deviation). ``tied`` makes the effects go with the share of the first group, which breaks the assumption
    that all methods here rest on.
    """
    size = np.exp(rng.uniform(*np.log(totals), n_precincts)).astype(int)
    share = rng.dirichlet([1.0] * len(rates), n_precincts)
    people = np.stack([rng.multinomial(n, p) for n, p in zip(size, share, strict=True)])
    own = 1.0 - np.tanh(abs(rng.normal(0.0, CORRELATION_SPREAD))) if own is None else own
    common = np.sqrt(1.0 - own) * rng.standard_normal((n_precincts, 1))
    sizes = effect * np.exp(apart * rng.standard_normal(len(rates)))
    effects = sizes * (common + np.sqrt(own) * rng.standard_normal(people.shape)) + tied * (share[:, :1] - 0.5)
    return people, rng.binomial(people, norm.cdf(norm.ppf(rates) + effects))


def as_bags(people):
    """A table of totals as bags."""
    table = pd.DataFrame(people, columns=list(GROUPS)).assign(precinct=np.arange(len(people)))
    return Bags.from_totals(table, "precinct", list(GROUPS))


def place_in(draws, truth, rng):
    """Where the truth lies among the draws, from 0 to 1; equal numbers are put in random order."""
    below, equal = (draws < truth - 1e-9).mean(0), (np.abs(draws - truth) <= 1e-9).mean(0)
    return below + rng.random(truth.shape) * equal


def inside(place):
    """Whether a central interval of the level holds the truth."""
    return np.abs(place - 0.5) <= 0.5 * LEVEL


def one_repeat(n_precincts, effect, seed, learn=True, own=None, apart=0.0):
    """Coverage of cells of precincts, of the two group rates, and of shares of new precincts; the effect found."""
    rng = np.random.default_rng(seed)
    people, positive = generated(n_precincts + HELD_OUT, effect, rng, own=own, apart=apart)
    bags, numbers = as_bags(people), positive.sum(1)
    model = BagGP(evidence="count", learn=learn, **SETTINGS)
    model.fit(bags[:n_precincts], numbers[:n_precincts])
    each = group_table(model, bags[:n_precincts], numbers[:n_precincts], sets="bags", n_draws=200)
    own, there = people[:n_precincts], people[:n_precincts] > 0
    draws = np.where(there, each.draws[..., 0], 0.0) * own
    cells = inside(place_in(draws, positive[:n_precincts].astype(float), rng))[there]
    rates = inside(place_in(draws.sum(1), positive[:n_precincts].sum(0).astype(float), rng))
    answer, share = (
        model.predict_fraction(bags[n_precincts:], LEVEL),
        numbers[n_precincts:] / people[n_precincts:].sum(1),
    )
    new = (share >= answer.lower) & (share <= answer.upper)
    return cells.mean(), rates.mean(), new.mean(), model.group_effect_.size


def coverage(n_precincts=(50,), effects=(0.3,), repeats=20, seed=0, own=None, apart=0.0):
    """The table of coverage: one line for every number of precincts and size of the effects."""
    print("| precincts | effect | repeats | cells of precincts | group rates | new precincts | effect found |")
    print("|---|---|---|---|---|---|---|")
    for number in n_precincts:
        for effect in effects:
            began = time.process_time()
            found = np.array(
                [one_repeat(number, effect, seed + repeat, own=own, apart=apart) for repeat in range(repeats)]
            )
            cells, rates, new, size = found.mean(0)
            line = f"| {number} | {effect:g} | {repeats} | {cells:.3f} | {rates:.3f} | {new:.3f} | {size:.2f} |"
            print(line, f"{(time.process_time() - began) / repeats:.0f} s each", flush=True)


def speed(n_precincts=3000, n_groups=6, n_outcomes=4, seed=0):
    """Processor seconds of a fit and of its table, for shares of several outcomes."""
    rng = np.random.default_rng(seed)
    size = np.exp(rng.uniform(*np.log((20, 5000)), n_precincts)).astype(int)
    share = rng.dirichlet([1.0] * n_groups, n_precincts)
    people = np.stack([rng.multinomial(n, p) for n, p in zip(size, share, strict=True)])
    logits = rng.normal(0.0, 1.0, (n_groups, n_outcomes)) + rng.normal(0.0, 0.3, (n_precincts, n_groups, n_outcomes))
    chance = np.exp(logits) / np.exp(logits).sum(2, keepdims=True)
    votes = rng.multinomial(people.ravel(), chance.reshape(-1, n_outcomes)).reshape(chance.shape).sum(1)
    names = [f"group {g}" for g in range(n_groups)]
    table = pd.DataFrame(people, columns=names).assign(precinct=np.arange(n_precincts))
    bags = Bags.from_totals(table, "precinct", names)
    began = time.process_time()
    model = BagGP(evidence="fraction", confidence=1e6, random_state=0).fit(bags, votes / votes.sum(1, keepdims=True))
    fitted = time.process_time()
    group_table(model, bags, votes / votes.sum(1, keepdims=True), n_draws=100)
    done = time.process_time()
    print(f"{n_precincts} precincts x {n_groups} groups x {n_outcomes} outcomes: fit {fitted - began:.1f} s, ", end="")
    print(f"table of 100 draws {done - fitted:.1f} s of one processor")


def sizes(repeats=8, effect=0.8, n_precincts=80, seed=0):
    """The size of the effects that is found, in samples of precincts with 200 to 800 people."""
    found = []
    for repeat in range(repeats):
        rng = np.random.default_rng(seed + repeat)
        people, positive = generated(n_precincts, effect, rng, totals=(200, 800))
        model = BagGP(evidence="count", learn=False, random_state=0).fit(as_bags(people), positive.sum(1))
        found.append(model.group_effect_.size)
    print(f"true size {effect:g}; found {min(found):.2f} to {max(found):.2f}, on average {np.mean(found):.2f}")


# ---------------------------------------------------------------- real counties


def read_counties(path):
    """People by group (B, 2), number of positives (B,), true rates (B, 2)."""
    with np.load(path) as stored:
        share, outcome = (stored[name].astype(float) for name in ("X", "Y"))
        total = stored["N"].astype(float) if "N" in stored else np.full(len(share), float(ASSUMED_TOTAL))
        truth = np.column_stack([stored["W1"], stored["W2"]]).astype(float)
    total = np.maximum(np.round(total), 2)
    first = np.clip(np.round(total * share), 0, total)
    people = np.column_stack([first, total - first]).astype(int)
    return people, np.clip(np.round(total * outcome), 0, total).astype(int), truth


@dataclass(frozen=True)
class CountyAnswers:
    """What a method says: the rates of the two groups, of each county, and its ranges where it has them."""

    rates: np.ndarray  # (2,)
    counties: np.ndarray  # (B, 2)
    range_of_rates: tuple[np.ndarray, np.ndarray] | None = None
    range_of_counties: tuple[np.ndarray, np.ndarray] | None = None


def by_bagwise(people, numbers):
    """Answers of the model, of methods that need none, and the model itself."""
    model, table, each, own = county_fit(people, numbers, evidence="count")
    goodman = table.goodman[0, :, 0]
    alike = CountyAnswers(table.alike[0, :, 0], np.nan_to_num(each.alike[..., 0]))
    bounds = [f"{low:.3f} to {high:.3f}" for low, high in zip(table.least[0, :, 0], table.most[0, :, 0], strict=True)]
    print(f"| | bounds | {', '.join(bounds)} | | | | |")
    others = {"Goodman": CountyAnswers(goodman, np.tile(goodman, (len(people), 1))), "both alike": alike}
    return {"BagGP": own, **others}, model


def county_fit(people, stated, **settings):
    """The model, its table for all counties and for each, and its answers."""
    bags = as_bags(people)
    model = BagGP(**SETTINGS, **settings).fit(bags, stated)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BagDataWarning)
        table = group_table(model, bags, stated)
        each = group_table(model, bags, stated, sets="bags", n_draws=200)
    ranges = (table.lower[0, :, 0], table.upper[0, :, 0]), (each.lower[..., 0], each.upper[..., 0])
    own = CountyAnswers(table.mean[0, :, 0], np.nan_to_num(each.mean[..., 0]), *ranges)
    return model, table, each, own


def by_rounded_shares(people, numbers):
    """BagGP where shares count as known to ``ROUNDED``, as in the model of NumPyro: no share is exactly 0 or 1."""
    share = np.clip(numbers / people.sum(1), ROUNDED, 1.0 - ROUNDED)
    confidence = share * (1.0 - share) / ROUNDED**2
    model, _, _, own = county_fit(people, share, evidence="fraction", confidence=confidence)
    print(f"| | BagGP, rounded shares | {model.group_effect_!r} | | | | |")
    return own


def by_pyei(people, numbers):
    """PyEI's model of two groups as its documentation shows it: King, Rosen & Tanner 1999 with a Pareto prior."""
    import arviz
    from pyei.two_by_two import TwoByTwoEI

    total = people.sum(1)
    model = TwoByTwoEI("king99_pareto_modification")
    model.fit(people[:, 0] / total, numbers / total, total, random_seed=0)
    drawn = model.sim_trace["posterior"][["b_1", "b_2"]].stack(all_draws=["chain", "draw"])
    counties = np.stack([drawn["b_1"].values, drawn["b_2"].values], axis=1)  # (B, 2, draws)
    rates = np.einsum("bg,bgs->gs", people / people.sum(0), counties)
    print(f"| | PyEI | largest R-hat {arviz.rhat(model.sim_trace).to_array().max().item():.3f} | | | | |")
    return CountyAnswers(rates.mean(-1), counties.mean(-1), _central(rates), _central(counties))


def by_numpyro(people, numbers, n_samples=500):
    """A plain hierarchical model: Φ⁻¹(rate) of a group in a county is normal around the mean of the group, by NUTS.

    Shares count as known to ``ROUNDED``: of a million people the exact number leaves NUTS a line to walk on.
    """
    import jax
    import numpyro
    import numpyro.distributions as law

    def model():
        mean = numpyro.sample("mean", law.Normal(0.0, 1.0).expand([2]))
        spread = numpyro.sample("spread", law.HalfNormal(1.0).expand([2]))
        each = numpyro.sample("each", law.Normal(0.0, 1.0).expand(list(people.shape)).to_event(2))
        rate = numpyro.deterministic("rate", jax.scipy.stats.norm.cdf(mean + spread * each))
        sd = ((people * rate * (1.0 - rate)).sum(1) + (ROUNDED * people.sum(1)) ** 2) ** 0.5
        numpyro.sample("number", law.Normal((people * rate).sum(1), sd), obs=numbers)

    numpyro.enable_x64()
    chains = numpyro.infer.MCMC(
        numpyro.infer.NUTS(model), num_warmup=n_samples, num_samples=n_samples, num_chains=2, progress_bar=False
    )
    chains.run(jax.random.PRNGKey(0))
    grouped = chains.get_samples(group_by_chain=True)
    worst = max(float(numpyro.diagnostics.gelman_rubin(np.asarray(grouped[name])).max()) for name in ("mean", "spread"))
    print(f"| | NumPyro | largest R-hat of means and spreads {worst:.3f} | | | | |")
    counties = np.moveaxis(np.asarray(chains.get_samples()["rate"]), 0, -1)
    rates = np.einsum("bg,bgs->gs", people / people.sum(0), counties)
    return CountyAnswers(rates.mean(-1), counties.mean(-1), _central(rates), _central(counties))


def _central(draws):
    lower, upper = np.quantile(draws, [0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL], axis=-1)
    return lower, upper


def county_line(name, method, answer, people, truth):
    """One line of the table: errors of group rates and of county rates, and coverage."""
    weight = people / people.sum(0)
    true = (weight * truth).sum(0)
    error = (weight * np.abs(answer.counties - truth)).sum(0)
    held, whole = "–", "–"
    if answer.range_of_counties is not None and answer.range_of_rates is not None:
        held = f"{_holds(answer.range_of_counties, truth, 0.005)[people > 0].mean():.2f}"
        whole = f"{_holds(answer.range_of_rates, true).sum()} of 2"
    pairs = [f"{first:.3f}, {second:.3f}" for first, second in (answer.rates, true, error)]
    return f"| {name} | {method} | {' | '.join(pairs)} | {held} | {whole} |"


def _holds(interval, truth, margin=0.0):
    lower, upper = interval
    return (truth >= lower - margin) & (truth <= upper + margin)


def counties(folder=DATA, names=COUNTIES, check=False, others=()):
    """The table of real counties; with ``check`` the composition as a feature, ``others`` are names of OTHERS."""
    print("| counties | method | rates | true rates | mean error by county | coverage of counties | of the rates |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        people, numbers, truth = read_counties(Path(folder) / f"{name}.npz")
        seconds, (answers, model) = timed(partial(by_bagwise, people, numbers))
        constants = (people * truth).sum(0) / people.sum(0)
        answers["true constants"] = CountyAnswers(constants, np.tile(constants, (len(people), 1)))
        print(f"| | BagGP | effects {model.group_effect_!r}, {seconds:.0f} s | | | | |")
        for other in others:
            seconds, answers[other] = timed(partial(OTHERS[other], people, numbers))
            print(f"| | {other} | {seconds:.0f} s | | | | |")
        for method, answer in answers.items():
            print(county_line(name, method, answer, people, truth), flush=True)
        if check:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BagDataWarning)
                print(composition_check(model, as_bags(people), numbers).sentence)


OTHERS = {"BagGP, rounded shares": by_rounded_shares, "PyEI": by_pyei, "NumPyro": by_numpyro}


def timed(work):
    """Processor seconds, and what came out."""
    began = time.process_time()
    found = work()
    return time.process_time() - began, found


def main(arguments=None):
    """Command line; without arguments a short run of both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("coverage", "counties", "sizes", "speed"), default="coverage")
    parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    parser.add_argument("--precincts", type=int, nargs="+", default=[50])
    parser.add_argument("--effect", type=float, nargs="+", default=[0.3])
    parser.add_argument(
        "--own", type=float, help="share of the variance of the effects that groups have for themselves"
    )
    parser.add_argument("--apart", type=float, default=0.0, help="how far sizes of groups differ, in logarithms")
    parser.add_argument("--by-group", action="store_true", help="learn a size of the effects for every group")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", choices=COUNTIES)
    parser.add_argument("--composition", action="store_true")
    parser.add_argument("--rounded", action="store_const", const="BagGP, rounded shares", help="shares known to .005")
    parser.add_argument("--pyei", action="store_const", const="PyEI", help="measure the package PyEI as well")
    parser.add_argument(
        "--numpyro", action="store_const", const="NumPyro", help="a hierarchical model in NumPyro as well"
    )
    given = parser.parse_args([] if arguments is None else arguments)
    if given.by_group:
        SETTINGS["group_effect"] = "by group"
    if given.what == "coverage":
        coverage(given.precincts, given.effect, given.repeats, given.seed, given.own, given.apart)
    elif given.what == "sizes":
        sizes(given.repeats, given.effect[0], 80, given.seed)
    elif given.what == "speed":
        speed(seed=given.seed)
    else:
        others = [name for name in (given.rounded, given.pyei, given.numpyro) if name is not None]
        counties(given.folder, given.set or COUNTIES, given.composition, others)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
