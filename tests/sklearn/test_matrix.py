"""Every cell of the table of the guide: tools of scikit-learn that work with a kind of X, or say why they do not."""

import pytest

from tests.sklearn.tools import TABLE, TITLES, TOOLS, kinds, run, table

# A fifth of the cells, in which every tool and every kind is: what one tool does to X it does to X of all kinds.
CELLS = [
    pytest.param(name, kind, marks=[pytest.mark.nightly] if (row + column) % 5 else [])
    for row, name in enumerate(TOOLS)
    for column, kind in enumerate(TITLES)
]


@pytest.mark.slow  # hundreds of fits
@pytest.mark.parametrize(("name", "kind"), CELLS)
@pytest.mark.filterwarnings("ignore")  # few rows and short chains, which warn
def test_cell(name, kind):
    if kind not in TOOLS[name].unless:
        run(name, kinds()[kind])
    else:
        with pytest.raises((ValueError, TypeError, AttributeError), match=TOOLS[name].unless[kind].error):
            run(name, kinds()[kind])


def test_the_stored_table_is_the_generated_one():
    assert TABLE.read_text("utf-8") == table(), "write it by python -m tests.sklearn.tools"
