"""Is the chain of `VariationalFMOrdinal` right? The joint distribution of data and parameters [Gew04].

Parameters from the prior and data from them have the distribution of a chain that redraws both in turn. Thresholds are
known, since their prior is flat: sweeps that draw them are left out. Those are compared with importance sampling in
tests/equivalence, and their densities are tested in tests/unit. Thresholds stand for w_0 and for the means of weights,
so these are 0.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from skpref.factorization.machine.chain import start_state, step_of
from skpref.factorization.machine.fields import design_of
from skpref.factorization.machine.model import Bias, Machine, Prior
from skpref.factorization.machine.moves import ChainProblem
from skpref.factorization.policy import POLICY
from skpref.likelihoods import OrdinalProbit

pytestmark = pytest.mark.statistical
N_SWEEPS, N_BATCHES = 12_000, 40
THRESHOLDS = np.array([-0.7, 0.6])


def tiny_machine():
    """Three users, three items, one factor; priors with means that differ from zero."""
    user, item = np.divmod(np.delete(np.arange(9), 4), 3)
    X = sparse.csr_array(np.hstack([np.eye(3)[user], np.eye(3)[item]]))
    prior = Prior(np.array([[0.0, 0.5], [0.0, -0.3]]), np.array([[1.0, 2.0], [1.0, 3.0]]), np.repeat([0, 1], 3))
    unit = Bias(0.0, 1.0)
    likelihood = OrdinalProbit(tuple(THRESHOLDS.tolist()))
    return X, Machine(unit, np.zeros((6, 2)), np.ones((6, 2)), unit, prior, likelihood)


def from_prior(prior, rng, *, learn):
    """Draw priors and features."""
    nu, lam = prior.nu.copy(), prior.lam.copy()
    if learn:
        lam = np.column_stack([rng.gamma(1.0, size=2), lam[:, 1] * rng.gamma(1.0, size=2)])
    theta = nu[prior.group] + rng.standard_normal((6, 2)) / np.sqrt(lam[prior.group])
    return {"theta": theta, "nu": nu, "lam": lam}


def values(state, X):
    """Return y(x)."""
    w, v = state["theta"].T
    return X @ w + 0.5 * ((X @ v) ** 2 - X @ v**2)


def summaries(state, X, level):
    """Return bounded numbers that parameters, data and priors enter; factors and scales may have heavy tails."""
    z, theta, lam = np.tanh(values(state, X)), np.tanh(state["theta"]), state["lam"] / (1.0 + state["lam"])
    parts = [z.mean(), (z**2).mean(), z @ level, theta[:3, 1].mean(), theta[3:, 1].mean(), *(theta**2).mean(axis=0)]
    parts += [*lam.ravel(), *(lam**2).ravel()]
    return np.array([*parts, *np.bincount(level, minlength=3), theta[0, 1] * theta[3, 1]])


def deviations(*, learn, seed, wrong=1.0):
    """Return differences of means over their standard errors; the chain believes in precisions that are `wrong`."""
    X, machine = tiny_machine()
    rng = np.random.default_rng(seed)

    def redrawn(state):
        return np.searchsorted(THRESHOLDS, values(state, X) + rng.standard_normal(X.shape[0]))

    direct = []
    for _ in range(20_000):
        state = from_prior(machine.prior, rng, learn=learn)
        direct.append(summaries(state, X, redrawn(state)))
    expected, spread = np.mean(direct, axis=0), np.std(direct, axis=0)

    believed = replace(machine, prior=machine.prior._replace(lam=machine.prior.lam * [1.0, wrong]))
    design, state = design_of(X), {**start_state(believed, seed), **from_prior(machine.prior, rng, learn=learn)}
    if not learn:
        state["lam"] = believed.prior.lam
    drawn, number = [], 0
    for _ in range(N_SWEEPS):
        number += 1 if (number + 1) % POLICY.thresholds_period != 1 else 2
        level = redrawn(state)
        state, _ = step_of(ChainProblem(design, level, believed, learn))(state, number)
        drawn.append(summaries(state, X, redrawn(state)))
    batches = np.reshape(drawn, (N_BATCHES, N_SWEEPS // N_BATCHES, -1)).mean(axis=1)
    error = np.hypot(batches.std(axis=0, ddof=1) / np.sqrt(N_BATCHES), spread / np.sqrt(len(direct)))
    varies = spread > 1e-9  # priors that are not learnt do not
    return ((batches.mean(axis=0) - expected)[varies]) / error[varies]


@pytest.mark.parametrize("learn", [False, True])
def test_geweke_joint_distribution(learn):
    """Of about 25 summaries, six standard errors from 40 batches are a false alarm in 1e-5 of runs."""
    z = deviations(learn=learn, seed=1)
    assert np.abs(z).max() < 6.0, z


def test_the_test_has_power():
    """Factors of the chain that are 20 % smaller than those of the prior are refuted."""
    assert np.abs(deviations(learn=False, seed=2, wrong=1.5)).max() > 6.0
