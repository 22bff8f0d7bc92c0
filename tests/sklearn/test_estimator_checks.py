"""scikit-learn's own checks of estimators.

`GPPLRegressor` and `GPOrdinalRegressor` pass all of them. The rows of `GPPLClassifier` are pairs of ids, so checks that
feed other matrices are listed by name, with the reason; and the same checks run once more on a subclass that reads
rows of any width as ids, so that what stands behind the reading is checked by all of them.
"""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from skpref import LBFGS, GPOrdinalRegressor, GPPLClassifier, GPPLRegressor
from skpref.gp.pairwise.columns import PairRows

# The checks' data hold constant features, graphs in pieces, and max_iter=1.
pytestmark = [
    pytest.mark.filterwarnings("ignore::skpref.exceptions.DataWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

WIDTH = "X must have two columns, the ids of two items (row 28 of the bad inputs); this check feeds another number"
LABELS = "y holds probabilities that the left item is preferred, in [0, 1] (row 25), not classes of any name"
NUMBERS = "4.92 is no id (row 35): this check feeds real numbers"
# Of 63 checks (scikit-learn 1.9), 36 feed what cannot be comparisons. RowsAsIds passes them all.
EXPECTED = {
    **dict.fromkeys(
        (
            "check_all_zero_sample_weights_error",
            "check_array_api_input",
            "check_classifier_not_supporting_multiclass",
            "check_classifiers_one_label",
            "check_classifiers_one_label_sample_weights",
            "check_classifiers_regression_target",
            "check_complex_data",
            "check_dict_unchanged",
            "check_dont_overwrite_parameters",
            "check_dtype_object",
            "check_estimators_dtypes",
            "check_estimators_empty_data_messages",
            "check_estimators_nan_inf",
            "check_estimators_pickle",
            "check_f_contiguous_array_estimator",
            "check_fit2d_1feature",
            "check_fit2d_1sample",
            "check_fit2d_predict1d",
            "check_fit_score_takes_y",
            "check_methods_sample_order_invariance",
            "check_methods_subset_invariance",
            "check_n_features_in_after_fitting",
            "check_non_transformer_estimators_n_iter",
            "check_pipeline_consistency",
            "check_positive_only_tag_during_fit",
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weights_list",
            "check_supervised_y_2d",
        ),
        WIDTH,
    ),
    **dict.fromkeys(
        (
            "check_classifier_data_not_an_array",
            "check_classifiers_classes",
            "check_sample_weights_not_an_array",
            "check_sample_weights_not_overwritten",
            "check_sample_weights_pandas_series",
            "check_sample_weights_shape",
        ),
        LABELS,
    ),
    "check_decision_proba_consistency": NUMBERS,
}


def named(estimator):
    return [getattr(check, "func", check).__name__ for _, check in estimator_checks_generator(estimator)]


def test_nothing_is_switched_off_and_nothing_listed_in_vain():
    assert len(named(GPPLRegressor())) >= 59
    assert len(named(GPOrdinalRegressor())) >= 61
    assert len(named(GPPLClassifier())) >= 56
    new = {"check_all_zero_sample_weights_error", "check_array_api_input"}  # of scikit-learn 1.9
    names = set(named(GPPLClassifier()))
    assert set(EXPECTED) - names <= (set() if "check_array_api_input" in names else new)


# A loose tolerance takes a third of the time; the nightly variant below has that of users.
@parametrize_with_checks([GPPLRegressor(optimizer=None, tol=0.1)])
def test_regressor_passes_every_check(estimator, check):
    check(estimator)


@pytest.mark.statistical  # the checks of this estimator run in the default run with other parameters
@parametrize_with_checks([GPPLRegressor(optimizer=None, inference="laplace", inducing=15)])
def test_regressor_passes_with_fewer_inducing_points_than_items(estimator, check):
    check(estimator)


@parametrize_with_checks([GPOrdinalRegressor(optimizer=None)])
def test_ordinal_passes_every_check(estimator, check):
    check(estimator)


@pytest.mark.statistical  # the checks of this estimator run in the default run with other parameters
@parametrize_with_checks([GPOrdinalRegressor(optimizer=None, inference="vb", inducing=15)])
def test_ordinal_passes_every_check_with_inducing_points(estimator, check):
    check(estimator)


@pytest.mark.statistical  # half a minute: every fit of the kit is a search
@parametrize_with_checks([GPOrdinalRegressor(optimizer=LBFGS(0)), GPOrdinalRegressor("auto", inference="laplace")])
def test_ordinal_passes_every_check_with_a_search(estimator, check):
    check(estimator)


class RowsAsIds(GPPLClassifier):
    """A row of numbers is the id of an item that was compared with one fixed item; y holds two classes."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = False
        return tags

    def _read(self, X, *, reset, weighted=True):
        X = validate_data(self, X, reset=reset, dtype=np.float64, order="C")
        return PairRows([row.tobytes() for row in X], [b"fixed"] * X.shape[0], None, None)

    def fit(self, X, y, sample_weight=None):
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        classes, code = np.unique(y, return_inverse=True)
        if classes.size != 2:
            kind = "binary" if classes.size == 1 else "multiclass"
            msg = f"Only binary classification is supported. The type of the target is {kind}, {classes.size} class."
            raise ValueError(msg)
        super().fit(X, code, sample_weight)
        self.classes_ = classes
        return self


@pytest.mark.slow  # the family's checks run in the default run on another variant
@parametrize_with_checks([RowsAsIds()])
def test_what_stands_behind_the_ids_passes_every_check(estimator, check):
    check(estimator)


@pytest.mark.slow  # the family's checks run in the default run on another variant
@parametrize_with_checks([GPPLClassifier(on_self="drop")], expected_failed_checks=lambda _: EXPECTED)
def test_classifier_passes_every_check_that_feeds_pairs(estimator, check):
    check(estimator)
