"""Which columns the user has named as saying something about the bags."""

from dataclasses import dataclass

from bagwise.cli.options import parse_names
from bagwise.exceptions import BagDataError

KINDS = ("label", "fraction", "count", "candidates")
NAME_THEM = "name the column with --label, --fraction, --count or --candidates"


@dataclass(frozen=True)
class StatedColumns:
    """What bags say (one of ``KINDS``) and the columns, or arrays of an archive, that say it."""

    kind: str = "label"
    names: tuple[str, ...] = ()  # none: the usual array of an archive

    @property
    def option(self) -> str:
        """As on the command line."""
        return " ".join((f"--{self.kind}", ",".join(self.names))).strip()


def chosen(
    label: str | None, fraction: str | None, count: str | None, candidates: str | None = None
) -> StatedColumns | None:
    """The one option that was given, or None; two of them are an error."""
    given = [
        StatedColumns(kind, tuple(parse_names(text)))
        for kind, text in zip(KINDS, (label, fraction, count, candidates), strict=True)
        if text is not None
    ]
    if len(given) > 1:
        both = " and ".join(stated.option for stated in given)
        raise BagDataError(f"{both}: what is known of the bags comes from one of these options, not from several.")
    return given[0] if given else None


def names_of(stated: StatedColumns | None) -> tuple[str, ...]:
    """The names that were given; none where nothing was."""
    return () if stated is None else stated.names
