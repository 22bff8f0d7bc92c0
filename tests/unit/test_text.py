"""Text from outside is shown literally."""

import pytest

from skpref._text import lacks_number, printable, printable_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\u202eevil\x9b", r"\u202eevil\x9b"),
        ("half \ud800", r"half \ud800"),
        ("Jürgen 東京 $5 \\ 👍", "Jürgen 東京 $5 \\ 👍"),
        (b"caf\xc3\xa9", "café"),
        (3, "3"),
    ],
)
def test_control_characters_are_written_as_in_python(text, shown):
    assert printable(text) == shown


def test_lines_stay_lines():
    assert printable_lines("a\n\tb\x1b[2J\r") == "a\n\tb\\x1b[2J\r"


@pytest.mark.parametrize("cell", [None, "", " ", "NA", "n/a", "NaN", "-nan", "NaT", "NULL", "None", "<NA>", "#N/A\n"])
def test_what_stands_for_a_missing_number(cell):
    assert lacks_number(cell)


@pytest.mark.parametrize("cell", [0, 0.0, False, "0", "inf", "-", "nano", "a", b"NA", float("nan")])
def test_what_does_not(cell):
    assert not lacks_number(cell)
