"""Spaces: one for each estimator, of lists and distributions that scikit-learn's searches take, too."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import ParameterSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import skpref
from skpref import CrowdGPPL, GibbsIPM3F, GibbsM3F, GPOrdinalRegressor, GPPLClassifier, Table
from skpref.exceptions import DataError
from skpref.search import LogInteger, default_space
from skpref.search.default_spaces import Distributions

optuna = pytest.importorskip("optuna")

ESTIMATORS = [
    skpref.GPPLClassifier(),
    skpref.GPPLClassifier(Table(np.eye(3))),
    skpref.GPPLClassifier(covariates=["home", ("a", "b")], left="l", right="r", likelihood="logit-ties"),
    skpref.GPPLRegressor(),
    skpref.CrowdGPPL(),
    skpref.GPOrdinalRegressor(),
    skpref.GibbsM3F(),
    skpref.GibbsIPM3F(),
    skpref.VariationalFM(),
    skpref.VariationalFMClassifier(),
    skpref.VariationalFMOrdinal(),
    skpref.SVGPRegressor(),
    skpref.SVGPClassifier(),
    skpref.BayesianGPLVM(),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_a_default_space_fits_its_estimator_and_scikit_learns_search(estimator):
    space = default_space(estimator)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    known = Distributions(space, estimator.get_params())
    start = known.default()
    assert set(start) == set(space)
    drawn = [Distributions(space).suggest(study.ask()) for _ in range(10)]
    for settings in [start, *drawn, *ParameterSampler(space, 2, random_state=0)]:
        clone(estimator).set_params(**settings)._validate_params()
    study.enqueue_trial(known.encoded(start))
    assert Distributions(space).suggest(study.ask()) == start


def test_a_study_shows_objects_by_their_text():
    unnamed = object()
    space = Distributions({"a": [None, ("x", "y")], "b": [unnamed, None], "c": [1, 2]}, {"a": ("x", "y"), "b": unnamed})
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.enqueue_trial(space.encoded(space.default()))
    trial = study.ask()
    settings = space.suggest(trial)
    assert (settings["a"], settings["b"]) == (("x", "y"), unnamed)
    assert trial.params == {"a": "('x', 'y')", "b": 0, "c": settings["c"]}  # an address is no name


def test_spaces_compose_through_pipelines():
    pipe = make_pipeline(StandardScaler(), GPOrdinalRegressor())
    assert set(default_space(pipe)) == {"gpordinalregressor__kernel"}
    outer = make_pipeline(pipe)
    assert set(default_space(outer)) == {"pipeline__gpordinalregressor__kernel"}
    with pytest.raises(DataError, match=r"no default space for StandardScaler.*param_distributions"):
        default_space(StandardScaler())


def test_spaces_know_what_does_not_matter():
    assert "item_effects" not in default_space(GPPLClassifier())
    assert "n_factors" not in default_space(GibbsIPM3F())
    assert "alpha" not in default_space(GibbsM3F())


def test_answers_depend_on_sides_covariates_and_ties():
    space = default_space(GPPLClassifier(covariates=["home"], left="a", right="b", likelihood="probit-ties"))
    assert space["order_effect"] == [False, True]
    assert space["covariates"] == [["home"], None]
    assert space["likelihood"] == ["probit-ties", "logit-ties"]
    # Without names of the ids, X would have to have two columns.
    assert "covariates" not in default_space(GPPLClassifier(covariates=[2]))
    assert default_space(GPPLClassifier())["likelihood"] == ["auto", "logit"]
    assert default_space(GPPLClassifier(likelihood="logit-graded"))["likelihood"] == ["probit-graded", "logit-graded"]


@pytest.mark.parametrize("y", [[0, 0.5, 1, 1], ["left", "tie", "right", "left"]], ids=["numbers", "words"])
def test_where_there_are_ties_every_likelihood_of_the_space_predicts_them(y):
    for estimator in (GPPLClassifier(), CrowdGPPL()):
        assert default_space(estimator, y)["likelihood"] == ["auto", "logit-ties"]
    pipe = make_pipeline(FunctionTransformer(), GPPLClassifier())
    assert default_space(pipe, y)["gpplclassifier__likelihood"] == ["auto", "logit-ties"]
    assert default_space(GPPLClassifier(likelihood="logit"), y)["likelihood"] == ["probit", "logit"]
    tasks = CrowdGPPL(likelihood="luce")
    assert "likelihood" not in default_space(tasks, y)


@pytest.mark.parametrize(
    "y", [None, [0, 1, 1], [0.5, 0.5], [0.2, 0.5, 1.0], [[2, 1], [1, 2]], ["a", "b"], [np.nan, 0.5, 1]]
)
def test_labels_without_ties_leave_the_space_as_it_is(y):
    assert default_space(GPPLClassifier(), y)["likelihood"] == ["auto", "logit"]


def test_the_linearisation_is_of_the_probit_alone():
    space = default_space(GPPLClassifier(inference="linearised"), [0, 0.5, 1])
    assert "likelihood" not in space


class Dice:
    """A distribution that can only be drawn from."""

    def rvs(self, random_state=None):
        return int(np.random.default_rng(random_state).integers(1, 7))


OBJECTS = [StandardScaler(), None]
ANY = {
    "list": ["a", "b"],
    "objects": OBJECTS,
    "array": np.array([0.5, 1.5]),
    "log": stats.loguniform(0.1, 10.0),
    "flat": stats.uniform(2.0, 3.0),
    "whole": stats.randint(3, 6),
    "normal": stats.norm(5.0, 0.1),
    "drawn": Dice(),
    "own": LogInteger(2, 9),
    "optuna": optuna.distributions.IntDistribution(1, 3),
}


def test_every_kind_of_distribution_is_drawn_from():
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn = [Distributions(ANY).suggest(study.ask()) for _ in range(60)]
    assert {s["list"] for s in drawn} == {"a", "b"}
    assert {id(s["objects"]) for s in drawn} == {id(one) for one in OBJECTS}
    assert {s["array"] for s in drawn} == {0.5, 1.5}
    assert np.median([s["log"] for s in drawn]) == pytest.approx(1.0, rel=1.0)  # the median of 60 logs: sd 0.3
    assert all(2.0 <= s["flat"] <= 5.0 for s in drawn)
    assert {s["whole"] for s in drawn} == {3, 4, 5}
    assert np.mean([s["normal"] for s in drawn]) == pytest.approx(5.0, abs=0.1)
    assert {s["drawn"] for s in drawn} <= set(range(1, 7))
    assert {s["own"] for s in drawn} <= set(range(2, 10))
    assert {s["optuna"] for s in drawn} == {1, 2, 3}
    assert all(type(s["own"]) is type(s["whole"]) is int for s in drawn)


def test_the_start_is_taken_to_the_space():
    start = {"list": "c", "objects": None, "log": 50.0, "whole": 9, "own": 4, "optuna": 2, "normal": 5.0}
    assert Distributions(ANY, start).default() == {"objects": None, "log": 10.0, "whole": 5, "own": 4, "optuna": 2}
    assert Distributions({"flag": [True, False]}, {"flag": 1}).default() == {}  # 1 is not True
    assert Distributions({"low": LogInteger(2, 9)}, {"low": True}).default() == {}


def test_whole_numbers_by_their_logarithm():
    drawn = LogInteger(1, 100).rvs(4000, random_state=0)
    assert (drawn.min(), drawn.max()) == (1, 100)
    assert np.mean(drawn <= 10) == pytest.approx(np.log(10.5 / 0.5) / np.log(100.5 / 0.5), abs=0.04)  # 5 sd


def test_spaces_print_as_they_would_be_typed():
    space = default_space(GPPLClassifier(Table(np.arange(200.0)[:, None])))
    assert repr(space).splitlines()[:3] == [
        "{'likelihood': ['auto', 'logit'],",
        " 'scale_prior__shape': loguniform(0.5, 20.0),",
        " 'scale_prior__rate': loguniform(0.1, 50.0),",
    ]
    assert "0x" not in repr(space)
    assert (
        repr(default_space(CrowdGPPL()))
        .rstrip("}")
        .endswith("'n_factors': randint(0, 21),\n 'factor_prior__item_scale__rate': loguniform(0.02, 20.0)")
    )
