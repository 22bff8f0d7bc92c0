"""Tables of numbers of any container, dtype and structure, with any targets and weights."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import strategies as drawn
from tests.fuzz.outcome import again, answers, assert_learns_or_refuses, assert_same, predict_or_refuse, refusal
from tests.unit.bad_inputs import places as at

pytestmark = pytest.mark.nightly
EXAMPLES = settings.default.max_examples

# Estimators that read such tables, the targets that they want, and what makes a fit short.
TARGETS = {
    "GPPLRegressor": "scores",
    "GPOrdinalRegressor": "levels",
    "SVGPRegressor": "scores",
    "SVGPClassifier": "classes",
    "BayesianGPLVM": "",
    "VariationalFM": "scores",
    "VariationalFMClassifier": "classes",
}
SHORT = {
    "GPPLRegressor": {"max_iter": 20},
    "BayesianGPLVM": {"max_iter": 5},
    "VariationalFM": {"max_iter": 5, "n_factors": 2},
    "VariationalFMClassifier": {"max_iter": 5, "n_factors": 2},
}
NAMES = st.sampled_from(sorted(TARGETS))
SIZES = st.tuples(st.integers(1, 20), st.sampled_from([3, 3, 3, 1, 2, 4]))


def short(name, **params):
    return again(name, **SHORT.get(name, {}), **params)


def learn(data, name, method, shape, rows):
    model = short(name)
    if not hasattr(model, method):
        method = "fit"
    inputs = [rows] + ([data.draw(drawn.targets(TARGETS[name], shape[0]), "y")] if TARGETS[name] else [])
    named = {"sample_weight": data.draw(drawn.weights(shape[0]), "sample_weight")} if TARGETS[name] else {}
    assert_learns_or_refuses(model, method, at.TRAINING[name][0], *inputs, **named)


@settings(max_examples=2 * EXAMPLES)
@given(data=st.data(), name=NAMES, method=st.sampled_from(["fit", "fit", "partial_fit"]), shape=SIZES)
def test_any_table_is_learnt_from_or_refused(data, name, method, shape):
    rows = data.draw(drawn.held(data.draw(drawn.arrays(shape))), "X")
    learn(data, name, method, shape, rows)


@settings(max_examples=2 * EXAMPLES)
@given(data=st.data(), name=NAMES, shape=SIZES)
def test_any_table_gets_finite_predictions_or_is_refused(data, name, shape):
    rows = data.draw(drawn.held(data.draw(drawn.arrays(shape))), "X")
    predict_or_refuse(at.fitted(name), rows)


@settings(max_examples=2 * EXAMPLES)
@given(data=st.data(), name=NAMES, method=st.sampled_from(["fit", "partial_fit", "predict"]), shape=SIZES)
def test_any_sparse_matrix_is_used_or_refused(data, name, method, shape):
    rows = data.draw(drawn.sparse_matrices(shape), "X")
    if method == "predict":
        predict_or_refuse(at.fitted(name), rows)
    else:
        learn(data, name, method, shape, rows)


# Parameters that are about predictions, or about the columns of any table, and may be changed after the fit.
COLUMNS = {"user", "left", "right", "weight", "covariates", "groups", "time", "context"}
OF_PREDICTIONS = {"prediction", "unknown", "unknown_user"} | COLUMNS


@settings(max_examples=2 * EXAMPLES)
@given(data=st.data(), name=st.sampled_from(sorted(at.MAKERS)))
def test_any_parameter_is_used_or_refused(data, name):
    model, rows = short(name), at.TRAINING[name][0]
    predicted = answers(model, rows)
    parameter = data.draw(st.sampled_from(sorted(model.get_params(deep=False))), "parameter")
    value = data.draw(st.sampled_from(drawn.PARAMETERS), "value")
    before = {parameter: getattr(model, parameter)}
    model.set_params(**{parameter: value})
    if parameter not in OF_PREDICTIONS:
        assert_same(predicted, answers(model, rows))
    _, message = refusal(lambda: model.fit(*at.TRAINING[name]), value)
    if message is None:
        answers(model, rows)
    else:
        assert_same(predicted, answers(model.set_params(**before), rows))
