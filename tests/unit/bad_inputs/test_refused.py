"""Every row of the table of bad inputs, at every place it applies to: the error's type and its message.

A better sentence is a change of one line of messages.txt, or of none: see `messages.UPDATE`.
"""

import re

import numpy as np
import pytest

import skpref
from skpref.exceptions import DataError
from tests.unit.bad_inputs import messages
from tests.unit.bad_inputs import places as at
from tests.unit.bad_inputs.rows import cases
from tests.unit.bad_inputs.table import PARAMETERS, ROWS

CASES = list(cases(ROWS))
# Rows that are accepted are in test_accepted_rows.py and test_accepted_comparisons.py; those of elicitation (56, 57),
# of saved models (58, 59) and of tracking (60) are among the tests of these packages.
ACCEPTED = {7, 13, 14, 17, 18, 20, 32, 33, 34, 40, 41, 48, 50, 53, 55}
ELSEWHERE = {56, 57, 58, 59, 60}
FOUND_LATER = {61, 64, 65, 66, 67}


# An item of pytest for each estimator and kind of fault.
GROUPS = {}
for _case in sorted(CASES, key=lambda case: (case.place.estimator, case.row.number)):
    GROUPS.setdefault((_case.place.estimator, _case.row.number), []).append(_case)


def refusal(case):
    """Return the error of a case."""
    try:
        case.run()
    except Exception as error:  # noqa: BLE001 - its type is checked where it is used
        return error
    return None


def faults(case, sentences):
    """Return what is wrong with the error of a case."""
    error = refusal(case)
    if not isinstance(error, case.row.error):
        return [f"{case}: wanted {case.row.error.__name__}, got {error!r}"]
    found = [] if len(str(error)) < 2500 else [f"{case}: {len(str(error))} characters"]
    if case.row.number in {21, 22, 24, 25, 35, 37} and not isinstance(error, DataError):
        found.append(f"{case}: callers cannot tell what is wrong with ids and labels from a bug")
    if not re.search(case.expected, str(error), re.DOTALL):
        found.append(f"{case}: wanted {case.expected!r} in {error}")
    if messages.is_ours(error):
        text = messages.sentence(error)
        if text not in sentences[case.key]:
            found.append(f"{case}: not in messages.txt: {text}")
    return found


@pytest.fixture(scope="module")
def sentences():
    return messages.written()


@pytest.mark.filterwarnings("ignore:n_factors=2 is more")
@pytest.mark.parametrize("group", GROUPS.values(), ids=[f"{name}-row{number}" for name, number in GROUPS])
def test_a_clear_error(group, sentences):
    found = [fault for case in group for fault in faults(case, sentences)]
    assert not found, "\n".join([*found, f"If the new words are better: {messages.UPDATE}"])


@pytest.mark.slow  # runs all rows once more
@pytest.mark.filterwarnings("ignore:n_factors=2 is more")
def test_no_sentence_is_out_of_use(request):
    errors = ((case, refusal(case)) for case in CASES)
    text = messages.as_text(
        (case.key, messages.sentence(error)) for case, error in errors if error is not None and messages.is_ours(error)
    )
    if request.config.getoption("update_messages"):
        messages.FILE.write_text(text, "utf-8")
    assert messages.FILE.read_text("utf-8") == text


def test_every_row_is_here():
    assert {row.number for row in ROWS} | ACCEPTED | ELSEWHERE == set(range(61)) | FOUND_LATER


def test_every_estimator_is_here():
    public = [name for name in skpref.__all__ if hasattr(getattr(skpref, name), "fit")]
    assert set(at.MAKERS) == set(public) - {"OneHotDesign"}  # which has tests of its own


@pytest.mark.parametrize("name", at.MAKERS)
def test_every_parameter_is_here(name):
    assert set(at.MAKERS[name]().get_params(deep=False)) <= set(PARAMETERS)


@pytest.mark.parametrize("name", [*at.MAKERS, *at.VARIANTS])
def test_refusals_leave_the_fits_as_they_were(name):
    rows = at.K if "precomputed" in name else at.TRAINING[name.split("(", maxsplit=1)[0]][0]
    before = at.output(at.fitted(name), rows)
    refused = [case for case in CASES if case.place.name.startswith(f"{name}.partial_fit")]
    for case in refused:
        with pytest.raises(case.row.error):
            case.run()
    np.testing.assert_array_equal(at.output(at.fitted(name), rows), before)


@pytest.mark.parametrize("name", at.MACHINES)
def test_a_refused_fit_leaves_the_model_as_it_was(name):
    rows, target = at.TRAINING[name]
    model = at.MAKERS[name]().fit(rows, target)
    before = at.output(model, rows)
    huge = rows.copy()
    huge[3, 1] = 1e200
    for call in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="overflow"):
            call(huge, target)
        np.testing.assert_array_equal(at.output(model, rows), before)
