"""Covariates of comparisons: columns of a table, effects, predictions with and without them."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import log_expit
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skpref import SVI, Gamma, GPPLClassifier, Table, load, save
from skpref.exceptions import DataError, DataWarning
from skpref.gp.pairwise import fit as pair_fit
from tests.policies import set_policy

pd = pytest.importorskip("pandas")
NAMES = {"left": "model_a", "right": "model_b"}
COVARIATES = ["home", ("length_a", "length_b")]


def arena(n=400, seed=0, effects=(0.5, 0.01)):
    """A table of battles of 6 models, and who won."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 6, n)
    b = (a + rng.integers(1, 6, n)) % 6
    lengths, home = rng.integers(1, 200, (2, n)), rng.integers(-1, 2, n)
    z = 0.3 * (a - b) + effects[0] * home + effects[1] * (lengths[0] - lengths[1])
    names = np.array(list("uvwxyz"))
    frame = {"judge": np.arange(n), "model_b": names[b], "home": home, "model_a": names[a]}
    frame |= {"length_a": lengths[0], "length_b": lengths[1], "worth": rng.integers(1, 3, n)}
    return pd.DataFrame(frame), (rng.random(n) < 1.0 / (1.0 + np.exp(-z))).astype(int)


def swapped(X):
    """The same battles with the sides exchanged."""
    pairs = {"model_a": "model_b", "model_b": "model_a", "length_a": "length_b", "length_b": "length_a"}
    return X.rename(columns=pairs).assign(home=-X["home"])


@pytest.fixture(scope="module")
def battles():
    return arena()


@pytest.fixture(scope="module")
def model(battles):
    return GPPLClassifier(covariates=COVARIATES, likelihood="logit", **NAMES).fit(*battles)


def test_effects_are_in_the_units_of_their_columns(battles, model):
    assert model.covariate_names_.tolist() == ["home", "length_a - length_b"]
    assert (np.abs(model.coef_ - [0.5, 0.01]) < 3.5 * model.coef_std_).all()
    X, y = battles
    metres = GPPLClassifier(covariates=COVARIATES, likelihood="logit", **NAMES)
    metres.fit(X.assign(length_a=X["length_a"] / 1000, length_b=X["length_b"] / 1000), y)
    assert_allclose(metres.coef_, model.coef_ * [1.0, 1000.0], rtol=1e-9)
    assert_allclose(metres.coef_std_, model.coef_std_ * [1.0, 1000.0], rtol=1e-9)


def test_coefficients_are_those_of_penalised_regression():
    # Laplace's mode is the maximum of the log joint, here found by another program.
    X, y = arena(150)
    model = GPPLClassifier(covariates=COVARIATES, likelihood="logit", inference="laplace", tol=1e-10, **NAMES).fit(X, y)
    ids = {name: k for k, name in enumerate("uvwxyz")}
    D = np.zeros((150, 6))
    D[np.arange(150), X["model_a"].map(ids)] += 1.0
    D[np.arange(150), X["model_b"].map(ids)] -= 1.0
    C = np.column_stack([X["home"], X["length_a"] - X["length_b"]])
    C = C / np.sqrt((C**2).sum(axis=0) / (C != 0.0).sum(axis=0))
    A, scales = np.hstack([D, C]), model.posterior_.scales
    precision = np.repeat([scales["offset"].mean, scales["covariate"].mean], [6, 2])

    def loss(v):
        return -log_expit((2 * y - 1) * (A @ v)).sum() + 0.5 * precision @ v**2

    best = minimize(loss, np.zeros(8), tol=1e-12).x
    assert_allclose(model.coef_ * model.posterior_.covariate_scale, best[6:], atol=1e-4)


def test_exchanged_sides_have_the_complementary_probability(battles, model):
    X, y = battles
    left = model.predict_proba(X)[:, 1]
    assert_allclose(model.predict_proba(swapped(X))[:, 1], 1.0 - left, atol=1e-12)
    mean, variance = model.latent_mean_and_variance(X)
    other = model.latent_mean_and_variance(swapped(X))
    assert_allclose(other[0], -mean, atol=1e-12)
    assert_allclose(other[1], variance, atol=1e-12)
    again = clone(model).fit(swapped(X), 1 - y)
    assert_allclose(again.coef_, model.coef_, rtol=1e-9)


def test_rows_of_ids_alone_are_predicted_at_zero_covariates(battles, model):
    X, _ = battles
    zero = X.assign(home=0, length_a=7, length_b=7)
    pairs = X[["model_a", "model_b"]]
    expected = model.predict_proba(zero)
    for rows in (pairs, X[["model_b", "model_a"]], pairs.to_numpy(), pairs.to_numpy().tolist()):
        assert_allclose(model.predict_proba(rows), expected, atol=1e-12)
    difference = model.utility(X["model_a"]) - model.utility(X["model_b"])
    assert_allclose(model.decision_function(pairs), difference, atol=1e-12)
    assert_allclose(model.predict_preference(X), model.predict_preference(pairs), atol=1e-12)
    assert model.rank().id.tolist() == list("zyxwvu")


def test_variances_are_those_of_the_joint_covariance(battles, model):
    X, _ = battles
    covariance = model.latent_covariance(X[:20])
    assert_allclose(np.diagonal(covariance), model.latent_mean_and_variance(X[:20])[1], rtol=1e-10)
    assert np.linalg.eigvalsh(covariance).min() > -1e-12


@pytest.mark.parametrize("inference", ["vb", "svi", "laplace", "linearised"])
@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("order_effect", [False, True])
def test_every_inference_learns_effects(battles, inference, features, order_effect):
    X, y = battles
    items = Table(np.arange(6.0)[:, None], ids=list("uvwxyz")) if features else None
    options = {"items": items, "inference": SVI(100) if inference == "svi" else inference, "optimizer": None}
    model = GPPLClassifier(covariates=COVARIATES, order_effect=order_effect, random_state=0, **options, **NAMES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of 20 passes
        model.set_params(max_iter=20).fit(X, y)
    assert (np.abs(model.coef_ / 0.6 - [0.5, 0.01]) < 5.0 * model.coef_std_).all()
    assert (model.order_effect_[1] > 0) == order_effect
    assert len(model.covariate_table()) == 2 + order_effect


def test_effects_stand_beside_many_items_whose_offsets_are_independent():
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 1600, (2, 6000))
    home = rng.integers(0, 2, 6000)
    keep = left != right
    X = np.column_stack([left, right, home])[keep]
    y = rng.random(len(X)) < 1.0 / (1.0 + np.exp(-0.8 * X[:, 2]))
    model = GPPLClassifier(covariates=[2], likelihood="logit").fit(X, y)
    assert model.posterior_.offset_variance is not None
    assert abs(model.coef_[0] - 0.8) < 4.0 * model.coef_std_[0]
    assert_allclose(model.latent_mean_and_variance(X[:5])[0].size, 5)


def test_a_covariate_that_is_always_zero_keeps_its_prior(battles, model):
    X, y = battles
    with pytest.warns(DataWarning, match="'judge' is 0 in every comparison: its effect has the prior's mean, 0"):
        idle = GPPLClassifier(covariates=[*COVARIATES, "judge"], likelihood="logit", **NAMES).fit(X.assign(judge=0), y)
    assert idle.coef_[2] == 0.0
    assert idle.coef_std_[2] == pytest.approx(idle.posterior_.scales["covariate"].mean ** -0.5, rel=0.01)
    assert_allclose(idle.coef_[:2], model.coef_, rtol=0.05)
    assert_allclose(idle.predict_proba(X.assign(judge=0)), model.predict_proba(X), atol=0.01)
    assert (np.abs(idle.predict_proba(X) - 0.5) <= np.abs(idle.predict_proba(X.assign(judge=0)) - 0.5)).all()


def test_a_covariate_that_is_always_one_is_an_order_effect(battles):
    X, y = battles
    with pytest.warns(DataWarning, match="'judge' is 1 in every comparison: its effect is an advantage of a side"):
        constant = GPPLClassifier(covariates=["judge"], likelihood="logit", **NAMES).fit(X.assign(judge=1), y)
    ordered = GPPLClassifier(order_effect=True, likelihood="logit", **NAMES).fit(X, y)
    assert abs(constant.coef_[0] - ordered.order_effect_[0]) < 0.5 * ordered.order_effect_[1]
    with pytest.raises(DataError, match="is 1 in every comparison, but every label says that the left item won"):
        GPPLClassifier(covariates=["judge"], **NAMES).fit(X.assign(judge=1))


@pytest.mark.parametrize("columns", [["length_a"], ("length_a", "length_b")])  # brackets forgotten
def test_a_covariate_of_one_side_alone_is_doubted(battles, columns):
    with pytest.warns(DataWarning, match="is never negative.* pass both columns as a pair") as caught:
        GPPLClassifier(covariates=columns, **NAMES).fit(*battles)
    assert len(caught) == len(columns)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X, y = battles
        GPPLClassifier(covariates=["home"], **NAMES).fit(X.assign(home=X["home"] == 1), y)  # flags are fine


@pytest.mark.filterwarnings("ignore:covariate 'home' is 0:skpref.exceptions.DataWarning")
def test_a_fold_without_values_of_a_covariate_has_a_score(battles):
    X, y = battles
    rare = X.assign(home=(np.arange(len(X)) < 3).astype(int))
    scores = cross_val_score(
        GPPLClassifier(covariates=["home"], **NAMES), rare, y, scoring="neg_log_loss", cv=KFold(4), error_score="raise"
    )
    assert np.isfinite(scores).all()


def test_later_comparisons_teach_a_covariate_that_was_zero(battles, model):
    X, y = battles
    first = X["home"] == 0
    with pytest.warns(DataWarning, match="'home' is 0 in every comparison"):
        grown = clone(model).fit(X[first], y[first])
    grown.partial_fit(X[~first], y[~first])
    assert_allclose(grown.coef_, model.coef_, rtol=0.01)


def test_predictions_need_no_weights(battles):
    X, y = battles
    weighted = GPPLClassifier(covariates=["home"], weight="worth", **NAMES).fit(X, y)
    assert_array_equal(weighted.predict_proba(X.drop(columns="worth")), weighted.predict_proba(X))
    assert_array_equal(weighted.predict_proba(X.assign(worth=-1.0)), weighted.predict_proba(X))


def test_tables_that_cannot_be_read_are_refused_in_words(battles):
    X, y = battles
    with pytest.raises(DataError, match="more than one column 'judge'; give columns different names"):
        GPPLClassifier(covariates=["home"], **NAMES).fit(pd.concat([X, X[["judge"]]], axis=1), y)
    with pytest.raises(DataError, match=r"X is a dict, .*required: try pandas.DataFrame\(X\)"):
        GPPLClassifier(covariates=["home"], **NAMES).fit({name: X[name] for name in X}, y)
    rows = np.ma.masked_equal([[0, 1, 5], [1, 2, 7], [2, 0, 6]], 7)
    with pytest.raises(DataError, match=r"X, row 1, column 2: a number is missing \(a covariate\)"):
        GPPLClassifier(covariates=[2]).fit(rows, [1, 0, 1])


def test_positions_name_columns_of_arrays_and_frames(battles, model):
    X, y = battles
    rows = X.to_numpy()
    by_position = clone(model).set_params(left=3, right=1, covariates=[2, [4, 5]])
    for table in (rows, rows.tolist(), X):
        fitted = clone(by_position).fit(table, y)
        assert_allclose(fitted.coef_, model.coef_, rtol=1e-12)
        assert_allclose(fitted.predict_proba(table[:5]), model.predict_proba(X[:5]), rtol=1e-12)
    first = GPPLClassifier(covariates=[2]).fit(X[["model_a", "model_b", "home"]].to_numpy(), y)
    assert first.covariate_names_.tolist() == ["2"]
    with pytest.raises(ValueError, match="features"):
        first.predict_proba(rows)


def test_columns_may_stand_anywhere_after_fit(battles, model):
    X, _ = battles
    assert_array_equal(model.predict_proba(X[["length_b", "length_a", *X.columns[:4]]]), model.predict_proba(X))


def test_other_frames(battles, model):
    X, y = battles
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.Table.from_pandas(X)
    fitted = clone(model).fit(table, y)
    assert_allclose(fitted.coef_, model.coef_, rtol=1e-12)
    assert_allclose(fitted.predict_proba(table), model.predict_proba(X), rtol=1e-10)


def test_weights_may_be_a_column(battles):
    X, y = battles
    by_name = GPPLClassifier(weight="worth", **NAMES).fit(X, y)
    passed = GPPLClassifier(**NAMES).fit(X, y, sample_weight=X["worth"])
    assert by_name.lower_bound_ == passed.lower_bound_
    assert by_name.n_features_in_ == 7
    with pytest.raises(DataError, match="weights are given twice: by weight='worth' and by sample_weight"):
        by_name.fit(X, y, sample_weight=X["worth"])


def test_tools_of_scikit_learn_take_frames(battles, model):
    X, y = battles
    steps = make_pipeline(FunctionTransformer(lambda table: table.assign(home=2 * table["home"])), clone(model))
    assert_allclose(steps.fit(X, y)[-1].coef_, model.coef_ / [2.0, 1.0], rtol=1e-9)
    assert np.mean(cross_val_score(model, X, y, cv=3)) > 0.6
    grid = {"covariates": [None, ["home"], COVARIATES]}
    search = GridSearchCV(clone(model), grid, cv=3, scoring="neg_log_loss").fit(X, y)
    assert search.best_params_ == {"covariates": COVARIATES}


def test_partial_fit_equals_one_fit(battles, model):
    X, y = battles
    model = clone(model).set_params(tol=1e-8)
    parts = clone(model).partial_fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    assert_allclose(parts.coef_, clone(model).fit(X, y).coef_, rtol=1e-4)
    parts.partial_fit([["u", "v"]], [1])  # at zero covariates
    assert parts._comparisons.total_weight == 401.0
    with pytest.raises(DataError, match=r"covariates differs from that of the fit, which had \[.*; got \['home'\]"):
        parts.set_params(covariates=["home"]).partial_fit(X, y)
    with pytest.raises(DataError, match="covariates differs from that of the fit"):
        parts.predict_proba(X)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"covariates": ["away"]}, r"there is no column 'away'"),
        ({"covariates": ["hom"]}, r"there is no column 'hom'; did you mean 'home'\?"),
        ({"covariates": ["model_a"]}, "covariate 'model_a': column 'model_a' of X holds the ids of left"),
        (
            {"covariates": [("home", "length_a", "length_b")]},
            "has 3 columns, but rows of X compare two items: name one column, or two",
        ),
        ({"covariates": [1.5]}, "columns of the two sides or of all positions; got 1.5"),
        ({"covariates": [99]}, r"there is no column 99 in X, which has 7"),
        ({"left": "model_c"}, r"there is no column 'model_c'; did you mean"),
        ({"weight": "model_a"}, "weight='model_a': column 'model_a' of X holds the ids of left"),
    ],
)
def test_wrong_columns_are_named(battles, change, message):
    with pytest.raises(DataError, match=message):
        GPPLClassifier(**(NAMES | change)).fit(*battles)


def test_wrong_values_are_named(battles, model):
    X, y = battles
    missing = X.assign(home=X["home"].where(X.index != 3))
    with pytest.raises(DataError, match=r"X, row 3, column 'home': a number is missing \(a covariate\)"):
        clone(model).fit(missing, y)
    with pytest.raises(DataError, match=r"\(a covariate\), got 'hall'; of words, make a column of 0 and 1 for each"):
        clone(model).fit(X.assign(home="hall"), y)
    with pytest.raises(
        DataError, match=r"whose columns have no names: pass a data frame .*set_output\(transform='pandas'\)"
    ):
        model.fit(X[["model_a", "model_b"]].to_numpy(), y)
    with pytest.raises(DataError, match=r"there is no column 'length_b'"):
        model.predict_proba(X.drop(columns="length_b"))
    with pytest.raises(DataError, match=r"there is no column 'model_b'\. Found"):
        model.predict_proba(X[["model_a", "home"]])
    with pytest.raises(DataError, match="got 1D array"):
        GPPLClassifier(covariates=[2]).fit(["a", "b"], [1, 0])
    with pytest.raises(ValueError, match="covariates"):
        GPPLClassifier(covariates="home").fit(X, y)


def test_units_beyond_float64_are_refused(battles, model):
    X, y = battles
    for unit in (1e300, 1e-300):
        with pytest.raises(
            DataError, match=r"covariate 'home': its largest number is 1e[-+]300, which must be from 1e-15"
        ):
            clone(model).fit(X.assign(home=X["home"] * unit), y)
    wide = X.assign(length_a=X["length_a"] * 8e305, length_b=X["length_b"] * -8e305)
    with pytest.raises(DataError, match=r"covariate 'length_a - length_b': its largest number is inf"):
        clone(model).fit(wide, y)


def test_a_damaged_model_has_other_covariates(model):
    damaged = pickle.loads(pickle.dumps(model))
    damaged._comparisons = replace(damaged._comparisons, covariates=None)
    with pytest.raises(DataError, match="must have 2 covariates"):
        damaged._check_fitted()


def test_huge_and_tiny_units_are_no_matter(battles, model):
    X, y = battles
    for unit in (1e-150, 1e140):
        other = clone(model).fit(X.assign(home=X["home"] * unit), y)
        assert_allclose(other.coef_[0] * unit, model.coef_[0], rtol=1e-9)


def test_warm_start_keeps_effects(battles, model):
    X, y = battles
    warm = clone(model).set_params(warm_start=True).fit(X, y)
    warm.fit(X, y)
    assert warm.n_iter_ < model.n_iter_
    assert_allclose(warm.coef_, model.coef_, rtol=1e-3)


def test_comparisons_of_an_item_with_itself_are_dropped_with_their_covariates(battles, model):
    X, y = battles
    odd = X.assign(model_b=X["model_b"].where(X.index != 7, X["model_a"]))
    dropped = clone(model).set_params(on_self="drop").fit(odd, y)
    keep = np.arange(len(X)) != 7
    assert_array_equal(dropped.coef_, clone(model).fit(X[keep], y[keep]).coef_)


def test_an_advantage_that_a_covariate_explains_is_no_advantage_of_a_side():
    X, y = arena(3000, effects=(1.0, 0.0))
    X = X.assign(home=np.where(X["judge"] % 5 == 0, -1, 1))  # mostly the left side
    rng = np.random.default_rng(0)
    y = (rng.random(3000) < 1.0 / (1.0 + np.exp(-X["home"]))).astype(int)
    with pytest.warns(DataWarning, match="The left side wins more often than the items explain"):
        GPPLClassifier(**NAMES).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GPPLClassifier(covariates=["home"], likelihood="logit", **NAMES).fit(X, y)
        GPPLClassifier(order_effect=True, **NAMES).fit(X, y)


@pytest.mark.parametrize("likelihood", ["probit-ties", "logit-ties"])
def test_ties_stand_beside_covariates(likelihood, tmp_path):
    X, _ = arena(2000, effects=(0.8, 0.0))
    rng = np.random.default_rng(1)
    rank = X["model_a"].map("uvwxyz".index) - X["model_b"].map("uvwxyz".index)
    noise = rng.normal(size=2000) if likelihood == "probit-ties" else rng.logistic(size=2000)
    z = 0.3 * rank + 0.8 * X["home"] + noise
    y = np.where(z > 0.5, "left", np.where(z < -0.5, "right", "tie"))
    model = GPPLClassifier(covariates=["home"], likelihood=likelihood, **NAMES).fit(X, y)
    assert abs(model.coef_[0] - 0.8) < 4.0 * model.coef_std_[0]
    assert abs(model.likelihood_.threshold - 0.5) < 0.08
    p = model.predict_proba(X, ties=True)
    assert_allclose(p.sum(axis=1), 1.0)
    assert_allclose(p[:, 0] + 0.5 * p[:, 1], model.predict_proba(X)[:, 0], rtol=1e-9)
    assert_allclose(model.predict_proba(swapped(X), ties=True), p[:, ::-1], atol=1e-9)
    assert abs(p[:, 1].mean() - np.mean(y == "tie")) < 0.03
    save(model, tmp_path / "model.skpref")
    assert_array_equal(load(tmp_path / "model.skpref").predict_proba(X, ties=True), p)
    assert_allclose(clone(model).partial_fit(X, y).coef_, model.coef_)


def test_standard_deviations_of_effects_count_offsets_that_stand_apart(monkeypatch):
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 60, (2, 300))
    X = np.column_stack([left, right, rng.normal(size=(300, 2))])[left != right]
    z = rng.normal(size=60)[X[:, 0].astype(int)] + 0.5 * X[:, 2]
    y = (rng.random(len(X)) < 1.0 / (1.0 + np.exp(-z))).astype(int)
    model = GPPLClassifier(covariates=[2, 3], order_effect=True, scale_prior=Gamma(2.0, 2.0), tol=1e-9)
    joint = clone(model).fit(X, y)
    set_policy(monkeypatch, "gp.pairwise", joint_size=0)
    apart = clone(model).fit(X, y)
    assert apart.posterior_.offset_variance is not None
    # The same but for the sites, which are at other variances.
    assert_allclose(apart.coef_std_, joint.coef_std_, rtol=0.02)
    assert_allclose(apart.order_effect_[1], joint.order_effect_[1], rtol=0.02)
    monkeypatch.setattr(pair_fit, "effects_without_offsets", lambda problem, state, weight: state.blocks["f"])
    known = clone(model).fit(X, y)
    assert (known.coef_std_ < 0.96 * joint.coef_std_).all()
    assert_allclose(known.coef_, apart.coef_, rtol=1e-9)


def test_mini_batches_that_inflate_effects_warn(battles, monkeypatch):
    X, y = battles
    set_policy(monkeypatch, "gp.pairwise", joint_size=0)
    model = GPPLClassifier(covariates=["home"], inference=SVI(5), max_iter=50, **NAMES)
    with pytest.warns(DataWarning, match=r"learn the offsets of 6 items, one by one, .* use inference='vb'") as caught:
        model.fit(X, y)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        clone(model).set_params(inference__batch_size=len(y)).fit(X, y)  # full passes
        clone(model).set_params(covariates=None).fit(X, y)
