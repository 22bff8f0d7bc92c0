"""Tastes that differ from attribute to attribute, and the scale that they shrink to."""

from dataclasses import replace

import numpy as np

from skpref import CrowdGPPL, Table
from skpref.gp.crowd import spread
from skpref.gp.crowd.hierarchy import end_of_fit, fit_hierarchy
from tests.unit.gp.crowd.test_hierarchy import crowd_model


def test_own_scales_end_where_the_penalised_evidence_has_no_slope():
    model, start = crowd_model(penalty=None)
    model = replace(model, shape=np.eye(5), own_scales=True, covariates=None)
    start = replace(start, S=0.5 * np.eye(5))
    fit = fit_hierarchy(model, start, max_iter=300, tol=1e-10)
    S = fit.state.S
    assert fit.converged
    assert np.count_nonzero(S - np.diag(np.diagonal(S))) == 0
    still = replace(model, learn_S=False)

    def bound(factor):
        state = replace(fit.state, S=np.diag(np.diagonal(S) * factor))
        return fit_hierarchy(still, state, max_iter=300, tol=1e-10).bounds[-1]

    h = 0.05
    for k in range(5):
        ends = [bound(np.exp(sign * h * np.eye(5)[k])) for sign in (-1.0, 1.0)]
        assert abs(ends[1] - ends[0]) / (2.0 * h) < 0.05
        assert max(ends) < bound(np.ones(5)) + 1e-4


def simulated(sd, seed, n_users=80):
    """Return products, tasks, choices and each person's part-worths."""
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(60, len(sd)))
    beta = 0.5 + np.array(sd) * rng.normal(size=(n_users, len(sd)))
    user = np.repeat(np.arange(n_users), 10)
    shown = np.argsort(rng.random((user.size, 60)), axis=1)[:, :4]
    z = (beta @ F.T)[user[:, None], shown] + rng.gumbel(size=shown.shape)
    return Table(F), np.column_stack([user, shown]), z.argmax(axis=1), beta


def test_attributes_on_which_people_agree_do_not_borrow_tastes_from_others():
    sd = [1.0, 0.05, 1.0, 0.05, 1.0, 0.05]
    products, X, y, beta = simulated(sd, 0)
    model = CrowdGPPL(products, likelihood="luce", item_effects=False, random_state=0).fit(X, y)
    between = model.part_worths()["between_people"].to_numpy()
    assert between[1::2].max() < 0.3  # .3 to .5 with one prior for all attributes
    assert between[::2].min() > 0.7
    own = model.part_worths(np.arange(80))
    inside = np.abs(beta.ravel() - own["mean"]) <= 1.645 * own["std"]
    assert inside.mean() > 0.85


def test_a_prior_that_holds_S_does_not_hide_that_its_scale_is_not_known():
    model, start = crowd_model(penalty=None)
    free = fit_hierarchy(model, start, max_iter=100, tol=1e-4)
    held = replace(model, penalty=1e-9, floor=model.item_scale(free.state.S), prior_weight=1e7)
    _, information, squared = end_of_fit(held, free.state)
    alone, moves = (list(spread._moves(m, free, information, squared)) for m in (model, held))
    ends = sorted(move[0, 0] for move in alone)
    assert len(alone) == 2
    assert ends[1] > 1.05 * ends[0]
    sizes = np.sort([np.linalg.eigvals(move).real for move in moves], axis=0)
    np.testing.assert_allclose(sizes, np.repeat(ends, len(moves) // 2)[:, None] * np.ones(5), rtol=1e-3)
