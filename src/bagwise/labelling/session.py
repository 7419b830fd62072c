"""One labelling session: who is shown what, what was answered, and a model that is fitted again in the background."""

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bagwise._files import PathLike
from bagwise._validation import check_option
from bagwise.active import QUERIES
from bagwise.bags import as_bags
from bagwise.labelling.journal import Journal
from bagwise.labelling.learner import Asking, Learner, ask
from bagwise.labelling.pool import Floats, Ints, Pool, make_pool
from bagwise.labelling.question import question_for

_MOST_TABS = 50  # remembered; the one that has been silent for longest is forgotten first


@dataclass(frozen=True)
class LabellingProgress:
    """How far the labelling is; ``None`` where nothing is known yet."""

    known: int  # items known: from the data, and by answers
    answers: int  # of these, by answers in the journal
    left: int
    bits: float | None  # expected of the next label, about the model
    measure: str
    expected: float | None  # of the model on items not labelled yet
    guessed: tuple[int, int]  # how many answers the model had guessed rightly, of how many
    fitting: bool
    fitted_to: int  # labels that the model has learned from
    message: str | None  # what went wrong in the last fit, or what it warned of


class Session:
    """Thread-safe. ``by`` is the person who answers here; others may write to the same journal."""

    def __init__(
        self,
        model: Any,
        pool: Pool,
        journal: Journal,
        *,
        by: str = "",
        strategy: str = "bald",
        random_state: Any = None,
        in_background: bool = True,
    ) -> None:
        self.pool, self.by = pool, by
        self._model, self._journal, self._strategy, self._random = model, journal, strategy, random_state
        self._state = threading.Condition()  # a lock that the background waits at
        self._values = pool.known(journal.latest())
        self._fitted_to = _number_known(pool.before)
        self._learner = Learner(model, self._fitted_to)
        self._message: str | None = None
        self._asking = ask(model, pool, self._values, strategy, random_state)
        self._tabs: dict[str, int] = {}
        self._stale = bool(journal.entries)
        self._closing = False
        self._worker = threading.Thread(target=self._work, daemon=True) if in_background else None
        if self._worker is not None:
            self._worker.start()

    @property
    def model(self) -> Any:
        """The model that asks at present."""
        return self._model

    # ------------------------------------------------------------ what a person does

    def next(self, tab: str) -> int | None:
        """The item for a tab: the one it has, or the best one that no other tab shows; None when all are known."""
        with self._state:
            self._catch_up()
            held = self._tabs.get(tab)
            if held is None or not self._is_open(held):
                held = self._best_for(tab)
            self._hold(tab, held)
            return held

    def answer(self, tab: str, number: int, values: Any, *, shown: bool = False) -> None:
        """Keep an answer about an item; it is on disk when this returns."""
        chosen = self.pool.question.checked(values)
        with self._state:
            key, belief = self.pool.key(number), self._asking.belief[number]
            self._journal.answer(self.by, key, chosen, [round(float(p), 6) for p in belief], shown)
            self._after(tab)

    def skip(self, tab: str, number: int) -> None:
        """Put an item at the end."""
        with self._state:
            self._journal.skip(self.by, self.pool.key(number))
            self._after(tab)

    def undo(self, tab: str) -> int | None:
        """Take back the last answer or skip of this person, and show the item again; None where there is none."""
        with self._state:
            self._journal.refresh()
            key = self._journal.undo(self.by)
            if key is None:
                return None
            self._after(tab)
            self._hold(tab, self.pool.number(key))
            return self.pool.number(key)

    def belief(self, number: int) -> tuple[list[float], list[float] | None]:
        """Probabilities of an item, and of its rows where it is a bag of two classes."""
        with self._state:
            self.pool.key(number)
            model, own = self._model, self._asking.belief[number].tolist()
        if self.pool.what == "instances" or self.pool.question.n_values > 1:
            return own, None
        return own, model.predict_instance_proba(self.pool.bags[number])[:, 1].tolist()

    def progress(self, tab: str | None = None) -> LabellingProgress:
        """How far it is."""
        with self._state:
            answers = self._journal.latest()
            known = int((~np.isnan(self._values)).all(axis=1).sum())
            place = np.flatnonzero(self._asking.order == self._tabs.get(tab or "", -1))
            bits = self._asking.bits[place[0]] if len(place) else np.nan
            return LabellingProgress(
                known=known,
                answers=sum(any(entry.values is not None for entry in entries) for entries in answers.values()),
                left=len(self.pool) - known,
                bits=_number_or_none(bits),
                measure=self._asking.measure,
                expected=_number_or_none(self._asking.expected),
                guessed=self._guessed(),
                fitting=self._stale,
                fitted_to=self._fitted_to,
                message=self._message,
            )

    # ------------------------------------------------------------ which item

    def _best_for(self, tab: str) -> int | None:
        elsewhere = {number for other, number in self._tabs.items() if other != tab}
        waiting = self._waiting()
        for left_out in (elsewhere | self._skipped(), elsewhere, set[int]()):
            best = next((int(number) for number in waiting if int(number) not in left_out), None)
            if best is not None:
                return best
        return None

    def _waiting(self) -> Ints:
        """Items to ask this person about, in order; last those that were known when the model was asked.

        What the person has answered already is not asked again, though others may have answered the opposite.
        """
        unknown = np.flatnonzero(np.isnan(self._values).any(axis=1))
        answered = [entry for entry in self._journal.entries if entry.by == self.by and entry.values is not None]
        mine = np.array([self.pool.number(entry.key) for entry in answered], dtype=np.int64)
        wanted, order = np.setdiff1d(unknown, mine), self._asking.order
        return np.concatenate([order[np.isin(order, wanted)], np.setdiff1d(wanted, order)])

    def _is_open(self, number: int) -> bool:
        return bool(np.isnan(self._values[number]).any())

    def _skipped(self) -> set[int]:
        found = self._journal.latest().items()
        return {self.pool.number(key) for key, entries in found if any(entry.values is None for entry in entries)}

    def _hold(self, tab: str, number: int | None) -> None:
        self._tabs.pop(tab, None)
        if number is not None:
            self._tabs[tab] = number
        while len(self._tabs) > _MOST_TABS:
            self._tabs.pop(next(iter(self._tabs)))

    def _after(self, tab: str) -> None:
        """Something was written: let go of the item, and let the model learn from it."""
        self._tabs.pop(tab, None)
        self._renew()

    def _catch_up(self) -> None:
        if self._journal.refresh():
            self._renew()

    def _renew(self) -> None:
        values = self.pool.known(self._journal.latest())
        same = np.array_equal(values, self._values, equal_nan=True)
        self._values = values
        if not same:
            self._stale = True
            self._state.notify_all()

    def _guessed(self) -> tuple[int, int]:
        """How many answers the model, asked before, had thought more probable than not; option by option."""
        answered = [entry for entry in self._journal.entries if entry.values is not None and entry.belief is not None]
        rights = [
            (p > 0.5) == (value == 1)
            for entry in answered
            for p, value in zip(entry.belief or (), entry.values or (), strict=False)
        ]
        return sum(rights), len(rights)

    # ------------------------------------------------------------ the background

    def refit(self) -> None:
        """Fit the model to what is known now, and ask it anew. What fails leaves the old model in place."""
        with self._state:
            values = self._values.copy()
            n_known = _number_known(values)
        evidence = self.pool.evidence(values)
        if evidence is None:
            self._finish(values, None, "the model is fitted when both answers have been given at least once.")
            return
        try:
            fitted = self._learner.fit(*evidence, n_known)
            asking = ask(fitted.model, self.pool, values, self._strategy, self._random)
        except Exception as error:  # the page must live on, and say what happened
            self._finish(values, None, f"the last fit failed, the model before it still asks: {error}")
            return
        self._finish(values, (fitted.model, asking, n_known), " ".join(fitted.warnings) or None)

    def _finish(self, values: Any, found: tuple[Any, Asking, int] | None, message: str | None) -> None:
        with self._state:
            self._message = message
            if found is not None:
                self._model, self._asking, self._fitted_to = found
            self._stale = not np.array_equal(values, self._values, equal_nan=True)
            self._state.notify_all()

    def _work(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._stale or self._closing)
                if self._closing:
                    return
            self.refit()

    def known(self) -> Floats:
        """(items, values) what is known of every item now."""
        with self._state:
            return self._values.copy()

    def settle(self, timeout: float = 60.0) -> bool:
        """Wait until the model has learned from every answer; whether it has."""
        with self._state:
            return self._state.wait_for(lambda: not self._stale, timeout)

    def close(self) -> None:
        """End the background; the answers are on disk already."""
        with self._state:
            self._closing = True
            self._state.notify_all()
        if self._worker is not None:
            self._worker.join(timeout=5.0)


def open_session(
    model: Any,
    bags: Any,
    y: Any,
    answers: PathLike,
    *,
    what: str = "bags",
    by: str = "",
    strategy: str = "bald",
    random_state: Any = None,
) -> Session:
    """Label bags (or instances) from Python, without the page.

    Parameters
    ----------
    model : a fitted model; it asks first, and its settings are those of every fit that follows
    bags : the bags, those already labelled among them
    y : what is known of them, NaN (or None) where nothing is; None where nothing is known of any
    answers : file of JSON lines; what it holds already counts
    what : "bags" or "instances"
    by : who answers
    strategy : "bald", "entropy" or "random", see ``bagwise.active.suggest``
    random_state : decides between equally good queries, and is all that "random" goes by
    """
    checked = as_bags(bags)
    question = question_for(model, check_option("what", what, QUERIES), model.label_names_ or ["label"])
    pool = make_pool(model, checked, y, what, question)
    return Session(
        model, pool, Journal(Path(answers), what, question), by=by, strategy=strategy, random_state=random_state
    )


def _number_known(values: Floats) -> int:
    return int((~np.isnan(values)).any(axis=1).sum())


def _number_or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
