"""The priors of the factors for many items: held-out comparisons choose them, and later fits keep them."""

import numpy as np
import pytest

from skpref import CrowdGPPL
from skpref.datasets import make_crowd
from skpref.gp.crowd import fit as crowd_fit
from skpref.gp.crowd.posterior import CrowdPosterior
from tests.policies import set_policy


@pytest.fixture
def many(monkeypatch):
    set_policy(monkeypatch, "gp.crowd", most_items=2)


def crowd(n_factors, seed=1):
    sizes = {"n_features": 0, "n_user_features": 0, "comparisons_per_user": 12}
    return make_crowd(100, 100, n_factors=n_factors, **sizes, random_state=seed)


def rates(model):
    posterior = model.posterior_
    assert isinstance(posterior, CrowdPosterior)
    n = posterior.items.n_factors
    return {(posterior.scales[f"v{d}"].rate0, posterior.scales[f"w{d}"].rate0) for d in model._alive[:n]}


@pytest.mark.usefixtures("many")
def test_priors_are_broader_where_tastes_predict():
    data = crowd(2)
    model = CrowdGPPL(n_factors=2, random_state=0).fit(data.comparisons, data.y)
    plain = CrowdGPPL(n_factors=2, inference="vb", random_state=0).fit(data.comparisons, data.y)
    assert rates(model) == {(2.0, 20.0)}
    assert rates(plain) <= {(0.2, 0.2)}
    assert model.item_ids_.size == 100
    truth = data.utilities - data.utilities.mean(axis=1, keepdims=True)
    near, far = (np.mean((m.utility(np.arange(100), users=np.arange(100)) - truth) ** 2) for m in (model, plain))
    assert near < 0.8 * far
    model.partial_fit(data.comparisons[:5], data.y[:5])
    assert rates(model) == {(2.0, 20.0)}
    assert model.factor_prior is None


@pytest.mark.usefixtures("many")
def test_where_all_agree_nothing_is_lost():
    data = crowd(0)
    model = CrowdGPPL(n_factors=2, random_state=0).fit(data.comparisons, data.y)
    plain = CrowdGPPL(n_factors=2, inference="vb", random_state=0).fit(data.comparisons, data.y)
    np.testing.assert_allclose(model.utility(), plain.utility(), atol=0.1)


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("options", [{"optimizer": "l-bfgs-b"}, {"inference": "vb"}, {"n_factors": 0}])
def test_given_priors_are_kept(options, monkeypatch):
    monkeypatch.setattr(crowd_fit, "_choose_priors", lambda *_: pytest.fail("chose priors"))
    data = crowd(1)
    CrowdGPPL(**{"n_factors": 2, "max_iter": 2, "tol": 1e6, "random_state": 0} | options).fit(data.comparisons, data.y)


@pytest.mark.usefixtures("many")
def test_few_comparisons_keep_the_given_priors(monkeypatch):
    monkeypatch.setattr(crowd_fit, "_choose_priors", lambda *_: pytest.fail("chose priors"))
    data = crowd(2)
    CrowdGPPL(n_factors=2, max_iter=2, tol=1e6, random_state=0).fit(data.comparisons[:999], data.y[:999])
    with pytest.raises(pytest.fail.Exception, match="chose priors"):
        CrowdGPPL(n_factors=2, max_iter=2, tol=1e6, random_state=0).fit(data.comparisons[:1000], data.y[:1000])


@pytest.mark.usefixtures("many")
def test_a_choice_may_look_at_some_users_only(monkeypatch):
    set_policy(monkeypatch, "gp.crowd", prior_rows=300)
    sizes = []
    scratch = crowd_fit._fit_from_scratch

    def record(model, *arguments):
        sizes.append(model.data.comparisons.n_pairs)
        return scratch(model, *arguments)

    monkeypatch.setattr(crowd_fit, "_fit_from_scratch", record)
    data = crowd(1)
    CrowdGPPL(n_factors=2, random_state=0).fit(data.comparisons, data.y)
    assert len(sizes) == 3
    assert max(sizes[:2]) < 320 < sizes[2]


@pytest.mark.usefixtures("many")
def test_one_comparison_leaves_nothing_to_hold_out():
    model = CrowdGPPL(random_state=3).fit([["u", "a", "b"], ["u", "b", "c"]], [1, 1])
    assert model.utility().argmax() == 0
