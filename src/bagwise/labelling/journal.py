"""Every answer, in the order given: one JSON line each, on disk before the page goes on. Undo is one more line."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bagwise._files import check_writable
from bagwise.exceptions import BagDataError
from bagwise.io.json_lines import append_line, cut_unfinished, read_lines
from bagwise.labelling.question import Question

Key = tuple[str, int | None]  # the bag and, of an instance, its row in the table
_NEEDED = ("kind", "id", "by")
_KINDS = ("begin", "answer", "skip", "undo")


@dataclass(frozen=True)
class JournalEntry:
    """An answer (or, with no values, a skip) that was not taken back."""

    id: str
    by: str
    key: Key
    values: tuple[int, ...] | None
    belief: tuple[float, ...] | None  # of the model, before the answer
    shown: bool  # whether the person had looked at it


class Journal:
    """The answers in one file. Several processes may write to it: what others added is read by ``refresh``."""

    def __init__(self, path: Path, what: str, question: Question) -> None:
        self.path, self._question = path, question
        self._head = {"what": what, "options": list(question.options)}
        self._read_to = 0
        self._entries: dict[str, JournalEntry] = {}  # by id, in the order given; without those taken back
        check_writable(path)
        if path.exists():
            cut_unfinished(path)
        if not path.exists() or path.stat().st_size == 0:
            self._append({"kind": "begin", "by": ""} | self._head)
        self.refresh()

    @property
    def entries(self) -> list[JournalEntry]:
        """Answers and skips, in the order given."""
        return list(self._entries.values())

    def answer(self, by: str, key: Key, values: Sequence[int], belief: Sequence[float] | None, shown: bool) -> None:
        """Keep an answer."""
        answer = {"values": list(values), "belief": None if belief is None else list(belief), "shown": shown}
        self._append({"kind": "answer", "by": by, "bag": key[0], "row": key[1]} | answer)

    def skip(self, by: str, key: Key) -> None:
        """Keep that somebody would rather not say."""
        self._append({"kind": "skip", "by": by, "bag": key[0], "row": key[1]})

    def undo(self, by: str) -> Key | None:
        """Take back the last answer or skip of this person; what it was about, or None where there is none."""
        own = [entry for entry in self._entries.values() if entry.by == by]
        if not own:
            return None
        self._append({"kind": "undo", "by": by, "of": own[-1].id})
        return own[-1].key

    def refresh(self) -> bool:
        """Read what was added to the file; whether there was anything."""
        before = self._read_to
        for record in read_lines(self.path, _NEEDED, "a line of answers", self._read_to):
            self._take(record)
        with self.path.open("rb") as stream:
            stream.seek(before)
            self._read_to = before + stream.read().rfind(b"\n") + 1
        return self._read_to > before

    def latest(self) -> dict[Key, list[JournalEntry]]:
        """What is known of every item: the last word of each person."""
        found: dict[Key, dict[str, JournalEntry]] = {}
        for entry in self._entries.values():
            found.setdefault(entry.key, {}).pop(entry.by, None)
            found[entry.key][entry.by] = entry
        return {key: list(by.values()) for key, by in found.items()}

    def _append(self, record: dict[str, Any]) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        append_line(self.path, {"id": secrets.token_hex(6), "time": now} | record)
        self.refresh()

    def _take(self, record: dict[str, Any]) -> None:
        kind = record["kind"]
        if kind == "begin":
            self._check_head(record)
        elif kind == "undo":
            self._entries.pop(str(record.get("of")), None)
        elif kind in _KINDS:
            self._entries[record["id"]] = self._entry(record)
        else:
            raise BagDataError(f"{self.path}: a line is of the kind {kind!r}; expected one of {', '.join(_KINDS)}.")

    def _check_head(self, record: dict[str, Any]) -> None:
        found = {name: record.get(name) for name in self._head}
        if found != self._head:
            raise BagDataError(
                f"{self.path}: holds answers about {found['what']} with the options {found['options']}, but now "
                f"{self._head['what']} are labelled with {self._head['options']}; name another file with --answers."
            )

    def _entry(self, record: dict[str, Any]) -> JournalEntry:
        belief = record.get("belief")
        try:
            key = str(record["bag"]), None if record["row"] is None else int(record["row"])
            chosen = None if record["kind"] == "skip" else self._question.checked(record["values"])
            return JournalEntry(
                record["id"], record["by"], key, chosen, belief and tuple(belief), bool(record.get("shown"))
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BagDataError(f"{self.path}: the line with id {record['id']!r} is no answer ({error}).") from error


def agreed(entries: Sequence[JournalEntry]) -> tuple[float, ...] | None:
    """What most people answered, option by option; NaN where as many say yes as no; None where nobody answered."""
    answers = [entry.values for entry in entries if entry.values is not None]
    if not answers:
        return None
    shares = [sum(column) / len(answers) for column in zip(*answers, strict=True)]
    return tuple(float("nan") if share == 0.5 else float(share > 0.5) for share in shares)
