"""Gibbs sampling of the factorization machine of ordered levels."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from skpref import VariationalFMOrdinal
from skpref.exceptions import DataError
from tests.unit.factorization.test_fm_ordinal import FITTED, X, Y

SHORT = VariationalFMOrdinal(2, inference="gibbs", n_sweeps=20, burn_in=5, random_state=0)
DRAWN = clone(SHORT).set_params(n_sweeps=200).fit(X, Y)


def test_probabilities_are_near_those_of_the_variational_fit_and_less_certain() -> None:
    p = DRAWN.predict_proba(X)
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert_allclose(p.mean(axis=0), [np.mean(level == Y) for level in DRAWN.classes_], atol=0.03)
    assert np.corrcoef(p[:, 3], FITTED.predict_proba(X)[:, 3])[0, 1] > 0.95
    assert np.median(DRAWN.latent_mean_and_variance(X)[1] / FITTED.latent_mean_and_variance(X)[1]) > 1.5


def test_covariance_and_draws_are_those_of_the_moments() -> None:
    variance = DRAWN.latent_mean_and_variance(X[:4])[1]
    assert_allclose(np.diag(DRAWN.latent_covariance(X[:4])), variance, rtol=1e-10)
    assert DRAWN.latent_covariance(X[:1]).shape == (1, 1)
    draws = DRAWN.sample_y(X[:3], 4000)
    shares = np.stack([(draws == level).mean(axis=1) for level in DRAWN.classes_], axis=1)
    assert_allclose(shares, DRAWN.predict_proba(X[:3]), atol=0.05)


def test_attributes_are_means_over_the_draws() -> None:
    theta = DRAWN.posterior_.sampled.theta
    assert theta.shape == (195, 50, 3)
    assert_allclose(DRAWN.weights_, theta[..., 0].mean(axis=0), rtol=1e-5)
    assert DRAWN.thresholds_.size == 3
    assert np.all(np.diff(DRAWN.thresholds_) > 0.0)


def test_the_same_seed_gives_the_same_bits_with_any_number_of_threads() -> None:
    first = clone(SHORT).fit(X, Y).predict_proba(X)
    assert np.array_equal(clone(SHORT).set_params(n_jobs=1).fit(X, Y).predict_proba(X), first)
    assert not np.array_equal(clone(SHORT).set_params(random_state=1).fit(X, Y).predict_proba(X), first)


def test_a_weight_is_a_number_of_copies() -> None:
    weight = np.random.default_rng(0).integers(0, 3, Y.size)
    rows = np.repeat(np.arange(Y.size), weight)
    p = clone(SHORT).fit(X, Y, weight).predict_proba(X)
    assert_allclose(p, clone(SHORT).fit(X[rows], Y[rows]).predict_proba(X), atol=0.01)


def test_unseen_users_have_the_prior_of_their_group() -> None:
    seen = X[:, [0]].toarray().ravel() == 0.0
    groups = np.repeat(["user", "item"], [30, 20])
    model = VariationalFMOrdinal(0, groups=groups, inference="gibbs", n_sweeps=120, random_state=0).fit(
        X[seen], Y[seen]
    )
    assert_allclose(model.weights_std_[0], model.group_priors_["user"]["weight_std"], rtol=0.25)
    assert np.all(model.weights_std_[1:30] < model.weights_std_[0])


def test_levels_without_rows_keep_their_place() -> None:
    model = clone(SHORT).set_params(class_order=[0, 1, 2, 3, 4, 5]).fit(X, Y)
    assert model.predict_proba(X).shape == (Y.size, 6)
    assert model.predict_proba(X)[:, 4].max() < 0.2


def test_a_callback_stops_the_chain() -> None:
    class Stop:
        def __init__(self, at: int) -> None:
            self.at, self.steps = at, []

        def setup(self, estimator, context) -> None:
            pass

        def teardown(self, estimator, context) -> None:
            pass

        def on_fit_task_begin(self, estimator, context) -> None:
            pass

        def on_fit_task_end(self, estimator, context) -> bool:
            return False

        def on_iteration(self, estimator, context, iteration) -> bool:
            self.steps.append(iteration.step)
            return iteration.step == self.at

    stop = Stop(28)  # after the passes and 13 sweeps, of which 5 are not used
    model = clone(SHORT).set_callbacks(stop).fit(X, Y)
    assert stop.steps == list(range(1, 29))
    assert model.posterior_.sampled.bias.size == 8
    stopped_early = clone(SHORT).set_callbacks(Stop(17)).fit(X, Y)
    assert stopped_early.posterior_.sampled is None
    assert stopped_early.predict(X).shape == Y.shape


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_sweeps": 20, "burn_in": 19}, "burn_in must leave two sweeps of n_sweeps or more; got burn_in=19"),
        ({"inference": "mcmc"}, "The 'inference' parameter"),
        ({"n_sweeps": 1}, "The 'n_sweeps' parameter"),
        ({"burn_in": -1}, "The 'burn_in' parameter"),
    ],
)
def test_wrong_parameters(params: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        clone(SHORT).set_params(**params).fit(X, Y)


def test_weights_are_whole_and_updates_need_a_variational_posterior() -> None:
    with pytest.raises(DataError, match=r"sample_weight must hold whole numbers .*; got 0\.5"):
        clone(SHORT).fit(X, Y, np.where(Y == 5, 0.5, 1.0))
    with pytest.raises(DataError, match="partial_fit takes a variational posterior as the prior"):
        DRAWN.partial_fit(X, Y)
