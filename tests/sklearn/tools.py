"""Tools of scikit-learn that work with each kind of X. `python -m tests.sklearn.tools` writes the table of the guide.

`test_matrix` runs every cell of the table: those without a reason work, and those with a reason raise a clear error.
"""

import inspect
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - the import switches HalvingGridSearchCV on
from sklearn.feature_selection import RFE, SelectFromModel, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process.kernels import RBF
from sklearn.inspection import PartialDependenceDisplay, partial_dependence, permutation_importance
from sklearn.metrics import ConfusionMatrixDisplay, PredictionErrorDisplay, RocCurveDisplay
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    KFold,
    RandomizedSearchCV,
    StratifiedKFold,
    TimeSeriesSplit,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
    validation_curve,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.utils import estimator_html_repr

import skpref
from skpref import (
    CrowdGPPL,
    GibbsM3F,
    GPOrdinalRegressor,
    GPPLClassifier,
    GPPLRegressor,
    OneHotDesign,
    SVGPClassifier,
    SVGPRegressor,
    VariationalFMClassifier,
)

TABLE = Path(__file__).resolve().parents[2] / "docs/user_guide/sklearn_table.inc"
FOLDS = KFold(2, shuffle=True, random_state=0)


# --------------------------------------------------------------------------------------------------------------- kinds
@dataclass(frozen=True)
class Kind:
    """An estimator with rows for it."""

    model: Any
    X: Any
    y: np.ndarray
    groups: np.ndarray
    rows: Any  # what `before` makes X from
    before: Any
    search: tuple[str, list[Any]]  # a parameter and two values
    fit: dict[str, Any] = field(default_factory=dict)  # further arguments of `fit`
    ids: bool = False  # whether columns of X are ids

    @property
    def classes(self):
        return is_classifier(self.model)

    @property
    def method(self):
        return "predict_proba" if self.classes else "predict"

    def fitted(self):
        return clone(self.model).fit(self.X, self.y, **self.fit)

    def answers(self, model, X=None):
        return np.asarray(getattr(model, self.method)(self.X if X is None else X))

    def same(self, model, other=None, X=None):
        """Assert that two models predict the same."""
        np.testing.assert_array_equal(self.answers(model, X), self.answers(other or self.fitted()))


def columns_alone(names):
    keep = ColumnTransformer([("ids", "passthrough", names)], verbose_feature_names_out=False)
    return keep.set_output(transform="pandas")


@cache
def kinds():
    import pandas as pd

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(48, 3)), columns=["a", "b", "c"])
    latent = X["a"].to_numpy() - 0.5 * X["b"].to_numpy() + 0.2 * rng.normal(size=48)
    group = np.repeat(np.arange(6), 8)
    features = {
        "rows": 100.0 * X,
        "before": StandardScaler(),
        "groups": group,
        "search": ("kernel", [RBF(1.0), RBF(3.0)]),
    }
    quick = {"optimizer": None, "random_state": 0}
    items = np.array(["ale", "gin", "rum", "tea", "sake", "port"], dtype=object)
    left = rng.integers(0, 6, 60)
    right = (left + rng.integers(1, 6, 60)) % 6
    prefers = (right - left + 2.0 * rng.normal(size=60) > 0).astype(int)
    judge = np.array(["ann", "bob", "cay"], dtype=object)[np.arange(60) % 3]
    pairs = pd.DataFrame({"left": items[left], "right": items[right]})
    told = pairs.assign(judge=judge)[["judge", "left", "right"]]
    user, item = np.repeat(np.arange(8), 6), np.tile(np.arange(6), 8)
    rated = pd.DataFrame({"user": np.array([f"u{u}" for u in user], dtype=object), "item": items[item]})
    stars = np.digitize(item - 2.5 + 0.5 * rng.normal(size=48), [-1.0, 1.0]) + 1
    by = {"ids": True, "search": ("order_effect", [False, True])}
    return {
        "classes": Kind(SVGPClassifier(inducing=8, **quick), X, (latent > 0).astype(int), **features),
        "numbers": Kind(SVGPRegressor(inducing=8, **quick), X, latent, **features),
        "grades": Kind(
            GPOrdinalRegressor(RBF(1.0), inference="laplace", **quick), X, np.digitize(latent, [-0.5, 0.5]), **features
        ),
        "pairs": Kind(
            GPPLClassifier(left="left", right="right", **quick),
            pairs,
            prefers,
            groups=items[left],
            rows=pairs.assign(note="x"),
            before=columns_alone(["left", "right"]),
            **by,
        ),
        "crowd": Kind(
            CrowdGPPL(n_factors=1, inference="vb", **quick),
            told,
            prefers,
            groups=judge,
            rows=told.assign(note="x"),
            before=columns_alone(["judge", "left", "right"]),
            **by,
        ),
        "groups": Kind(GPPLRegressor(inducing=8, **quick), X, latent, fit={"qid": group}, **features),
        "ratings": Kind(
            GibbsM3F(n_factors=2, C=1.0, max_iter=12, burn_in=4, n_jobs=1, random_state=0),
            rated,
            stars,
            groups=user,
            rows=rated.assign(note="x"),
            before=columns_alone(["user", "item"]),
            search=("C", [0.5, 1.0]),
            ids=True,
        ),
        "sparse": Kind(
            VariationalFMClassifier(n_factors=2, max_iter=20, random_state=0),
            OneHotDesign().fit_transform(rated),
            (stars > 2).astype(int),
            groups=user,
            rows=rated,
            before=OneHotDesign(),
            search=("n_factors", [1, 2]),
        ),
    }


# ------------------------------------------------------------------------------------------------------------- reasons
TITLES = {
    "classes": "features, classes: `SVGPClassifier`",
    "numbers": "features, numbers: `SVGPRegressor`",
    "grades": "features, grades: `GPOrdinalRegressor`",
    "pairs": "comparisons: `GPPLClassifier`",
    "crowd": "comparisons by users: `CrowdGPPL`",
    "groups": "items in groups: `GPPLRegressor` with `qid`",
    "ratings": "ratings: `GibbsM3F`",
    "sparse": "sparse rows: `OneHotDesign`, `VariationalFMClassifier`",
}


@dataclass(frozen=True)
class Reason:
    """Why a tool does not work with a kind of X, and the error that says so."""

    text: str
    error: str  # a pattern


NUMBERS = Reason(
    "Only for classes; here y is numbers.",
    "Got 'continuous' instead|Unknown label type|object implementing 'fit' and 'predict_proba'|be a binary classifier"
    "|(no|none of the following) attributes?:? .*predict_proba|[Ii]nput variables with inconsistent numbers of samples",
)
CLASSES = Reason("Only for numbers; here y is classes.", "Unknown label type: continuous|labels must be 0 or 1")
TWO_CLASSES = Reason("Only for two classes.", "Only binary classification is supported|Expected 'estimator' to be a")
IMPORTANCE = Reason(
    "Columns of ids have no importance, and none can be left out.",
    "should have `coef_`|could not convert string to float",
)
NUMERIC = Reason("It takes numbers only: number the ids.", "could not convert string to float")
POSITIONS = Reason(
    "It makes an array of the frame: name columns by position, `left=0, right=1`.", "whose columns have no names: pass"
)
DENSE = Reason("It takes dense X only.", "must be an array-like|shape mismatch")
NO_NAMES = Reason("Sparse rows have no names of columns.", "`set_output` is not available|no attribute 'feature_names_")
NO_PARTIAL_FIT = Reason("The estimator has no `partial_fit`.", "partial_fit")
QID_LAST = Reason("It passes `qid` to the last model, too.", r"unexpected argument\(s\) {'qid'}")
NO_QID = Reason("It does not pass `qid` on.", "unexpected keyword argument 'qid'")

REGRESSORS = dict.fromkeys(("numbers", "groups"), NUMBERS)
OF_IDS = ("pairs", "crowd", "ratings")


# --------------------------------------------------------------------------------------------------------------- tools
@dataclass(frozen=True)
class Tool:
    """A tool of scikit-learn, and the kinds of X with which it does not work."""

    run: Callable[[Kind], None]
    unless: dict[str, Reason]


TOOLS = {}


def tool(name, **unless):
    def add(run):
        TOOLS[name] = Tool(run, unless)
        return run

    return add


def run(name, kind):
    """Run a tool; where `fit` needs further arguments, they are routed."""
    with sklearn.config_context(enable_metadata_routing=bool(kind.fit)):
        TOOLS[name].run(kind)


def finite(values):
    array = np.asarray(values, dtype=float)
    assert array.size
    assert np.all(np.isfinite(array))


def scores(kind, model=None, params=None, **options):
    given = {**kind.fit, **(params or {})} or None
    found = cross_val_score(
        model or kind.model, kind.X, kind.y, params=given, error_score="raise", **{"cv": FOLDS, **options}
    )
    finite(found)
    return found


def part(X, columns):
    return X.iloc[:, columns] if hasattr(X, "iloc") else X[:, columns]


def first(X):
    return part(X, [0])


def others(X):
    return part(X, slice(1, None))


@tool("`clone`")
def _(kind):
    model = kind.fitted()
    kind.same(clone(model).fit(kind.X, kind.y, **kind.fit), model)


@tool("`Pipeline`")
def _(kind):
    pipe = make_pipeline(clone(kind.before), clone(kind.model)).fit(kind.rows, kind.y, **kind.fit)
    X = clone(kind.before).fit_transform(kind.rows)
    alone = clone(kind.model).fit(X, kind.y, **kind.fit)
    np.testing.assert_array_equal(kind.answers(pipe, kind.rows), kind.answers(alone, X))


@tool("`ColumnTransformer`")
def _(kind):
    columns = ColumnTransformer([("first", "passthrough", [0]), ("others", "passthrough", slice(1, None))])
    columns.set_params(verbose_feature_names_out=False)
    columns.set_output(transform="pandas" if hasattr(kind.X, "iloc") else "default")
    kind.same(make_pipeline(columns, clone(kind.model)).fit(kind.X, kind.y, **kind.fit))


@tool("`FeatureUnion`")
def _(kind):
    parts = [("first", FunctionTransformer(first)), ("others", FunctionTransformer(others))]
    union = FeatureUnion(parts, verbose_feature_names_out=False)
    union.set_output(transform="pandas" if hasattr(kind.X, "iloc") else "default")
    kind.same(make_pipeline(union, clone(kind.model)).fit(kind.X, kind.y, **kind.fit))


def names_arrive(kind, pipe):
    pipe.fit(kind.rows, kind.y, **kind.fit)
    assert pipe[-1].feature_names_in_.tolist() == pipe[:-1].get_feature_names_out().tolist()


@tool('`set_output(transform="pandas")`', sparse=NO_NAMES)
def _(kind):
    names_arrive(kind, make_pipeline(clone(kind.before), clone(kind.model)).set_output(transform="pandas"))


@tool('`set_config(transform_output="pandas")`')
def _(kind):
    with sklearn.config_context(transform_output="pandas"):
        pipe = make_pipeline(clone(kind.before), clone(kind.model)).fit(kind.rows, kind.y, **kind.fit)
    X = clone(kind.before).fit_transform(kind.rows)
    alone = clone(kind.model).fit(X, kind.y, **kind.fit)
    np.testing.assert_array_equal(kind.answers(pipe, kind.rows), kind.answers(alone, X))


@tool("`feature_names_in_`", sparse=NO_NAMES)
def _(kind):
    assert kind.fitted().feature_names_in_.tolist() == kind.X.columns.tolist()


@tool("`get_feature_names_out` before the model")
def _(kind):
    pipe = make_pipeline(clone(kind.before), clone(kind.model)).fit(kind.rows, kind.y, **kind.fit)
    assert len(pipe[:-1].get_feature_names_out()) == kind.X.shape[1]


@tool("`cross_val_score`")
def _(kind):
    scores(kind)


@tool("`cross_validate`")
def _(kind):
    options = {"cv": FOLDS, "params": kind.fit or None, "return_train_score": True, "error_score": "raise"}
    found = cross_validate(kind.model, kind.X, kind.y, **options)
    finite([found["test_score"], found["train_score"]])


@tool("`cross_val_predict`")
def _(kind):
    found = cross_val_predict(kind.model, kind.X, kind.y, cv=FOLDS, method=kind.method, params=kind.fit or None)
    rows = kind.X.iloc if hasattr(kind.X, "iloc") else kind.X
    for train, test in FOLDS.split(kind.y):
        given = {name: value[train] for name, value in kind.fit.items()}
        model = clone(kind.model).fit(rows[train], kind.y[train], **given)
        np.testing.assert_array_equal(found[test], kind.answers(model, rows[test]))


@tool("`GroupKFold`")
def _(kind):
    groups = {"params": {"groups": kind.groups}} if kind.fit else {"groups": kind.groups}
    scores(kind, cv=GroupKFold(2), **groups)


@tool("`StratifiedKFold`", **REGRESSORS)
def _(kind):
    scores(kind, cv=StratifiedKFold(2))


@tool("`TimeSeriesSplit`")
def _(kind):
    scores(kind, cv=TimeSeriesSplit(2))


def searched(kind, search):
    search.fit(kind.X, kind.y, **kind.fit)
    finite(search.cv_results_["mean_test_score"])
    best = clone(kind.model).set_params(**search.best_params_).fit(kind.X, kind.y, **kind.fit)
    kind.same(search, best)


@tool("`GridSearchCV`")
def _(kind):
    searched(kind, GridSearchCV(kind.model, dict([kind.search]), cv=FOLDS, error_score="raise"))


@tool("`RandomizedSearchCV`")
def _(kind):
    options = {"cv": FOLDS, "n_iter": 2, "random_state": 0, "error_score": "raise"}
    searched(kind, RandomizedSearchCV(kind.model, dict([kind.search]), **options))


@tool("`HalvingGridSearchCV`")
def _(kind):
    options = {"cv": 2, "factor": 2, "min_resources": 24, "random_state": 0, "error_score": "raise"}
    searched(kind, HalvingGridSearchCV(kind.model, dict([kind.search]), **options))


def learnt(kind, **options):
    sizes = {"train_sizes": [0.6, 1.0], "cv": FOLDS, "params": kind.fit or None, "error_score": "raise"}
    _, *found = learning_curve(kind.model, kind.X, kind.y, **sizes, **options)
    finite(found)


@tool("`learning_curve`")
def _(kind):
    learnt(kind)


@tool("`learning_curve(exploit_incremental_learning=True)`", groups=NO_PARTIAL_FIT)
def _(kind):
    learnt(kind, exploit_incremental_learning=True)


@tool("`validation_curve`")
def _(kind):
    options = {"cv": FOLDS, "params": kind.fit or None, "error_score": "raise"}
    name, values = kind.search
    finite(validation_curve(kind.model, kind.X, kind.y, param_name=name, param_range=values, **options))


@tool("`permutation_test_score`")
def _(kind):
    options = {"cv": FOLDS, "params": kind.fit or None, "n_permutations": 2, "random_state": 0}
    score, permuted, _ = permutation_test_score(kind.model, kind.X, kind.y, **options)
    finite([score, *permuted])


@tool("`permutation_importance`", sparse=DENSE)
def _(kind):
    found = permutation_importance(kind.fitted(), kind.X, kind.y, n_repeats=3, random_state=0)
    finite(found.importances)
    assert found.importances_mean.max() > 0.0


@tool("`partial_dependence`", sparse=DENSE)
def _(kind):
    ids = {"categorical_features": [1]} if kind.ids else {}
    found = partial_dependence(kind.fitted(), kind.X, [1], grid_resolution=4, **ids)
    finite(found["average"])
    assert np.ptp(found["average"]) > 0.0


@tool("`PartialDependenceDisplay`", sparse=DENSE)
def _(kind):
    options = {"categorical_features": [1]} if kind.ids else {}
    options |= {"target": kind.y[0]} if np.unique(kind.y).size == 3 else {}
    drawn(PartialDependenceDisplay.from_estimator(kind.fitted(), kind.X, [1], **options))


def drawn(display):
    from matplotlib import pyplot as plt

    assert display.figure_.axes
    plt.close(display.figure_)


@tool("`SelectFromModel`", **dict.fromkeys(OF_IDS, IMPORTANCE))
def _(kind):
    select = SelectFromModel(clone(kind.model), threshold=-np.inf, max_features=1)
    X = select.fit(kind.X, kind.y, **kind.fit).transform(kind.X)
    finite(kind.answers(clone(kind.model).fit(X, kind.y, **kind.fit), X))
    assert np.flatnonzero(select.get_support()).tolist() == [np.argmax(kind.fitted().feature_importances_)]


@tool("`RFE`", **dict.fromkeys(OF_IDS, IMPORTANCE))
def _(kind):
    select = RFE(clone(kind.model), n_features_to_select=2, step=0.5).fit(kind.X, kind.y, **kind.fit)
    assert select.get_support().sum() == 2
    finite(kind.answers(select))


@tool("`SequentialFeatureSelector`", **dict.fromkeys(OF_IDS, IMPORTANCE))
def _(kind):
    cut = part(kind.X, slice(0, 3))
    select = SequentialFeatureSelector(clone(kind.model), n_features_to_select=1, cv=FOLDS)
    assert select.fit(cut, kind.y, **kind.fit).get_support().sum() == 1


@tool("`BaggingClassifier`, `BaggingRegressor`", pairs=POSITIONS)
def _(kind):
    bag = (BaggingClassifier if kind.classes else BaggingRegressor)(clone(kind.model), n_estimators=2, random_state=0)
    finite(kind.answers(bag.fit(kind.X, kind.y, **kind.fit)))


@tool("`VotingClassifier`, `VotingRegressor`")
def _(kind):
    name, (low, high) = kind.search
    models = [(key, clone(kind.model).set_params(**{name: value})) for key, value in (("low", low), ("high", high))]
    vote = VotingClassifier(models, voting="soft") if kind.classes else VotingRegressor(models)
    vote.fit(kind.X, kind.y, **kind.fit)
    alone = [kind.answers(model.fit(kind.X, kind.y, **kind.fit)) for _, model in models]
    np.testing.assert_allclose(kind.answers(vote), np.mean(alone, axis=0))


@tool("`StackingClassifier`, `StackingRegressor`", groups=QID_LAST)
def _(kind):
    stack = (StackingClassifier if kind.classes else StackingRegressor)([("one", clone(kind.model))], cv=2)
    finite(kind.answers(stack.fit(kind.X, kind.y, **kind.fit)))


@tool("`AdaBoostClassifier`, `AdaBoostRegressor`", pairs=POSITIONS, groups=NO_QID)
def _(kind):
    boost = (AdaBoostClassifier if kind.classes else AdaBoostRegressor)(
        clone(kind.model), n_estimators=2, random_state=0
    )
    finite(kind.answers(boost.fit(kind.X, kind.y, **kind.fit)))


@tool("`CalibratedClassifierCV`", **REGRESSORS)
def _(kind):
    model = CalibratedClassifierCV(clone(kind.model), cv=2).fit(kind.X, kind.y, **kind.fit)
    np.testing.assert_allclose(model.predict_proba(kind.X).sum(axis=1), 1.0)


@tool("`TunedThresholdClassifierCV`", **REGRESSORS, grades=TWO_CLASSES, ratings=TWO_CLASSES)
def _(kind):
    model = TunedThresholdClassifierCV(clone(kind.model), cv=2).fit(kind.X, kind.y, **kind.fit)
    finite([model.best_threshold_, model.best_score_])


@tool("`OneVsRestClassifier`", **REGRESSORS)
def _(kind):
    model = OneVsRestClassifier(clone(kind.model)).fit(kind.X, kind.y, **kind.fit)
    np.testing.assert_allclose(model.predict_proba(kind.X).sum(axis=1), 1.0)


@tool("`MultiOutputClassifier`, `MultiOutputRegressor`")
def _(kind):
    both = (MultiOutputClassifier if kind.classes else MultiOutputRegressor)(clone(kind.model))
    found = both.fit(kind.X, np.column_stack([kind.y, kind.y]), **kind.fit).predict(kind.X)
    np.testing.assert_array_equal(found[:, 1], kind.fitted().predict(kind.X))


@tool("`TransformedTargetRegressor`", **dict.fromkeys(("classes", "pairs", "crowd", "sparse"), CLASSES))
def _(kind):
    model = TransformedTargetRegressor(clone(kind.model), transformer=StandardScaler())
    finite(model.fit(kind.X, kind.y, **kind.fit).predict(kind.X))


@tool("`FrozenEstimator`")
def _(kind):
    model = kind.fitted()
    kind.same(FrozenEstimator(model).fit(kind.X, kind.y), model)


@tool("`SelfTrainingClassifier`", **REGRESSORS, **dict.fromkeys(OF_IDS, NUMERIC))
def _(kind):
    y = np.where(np.arange(kind.y.size) % 3, kind.y, -1)
    finite(kind.answers(SelfTrainingClassifier(clone(kind.model)).fit(kind.X, y, **kind.fit)))


@tool("`sample_weight` by metadata routing")
def _(kind):
    with sklearn.config_context(enable_metadata_routing=True):
        asked = clone(kind.model).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        weight = np.arange(kind.y.size) % 2 + 0.5
        assert np.any(scores(kind, asked, {"sample_weight": weight}) != scores(kind))


@tool('`scoring="neg_log_loss"`', **REGRESSORS)
def _(kind):
    scores(kind, scoring="neg_log_loss")


@tool('`scoring="roc_auc"`', **REGRESSORS)
def _(kind):
    scores(kind, scoring="roc_auc" if np.unique(kind.y).size != 3 else "roc_auc_ovr")


@tool("`RocCurveDisplay`", **REGRESSORS, grades=TWO_CLASSES, ratings=TWO_CLASSES)
def _(kind):
    drawn(RocCurveDisplay.from_estimator(kind.fitted(), kind.X, kind.y))


@tool("`ConfusionMatrixDisplay`, `PredictionErrorDisplay`")
def _(kind):
    display = ConfusionMatrixDisplay if kind.classes else PredictionErrorDisplay
    drawn(display.from_estimator(kind.fitted(), kind.X, kind.y))


@tool("callbacks: `ProgressBar`")
def _(kind):
    pytest.importorskip("rich")
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn 1.8 has no callbacks")
    kind.same(clone(kind.model).set_callbacks(callback.ProgressBar()).fit(kind.X, kind.y, **kind.fit))


@tool("`n_jobs=2`")
def _(kind):
    np.testing.assert_array_equal(scores(kind, n_jobs=2), scores(kind))


@tool("`partial_fit`", groups=NO_PARTIAL_FIT)
def _(kind):
    model = clone(kind.model)
    rows = kind.X.iloc if hasattr(kind.X, "iloc") else kind.X
    named = "classes" in inspect.signature(model.partial_fit).parameters
    classes = {"classes": np.unique(kind.y)} if named else {}
    for begin, end in ((0, 30), (30, None)):
        given = {name: value[begin:end] for name, value in kind.fit.items()}
        model.partial_fit(rows[begin:end], kind.y[begin:end], **given, **classes)
    finite(kind.answers(model))


@tool("`pickle`")
def _(kind):
    model = kind.fitted()
    kind.same(pickle.loads(pickle.dumps(model)), model)


@tool("`joblib.dump`")
def _(kind):
    model = kind.fitted()
    with tempfile.TemporaryDirectory() as folder:
        joblib.dump(model, Path(folder) / "model")
        kind.same(joblib.load(Path(folder) / "model"), model)


@tool("`skpref.save` of a Pipeline")
def _(kind):
    pipe = make_pipeline(clone(kind.before), clone(kind.model)).fit(kind.rows, kind.y, **kind.fit)
    with tempfile.TemporaryDirectory() as folder:
        skpref.save(pipe, Path(folder) / "model")
        again = skpref.load(Path(folder) / "model")
    np.testing.assert_array_equal(kind.answers(again, kind.rows), kind.answers(pipe, kind.rows))


@tool("HTML in notebooks")
def _(kind):
    assert type(kind.model).__name__ in estimator_html_repr(kind.fitted())


# --------------------------------------------------------------------------------------------------------------- table
def table():
    """Return the table of the guide: a row for each tool, a column for each kind of X, and the reasons below."""
    reasons = list(dict.fromkeys(reason for tool in TOOLS.values() for reason in tool.unless.values()))
    rows = [["tool", *TITLES.values()]]
    for name, tool in TOOLS.items():
        cells = [f"no ({reasons.index(tool.unless[kind]) + 1})" if kind in tool.unless else "yes" for kind in TITLES]
        rows.append([name, *cells])
    lines = [".. Written by python -m tests.sklearn.tools", "", ".. list-table::", "   :header-rows: 1", ""]
    for row in rows:
        lines += [f"   {'*' if column == 0 else ' '} - {cell}" for column, cell in enumerate(row)]
    lines += ["", *(f"{number}. {reason.text}" for number, reason in enumerate(reasons, 1)), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    TABLE.write_text(table(), "utf-8")
