"""Text for messages."""

from bagwise._text import shorten, visible


def test_long_lists_of_names_are_cut_and_say_how_many_there_are():
    assert shorten(["a", 2]) == "'a', '2'"
    assert shorten(range(7)) == "'0', '1', '2', '3', '4', … (7 in all)"


def test_characters_that_steer_a_terminal_are_escaped_and_letters_are_not():
    assert visible("schön\x1b[2J\n\u202e") == "schön\\x1b[2J\\n\\u202e"
