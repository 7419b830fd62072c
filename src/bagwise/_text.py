"""Text for messages: short lists of names, and nothing that steers a terminal."""

from collections.abc import Iterable


def shorten(names: Iterable[object], limit: int = 5) -> str:
    """The first few names, quoted, for an error message."""
    listed = list(names)
    text = ", ".join(repr(str(name)) for name in listed[:limit])
    return f"{text}, … ({len(listed)} in all)" if len(listed) > limit else text


def visible(text: object) -> str:
    """Text that is safe to print: a character that steers a terminal, or that cannot be seen, as its escape."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in str(text))
