"""Every row of the table of bad inputs, at every place it applies to: the error's type and its message."""

from __future__ import annotations

import re

import numpy as np
import pytest

import skpref
from skpref.exceptions import DataError
from tests.unit.bad_inputs import places as at
from tests.unit.bad_inputs.rows import Case, cases
from tests.unit.bad_inputs.table import PARAMETERS, ROWS

CASES = list(cases(ROWS))
# Rows that are accepted are in test_accepted_rows.py and test_accepted_comparisons.py; those of elicitation (56, 57),
# of saved models (58, 59) and of tracking (60) are among the tests of these packages.
ACCEPTED = {7, 13, 14, 17, 18, 20, 32, 33, 34, 40, 41, 48, 50, 53, 55}
ELSEWHERE = {56, 57, 58, 59, 60}
FOUND_LATER = {61, 64, 65, 66, 67}


@pytest.mark.filterwarnings("ignore:n_factors=2 is more")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_clear_error(case: Case) -> None:
    with pytest.raises(case.row.error) as caught:
        case.run()
    message = str(caught.value)
    assert re.search(case.expected, message, re.DOTALL), message
    assert len(message) < 2500


def test_every_row_is_here() -> None:
    assert {row.number for row in ROWS} | ACCEPTED | ELSEWHERE == set(range(61)) | FOUND_LATER


def test_every_estimator_is_here() -> None:
    public = [name for name in skpref.__all__ if hasattr(getattr(skpref, name), "fit")]
    assert set(at.MAKERS) == set(public) - {"OneHotDesign"}  # which has tests of its own


@pytest.mark.parametrize("name", at.MAKERS)
def test_every_parameter_is_here(name: str) -> None:
    assert set(at.MAKERS[name]().get_params(deep=False)) <= set(PARAMETERS)


@pytest.mark.parametrize("name", [*at.MAKERS, *at.VARIANTS])
def test_refusals_leave_the_fits_as_they_were(name: str) -> None:
    rows = at.K if "precomputed" in name else at.TRAINING[name.split("(", maxsplit=1)[0]][0]
    before = at.output(at.fitted(name), rows)
    refused = [case for case in CASES if case.place.name.startswith(f"{name}.partial_fit")]
    for case in refused:
        with pytest.raises(case.row.error):
            case.run()
    np.testing.assert_array_equal(at.output(at.fitted(name), rows), before)


@pytest.mark.parametrize("name", at.MACHINES)
def test_a_refused_fit_leaves_the_model_as_it_was(name: str) -> None:
    rows, target = at.TRAINING[name]
    model = at.MAKERS[name]().fit(rows, target)
    before = at.output(model, rows)
    huge = rows.copy()
    huge[3, 1] = 1e200
    for call in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="overflow"):
            call(huge, target)
        np.testing.assert_array_equal(at.output(model, rows), before)


@pytest.mark.parametrize("number", [21, 22, 24, 25, 35, 37])
def test_what_is_wrong_with_ids_and_labels_is_a_data_error(number: int) -> None:
    """So that callers can tell it from a bug."""
    for case in CASES:
        if case.row.number == number:
            with pytest.raises(DataError):
                case.run()
