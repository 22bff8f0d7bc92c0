"""The property: an input is refused in words and nothing has changed, or it gives finite, normalised results."""

import copy
import re
import time
import warnings

import joblib
import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning

from skpref.exceptions import CheckpointWarning, DataWarning, TrackingWarning
from tests.unit.bad_inputs import places as at

SECONDS = 100.0  # of processor time, in which the largest compiled function can be compiled: more is a hang
OURS = (CheckpointWarning, DataWarning, TrackingWarning, ConvergenceWarning, DataConversionWarning)
SKLEARN = "feature names"  # scikit-learn's hint that names were there at the fit and are missing now, or vice versa
OF_SKLEARN = (
    *("Complex data not supported", "Input contains NaN", "could not convert string to float"),
    "float() argument must be",
)
# What a message is about: a matrix, a parameter, or what a row is.
SUBJECT = re.compile(
    r"\b(X|Y|y|[Tt]arget|labels?|sample_weight|items?|users?|ids?|comparisons?|ratings?|pairs|levels|classes|class|"
    r"candidates?|answer|question|features?|features_names|dtype|array|matrix|parameter|input|[a-z]+_[a-z_]+)\b"
)


def fingerprint(value):
    """Return what changes with a value: SciPy notes in a matrix whether it is sorted, which is no change.

    Nor is the default fill value, which NumPy stores in a masked array when it is first needed.
    """
    if isinstance(value, np.ma.MaskedArray):
        return fingerprint(value.data), joblib.hash(np.ma.getmaskarray(value))
    if sparse.issparse(value):
        names = [name for name in ("data", "indices", "indptr", "coords", "offsets", "rows") if hasattr(value, name)]
        return [joblib.hash(getattr(value, name)) for name in names]
    if hasattr(value, "iloc"):  # pandas caches in its parts
        return str(value.dtypes), repr(value.to_numpy(object).tolist()), repr(value.index.tolist())
    try:
        return joblib.hash(value)
    except Exception:  # noqa: BLE001 - generators and the like cannot be hashed
        return None


def check_message(message):
    """Check the length of a message, without the values and hints that scikit-learn puts below it, and its subject."""
    if not message.startswith(OF_SKLEARN):
        first = message.partition("\n")[0]
        assert 10 <= len(first) <= 600, f"{len(first)} characters: {message[:200]}"
        assert SUBJECT.search(first), f"names nothing: {message}"


def refusal(call, *inputs):
    """Return the result of a call and None, or None and why it was refused."""
    before, began, message, result = [fingerprint(value) for value in inputs], time.process_time(), None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
        except (ValueError, TypeError) as error:
            message = str(error)
            check_message(message)
    assert time.process_time() - began < SECONDS
    foreign = [str(w.message) for w in caught if not issubclass(w.category, OURS) and SKLEARN not in str(w.message)]
    assert not foreign, foreign[0]
    assert [fingerprint(value) for value in inputs] == before, "an input was modified"
    return result, message


def assert_sound(result):
    """Check that a result, or each of several, is finite."""
    for answer in result if isinstance(result, tuple | list) else (result,):
        values = answer.data if sparse.issparse(answer) else np.asarray(answer)
        if values.dtype.kind in "fc":
            assert np.isfinite(values).all(), "not finite"


def answers(model, rows):
    """Return what a model predicts of rows: probabilities are checked to be such."""
    answer = at.output(model, rows)
    assert_sound(answer)
    if hasattr(model, "predict_proba"):
        assert answer.min() >= 0.0
        np.testing.assert_allclose(answer.sum(axis=-1), 1.0, atol=1e-8)
    return [answer, model.predict(rows)] if hasattr(model, "predict") else [answer]


def assert_same(before, after):
    for old, new in zip(before, after, strict=True):
        assert np.array_equal(old, new), "predictions have changed"


def assert_learns_or_refuses(model, method, valid, rows, *more, **named):
    """Check `fit` and its like: an estimator that refuses is the one that it was."""
    state, predicted = dict(vars(model)), answers(model, valid)
    _, message = refusal(lambda: getattr(model, method)(rows, *more, **named), rows, *more, *named.values())
    if message is None:
        predict_or_refuse(model, rows)
        return
    after = vars(model)
    assert state.keys() == after.keys(), f"half fitted: {state.keys() ^ after.keys()}"
    changed = [name for name in state if state[name] is not after[name]]
    assert not changed, f"half fitted: {changed} ({message})"
    assert_same(predicted, answers(model, valid))


def predict_or_refuse(model, rows):
    refusal(lambda: answers(model, rows), rows)


def again(name, **params):
    """Return an estimator fitted on valid data that may be spoilt."""
    return copy.deepcopy(at.fitted(name)).set_params(**params)
