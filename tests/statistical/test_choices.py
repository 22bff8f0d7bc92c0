"""Posteriors of choices beside long runs of a sampler of the same model (elliptical slices of each person's tastes)."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_softmax

from skpref import CrowdGPPL
from skpref.data import Table
from skpref.gp.entities import Items
from tests.statistical.test_sbc import check_normal

pytestmark = [pytest.mark.statistical, pytest.mark.usefixtures("all_candidates")]
N_SWEEPS, N_BURN_IN = 24_000, 1_000


def panel(seed, n_users=30, n_tasks=6, k=3, d=3):
    """Return the features (U, T, K, d), what was chosen (U, T), and what a `CrowdGPPL` takes."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n_users, n_tasks, k, d))
    tastes = rng.standard_normal(d) + 0.8 * rng.standard_normal((n_users, d))
    z = np.einsum("utkd,ud->utk", features, tastes) + rng.gumbel(size=(n_users, n_tasks, k))
    ids = np.arange(n_users * n_tasks * k).reshape(-1, k)
    X = np.column_stack([np.repeat(np.arange(n_users), n_tasks), ids])
    chosen = z.argmax(axis=2)
    return features, chosen, X, chosen.ravel(), Table(features.reshape(-1, d))


def sample(features, chosen, S, prior, seed):
    """Return draws of everybody's tastes, (N_SWEEPS, U, d), given their covariance and prior variances of the mean."""
    rng, (n_users, _, _, d) = np.random.default_rng(seed), features.shape
    root, S_inverse = np.linalg.cholesky(S), np.linalg.inv(S)
    V = np.linalg.inv(np.diag(1.0 / prior) + n_users * S_inverse)

    def log_likelihood(tastes):
        z = log_softmax(np.einsum("utkd,ud->utk", features, tastes), axis=2)
        return np.take_along_axis(z, chosen[:, :, None], axis=2).sum(axis=(1, 2))

    m, tastes, draws = np.zeros(d), np.zeros((n_users, d)), []
    for sweep in range(N_BURN_IN + N_SWEEPS):
        own, step = tastes - m, rng.standard_normal((n_users, d)) @ root.T
        level = log_likelihood(tastes) + np.log(rng.random(n_users))
        angle = rng.uniform(0.0, 2.0 * np.pi, n_users)
        low, high = angle - 2.0 * np.pi, angle.copy()
        while True:
            tastes = m + own * np.cos(angle)[:, None] + step * np.sin(angle)[:, None]
            outside = log_likelihood(tastes) < level
            if not outside.any():
                break
            low, high = np.where(outside & (angle < 0.0), angle, low), np.where(outside & (angle >= 0.0), angle, high)
            angle = np.where(outside, rng.uniform(low, high), angle)
        m = rng.multivariate_normal(V @ S_inverse @ tastes.sum(axis=0), V)
        if sweep >= N_BURN_IN:
            draws.append(tastes)
    return np.array(draws)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_part_worths_are_those_of_a_sampler(seed):
    features, chosen, X, y, table = panel(seed)
    model = CrowdGPPL(table, random_state=0).fit(X, y)
    posterior, d, scale = model.posterior_, features.shape[-1], model.posterior_.scales["f"]
    weights = posterior._weights(Items.new(np.eye(d)))[0]
    prior = np.atleast_1d(model.kernel_.variance) / scale.mean
    # What is not known about the covariance is in the points beside it; the sampler is given the one of the fit.
    model.posterior_ = replace(posterior, **vars(posterior.points[0]), points=())
    draws = sample(features, chosen, weights @ model.posterior_.S @ weights.T, prior, seed)
    report = model.part_worths(users=np.arange(len(features)))
    mean, std = (report[name].to_numpy().reshape(-1, d) for name in ("mean", "std"))
    error = (mean - draws.mean(axis=0)) / draws.std(axis=0)
    # What is left is mostly noise of the draws: of seed 1, 80,000 sweeps give .04 and .009.
    assert np.abs(error).max() < 0.1
    assert np.sqrt(np.mean(error**2)) < 0.03
    ratio = std / draws.std(axis=0)
    assert ratio.min() > 0.93
    assert ratio.max() < 1.1
    assert abs(ratio.mean() - 1.0) < 0.04


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_truths_are_like_draws_of_the_posterior():
    """Simulation-based calibration of the mean of tastes, and of the logarithm of the trace of their covariance S."""
    z, d, rng = [], 2, np.random.default_rng(3)
    for _ in range(300):
        mean, S = rng.standard_normal(d), stats.invwishart(d + 6, 4.0 * np.eye(d)).rvs(random_state=rng)
        features = rng.standard_normal((40, 6, 3, d))
        tastes = rng.multivariate_normal(mean, S, 40)
        utilities = np.einsum("utkd,ud->utk", features, tastes) + rng.gumbel(size=features.shape[:3])
        X = np.column_stack([np.repeat(np.arange(40), 6), np.arange(utilities.size).reshape(-1, 3)])
        model = CrowdGPPL(Table(features.reshape(-1, d)), item_effects=False, random_state=0)
        found = model.fit(X, utilities.argmax(axis=2).ravel()).part_worths()
        root = model.posterior_._weights(Items.new(np.eye(d)))[0]
        draws = np.log([np.trace(root @ point.S @ root.T) for point in model.posterior_.points[1:]])
        errors = mean[0] - found["mean"][0], np.log(np.trace(S)) - draws.mean()
        z.append(np.array(errors) / (found["std"][0], draws.std()))
    for quantity in np.transpose(z):
        check_normal(quantity)
