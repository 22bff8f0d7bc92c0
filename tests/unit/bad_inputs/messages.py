"""The wording of the package's errors: messages.txt has each sentence once, and below it the rows that give it."""

import re
import traceback
from collections import defaultdict
from pathlib import Path

import skpref

FILE = Path(__file__).with_name("messages.txt")
PACKAGE = Path(skpref.__file__).parent
UPDATE = "python -m pytest tests/unit/bad_inputs/test_refused.py -m slow --update-messages"
HEADER = f"""\
# What errors of skpref say, and below each sentence the rows of table.py that give it. Left out are the words of other
# packages (...) and digits that depend on the machine (#). Written by
# {UPDATE}
"""
ESTIMATORS = "|".join(name for name in skpref.__all__ if hasattr(getattr(skpref, name), "fit"))


def is_ours(error):
    """Whether a line of the package raised an error."""
    return PACKAGE in Path(traceback.extract_tb(error.__traceback__)[-1].filename).parents


def sentence(error):
    """Return an error's text, without what differs between estimators, other packages' releases and machines."""
    text, cause = str(error), error.__cause__ or error.__context__
    if cause is not None and str(cause) and not is_ours(cause):
        text = text.replace(str(cause), "...")
    text = re.sub(rf"\b({ESTIMATORS})\b", "ESTIMATOR", text)
    return re.sub(r"\d+\.\d{3,}(e[+-]?\d+)?", "#", text).replace("\n", r"\n")


def written():
    """Read the sentences of each row from the file."""
    sentences = defaultdict(set)
    text = ""
    for line in FILE.read_text("utf-8").splitlines():
        if line.startswith("    "):
            number, _, what = line.strip().partition(" ")
            sentences[number, what].add(text)
        else:
            text = line
    return sentences


def as_text(found):
    """Write the sentences of rows as the file has them."""
    rows = defaultdict(list)
    for key, text in found:
        if key not in rows[text]:
            rows[text].append(key)
    return HEADER + "".join(
        f"{text}\n" + "".join(f"    {number} {what}\n" for number, what in keys) for text, keys in rows.items()
    )
