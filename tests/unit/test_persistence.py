"""Files of models: what comes back is what was saved, and nothing else gets in."""

import copy
import importlib
import os
import resource
import warnings
from functools import cache

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 - makes IterativeImputer known
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.feature_selection import f_regression
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, SplineTransformer, StandardScaler

import skpref
from skpref import (
    LBFGS,
    SVI,
    BayesianGPLVM,
    CrowdGPPL,
    FactorPrior,
    GibbsIPM3F,
    GibbsM3F,
    GPOrdinalRegressor,
    GPPLClassifier,
    GPPLRegressor,
    OneHotDesign,
    SVGPClassifier,
    SVGPRegressor,
    Table,
    VariationalFM,
    VariationalFMClassifier,
    VariationalFMOrdinal,
    kernels,
    persistence,
)
from skpref.exceptions import DataError
from skpref.gp.pairwise import fit as pair_fit
from skpref.likelihoods import PairwiseLogit
from skpref.persistence import columns_of, load, save, save_with_columns, saved_classes
from tests.policies import set_policy

pytestmark = pytest.mark.filterwarnings("ignore:The kernel has the same scale")  # relevance_ of any kernel is compared


RNG = np.random.default_rng(0)
N = 18
X = RNG.normal(size=(N, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=N)
LEVELS = np.digitize(X[:, 0], [-0.5, 0.5])
COUNTS = RNG.poisson(3.0, N)
CSR = sparse.csr_array(np.where(np.abs(X) > 0.4, X, 0.0))
PAIRS = np.array([(i, j) for i in range(12) for j in range(i) if (i + j) % 3])
WON = (X[PAIRS[:, 0], 0] > X[PAIRS[:, 1], 0]).astype(float)
NAMES = np.array([f"item {i}" for i in range(12)], dtype=object)
MIXED = np.array([7, "seven", b"7", 2**70, "", "x" * 300, *range(20, 26)], dtype=object)
USERS = RNG.normal(size=(7, 3))
PEOPLE = np.array([f"user {u}" for u in range(7)], dtype=object)
TRIPLES = np.array([(u, *RNG.choice(9, 2, replace=False)) for u in range(7) for _ in range(20)])
SIGNS = np.array([(-1.0) ** np.arange(7), (-1.0) ** (np.arange(7) // 2)]).T
TASTE = np.sum(SIGNS[TRIPLES[:, 0]] * (X[TRIPLES[:, 1], :2] - X[TRIPLES[:, 2], :2]), axis=1)
LIKED = (TASTE + 0.3 * RNG.normal(size=TASTE.size) > 0.0).astype(float)
RATED = np.argwhere(RNG.random((14, 9)) < 0.6)
RATING = RNG.integers(1, 4, len(RATED))
WORDS = np.array(["bad", "fair", "good"], dtype=object)
DESIGN = OneHotDesign().fit(RATED).transform(RATED)
KERNEL = ConstantKernel(1.0) * RBF([1.0, 2.0, 3.0])
CHAIN = {"max_iter": 8, "burn_in": 3, "n_samples": 4, "random_state": 0}
EPOCHS = {"n_factors": 2, "max_iter": 6, "random_state": 0}


class Frame:  # neither an array nor a Table, as a data frame is
    def __init__(self, values):
        self.values, self.iloc, self.ndim = values, values, 2
        self.columns = ["a", "b", "c"][: values.shape[1]]

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)

    def __len__(self):
        return len(self.values)


class Case:
    """A model, data to fit it, and rows to predict; the same data are learnt from again after loading."""

    def __init__(self, model, X, y=None, rows=None):
        self.model, self.X, self.y, self.rows = model, X, y, X if rows is None else rows

    def fitted(self):
        return quiet(clone(self.model).fit, self.X, self.y)


def quiet(function, *data, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*data, **more)


def pairs(items=None, names=None, **params):
    model = GPPLClassifier(items, random_state=0, max_iter=5, **params)
    return Case(model, PAIRS if names is None else names[PAIRS], WON)


def crowd(items=None, users=None, *, named=False, y=LIKED, more=(), **params):
    ids = TRIPLES.T if not named else [PEOPLE[TRIPLES[:, 0]], NAMES[TRIPLES[:, 1]], NAMES[TRIPLES[:, 2]]]
    params = {"n_factors": 2, "random_state": 0, "max_iter": 8, "optimizer": None} | params
    params |= {"user": 0, "left": 1, "right": 2} if more else {}
    return Case(CrowdGPPL(items, users, **params), np.column_stack([*ids, *more]), y)


def ordinal(rows=X, labels=LEVELS, **params):
    return Case(GPOrdinalRegressor(**{"random_state": 0, "optimizer": None} | params), rows, labels)


def svgp(y=Y, rows=X, **params):
    return Case(SVGPRegressor(**{"kernel": KERNEL, "inducing": 6, "tol": 1.0, "random_state": 0} | params), rows, y)


def classes(y, **params):
    return Case(SVGPClassifier(**{"kernel": KERNEL, "inducing": 6, "optimizer": None, "tol": 1.0} | params), X, y)


def ratings(model, rows=RATED, y=RATING):
    return Case(model.set_params(**CHAIN), rows, y)


TABLE, TABLE9, TABLE_OF_USERS = Table(X[:12], NAMES), Table(X[:9, :2], NAMES[:9]), Table(USERS, PEOPLE)
TEXTS = np.array([["red apple"], ["green pear"], ["red pear"], ["sour green apple"]] * 5, dtype=object)
MESSY = np.column_stack([X[:, 0], np.where(X[:, 1] > 1.0, np.nan, X[:, 1]), COUNTS])
COLUMNS = ColumnTransformer(
    [
        ("scale", make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), [0, 1]),
        ("kind", OneHotEncoder(), [2]),
    ]
)
RIDGE = SVGPRegressor(kernel=kernels.Linear(), inducing=4, optimizer=None, tol=1.0, random_state=0)
CASES = {
    "pairs": pairs(),
    "pairs, text": pairs(names=NAMES),
    "pairs, mixed ids": pairs(names=MIXED),
    "pairs, table": pairs(TABLE, NAMES),
    "pairs, few points": pairs(TABLE, NAMES, inducing=5),
    "pairs, array": pairs(X[:12], item_effects=False, likelihood="logit"),
    "pairs, frame": pairs(Frame(X[:12])),
    "pairs, sparse": pairs(Table(CSR[:12]), likelihood=PairwiseLogit()),
    "pairs, order effect": pairs(X[:12], order_effect=True, kernel=kernels.AdditiveMatern(nu=2.5)),
    "pairs, columns": pairs(X[:12], kernel=kernels.Columns(RBF(), slice(0, 2)) + kernels.Columns(RBF(), [2])),
    "pairs, ties": pairs(likelihood="probit-ties"),
    "pairs, svi": pairs(X[:12], inference=SVI(16)),
    "pairs, laplace": pairs(X[:12], inference="laplace"),
    "pairs, covariates": Case(
        GPPLClassifier(left=0, right=1, covariates=[2], max_iter=5),
        np.column_stack([PAIRS, np.arange(len(PAIRS)) % 3 - 1]),
        WON,
    ),
    "ranks": Case(GPPLRegressor(random_state=0, max_iter=5), X, X[:, 0]),
    "ranks, sparse": Case(GPPLRegressor(kernels.ProductMatern(nu=np.inf), random_state=0, max_iter=5), CSR, X[:, 0]),
    "ranks, sums": Case(
        GPPLRegressor(ConstantKernel(2.0) * Matern(nu=np.inf) + WhiteKernel(0.1), inducing=6, max_iter=5), X, X[:, 0]
    ),
    "ranks, powers": Case(GPPLRegressor(DotProduct() ** 2 + kernels.Identity(), max_iter=5), X, X[:, 0]),
    "crowd": crowd(),
    "crowd, text": crowd(named=True),
    "crowd, items": crowd(TABLE9, named=True),
    "crowd, users": crowd(None, TABLE_OF_USERS, named=True),
    "crowd, both": crowd(TABLE9, TABLE_OF_USERS, named=True, order_effect=True),
    "crowd, factorised": crowd(TABLE9, TABLE_OF_USERS, named=True, order_effect=True, inference="vb"),
    "crowd, factorised ids": crowd(inference="vb"),
    "crowd, kernel of users": crowd(None, TABLE_OF_USERS, named=True, factor_prior=FactorPrior(user_kernel=RBF(2.0))),
    "crowd, few points": crowd(X[:9], USERS, inducing=4),
    "crowd, frames": crowd(Frame(X[:9, :2]), Frame(USERS), item_effects=False),
    "crowd, sparse": crowd(None, sparse.csr_array(np.where(np.abs(USERS) > 0.3, USERS, 0.0))),
    "crowd, order effect": crowd(order_effect=True),
    "crowd, ties": crowd(y=np.where(np.arange(LIKED.size) % 7, LIKED, 0.5), likelihood="probit-ties"),
    "crowd, grades": crowd(y=np.arange(LIKED.size) % 5 - 2.0, likelihood="logit-graded"),
    "crowd, factors dropped": crowd(n_factors=6, max_iter=60),
    "crowd, no factors": crowd(X[:9], USERS, n_factors=0),
    "crowd, no consensus": crowd(consensus=False, order_effect=True),
    "crowd, svi": crowd(inference=SVI(40)),
    "crowd, groups and covariates": crowd(
        more=[TRIPLES[:, 1] % 2, SIGNS[TRIPLES[:, 0], 0]], groups=[3], covariates=[4]
    ),
    "crowd, time": crowd(more=[np.arange(len(TRIPLES)) // 20], time=3),
    "ordinal": ordinal(),
    "ordinal, learnt": ordinal(optimizer=LBFGS(0)),
    "ordinal, words": ordinal(labels=WORDS[LEVELS], inference="laplace", class_order=WORDS),
    "ordinal, a level missing": ordinal(labels=LEVELS + 0.0, class_order=[-1.0, 0.0, 1.0, 2.0]),
    "ordinal, given covariance": ordinal(RBF(1.3)(X), kernel="precomputed"),
    "ordinal, sparse": ordinal(CSR, kernel=kernels.Linear([1.0, 0.5, 2.0])),
    "ordinal, vb": ordinal(inference="vb", inducing=5, kernel=ConstantKernel(2.0) * RBF(1.0) + kernels.Linear()),
    "ordinal, svi": ordinal(CSR, inference=SVI(5), inducing=6, max_iter=4),
    "ordinal, auto": ordinal(kernel="auto", optimizer="l-bfgs-b"),
    "svgp": svgp(),
    "svgp, given points": svgp(inducing=X[:4]),
    "svgp, sparse": svgp(rows=CSR, learn_inducing=False),
    "svgp, svi": svgp(inference=SVI(10), optimizer=None),
    "svgp, counts": svgp(COUNTS, likelihood="poisson", optimizer=None),
    "svgp, counts that vary more": svgp(COUNTS, likelihood="negative-binomial", optimizer=None),
    "svgp, heavy tails": svgp(likelihood="student-t", optimizer=None),
    "classes, two": classes(np.where(Y > 0, "up", "down")),
    "classes, three": classes(COUNTS % 3, likelihood="logit", multi_class="one_vs_rest"),
    "classes, softmax": classes(COUNTS % 3),
    "latent": Case(BayesianGPLVM(2, inducing=6, max_iter=20, warm_start=True, random_state=0), X),
    "m3f": ratings(GibbsM3F(n_factors=3)),
    "m3f, words": ratings(
        GibbsM3F(n_factors=3, levels=WORDS.tolist()), PEOPLE[RATED % 7], WORDS[RATED.sum(axis=1) % 1]
    ),
    "m3f, chains": ratings(GibbsM3F(n_factors=3, user_thresholds=False, n_chains=3, dtype="float32")),
    "ipm3f": ratings(GibbsIPM3F(C=0.3)),
    "ipm3f, chains": ratings(GibbsIPM3F(C=0.3, n_chains=2, levels=[1, 2, 3, 4])),
    "ipm3f, no features": ratings(GibbsIPM3F(alpha=1e-12, C=0.0)),
    "machine": Case(VariationalFM(**EPOCHS), DESIGN, RATING * 1.0),
    "machine, groups": Case(VariationalFM(**EPOCHS, groups=["user"] * 15 + ["item"] * 10), DESIGN, RATING * 1.0),
    "machine, stopped early": Case(VariationalFM(**EPOCHS, early_stopping=True), DESIGN, RATING * 1.0),
    "machine, mini-batches": Case(VariationalFM(**EPOCHS, batch_size=8), DESIGN, RATING * 1.0),
    "machine, ordered levels": Case(VariationalFMOrdinal(**EPOCHS), DESIGN, RATING),
    "machine, drawn levels": Case(
        VariationalFMOrdinal(**EPOCHS | {"max_iter": 6}, inference="gibbs", burn_in=2), DESIGN, RATING
    ),
    "machine, words": Case(
        VariationalFMClassifier(**EPOCHS, link="logit"), DESIGN, np.array(["no", "yes"])[RATING % 2]
    ),
    "machine, design": Case(make_pipeline(OneHotDesign(implicit=True), VariationalFM(**EPOCHS)), RATED, RATING * 1.0),
    "pipe, columns": Case(make_pipeline(COLUMNS, RIDGE), MESSY, Y),
    "pipe, filled": Case(
        make_pipeline(IterativeImputer(max_iter=1, random_state=0), SplineTransformer(3), RIDGE),
        np.c_[np.where(CSR.toarray() == 0.0, np.nan, X), np.ones(N)],  # the splines of a constant have one knot
        Y,
    ),
    "pipe, reduced": Case(
        Pipeline([("both", FeatureUnion([("pca", PCA(2)), ("svd", TruncatedSVD(1))])), ("last", RIDGE)]), X, Y
    ),
    "pipe, texts": Case(
        make_pipeline(ColumnTransformer([("words", TfidfVectorizer(max_features=4), 0)]), RIDGE), TEXTS, np.arange(20.0)
    ),
}


@cache
def fitted(name):
    return CASES[name].fitted()


def dense(value):
    return value.toarray() if sparse.issparse(value) else value


def outputs(model, rows):
    """Everything that a model predicts, and what it reports."""
    answers = []
    for name, options in (
        ("predict", {}),
        ("predict_proba", {}),
        ("predict_latent", {"return_std": True}),
        ("predict_score", {"return_std": True}),
        ("latent_mean_and_variance", {}),
        ("transform", {}),
    ):
        if hasattr(model, name) and not (name == "transform" and hasattr(model, "predict")):
            answer = getattr(model, name)(rows, **options)
            answers += answer if isinstance(answer, tuple) else [answer]
    if hasattr(model, "utility"):
        who = {"users": model.user_ids_} if hasattr(model, "user_ids_") else {}
        answers += [*model.utility(return_std=True, **who), *model.rank(n_samples=30).columns().values()]
    if hasattr(model, "similar_users"):
        answers += [*model.similar_users(model.user_ids_[0]), *model.similar_items(model.item_ids_[0])]
    answers += [getattr(model, name) for name in ("risks_", "lower_bounds_", "relevance_") if hasattr(model, name)]
    return [dense(answer) for answer in answers]


def assert_equal(after, before):
    for got, wanted in zip(after, before, strict=True):
        assert np.array_equal(got, wanted, equal_nan=np.asarray(wanted).dtype.kind == "f")


# ---------------------------------------------------------------------------------------------------------- round trips
@pytest.mark.parametrize("name", CASES)
def test_predictions_and_files_are_equal_to_the_bit_and_learning_resumes(name, tmp_path):
    before, case = fitted(name), CASES[name]
    save(before, tmp_path / "a")
    after = load(tmp_path / "a")
    assert type(after) is type(before)
    assert vars(after).keys() == vars(before).keys()
    assert_equal(outputs(after, case.rows), outputs(before, case.rows))
    save(after, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    models = after, copy.deepcopy(before)
    for model in models:
        updates = getattr(model, "kernel", None) != "precomputed" and getattr(model, "inference", None) != "gibbs"
        if hasattr(model, "partial_fit") and updates:
            params = {"duplicates": "last"} if hasattr(model, "duplicates") else {}
            quiet(model.set_params(**params).partial_fit, case.X[:9], None if case.y is None else case.y[:9])
        elif "warm_start" in model.get_params():
            quiet(model.set_params(warm_start=True).fit, case.X, case.y)
    # A file leaves out what blocks derive from their parts, and what is derived anew differs in the last bit.
    for loaded, kept in zip(*(outputs(model, case.rows) for model in models), strict=True):
        if np.asarray(kept).dtype.kind == "f":
            np.testing.assert_allclose(loaded, kept, rtol=1e-6, atol=1e-6)


def test_a_chain_resumes_where_the_uninterrupted_one_would_be(tmp_path):
    for name in ("m3f", "ipm3f"):
        save(fitted(name), tmp_path / "m")
        after = load(tmp_path / "m").set_params(warm_start=True, max_iter=12).fit(RATED, RATING)
        whole = clone(CASES[name].model).set_params(max_iter=20).fit(RATED, RATING)
        assert np.array_equal(after.risks_, whole.risks_)


def test_folded_users_and_streams_come_back(tmp_path, monkeypatch):
    model = clone(CASES["m3f"].model).fit(RATED, RATING).fold_in([(50, 0), (50, 1)], [1, 3])
    save(model, tmp_path / "m")
    assert_equal(outputs(load(tmp_path / "m"), [[50, 2]]), outputs(model, [[50, 2]]))
    set_policy(monkeypatch, "gp.sparse", sample_rows=10)  # rows become sums
    stream = quiet(clone(CASES["svgp"].model).fit(X, Y).partial_fit, X, Y)
    save(stream, tmp_path / "m")
    assert_equal(outputs(load(tmp_path / "m").partial_fit(X, Y), X), outputs(stream.partial_fit(X, Y), X))


def test_offsets_in_a_diagonal_block(monkeypatch, tmp_path):
    monkeypatch.setitem(pair_fit.PairModel.__init__.__kwdefaults__, "joint_size", 0)
    before = pairs(X[:12]).fitted()
    assert before.posterior_.offset_variance is not None
    save(before, tmp_path / "m")
    assert_equal(outputs(load(tmp_path / "m"), PAIRS), outputs(before, PAIRS))


def test_new_users_and_items_join_after_loading(tmp_path):
    save(fitted("crowd, both"), tmp_path / "m")
    model = load(tmp_path / "m")
    new = np.array([["new user", "new item", "item 0"], ["user 1", "item 2", "new item"]], dtype=object)
    more = {"items": Table(X[:1, :2] + 0.1, ["new item"]), "users": Table(USERS[:1], ["new user"])}
    quiet(model.partial_fit, new, [1, 0], **more)
    save(model, tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.items.n_items == 9  # the parameter is what it was; what was added is part of the fit
    assert_equal(outputs(again, new), outputs(model, new))


def test_tables_are_shared_and_read_as_at_the_fit(tmp_path):
    save(fitted("pairs, frame"), tmp_path / "m")
    after = load(tmp_path / "m")
    assert after.items.feature_names == ("a", "b", "c")
    assert after._items.features is after.items.features
    save(fitted("crowd, frames"), tmp_path / "m")
    after = load(tmp_path / "m")
    assert (after.items.feature_names, after.users.feature_names) == (("a", "b"), ("a", "b", "c"))
    assert after._items.vocabulary is after.items.vocabulary
    assert after._users.features is after.users.features
    assert not after._users.features.flags.writeable


@pytest.mark.parametrize("kind", ["index", "series", "string", "category", "list"])
def test_ids_of_a_data_frame_are_saved(kind, tmp_path):
    pandas = pytest.importorskip("pandas")
    names = ["a", "b", "c", "d"]
    kinds = {"index": pandas.Index, "series": pandas.Series, "list": list}
    ids = kinds[kind](names) if kind in kinds else pandas.Series(names, dtype=kind)
    model = GPPLClassifier(Table(X[:4], ids=ids), random_state=0).fit([("a", "b"), ("b", "c"), ("c", "d")])
    save(model, tmp_path / "m")
    after = load(tmp_path / "m")
    assert type(after.item_ids_) is type(model.item_ids_) is np.ndarray
    assert after.item_ids_.tolist() == names
    assert_equal(after.predict_proba([("a", "d")]), model.predict_proba([("a", "d")]))
    design = OneHotDesign(users=ids, items=ids).fit([("a", "b")])
    save(design, tmp_path / "d")
    rows = [("a", "d"), ("c", "a")]
    assert_equal(load(tmp_path / "d").transform(rows).toarray(), design.transform(rows).toarray())


UNFITTED = [
    GPPLClassifier(Table(X[:12], NAMES), kernel=RBF(length_scale_bounds="fixed"), inducing=X[:3]),
    GPOrdinalRegressor(RBF(2.0, "fixed"), class_order=["a", "b"], inducing=X[:3], inference="vb"),
    GibbsIPM3F(alpha=2.0, threshold_means=[-1.0, 1.0]),
    OneHotDesign(items=["a"]),
    make_pipeline(OneHotDesign(), VariationalFM(3)),
    CountVectorizer(),
]


def test_a_file_may_know_the_columns_of_its_table(tmp_path):
    plain, told = tmp_path / "plain.skpref", tmp_path / "told.skpref"
    model = GPPLClassifier().fit([["a", "b"], ["b", "c"]])
    save(model, plain)
    save_with_columns(model, told, {"left": "model_a", "right": "model_b"})
    assert columns_of(plain) == {}
    assert columns_of(told) == {"left": "model_a", "right": "model_b"}
    np.testing.assert_array_equal(load(told).utility(), model.utility())
    save_with_columns(model, told, {"left": 3})  # what a damaged file might say
    assert columns_of(told) == {}


@pytest.mark.parametrize("before", UNFITTED, ids=lambda model: type(model).__name__)
def test_estimators_that_are_not_fitted(before, tmp_path):
    save(before, tmp_path / "m")
    after = load(str(tmp_path / "m"))
    assert repr(after) == repr(before)
    assert vars(after).keys() == vars(before).keys()


def test_the_best_estimator_of_a_search(tmp_path):
    with config_context(enable_metadata_routing=True):
        model = svgp(optimizer=None).model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        grid = GridSearchCV(model, {"noise": [0.1, 1.0]}, cv=2)
        quiet(grid.fit, X, Y, sample_weight=np.ones(N))
        save(grid.best_estimator_, tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").predict(X), grid.predict(X))


def test_many_ids_and_factors_fit_in_a_file(tmp_path):
    n = 5_000
    ids = [[f"judge number {u:028d}" for u in range(n)], *np.tile([["a", "b"], ["b", "c"]], (n // 2, 1)).T]
    model = quiet(
        CrowdGPPL(n_factors=1, inference="vb", max_iter=1).fit, np.column_stack(ids).astype(object), np.ones(n)
    )
    save(model, tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").user_ids_, model.user_ids_)
    model = crowd(X[:9], USERS, n_factors=40, max_iter=1).fitted()  # idle ones are dropped after the first pass
    save(model, tmp_path / "m")
    assert_equal(outputs(load(tmp_path / "m"), TRIPLES), outputs(model, TRIPLES))


@pytest.mark.parametrize("name", persistence._SCIKIT_LEARN)
def test_every_listed_transformer_comes_back(name, tmp_path):
    cls = getattr(importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2])
    steps = [("a", StandardScaler())]
    given = {"ColumnTransformer": [[("a", StandardScaler(), [0])]], "FeatureUnion": [steps], "Pipeline": [steps]}
    rows = abs(X) if cls.__name__ != "KernelCenterer" else abs(X) @ abs(X).T
    if cls.__module__ == "sklearn.feature_extraction.text" and cls.__name__ != "TfidfTransformer":
        rows = np.array(["a b", "bb cc", "cc aa aa"])
    if cls.__name__ in {"DictVectorizer", "FeatureHasher"}:
        rows = [{"a": 1.0, "b": 2.0}, {"b": 1.0}]
    inner = SVGPRegressor(inducing=5, optimizer=None, random_state=0)
    around = ("RFE", "RFECV", "SelectFromModel", "SequentialFeatureSelector", "TransformedTargetRegressor")
    univariate = ("GenericUnivariateSelect", "SelectFdr", "SelectFpr", "SelectFwe", "SelectPercentile")
    sized = ("GaussianRandomProjection", "MiniBatchNMF", "NMF", "SparseRandomProjection")
    for names, value in ((around, inner), (univariate, f_regression), (sized, 2)):
        given |= {of: [value] for of in names}
    labels = rows @ [1.0, 0.1, 0.0] if cls.__module__.endswith("_univariate_selection") else Y[: len(rows)]
    before = quiet(cls(*given.get(cls.__name__, [])).fit, rows, labels)
    save(before, tmp_path / "m")
    use = "transform" if hasattr(cls, "transform") else "predict"
    assert np.array_equal(dense(getattr(load(tmp_path / "m"), use)(rows)), dense(getattr(before, use)(rows)))


def test_functions_of_numpy_that_are_listed_come_back_and_searches_name_what_to_save(tmp_path):
    target = TransformedTargetRegressor(SVGPRegressor(inducing=5, optimizer=None), func=np.log1p, inverse_func=np.expm1)
    model = make_pipeline(FunctionTransformer(np.sqrt), KNNImputer(), target)
    rows = np.where(np.arange(X.size).reshape(X.shape) % 7, X**2, np.nan)
    quiet(model.fit, rows, abs(Y))
    save(model, tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").predict(rows), model.predict(rows))
    model.steps[0] = ("lambda", FunctionTransformer(lambda table: table))
    with pytest.raises(DataError, match="cannot save a Pipeline"):
        save(model, tmp_path / "m")
    with pytest.raises(DataError, match=r"cannot save a GridSearchCV; only its best_estimator_ can be saved$"):
        save(GridSearchCV(model, {}), tmp_path / "m")


def test_a_text_of_many_words_fits_in_a_file(tmp_path):
    model = TfidfVectorizer(max_features=3000).fit([" ".join(f"word{i}" for i in range(5000))])
    save(model, tmp_path / "m")
    assert load(tmp_path / "m").vocabulary_ == model.vocabulary_


KINDS = np.array([["a", 1.0], ["b", 2.0], ["b", np.nan], ["c", 7.0]] * 4, dtype=object)


@pytest.mark.parametrize(
    "params", [{}, {"drop": "first"}, {"drop": "if_binary"}, {"min_frequency": 5}, {"max_categories": 2}]
)
@pytest.mark.parametrize("column", [[0], [1], [0, 1]])
def test_every_encoder_comes_back(params, column, tmp_path):
    rows = KINDS[:, column] if column != [1] else KINDS[:, column].astype(float)
    before = quiet(
        OneHotEncoder(handle_unknown="infrequent_if_exist", **params).set_output(transform="default").fit, rows
    )
    save(before, tmp_path / "m")
    assert np.array_equal(dense(load(tmp_path / "m").transform(rows)), dense(before.transform(rows)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_n_features_outs", [0, 0]),
        ("_n_features_outs", [-1, 4]),
        ("_n_features_outs", [3, 2**40]),
        ("_n_features_outs", None),
        ("_drop_idx_after_grouping", np.array([-9, 7], dtype=object)),
        ("_default_to_infrequent_mappings", [np.array([0, 10**9, 1]), None]),
    ],
)
def test_encoders_that_write_out_of_bounds_are_refused(name, value, tmp_path):
    encoder = OneHotEncoder(min_frequency=1).fit(KINDS)
    setattr(encoder, name, value)
    with pytest.raises(DataError, match="OneHotEncoder"):
        save(encoder, tmp_path / "m")


# --------------------------------------------------------------------------------------------------------------- saving
class Own(RBF):
    """A kernel that a file cannot name."""


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (GPPLClassifier(random_state=np.random.RandomState(0)), r"random_state: numpy.random.*RandomState is not"),
        (GPPLClassifier(kernel=Own()), "kernel: .*Own is not among"),
        (GPPLClassifier(kernel=RBF(1.0) + Own()), "kernel.k2: .*Own is not among"),
        (GPPLClassifier(inducing=np.array([[np.nan]])), "inducing: has NaN"),
        (make_pipeline(FunctionTransformer(np.sort), RIDGE), r"steps.0.1.func: numpy.*sort is not among"),
        (make_pipeline(TfidfVectorizer(tokenizer=str.split), RIDGE), "cannot save a Pipeline"),
        (make_pipeline(LogisticRegression()), "LogisticRegression is not among"),
    ],
)
def test_what_is_no_data_is_refused_by_name(model, message, tmp_path):
    with pytest.raises(DataError, match=message):
        save(model, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_only_listed_estimators_are_saved(tmp_path):
    class Derived(GPPLClassifier):
        pass

    for other in (Derived(), RBF(), {"a": 1}, LogisticRegression(), GridSearchCV(RIDGE, {})):
        with pytest.raises(DataError, match=r"only .* can be saved"):
            save(other, tmp_path / "m")
    assert set(saved_classes()) == {name for name in skpref.__all__ if hasattr(getattr(skpref, name), "fit")}
    for name, module in persistence._OBJECTS.items():
        cls = getattr(importlib.import_module(module), name.rpartition(".")[2])
        assert f"{cls.__module__}.{cls.__name__}" == name  # as skops writes it


def test_ids_of_other_kinds_are_refused(tmp_path):
    ids = [[(1, 2), (3, 4)], [(3, 4), (5, 6)], [(1, 2), (5, 6)]]
    left, right = (np.fromiter((pair[side] for pair in ids), dtype=object, count=3) for side in (0, 1))
    model = quiet(GPPLClassifier(max_iter=2).fit, np.column_stack([left, right]), [1, 1, 1])
    with pytest.raises(DataError, match="only columns of integers, strings and bytes"):
        save(model, tmp_path / "m")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such folder; make it first: '.*nothing'"):
        save(GPPLClassifier(), tmp_path / "nothing" / "model.skpref")


def test_a_save_to_a_full_disk_names_the_file(tmp_path):
    save(GPPLClassifier(), tmp_path / "m")
    before, (soft, hard) = (tmp_path / "m").read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            save(GPPLClassifier(), tmp_path / "m")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.filename == str(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before
    assert list(tmp_path.iterdir()) == [tmp_path / "m"]


def test_a_save_that_fails_leaves_the_earlier_file(tmp_path, monkeypatch):
    save(GPPLClassifier(), tmp_path / "m")
    before = (tmp_path / "m").read_bytes()

    def full(_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        save(fitted("pairs"), tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_loaded_model_writes_nowhere(tmp_path):
    model = make_pipeline(RIDGE, memory=str(tmp_path / "cache"))
    save(model, tmp_path / "m")
    assert load(tmp_path / "m").memory is None
    for path in (tmp_path / "run", str(tmp_path / "run")):
        for model in (GibbsM3F(checkpoint=path), GPPLClassifier(checkpoint=path), CrowdGPPL(checkpoint=path)):
            save(model, tmp_path / "m")
            assert load(tmp_path / "m").checkpoint is None
            assert model.checkpoint == path
