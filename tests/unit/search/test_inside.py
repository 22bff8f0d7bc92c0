"""Looks into fits: what is seen is what a shorter fit would have given, and looking changes nothing."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpref import GibbsM3F, OneHotDesign, VariationalFM, VariationalFMClassifier
from skpref._callbacks import CallbackMixin, CallbackSupportMixin, fit_callbacks, iteration_hook
from skpref._events import Iteration
from skpref.search import OptunaSearch

optuna = pytest.importorskip("optuna")
pytestmark = pytest.mark.skipif(CallbackSupportMixin is None, reason="callbacks of searches are scikit-learn 1.9's")

CV = KFold(2, shuffle=True, random_state=0)
ROWS = np.arange(24.0).reshape(12, 2)
RNG = np.random.default_rng(0)
PAIRS = np.array([(u, i) for u in range(20) for i in RNG.choice(12, 6, replace=False)])
SCORES = PAIRS[:, 1] / 4.0 + RNG.normal(0.0, 0.4, len(PAIRS))
STARS = np.clip(np.round(SCORES), 0, 3).astype(int)


class Climber(CallbackMixin, RegressorMixin, BaseEstimator):
    """Scores `value` less the share of its iterations that are to come; counts all iterations, and sees weights."""

    done = 0

    def __init__(self, value=0.5, max_iter=8, verbose=0):
        self.value = value
        self.max_iter = max_iter
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None):
        with fit_callbacks(self, X, y, sample_weight):
            tell = iteration_hook(self)
            for step in range(1, self.max_iter + 1):
                Climber.done += 1
                self.score_ = self.value - 1.0 + step / self.max_iter
                if tell is not None and tell(Iteration(step, self.max_iter, 0.0, 1.0, lambda: self)):
                    break
        return self

    def predict(self, X):
        return np.zeros(len(X))

    def score(self, X, y, sample_weight=None):
        assert sample_weight is None or len(sample_weight) == len(y)
        return self.score_


def climbed(model, name, **options):
    values = [0.9, 0.8, 0.85, 0.95, 0.7, 0.92, 0.75, 0.1]
    sampler = optuna.samplers.GridSampler({name: values}, seed=0)
    space = {name: optuna.distributions.FloatDistribution(0.0, 1.0)}
    Climber.done = 0
    search = OptunaSearch(model, space, n_trials=9, cv=CV, sampler=sampler, **options)
    return search.fit(ROWS, ROWS[:, 0])


@pytest.mark.parametrize("pipeline", [False, True])
def test_a_poor_trial_is_given_up_inside_a_fit(pipeline):
    model = make_pipeline(StandardScaler(), Climber()) if pipeline else Climber()
    search = climbed(model, "climber__value" if pipeline else "value")
    last, results = search.study_.trials[-1], search.cv_results_
    pruned = np.flatnonzero(results["state"] == "pruned")
    assert pruned.size
    for number in pruned:
        trial = search.study_.trials[number]
        assert trial.value == trial.intermediate_values[trial.last_step]  # Optuna keeps how far it had come
        assert trial.last_step < 8
        assert np.isnan(results["mean_test_score"][number])
        assert np.isnan(results["split1_test_score"][number])
    complete = search.study_.trials[0]
    assert list(complete.intermediate_values) == [1, 4, 8]  # one look, into the first of two folds
    assert complete.intermediate_values[1] == complete.value - 0.75
    assert last.state.is_finished()
    full = 8 * 2
    n_complete = 9 - pruned.size
    assert Climber.done < (n_complete + 0.5 * pruned.size) * full + 8  # the refit
    assert not hasattr(search.best_estimator_, "_skl_callbacks")


def test_looking_is_not_for_those_who_do_not_prune():
    search = climbed(Climber(), "value", pruner=None)
    assert (search.cv_results_["state"] == "complete").all()
    assert list(search.study_.trials[0].intermediate_values) == [4, 8]
    assert Climber.done == (9 * 2 + 1) * 8


def test_weights_of_scores_are_those_of_the_held_out_rows():
    import sklearn

    with sklearn.config_context(enable_metadata_routing=True):
        model = Climber().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        search = OptunaSearch(model, {"value": stats.uniform(0, 1)}, n_trials=1, cv=KFold(3))
        search.fit(ROWS, ROWS[:, 0], sample_weight=np.ones(12))
    assert list(search.study_.trials[0].intermediate_values) == [1, 4, 8, 12]


def test_callbacks_of_the_user_hear_of_iterations_too():
    class Ear:
        max_propagation_depth = None

        def __init__(self):
            self.steps = []

        def setup(self, *_, **__):
            pass

        teardown = on_fit_task_begin = on_fit_task_end = setup

        def on_iteration(self, estimator, context, iteration):
            self.steps.append(iteration.step)

    ear, (X, y) = Ear(), (ROWS, ROWS[:, 0])
    OptunaSearch(Climber(max_iter=4), {"value": [0.1, 0.2]}, cv=CV).set_callbacks(ear).fit(X, y)
    assert ear.steps == [1, 2, 3, 4] * 5  # two folds of two trials, and the refit


# ------------------------------------------------------------------------------------------------------ real estimators
class Spy:
    """Keeps the estimator as it would be after a number of iterations."""

    max_propagation_depth = None

    def __init__(self, step):
        self.step, self.model = step, None

    def setup(self, *_, **__):
        pass

    teardown = on_fit_task_begin = on_fit_task_end = setup

    def on_iteration(self, estimator, context, iteration):
        if iteration.step == self.step:
            assert iteration.fitted is not None
            self.model = iteration.fitted()


D = OneHotDesign().fit_transform(PAIRS)


@pytest.mark.parametrize(
    ("model", "shorter", "X", "y"),
    [
        (GibbsM3F(3, max_iter=12, burn_in=3, levels=range(4)), {"max_iter": 7}, PAIRS, STARS),
        (VariationalFM(2, max_iter=30), {"max_iter": 7}, D, SCORES),
        (VariationalFM(2, max_iter=30, posterior="factorised"), {"max_iter": 7}, D, SCORES),
        (VariationalFMClassifier(2, max_iter=30), {"max_iter": 7}, D, (STARS > 1).astype(int)),
    ],
    ids=["m3f", "fm", "fm-factorised", "fm-classifier"],
)
def test_what_is_seen_is_what_a_shorter_fit_gives(model, shorter, X, y):
    predict = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    model.set_params(random_state=1)
    plain = getattr(type(model)(**model.get_params()).fit(X, y), predict)(X)
    short = getattr(type(model)(**{**model.get_params(), **shorter}).fit(X, y), predict)(X)
    spy = Spy(7)
    looked = getattr(model.set_callbacks(spy).fit(X, y), predict)(X)
    np.testing.assert_array_equal(looked, plain)
    np.testing.assert_array_equal(getattr(spy.model, predict)(X), short)


def test_nothing_is_seen_of_a_chain_before_its_burn_in_is_over():
    spy = Spy(3)
    model = GibbsM3F(3, max_iter=12, burn_in=3, levels=range(4), random_state=1).set_callbacks(spy).fit(PAIRS, STARS)
    assert spy.model is None
    assert model.n_iter_ == 12


def test_a_search_that_looks_scores_as_one_that_does_not():
    model = make_pipeline(OneHotDesign(), VariationalFM(2, random_state=0, max_iter=20))
    space = {"variationalfm__n_factors": [1, 2]}
    # A chain has nothing to show in its burn-in: it is looked into at the next quarter.
    chain = GibbsM3F(2, max_iter=8, burn_in=3, levels=range(4), random_state=0)
    looked = OptunaSearch(chain, {"C": [0.1]}, cv=CV).fit(PAIRS, STARS)
    assert list(looked.study_.trials[0].intermediate_values) == [2, 4, 8]
    looks, plain = (OptunaSearch(model, space, cv=CV, pruner=p).fit(PAIRS, SCORES) for p in ("racing", None))
    assert 1 in looks.study_.trials[0].intermediate_values
    np.testing.assert_array_equal(looks.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(looks.predict(PAIRS), plain.predict(PAIRS))
