"""Every part of a fitted model that predictions need refuses what it cannot be, as `load` asks it to."""

from copy import copy
from dataclasses import fields, is_dataclass, replace
from functools import cache

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from skpref import Table
from skpref.data.ids import Vocabulary
from skpref.exceptions import SkprefError
from skpref.gp.crowd.places import Places
from skpref.kernels.checks import check_parameters
from tests.unit.bad_inputs import places as at

# Only reported, or only used in some models.
REPORTED = (
    "lower_bound_ lower_bounds_ n_iter_ n_skipped_ converged_ risk_ risks_ r_hat_ effective_sample_size_ n_factors_ "
    "scale_ noise_ amplitude_ length_scale_ relevance_ inference_ log_marginal_likelihood_value_ n_samples_seen_ "
    "order_effect_ coef_ coef_std_ _warm_key _warm_start_key _distribution_key _segments _alive _cut_short user_kernel_"
)
COPIES = {"SVGPClassifier": {"kernel_", "posterior_"}, "BayesianGPLVM": {"inducing_points_"}}
WORDS = {"estimator", "feature_names", "distribution_key", "warm_start_key"}
TABLE = {
    "user": [f"u{user}" for user in at.USER],
    "left": [f"x{item}" for item in at.LEFT],
    "right": [f"x{item}" for item in at.RIGHT],
    "kind": at.USER % 2,
    "length": at.X[at.LEFT, 0],
}
TIED = np.where(np.arange(at.P) % 3 == 0, 0.5, at.PREFERRED)
# Models with the records that those of `places` have not.
OTHERS = {
    "groups": lambda: at.crowd(user="user", left="left", right="right", groups=["kind"], order_effect=True).fit(
        frame(), at.PREFERRED
    ),
    "context": lambda: at.crowd(user="user", left="left", right="right", context=["length"]).fit(frame(), at.PREFERRED),
    "ties": lambda: at.crowd(likelihood="probit-ties").fit(at.NAMED_TRIPLES, TIED),
    "factors": lambda: at.crowd(at.ITEMS, at.USERS, inference="svi", tol=1.0).fit(at.NAMED_TRIPLES, at.PREFERRED),
    "covariates": lambda: at.classifier(left="left", right="right", covariates=["length"], order_effect=True).fit(
        frame(), at.PREFERRED
    ),
    "teams": lambda: at.classifier(left=["left", "other"], right=["right"], groups=["kind"], context=["length"]).fit(
        frame().assign(other=[f"y{user}" for user in at.USER]), at.PREFERRED
    ),
    "draws": lambda: at.machine(at.VariationalFMOrdinal, inference="gibbs", max_iter=6, burn_in=2).fit(at.X, at.LEVEL),
    "softmax": lambda: at.sparse_gp(at.SVGPClassifier, multi_class="softmax", inducing=5).fit(at.X, at.LEVEL),
    "independent": lambda: at.machine(at.VariationalFM, posterior="factorised", max_iter=2).fit(at.X, at.SCORE),
}
# The same estimators fitted to fewer rows, items, users, features, levels or factors, and what depends on these.
SMALL_X, SMALL_ITEMS = at.X[:20, :2], Table(at.X[:20, :2], ids=at.ITEM_NAMES[:20])
SMALL_USERS = Table(at.PEOPLE[:4, :1], ids=at.USER_NAMES[:4])
SMALL = (at.LEFT < 20) & (at.RIGHT < 20)
SMALL_ANSWERS = at.PREFERRED[SMALL]
SMALL_PAIRS = np.array(at.NAMED_PAIRS)[SMALL]
SMALL_TRIPLES = np.column_stack([np.array(at.USER_NAMES)[at.USER % 4][SMALL], SMALL_PAIRS])
SMALL_RATED = (at.RATED[:, 0] < 8) & (at.RATED[:, 1] < 6)
SMALL_RATINGS = at.RATED[SMALL_RATED], np.minimum(at.RATING[SMALL_RATED], 4)
SMALL_CHAIN = {"levels": [1, 2, 3, 4], "n_samples": 1, "max_iter": 4}
OF_ITEMS = "_items components_ item_ids_ posterior_ _comparisons"
OF_CROWD = OF_ITEMS + " _users user_ids_ item_factors_ user_factors_"
OF_FEATURES = " kernel_ inducing_points_"
OF_CHAINS = "fitted_.posterior fitted_.chains fitted_.vocabularies fitted_.ratings"
OF_ROWS, OF_MACHINE = "n_features_in_ posterior_", "n_features_in_ fitted_"
SMALLER = {
    "GPPLRegressor": (OF_ROWS + OF_FEATURES + " _state", lambda: at.regressor().fit(SMALL_X, at.SCORE[:20])),
    "GPPLClassifier": (OF_ITEMS + " _state", lambda: at.classifier().fit(SMALL_PAIRS, SMALL_ANSWERS)),
    "GPPLClassifier(items)": (
        OF_ITEMS + OF_FEATURES + " _state",
        lambda: at.classifier(SMALL_ITEMS).fit(SMALL_PAIRS, SMALL_ANSWERS),
    ),
    "CrowdGPPL": (OF_CROWD, lambda: at.crowd().fit(SMALL_TRIPLES, SMALL_ANSWERS)),
    "CrowdGPPL(items, users)": (
        OF_CROWD + OF_FEATURES + " factor_kernel_",
        lambda: at.crowd(SMALL_ITEMS, SMALL_USERS).fit(SMALL_TRIPLES, SMALL_ANSWERS),
    ),
    "factors": (
        OF_CROWD + OF_FEATURES + " factor_kernel_ inducing_users_ factor_scales_ _state",
        lambda: at.crowd(SMALL_ITEMS, SMALL_USERS, inference="svi", tol=1.0, n_factors=1).fit(
            SMALL_TRIPLES, SMALL_ANSWERS
        ),
    ),
    "GPOrdinalRegressor": (
        OF_ROWS + " classes_ _rows ensemble_ likelihood_ thresholds_",
        lambda: at.ordinal().fit(SMALL_X, at.CLASS[:20]),
    ),
    "SVGPRegressor": (
        OF_ROWS + OF_FEATURES + " _rows",
        lambda: at.sparse_gp(at.SVGPRegressor).fit(SMALL_X, at.SCORE[:20]),
    ),
    "SVGPClassifier": (
        "n_features_in_ classes_ _rows likelihood_ _states kernels_ posteriors_",
        lambda: at.sparse_gp(at.SVGPClassifier).fit(SMALL_X, at.LEVEL[:20]),
    ),
    "BayesianGPLVM": (
        "n_features_in_ mapping_ mean_ embedding_ embedding_std_ _n_features_out",
        lambda: at.latent(inducing=4, n_components=2).fit(SMALL_X),
    ),
    "VariationalFM": (OF_MACHINE, lambda: at.machine(at.VariationalFM).fit(SMALL_X, at.SCORE[:20])),
    "VariationalFMClassifier": (OF_MACHINE, lambda: at.machine(at.VariationalFMClassifier).fit(SMALL_X, at.CLASS[:20])),
    "VariationalFMOrdinal": (
        OF_MACHINE + " fitted_.classes",
        lambda: at.machine(at.VariationalFMOrdinal).fit(SMALL_X, at.CLASS[:20]),
    ),
    "GibbsM3F": (OF_CHAINS, lambda: at.gibbs(at.GibbsM3F, **SMALL_CHAIN, n_factors=1).fit(*SMALL_RATINGS)),
    "GibbsIPM3F": (OF_CHAINS, lambda: at.gibbs(at.GibbsIPM3F, **SMALL_CHAIN).fit(*SMALL_RATINGS)),
}
# Axes of arrays whose sizes no other part of the record has, and arrays that may be of several types.
FREE = {
    *(
        "AverageResidual.rows 0",
        "AverageResidual.features 1",
        "Calibration.log_weights 0",
        "Entities.features 1",
        "Entities.seen 0",
    ),
    *("ExactLatent.X 1", "FMDraws.log_likelihoods 0", "FMDraws.theta 1", "FMDraws.theta 2", "Factors.items 1"),
    *(
        "Factors.thresholds 2",
        "GroupDifferences.level 0",
        "GroupPosterior.half 0",
        "Places.widths 0",
        "InducingBasis.points 1",
        "LatentHyper.Z 0",
    ),
    *(
        "LatentMapping.V 1",
        "Prior.group 0",
        "RatingVocabularies.levels 0",
        "SparseLatent.mean 1",
        "AtS.alpha 0",
        "GroupPosterior.average 0",
        "Places.item 0",
        "Places.group 0",
    ),
    *("FMFitted.lower_bounds 0", "FMFitted.one_hot_groups 0", "FMFitted.validation_losses 0"),
}
ANY_TYPE = {
    *("FMFitted.classes", "FMFitted.groups", "Factors.items", "Factors.thresholds", "Factors.users"),
    "RatingVocabularies.levels",
}
POSITIVE = {
    *("Bias.variance", "Calibration.temperature", "Covariates.spread", "DenseBlock.precision", "ExactLatent.chol"),
    *("FMPosterior.scale", "FactorPosterior.half", "FactorPosterior.inverse_scale", "FixedScale.value"),
    *("GammaScale.rate", "GammaScale.rate0", "GammaScale.shape", "GammaScale.shape0", "IPM3FPosterior.alpha"),
    *("IPM3FPosterior.margin", "IPM3FPosterior.sigma", "InducingBasis.chol", "M3FPosterior.margin"),
    *("M3FPosterior.sigma", "Machine.variance", "OrdinalMember.weight", "PairPosterior.covariate_scale"),
    *("PairPosterior.half", "PersonalPosterior.S", "PersonalPosterior.S_new", "PersonalPosterior.effect_precision"),
    *("PersonalPosterior.tau", "Prior.lam", "Regularisation.floor", "Regularisation.penalty"),
    *("Regularisation.prior_weight", "SparseLatent.half"),
}
NOT_NEGATIVE = {
    *("AverageResidual.variance", "Chain.begin", "Chain.n_averaged", "Chain.sweep", "ExactLatent.root_w"),
    *("IPM3FPosterior.cost", "M3FPosterior.cost", "PersonalPosterior.own_share", "PersonalPosterior.rest_scale"),
    *("PersonalPosterior.n_learnt", "Segment.size", "State.step", "TieThresholds.spread", "TieThresholds.variance"),
}


def frame():
    return pytest.importorskip("pandas").DataFrame(TABLE)


@cache
def fitted(name):
    return OTHERS[name]() if name in OTHERS else at.fitted(name)


def parts(record):
    if is_dataclass(record):
        return {field.name: getattr(record, field.name) for field in fields(record) if field.init}
    return record._asdict() if hasattr(record, "_asdict") else {}


def records(value):
    """Yield all records in a value that check themselves."""
    within = list(value.values()) if isinstance(value, dict) else list(parts(value).values())
    if isinstance(value, (list, tuple)) and not hasattr(value, "_asdict"):
        within = list(value)
    if parts(value) and hasattr(value, "validate"):
        yield value
    for part in within:
        yield from records(part)


def changed(record, part, value):
    return replace(record, **{part: value}) if is_dataclass(record) else record._replace(**{part: value})


def unused(record, name):
    """Tell whether a part has no meaning in such a record."""
    if type(record).__name__ == "ExactLatent":
        return name == "prior_variance" and record.kernel is not None
    if type(record).__name__ == "PersonalPosterior":
        return name.startswith("effect_") and name != "effect_precision" and not record.B.shape[1]
    return name in WORDS


MODELS = [*at.MAKERS, *at.VARIANTS, *OTHERS]


@pytest.mark.parametrize("name", [*at.MAKERS, *at.VARIANTS])
def test_no_part_of_a_record_may_be_something_else(name):
    for record in records(vars(at.fitted(name))):
        record.validate()
        for part, value in parts(record).items():
            if unused(record, part):
                continue
            wrongs = ["damage"]
            wrongs += [value[None]] if isinstance(value, np.ndarray) else []
            wrongs += [-1, 0.5] if type(value) is int else []
            for wrong in wrongs:
                with pytest.raises(SkprefError):
                    changed(record, part, wrong).validate()


def resized(array):
    """Yield the array with one entry less and with one entry more, of each axis that has any."""
    for axis in np.flatnonzero(array.shape).tolist():
        yield axis, array.take(range(array.shape[axis] - 1), axis)
        yield axis, np.concatenate([array, array.take([0], axis)], axis)


@pytest.mark.parametrize("name", MODELS)
def test_arrays_of_a_record_have_the_sizes_and_types_of_one_another(name):
    for record in records(vars(fitted(name))):
        for part, value in parts(record).items():
            place = f"{type(record).__name__}.{part}"
            if not isinstance(value, np.ndarray) or unused(record, part):
                continue
            wrongs = [array for axis, array in resized(value) if f"{place} {axis}" not in FREE]
            if place not in ANY_TYPE and value.dtype.kind in "fi":
                wrongs.append(value.astype(f"{value.dtype.kind}{12 - value.itemsize}"))  # 4 bytes for 8 and back
            for wrong in wrongs:
                with pytest.raises(SkprefError):
                    changed(record, part, wrong).validate()


@pytest.mark.parametrize("name", MODELS)
def test_numbers_of_a_record_have_their_sign(name):
    for record in records(vars(fitted(name))):
        for part, value in parts(record).items():
            place = f"{type(record).__name__}.{part}"
            if place not in POSITIVE | NOT_NEGATIVE or value is None or not np.size(value) or unused(record, part):
                continue
            wrongs = [-abs(value) - 1]
            wrongs += [value * 0] if place in POSITIVE else []
            wrongs += [np.nan, np.inf] if isinstance(value, float) else []
            for wrong in wrongs:
                with pytest.raises((SkprefError, np.linalg.LinAlgError)):
                    changed(record, part, wrong).validate()
            if place in NOT_NEGATIVE and isinstance(value, float | np.ndarray):
                changed(record, part, value * 0.0).validate()


@pytest.mark.parametrize("name", [*at.MAKERS, *at.VARIANTS])
def test_no_attribute_that_predictions_need_may_be_something_else(name):
    model = at.fitted(name)
    model._check_fitted()
    kept = set(REPORTED.split()) | COPIES.get(name, set()) | set(model.get_params(deep=False))
    for attribute, value in vars(model).items():
        if attribute in kept or value is None:
            continue
        damaged = copy(model)
        setattr(damaged, attribute, "damage")
        with pytest.raises((SkprefError, AttributeError, TypeError)):  # `load` makes one error of all of them
            damaged._check_fitted()


@pytest.mark.parametrize("name", [name for name in (*at.MAKERS, *at.VARIANTS) if "precomputed" not in name])
def test_the_number_of_columns_belongs_to_the_posterior(name):
    damaged = copy(at.fitted(name))
    damaged.n_features_in_ = damaged.n_features_in_ + 1
    with pytest.raises(SkprefError):
        damaged._check_fitted()


@pytest.mark.parametrize("name", SMALLER)
def test_no_attribute_may_come_from_a_fit_to_other_data(name):
    names, fit = SMALLER[name]
    models = fitted(name), fit()
    for model, other in (models, models[::-1]):
        for attribute in names.split():
            damaged, (name, _, part) = copy(model), attribute.partition(".")
            value = getattr(other, name)
            if part:  # of a fitted record
                value = replace(getattr(model, name), **{part: getattr(value, part)})
            setattr(damaged, name, value)
            with pytest.raises((SkprefError, ValueError)):
                value.validate() if part else damaged._check_fitted()


def test_covariates_of_users_are_as_many_as_their_effects():
    posterior = at.fitted("CrowdGPPL(items, users)").posterior_
    short = replace(posterior.covariates, basis=None, centre=np.zeros(1), spread=np.ones(1))
    assert posterior.x.shape[1] != 1
    with pytest.raises(SkprefError, match="covariates must be"):
        replace(posterior, covariates=short).validate()


def test_comparisons_without_weight_may_be_of_items_that_the_posterior_lacks():
    model = copy(at.fitted("CrowdGPPL(items, users)"))
    comparisons, entities = model._comparisons, model._items
    model._items = replace(entities, seen=entities.seen[:-1])
    with pytest.raises(SkprefError, match="_items leaves out"):
        model._check_comparisons()
    last = comparisons.weight * ((comparisons.left != at.N - 1) & (comparisons.right != at.N - 1))
    model._comparisons = replace(comparisons, weight=last)
    model._check_comparisons()


@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (np.nan, 1.0), (2.0, 1.0), (1.0,), "free"])
def test_bounds_of_a_kernel_are_pairs_of_positive_numbers(bounds):
    kernel = RBF(1.0)
    kernel.length_scale_bounds = bounds
    with np.errstate(invalid="ignore"), pytest.raises((SkprefError, ValueError)):
        check_parameters(kernel)


@pytest.mark.parametrize("ids", [np.array([1, 0]), np.array([0, 2])])
def test_ids_that_are_row_numbers_count_from_0(ids):
    vocabulary = Vocabulary.__new__(Vocabulary)
    vocabulary.__setstate__({"ids": ids, "positional": True})
    with pytest.raises(SkprefError, match="0, 1, 2"):
        vocabulary.validate()
    vocabulary.__setstate__({"ids": np.arange(3), "positional": True})
    vocabulary.validate()


def test_there_are_as_many_chains_as_in_the_posterior():
    for name in at.GIBBS:
        damaged = copy(at.fitted(name))
        damaged.fitted_ = replace(damaged.fitted_, chains=damaged.fitted_.chains * 2)
        with pytest.raises(SkprefError, match="must be 1 chains"):
            damaged.fitted_.validate()


def test_a_softmax_model_keeps_no_state():
    fit = at.sparse_gp(at.SVGPClassifier, multi_class="softmax", inducing=5).fit(at.X, at.LEVEL)
    fit._states = at.fitted("SVGPClassifier")._states
    with pytest.raises(SkprefError, match="_states"):
        fit._check_fitted()


def test_draws_belong_to_the_machine_that_they_are_of():
    posterior = fitted("draws").posterior_
    posterior.validate()
    other = replace(posterior.last, likelihood=at.fitted("VariationalFMClassifier").posterior_.machine.likelihood)
    for change in (
        {"offset": 1.0},
        {"scale": 2.0},
        {"last": other},
        {"sampled": posterior.machine},
        {"sampled": replace(posterior.sampled, theta=posterior.sampled.theta[:, 1:])},
        {"sampled": replace(posterior.sampled, theta=posterior.sampled.theta[:1], bias=posterior.sampled.bias[:1])},
    ):
        with pytest.raises(SkprefError):
            replace(posterior, **change).validate()
    two = replace(posterior.sampled, theta=posterior.sampled.theta[:2], bias=posterior.sampled.bias[:2])
    replace(posterior, sampled=two).validate()


def test_a_posterior_has_the_effects_of_the_covariates():
    names = {"left": "left", "right": "right", "order_effect": True}
    without = at.classifier(**names).fit(frame(), at.PREFERRED)
    damaged = copy(fitted("covariates"))
    damaged.posterior_, damaged._state = without.posterior_, without._state
    with pytest.raises(SkprefError, match="posterior_ must have the effects of covariates"):
        damaged._check_fitted()


def test_a_kind_of_groups_may_have_a_single_one():
    Places(np.arange(2), np.zeros((2, 1), np.int64), np.ones(1, np.int64)).validate()
    with pytest.raises(SkprefError, match="outside 1"):
        Places(np.arange(2), np.zeros((2, 1), np.int64), np.zeros(1, np.int64)).validate()
