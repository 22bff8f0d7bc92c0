"""Valid data for every estimator, and the places where each of them reads an input.

A place is one method (or constructor parameter) of one estimator that reads one kind of input. The rows of `table.py`
are run over all places of a kind: a new estimator adds its places here and gets every row.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF

from skpref import (
    BayesianGPLVM,
    CrowdGPPL,
    GibbsIPM3F,
    GibbsM3F,
    GPOrdinalRegressor,
    GPPLClassifier,
    GPPLRegressor,
    SVGPClassifier,
    SVGPRegressor,
    Table,
    VariationalFM,
    VariationalFMClassifier,
    VariationalFMOrdinal,
)

# ----------------------------------------------------------------------------------------------------------- valid data
_rng = np.random.default_rng(12)
N, U, P = 30, 6, 90  # items or rows, users, comparisons
X, PEOPLE = _rng.standard_normal((N, 3)), _rng.standard_normal((U, 2))
LEFT = np.concatenate([np.arange(N), _rng.integers(0, N, P - N)])
RIGHT, USER = (LEFT + 1) % N, _rng.integers(0, U, P)
PREFERRED = (X[LEFT, 0] + _rng.standard_normal(P) > X[RIGHT, 0]).astype(int)  # whether the left item
SCORE = X[:, 0] + X[:, 1] * X[:, 2]
CLASS = (SCORE > 0.0).astype(int)
LEVEL = np.digitize(X[:, 0] + 0.3 * _rng.standard_normal(N), [-0.5, 0.5])
K = RBF(1.5)(X)
ITEM_NAMES, USER_NAMES = [f"x{i}" for i in range(N)], [f"u{i}" for i in range(U)]
PAIRS = np.column_stack([LEFT, RIGHT])
TRIPLES = np.column_stack([USER, LEFT, RIGHT])
NAMED_PAIRS = [[ITEM_NAMES[a], ITEM_NAMES[b]] for a, b in PAIRS]
NAMED_TRIPLES = [[USER_NAMES[u], ITEM_NAMES[a], ITEM_NAMES[b]] for u, a, b in TRIPLES]
ITEMS, USERS = Table(X, ids=ITEM_NAMES), Table(PEOPLE, ids=USER_NAMES)
RATED = np.argwhere(_rng.random((12, 10)) < 0.5)
RATING = _rng.integers(1, 6, len(RATED)).astype(float)


# ------------------------------------------------------------------------------------- estimators that are quick to fit
def regressor(**params):
    return GPPLRegressor(**{"optimizer": None, "random_state": 0, **params})


def classifier(items=None, **params):
    return GPPLClassifier(**{"items": items, "optimizer": None, "random_state": 0, **params})


def crowd(items=None, users=None, **params):
    defaults = {"items": items, "users": users, "n_factors": 2, "optimizer": None, "random_state": 0}
    return CrowdGPPL(**{**defaults, **params})


def ordinal(**params):
    return GPOrdinalRegressor(**{"optimizer": None, "random_state": 0, **params})


def sparse_gp(kind, **params):
    return kind(**{"optimizer": None, "random_state": 0, **params})


def latent(**params):
    return BayesianGPLVM(**{"n_components": 1, "inducing": 5, "tol": 1.0, "random_state": 0, **params})


def machine(kind, **params):
    return kind(**{"random_state": 0, **params})


def gibbs(kind, **params):
    short = {"max_iter": 6, "burn_in": 2, "n_samples": 2, "levels": [1, 2, 3, 4, 5], "random_state": 0}
    return kind(**{**short, **({"n_factors": 2} if kind is GibbsM3F else {}), **params})


MAKERS = {
    "GPPLRegressor": regressor,
    "GPPLClassifier": classifier,
    "CrowdGPPL": crowd,
    "GPOrdinalRegressor": ordinal,
    "SVGPRegressor": partial(sparse_gp, SVGPRegressor),
    "SVGPClassifier": partial(sparse_gp, SVGPClassifier),
    "BayesianGPLVM": latent,
    "VariationalFM": partial(machine, VariationalFM),
    "VariationalFMClassifier": partial(machine, VariationalFMClassifier),
    "VariationalFMOrdinal": partial(machine, VariationalFMOrdinal),
    "GibbsM3F": partial(gibbs, GibbsM3F),
    "GibbsIPM3F": partial(gibbs, GibbsIPM3F),
}
TRAINING = {
    "GPPLRegressor": (X, SCORE),
    "GPPLClassifier": (NAMED_PAIRS, PREFERRED),
    "CrowdGPPL": (NAMED_TRIPLES, PREFERRED),
    "GPOrdinalRegressor": (X, LEVEL),
    "SVGPRegressor": (X, SCORE),
    "SVGPClassifier": (X, CLASS),
    "BayesianGPLVM": (X,),
    "VariationalFM": (X, SCORE),
    "VariationalFMClassifier": (X, CLASS),
    "VariationalFMOrdinal": (X, LEVEL),
    "GibbsM3F": (RATED, RATING),
    "GibbsIPM3F": (RATED, RATING),
}
ROWS_AND_TARGETS = [name for name, data in TRAINING.items() if data[0] is X and len(data) > 1]
MACHINES, GIBBS = [name for name in MAKERS if name[:9] == "Variation"], ["GibbsM3F", "GibbsIPM3F"]
VARIANTS = {
    "GPPLClassifier(items)": lambda: classifier(ITEMS).fit(NAMED_PAIRS, PREFERRED),
    "CrowdGPPL(items, users)": lambda: crowd(ITEMS, USERS).fit(NAMED_TRIPLES, PREFERRED),
    "CrowdGPPL(unknown_user='raise')": lambda: crowd(unknown_user="raise").fit(NAMED_TRIPLES, PREFERRED),
    "GPOrdinalRegressor(precomputed)": lambda: ordinal(kernel="precomputed").fit(K, LEVEL),
    "GPOrdinalRegressor(partial_fit)": lambda: ordinal().partial_fit(X, LEVEL),
}


@cache
def fitted(name):
    """Fit an estimator on valid data, once."""
    return VARIANTS[name]() if name in VARIANTS else MAKERS[name]().fit(*TRAINING[name])


OUTPUT = {
    "GPPLRegressor": "predict",
    "SVGPRegressor": "predict",
    "VariationalFM": "predict",
    "BayesianGPLVM": "transform",
}


def output(model, rows):
    """Predict: probabilities where there are any."""
    return getattr(model, OUTPUT.get(type(model).__name__, "predict_proba"))(rows)


# --------------------------------------------------------------------------------------------------------------- places
class Place(NamedTuple):
    """A method of an estimator that reads one input, and a valid value of that input."""

    name: str
    valid: Any
    call: Callable[[Any], Any]
    names_input: str = ""  # how messages of this place begin: which of several inputs is meant

    @property
    def estimator(self):
        return self.name.split(".")[0].split("(")[0]


def _places(estimator, valid, calls):
    return [Place(f"{estimator}.{name}", valid, call) for name, call in calls.items()]


def _methods(estimator, valid, names, *, and_target=None):
    """Methods of a fitted estimator that read rows and, with them, valid targets."""

    def call(name, value):
        method = getattr(fitted(estimator), name)
        return method(value) if and_target is None else method(value, first(and_target, value))

    return [Place(f"{estimator}.{name}", valid, partial(call, name)) for name in names.split()]


def first(values, rows):
    """As many of the values as there are rows."""
    return values[: rows.shape[0] if hasattr(rows, "shape") and rows.shape else len(rows)]


def with_users(pairs):
    """Put valid users before pairs of items; what are no pairs stays as it is."""
    if isinstance(pairs, list):
        return [[USER_NAMES[u], *pair] for u, pair in zip(USER, pairs, strict=False)]
    if sparse.issparse(pairs):
        return sparse.hstack([sparse.csr_array(USER[:, None]), pairs])
    return np.column_stack([USER[: len(pairs)], pairs]) if np.ndim(pairs) == 2 else pairs


def _unchecked_fit(name, rows, **params):
    return MAKERS[name](**params).fit(rows, first(TRAINING[name][1], rows))


# Places that read a table of numbers, one row an item, a user or a sample.
ROWS = [
    *_places(
        "GPPLRegressor",
        X,
        {
            "fit": lambda rows: regressor().fit(rows, first(SCORE, rows)),
            "fit(comparisons)": lambda rows: regressor().fit(rows, comparisons=[[0, 1]]),
            "predict": lambda rows: fitted("GPPLRegressor").predict(rows),
            "predict_preference": lambda rows: fitted("GPPLRegressor").predict_preference(rows, rows),
        },
    ),
    Place("Table", X, Table),
    *_places(
        "GPPLClassifier",
        X,
        {
            "items": lambda rows: classifier(rows).fit(PAIRS, PREFERRED),
            "utility": lambda rows: fitted("GPPLClassifier(items)").utility(np.asarray(rows)),
        },
    ),
    *(
        Place(f"CrowdGPPL.{name}", valid, call, f"{name.split('(')[0]}: ")
        for name, valid, call in (
            ("items", X, lambda rows: crowd(rows).fit(TRIPLES, PREFERRED)),
            ("users", PEOPLE, lambda rows: crowd(None, rows).fit(TRIPLES, PREFERRED)),
            ("items(utility)", X, lambda rows: fitted("CrowdGPPL(items, users)").utility(np.asarray(rows))),
            ("users(utility)", PEOPLE, lambda rows: fitted("CrowdGPPL(items, users)").utility(users=np.asarray(rows))),
            (
                "items(partial_fit)",
                X,
                lambda rows: fitted("CrowdGPPL(items, users)").partial_fit(NAMED_TRIPLES, PREFERRED, items=rows),
            ),
            (
                "users(partial_fit)",
                PEOPLE,
                lambda rows: fitted("CrowdGPPL(items, users)").partial_fit(NAMED_TRIPLES, PREFERRED, users=rows),
            ),
        )
    ),
    *(
        Place(f"{name}.fit{params or ''}", X, partial(_unchecked_fit, name, **params))
        for name, params in (
            ("GPOrdinalRegressor", {}),
            ("GPOrdinalRegressor", {"inference": "vb"}),
            ("GPOrdinalRegressor", {"kernel": "auto"}),
            ("SVGPRegressor", {}),
            ("SVGPClassifier", {}),
            ("VariationalFM", {}),
            ("VariationalFMClassifier", {}),
            ("VariationalFMOrdinal", {}),
        )
    ),
    *_methods("GPOrdinalRegressor", X, "predict predict_proba predict_latent"),
    *_methods("GPOrdinalRegressor", X, "score", and_target=LEVEL),
    *_methods("GPOrdinalRegressor(partial_fit)", X, "partial_fit", and_target=LEVEL),
    *_methods("SVGPRegressor", X, "predict"),
    *_methods("SVGPRegressor", X, "partial_fit", and_target=SCORE),
    *_methods("SVGPClassifier", X, "predict predict_proba"),
    *_methods("SVGPClassifier", X, "partial_fit", and_target=CLASS),
    Place("BayesianGPLVM.fit", X, lambda rows: latent().fit(rows)),
    *_methods("BayesianGPLVM", X, "transform reconstruct score_samples"),
    *_methods("VariationalFM", X, "predict sample_y"),
    *_methods("VariationalFM", X, "partial_fit", and_target=SCORE),
    *_methods("VariationalFMClassifier", X, "predict predict_proba sample_y"),
    *_methods("VariationalFMClassifier", X, "partial_fit", and_target=CLASS),
    *_methods("VariationalFMOrdinal", X, "predict predict_proba sample_y"),
    *_methods("VariationalFMOrdinal", X, "partial_fit", and_target=LEVEL),
]
# Estimators that learn from comparisons of items with names. Places of pairs put users before them for CrowdGPPL.
LEARN = {
    "GPPLClassifier.fit": lambda rows, y, **more: classifier().fit(rows, y, **more),
    "GPPLClassifier(items).fit": lambda rows, y, **more: classifier(ITEMS).fit(rows, y, **more),
    "CrowdGPPL.fit": lambda rows, y, **more: crowd().fit(rows, y, **more),
    "CrowdGPPL(items, users).fit": lambda rows, y, **more: crowd(ITEMS, USERS).fit(rows, y, **more),
    "CrowdGPPL.partial_fit": lambda rows, y, **more: fitted("CrowdGPPL").partial_fit(rows, y, **more),
}
ASK = {
    "GPPLClassifier": "predict predict_proba decision_function",
    "GPPLClassifier(items)": "predict predict_proba decision_function",
    "CrowdGPPL": "predict predict_proba decision_function predict_preference",
    "CrowdGPPL(items, users)": "predict predict_proba decision_function predict_preference",
    "CrowdGPPL(unknown_user='raise')": "predict predict_proba decision_function predict_preference",
}


def _pairs_to(place):
    """Make a place of triples one of pairs."""
    return place._replace(valid=NAMED_PAIRS, call=lambda rows: place.call(with_users(rows)))


_learn = [Place(name, NAMED_TRIPLES, lambda rows, f=f: f(rows, first(PREFERRED, rows))) for name, f in LEARN.items()]
_ask = [place for name, methods in ASK.items() for place in _methods(name, NAMED_TRIPLES, methods)]
LEARN_TRIPLES, ASK_TRIPLES = ([place for place in places if "Crowd" in place.name] for places in (_learn, _ask))
LEARN_PAIRS, ASK_PAIRS = (
    [_pairs_to(place) if "Crowd" in place.name else place._replace(valid=NAMED_PAIRS) for place in places]
    for places in (_learn, _ask)
)
# Items and users by their row in a table of features.
NUMBERED_PAIRS = [
    Place("GPPLRegressor.fit(comparisons)", PAIRS, lambda pairs: regressor().fit(X, comparisons=pairs)),
    Place("GPPLClassifier(items).fit", PAIRS, lambda pairs: classifier(X).fit(pairs, first(PREFERRED, pairs))),
    Place(
        "CrowdGPPL(items, users).fit",
        PAIRS,
        lambda pairs: crowd(X, PEOPLE).fit(with_users(pairs), first(PREFERRED, pairs)),
    ),
]
NUMBERED_TRIPLES = [
    Place("CrowdGPPL(items, users).fit", TRIPLES, lambda rows: crowd(X, PEOPLE).fit(rows, first(PREFERRED, rows)))
]


def _targets(names, methods="fit partial_fit"):
    """Places that read targets; `partial_fit` and `score` on the valid fit."""
    out = []
    for name in names:
        rows, target = TRAINING[name]
        for method in methods.split():
            model = partial(MAKERS[name]) if method == "fit" else partial(fitted, name)
            out.append(
                Place(
                    f"{name}.{method}(y)",
                    target,
                    lambda y, model=model, method=method, rows=rows: getattr(model(), method)(rows, y),
                )
            )
    return out


LABELS = [  # of comparisons
    Place(f"{name}(y)", PREFERRED, lambda y, f=f, rows=NAMED_TRIPLES if "Crowd" in name else NAMED_PAIRS: f(rows, y))
    for name, f in LEARN.items()
]
NUMBERS = [*_targets(["GPPLRegressor"], "fit"), *_targets(["SVGPRegressor", "VariationalFM"])]
CLASSES = _targets(["SVGPClassifier", "VariationalFMClassifier"])
RATINGS = _targets(GIBBS, "fit partial_fit score")
LEVELS = [
    Place("GPOrdinalRegressor.fit(y)", LEVEL, lambda y, **more: ordinal(**more).fit(X, y)),
    Place("GPOrdinalRegressor.fit(y)-vb", LEVEL, lambda y, **more: ordinal(inference="vb", **more).fit(X, y)),
    Place("GPOrdinalRegressor.fit(y)-K", LEVEL, lambda y, **more: ordinal(kernel="precomputed", **more).fit(K, y)),
    Place("GPOrdinalRegressor.partial_fit(y)", LEVEL, lambda y, **more: ordinal(**more).partial_fit(X, y)),
    Place("VariationalFMOrdinal.fit(y)", LEVEL, lambda y, **more: machine(VariationalFMOrdinal, **more).fit(X, y)),
]


def _weighed(name, call, *data):
    return Place(f"{name}(sample_weight)", np.ones(len(data[-1])), lambda w: call(*data, sample_weight=w))


WEIGHTS = [
    *(_weighed(name, f, NAMED_TRIPLES if "Crowd" in name else NAMED_PAIRS, PREFERRED) for name, f in LEARN.items()),
    _weighed(
        "GPPLRegressor.fit(comparisons)",
        lambda pairs, sample_weight: regressor().fit(X, comparisons=pairs, sample_weight=sample_weight),
        PAIRS,
    ),
    *(
        _weighed(f"{name}.fit", lambda *data, name=name, **more: MAKERS[name]().fit(*data, **more), *TRAINING[name])
        for name in ("GPPLRegressor", "SVGPRegressor", "SVGPClassifier", *MACHINES, *GIBBS)
    ),
    *(
        _weighed(
            f"GPOrdinalRegressor.fit-{how}",
            lambda *data, how=how, **w: ordinal(inference=how).fit(*data, **w),
            X,
            LEVEL,
        )
        for how in ("auto", "laplace", "vb")
    ),
]
# Estimators that are not fitted: every method that needs a fit. The value is what the method gets.
UNFITTED = {
    "GPPLRegressor": "predict score sample_y predict_preference",
    "GPPLClassifier": "predict predict_proba decision_function score utility rank sample_utility win_matrix "
    "covariate_table",
    "CrowdGPPL": "predict predict_proba decision_function predict_preference score utility rank annotators "
    "similar_users similar_items latent_covariance",
    "GPOrdinalRegressor": "predict predict_proba predict_latent score log_marginal_likelihood",
    "SVGPRegressor": "predict score sample_y log_marginal_likelihood",
    "SVGPClassifier": "predict predict_proba score",
    "BayesianGPLVM": "transform inverse_transform reconstruct score_samples score",
    "VariationalFM": "predict score sample_y",
    "VariationalFMClassifier": "predict predict_proba score sample_y",
    "VariationalFMOrdinal": "predict predict_proba score sample_y",
    "GibbsM3F": "predict predict_proba predict_score score recommend fold_in",
    "GibbsIPM3F": "predict predict_proba predict_score score recommend fold_in feature_table",
}
# Constructors: the value is a dict of parameters.
PARAMETERS = {
    **{name: Place(name, {}, lambda params, name=name: MAKERS[name](**params).fit(*TRAINING[name])) for name in MAKERS},
    "GPOrdinalRegressor.partial_fit": Place(
        "GPOrdinalRegressor.partial_fit", {}, lambda params: ordinal(**params).partial_fit(X, LEVEL)
    ),
}


def unfitted_call(name, method):
    """Call a method of an estimator that is not fitted, with valid arguments."""
    rows = TRAINING[name][0]
    arguments = {
        "score": TRAINING[name] if len(TRAINING[name]) > 1 else (rows,),
        "predict_preference": (rows, rows) if name == "GPPLRegressor" else (rows,),
        "similar_users": ("u0",),
        "similar_items": ("x0",),
        "fold_in": TRAINING[name],
        **dict.fromkeys(["utility", "rank", "sample_utility", "annotators", "covariate_table", "feature_table"], ()),
        "log_marginal_likelihood": (),
    }
    return getattr(MAKERS[name](), method)(*arguments.get(method, (rows,)))
