"""What is searched of comparisons: the default space of the estimator, as far as the data can answer it."""

import numpy as np
import pytest

from skpref import CrowdGPPL, GPPLClassifier, Table
from skpref.cli.tasks.base import Rows
from skpref.cli.tasks.comparisons import Compared, make_task
from skpref.data.roles import Roles
from skpref.search.default_spaces import Distributions

optuna = pytest.importorskip("optuna")

RNG = np.random.default_rng(1)


def task(n_items=12, n_users=0, *, features=False, ties=False, **more):
    """Return a task of so many items and users; the seed is 3."""
    ids = [f"i{k}" for k in range(n_items)]
    rows = [[ids[k % n_items], ids[(k + 1) % n_items]] for k in range(max(n_items, n_users))]
    if n_users:
        rows = [[f"u{k % n_users}", *row] for k, row in enumerate(rows)]
        more = {"roles": Roles(user="user"), **more}
    y = np.where(np.arange(len(rows)) % 3, 1.0, 0.5 if ties else 0.0)
    table = Table(RNG.normal(size=(n_items, 4)), ids) if features else None
    data = Compared(Rows(np.array(rows, dtype=object), y, np.ones(y.size)), table, "here", **more)
    return make_task(data, 3)


TASKS = {
    "plain": task(),
    "features": task(120, features=True),
    "crowd": task(n_users=5, has_sides=False),
    "ties of a crowd": task(n_users=300, ties=True),
    "features of a crowd": task(400, 300, features=True),
}


def drawn(made, n=60):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    return [Distributions(made.space).suggest(study.ask()) for _ in range(n)]


def _points(made):
    """Inducing points of the first trial: no more than items."""
    return {"inducing": min(300, made.data.n_items)} if "inducing" in made.space else {}


@pytest.mark.parametrize("name", TASKS)
def test_the_first_trial_has_the_parameters_of_the_estimator(name):
    made = TASKS[name]
    params = made.estimator.get_params()
    space = Distributions(made.space, params)
    assert space.default() == {**{name: params[name] for name in made.space}, **_points(made)}
    cls = CrowdGPPL if "crowd" in name else GPPLClassifier
    plain = cls(random_state=3).get_params(deep=False)
    changed = {key for key, value in made.estimator.get_params(deep=False).items() if value is not plain[key]}
    assert changed <= {"items", "inducing", "n_factors"}


@pytest.mark.parametrize("name", TASKS)
def test_settings_become_estimators(name):
    made = TASKS[name]
    for settings in drawn(made, 10):
        model = made.build(settings)
        model._validate_params()
        assert {key: model.get_params()[key] for key in settings} == settings


def test_every_choice_is_drawn_and_bounded():
    settings = drawn(TASKS["features"])
    assert {s["kernel"] for s in settings} > {None, "additive-matern-3/2"}
    assert {s["optimizer"] for s in settings} == {"auto", "l-bfgs-b"}
    assert {s["item_effects"] for s in settings} == {s["order_effect"] for s in settings} == {False, True}
    assert all(50 <= s["inducing"] <= 120 for s in settings)


def test_only_what_the_data_can_answer_is_asked():
    plain, crowd, ties = (drawn(TASKS[name]) for name in ("plain", "crowd", "ties of a crowd"))
    assert not any({"kernel", "inducing", "item_effects"} & set(s) for s in [*plain, *crowd])
    assert all("inducing" not in s for s in drawn(task(80, features=True)))  # of few items, all are points
    assert {s["likelihood"] for s in plain} == {"auto", "logit"}
    assert {s["likelihood"] for s in ties} == {"auto", "logit-ties"}
    assert {s["order_effect"] for s in ties} == {False, True}
    assert not any("order_effect" in s for s in crowd)
    assert (min(s["n_factors"] for s in ties), max(s["n_factors"] for s in ties)) == (0, 20)
    assert all(50 <= s["inducing"] <= 400 for s in drawn(TASKS["features of a crowd"]))


@pytest.mark.parametrize("n_users", [0, 5])
def test_covariates_are_columns_after_the_ids_and_left_out_in_the_report(n_users):
    made = task(n_users=n_users, covariates=("home", "long"))
    first = bool(n_users) + 2
    assert {str(made.build(s).covariates) for s in drawn(made)} == {str({"home": first, "long": first + 1})}
    assert made.variants({"likelihood": "logit"}) == {
        "without home and long": {"likelihood": "logit", "covariates": None}
    }
    assert made.variants({"covariates": None}) == TASKS["plain"].variants({}) == {}
