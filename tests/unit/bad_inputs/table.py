"""The table of bad inputs that are refused: number, what is wrong, where, the input, the message, the error's type.

A row runs over every place of its list (`places.py`). The input is a value, or a function that makes it from the
place's valid input. The message is a regular expression: the name of what is wrong where the package itself raises the
error (messages.txt has its wording), else words of another package. ESTIMATOR in it stands for the estimator's name. To
add a row, add one line to ROWS, and run `messages.UPDATE`. Number 0 is for inputs that the table does not number.
"""

from functools import partial

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils._param_validation import InvalidParameterError

from skpref import LBFGS, SVI, Adam, Checkpoint, FactorPrior, Gamma, Inducing, VariationalFM
from skpref.data import from_matrix
from skpref.elicitation import Session
from skpref.exceptions import DataError
from tests.unit.bad_inputs import places as at
from tests.unit.bad_inputs.places import Place, fitted
from tests.unit.bad_inputs.rows import (
    CLASSIFIED,
    EVERY_TARGET,
    FIVE,
    GRADES,
    NAMES,
    NEED_FIT,
    NO_Y,
    SPARSE,
    SPARSE_ROWS,
    TARGETS,
    Row,
    both_infinities,
    call,
    column,
    damaged,
    entry,
    frame,
    many,
    masked,
    methods,
    no_y,
    pick,
    precomputed,
    renamed,
    with_zero,
)
from tests.unit.bad_inputs.table_of_comparisons import ROWS_OF_COMPARISONS

# --------------------------------------------------------------------------------------------------- rows of parameters
# Every parameter of every estimator, with values that none of them takes.
PARAMETERS = {
    name: values
    for names, values in (
        ("batch_size max_iter n_chains n_components", [0]),
        ("pairs_per_item n_iter_no_change n_max_exact window", [0]),
        ("burn_in n_samples", [-1]),
        ("tol max_new", [-1.0]),
        ("scale_prior", [1.0, "fixed", *(Gamma(bad, 1.0) for bad in (0.0, -2.0, 1e-12, 1e300)), Gamma(1.0, np.nan)]),
        ("factor_prior", ["wide", FactorPrior(user_scale=Gamma(0.0, 1.0)), FactorPrior(item_kernel="matern")]),
        ("dynamics team", ["wiener", 3]),
        ("learning_rate noise C alpha", [-1.0]),
        ("threshold_scale margin sigma", [0.0, -1.0, np.nan, "wide"]),
        ("consensus item_effects early_stopping average user_thresholds", ["yes", 2]),
        ("warm_start order_effect learn_inducing learn_priors", [3, None]),
        ("categorical_features", [3]),
        ("verbose unknown unknown_user duplicates prediction posterior kl_weights", ["loud"]),
        ("kernel", ["matern", 3]),
        ("likelihood link multi_class", ["cauchit"]),
        ("evidence on_self", ["newton"]),
        ("optimizer", ["newton", LBFGS(-1), Adam(0.0)]),
        ("inference", ["newton", SVI(0), SVI(delay=-1.0), SVI(forgetting_rate=0.5)]),
        ("class_order levels groups context", [5]),
        ("n_factors", [-1, 2.5]),
        ("inducing", ["all", 0, Inducing(0), Inducing(method="all")]),
        ("validation_fraction", [1.0]),
        ("items", [7]),
        ("user item left right weight time", [1.5]),
        ("covariates", ["home", 7]),
        ("users", ["ann"]),
        ("dtype", [7]),
        ("checkpoint", [7, Checkpoint("run", -1.0)]),
        ("class_weight", ["heavy", 3]),
        ("n_jobs", ["two"]),
        ("threshold_means", ["low"]),
        ("random_state", ["a"]),
    )
    for name in names.split()
}


def parameter_rows():
    """One row a parameter and value, over the estimators that have the parameter."""
    for name, values in PARAMETERS.items():
        owners = [p for p in at.PARAMETERS.values() if name in at.MAKERS[p.estimator]().get_params(deep=False)]
        number = {"random_state": 16, "threshold_scale": 51, "threshold_means": 51, "margin": 51, "sigma": 51}
        for value in values:
            text = rf"The '{name}' parameter of ESTIMATOR must be "
            if hasattr(value, "get_params"):  # settings, of which a parameter is wrong
                text = rf"The '\w+' parameter of (ESTIMATOR|{type(value).__name__}|Gamma) must be "
            yield Row(number.get(name, 15), f"{name}={value}", owners, {name: value}, text, InvalidParameterError)


# ------------------------------------------------------------------------------------------------------------- the rows
ROWS = [
    Row(1, "NaN", at.ROWS, entry((3, 1), np.nan), "Input X contains NaN"),
    Row(2, "infinity", at.ROWS, entry((3, 1), np.inf), "Input X contains infinity or a value too large"),
    Row(2, "both infinities", at.ROWS, both_infinities, "Input X contains infinity or a value too large"),
    Row(
        2,
        "1e309",
        at.ROWS,
        lambda X: [*X.tolist()[:-1], [float("1e309")] * X.shape[1]],
        "Input X contains infinity or a value too large",
    ),
    Row(3, "no rows", at.ROWS, lambda X: X[:0], r"Found array with 0 sample\(s\)"),
    Row(3, "no rows", [*at.LEARN_PAIRS, *at.ASK_PAIRS], np.empty((0, 2)), r"\bX\b"),
    Row(3, "empty list", at.ASK_PAIRS, [], r"\bX\b"),
    Row(4, "no features", at.ROWS, lambda X: X[:, :0], r"Found array with 0 feature\(s\)|X has 0 features, but"),
    Row(4, "no columns", at.LEARN_PAIRS, np.empty((at.P, 0)), "comparisons"),
    # A list of one dimension holds ids where items are described.
    Row(5, "1-D", pick(at.ROWS, without="utility"), lambda X: X[:, 0], "Expected 2D array, got 1D array"),
    Row(5, "1-D", [*at.LEARN_PAIRS, *at.ASK_PAIRS], at.LEFT, "ids"),
    Row(5, "one row", at.ASK_TRIPLES, ["u0", "x1", "x2"], "ids"),
    # A string is a path to `fit`; later rows come from memory.
    Row(5, "a string", pick(at.LEARN_TRIPLES, without="partial_fit"), "u0 x1 x2", r"\bX\b"),
    Row(5, "a string", pick(at.LEARN_TRIPLES, "partial_fit"), "u0 x1 x2", "ids"),
    Row(6, "strings", at.ROWS, entry((3, 1), "red"), "items"),
    Row(8, "complex", at.ROWS, lambda X: X.astype(complex), "Complex data not supported"),
    Row(8, "complex ids", at.LEARN_PAIRS, at.PAIRS.astype(complex), "dtype"),
    Row(9, "sparse", [*at.LEARN_PAIRS, *at.ASK_PAIRS], sparse.csr_array(at.PAIRS), "ids", TypeError),
    Row(9, "sparse", pick(at.ROWS, "GPLVM"), sparse.csr_array(at.X), SPARSE, TypeError),
    Row(
        9,
        "sparse",
        [
            *methods("CrowdGPPL", names="predict_preference"),
            *methods("GPOrdinalRegressor(precomputed)", names="predict"),
        ],
        sparse.csr_array(at.PAIRS),
        SPARSE,
        TypeError,
    ),
    Row(
        9,
        "sparse",
        call("GPOrdinalRegressor.fit", lambda: precomputed(sparse.csr_array(at.K))),
        None,
        SPARSE,
        TypeError,
    ),
    Row(
        10,
        "2 features",
        [p._replace(names_input="") for p in at.ROWS if p.name in NEED_FIT],
        lambda X: np.hstack([X, X])[:, : 4 if X is at.PEOPLE else 2],
        r"(X has 2|items has 2|users has 4) features, but \w+ is expecting (3 features as input|2|3)",
    ),
    Row(
        10,
        "no features in fit",
        [
            *call("GPPLClassifier.utility", lambda: fitted("GPPLClassifier").utility(at.X[:, :2])),
            *call("CrowdGPPL.utility", lambda: fitted("CrowdGPPL").utility(at.X[:, :2])),
            *call("CrowdGPPL.utility(users)", lambda: fitted("CrowdGPPL").utility(users=at.X[:, :2])),
        ],
        None,
        "features",
    ),
    Row(
        10,
        "other rows than in fit",
        methods("GPOrdinalRegressor(precomputed)", names="predict"),
        at.X,
        "X has 3 features, but GPOrdinalRegressor is expecting 30",
    ),
    Row(10, "4 coordinates", methods("BayesianGPLVM", names="inverse_transform"), np.ones((2, 4)), r"\bX\b"),
    *(
        Row(
            11,
            "not fitted",
            [Place(f"{name}.{m}", None, partial(lambda name, m, _: at.unfitted_call(name, m), name, m))],
            None,
            "is not fitted yet",
            NotFittedError,
        )
        for name, ms in at.UNFITTED.items()
        for m in ms.split()
    ),
    Row(
        11,
        "not fitted",
        [
            Place(f"{name}.{attribute}", name, lambda name, attribute=attribute: getattr(at.MAKERS[name](), attribute))
            for name, attribute in [("GPOrdinalRegressor", "relevance_"), *((name, "weights_") for name in at.MACHINES)]
        ],
        lambda name: name,
        "is not fitted yet",
        NotFittedError,
    ),
    Row(
        12,
        "columns in another order",
        [
            *(place for name in [*at.ROWS_AND_TARGETS] for place in renamed(name, "predict", "abc", "acb")),
            *renamed("BayesianGPLVM", "transform", "abc", "acb"),
            *renamed("GPPLClassifier", "predict", "lr", "rl"),
            *renamed("CrowdGPPL", "predict", "ulr", "lru"),
        ],
        None,
        "feature names should match",
    ),
    Row(
        12,
        "renamed columns",
        [
            *renamed("GPOrdinalRegressor", "partial_fit", "abc", "abd"),
            *renamed("CrowdGPPL", "partial_fit", "ulr", "wlr"),
            *call(
                "GPPLClassifier.utility",
                lambda: at.classifier(frame("abc", at.X)).fit(at.PAIRS, at.PREFERRED).utility(frame("acb", at.X)),
            ),
        ],
        None,
        "feature names should match",
    ),
    *parameter_rows(),
    *(
        Row(
            51,
            f"threshold_means={means}",
            [at.PARAMETERS[name] for name in at.GIBBS],
            {"threshold_means": means},
            "threshold_means",
            InvalidParameterError,
        )
        for means in ([3, 2, 1, 0], [0, 1], [0, 1, 2, np.nan])
    ),
    *(
        Row(15, f"noise={noise}", [at.PARAMETERS["SVGPRegressor"]], {"noise": noise}, r"\by\b")
        for noise in (1e-300, 1e300)
    ),
    Row(
        15,
        "inducing is a number",
        [at.PARAMETERS[name] for name in ("GPPLRegressor", "SVGPRegressor", "SVGPClassifier")],
        {"inducing": np.array(2.0)},
        "Expected 2D array, got scalar array",
    ),
    *(
        Row(15, f"dtype={word}", [at.PARAMETERS["VariationalFM"]], {"dtype": word}, "dtype", InvalidParameterError)
        for word in ("float16", "")
    ),
    Row(15, "groups of 2", [at.PARAMETERS[name] for name in at.MACHINES], {"groups": [0, 1]}, "groups", DataError),
    Row(
        15,
        "freeze",
        call(
            "VariationalFM.partial_fit",
            lambda: (
                at.machine(VariationalFM, groups=["a", "b", "b"])
                .fit(at.X, at.SCORE)
                .partial_fit(at.X, at.SCORE, freeze="c")
            ),
        ),
        None,
        "freeze",
        DataError,
    ),
    Row(
        15,
        "n_factors changes",
        call(
            "VariationalFM.partial_fit",
            lambda: at.machine(VariationalFM).fit(at.X, at.SCORE).set_params(n_factors=2).partial_fit(at.X, at.SCORE),
        ),
        None,
        "n_factors",
        DataError,
    ),
    *(
        Row(15, "n_samples=0", call(name, draw), None, "n_samples", DataError)
        for name, draw in {
            "VariationalFM.sample_y": lambda: fitted("VariationalFM").sample_y(at.X, 0),
            "VariationalFMClassifier.sample_y": lambda: fitted("VariationalFMClassifier").sample_y(at.X, 0),
            "VariationalFMOrdinal.sample_y": lambda: fitted("VariationalFMOrdinal").sample_y(at.X, 0),
            "SVGPRegressor.sample_y": lambda: fitted("SVGPRegressor").sample_y(at.X, 0),
            "GPPLRegressor.sample_y": lambda: fitted("GPPLRegressor").sample_y(at.X, 0),
            "GPPLClassifier.sample_utility": lambda: fitted("GPPLClassifier").sample_utility(n_samples=0),
            "GPPLClassifier.rank": lambda: fitted("GPPLClassifier").rank(n_samples=0),
            "CrowdGPPL.rank": lambda: fitted("CrowdGPPL").rank(n_samples=0),
            "CrowdGPPL.annotators": lambda: fitted("CrowdGPPL").annotators(n_samples=0),
        }.items()
    ),
    Row(
        16,
        "random_state",
        call("CrowdGPPL.rank", lambda: fitted("CrowdGPPL").rank(random_state="a")),
        None,
        "random_state",
    ),
    *(
        Row(19, f"{n} rows", call(name, many(name, n)), None, parameter)
        for name, n, parameter in (
            ("GPPLRegressor", 100_000, "inducing"),
            ("GPPLClassifier", 30_000, "inducing"),
            ("CrowdGPPL.items", 30_000, "inducing"),
            ("CrowdGPPL.users", 30_000, "inducing"),
            ("GPOrdinalRegressor", 100_000, "n_max_exact"),
            ("GPOrdinalRegressor.inducing", 100_000, "inducing"),
            ("SVGPRegressor", 40_000, "inducing"),
            ("SVGPClassifier", 40_000, "inducing"),
        )
    ),
    Row(
        19,
        "return_cov",
        call("GPPLRegressor.predict", lambda: fitted("GPPLRegressor").predict(np.zeros((20_000, 3)), return_cov=True)),
        None,
        "covariance",
    ),
    *ROWS_OF_COMPARISONS,
    Row(26, "NaN", EVERY_TARGET, entry(1, np.nan), "Input y contains NaN"),
    Row(26, "infinity", TARGETS, entry(1, np.inf), "Input y contains infinity"),
    Row(29, "too few", EVERY_TARGET, lambda y: y[:-1], "inconsistent numbers of samples"),
    Row(38, "negative", at.WEIGHTS, lambda w: -w, "sample_weight"),
    Row(38, "NaN", at.WEIGHTS, entry(3, np.nan), "sample_weight"),
    Row(38, "infinity", at.WEIGHTS, entry(3, np.inf), "sample_weight"),
    Row(38, "too few", at.WEIGHTS, np.ones(7), "sample_weight"),
    Row(38, "2-D", at.WEIGHTS, lambda w: w[:, None], "sample_weight"),
    Row(38, "complex", at.WEIGHTS, 1j, "sample_weight"),
    Row(38, "no float", at.WEIGHTS, 10**400, "sample_weight"),
    Row(38, "no floats", at.WEIGHTS, lambda w: [10**400] * len(w), "sample_weight"),
    Row(38, "words", at.WEIGHTS, lambda w: ["heavy"] * len(w), "sample_weight"),
    Row(38, "zero", pick(at.WEIGHTS, "Ordinal", "SVGP", "Variational", "Gibbs"), np.zeros_like, "zero|weight"),
    Row(38, "one class", pick(at.WEIGHTS, "Ordinal"), (at.LEVEL == 1).astype(float), "classes"),
    Row(38, "one class", pick(at.WEIGHTS, "SVGPClassifier"), 1.0 - at.CLASS, "classes"),
    # VariationalFMOrdinal takes levels with fractions, such as half stars.
    Row(
        42,
        "1.5",
        pick(CLASSIFIED, "fit", without="FMOrdinal"),
        lambda y: y + 0.5 + 0.1 * np.arange(len(y)),
        "Unknown label type: continuous",
    ),
    Row(42, "None", CLASSIFIED, [None, *NAMES[1:]], r"\by\b"),
    Row(42, "NaN among names", CLASSIFIED, [*NAMES[:-1], float("nan")], r"\by\b"),
    Row(42, "mixed types", CLASSIFIED, [1, *NAMES[1:]], "label"),
    Row(42, "no float", at.LABELS, lambda y: [10**400, *y.tolist()[1:]], "label"),
    Row(42, "an integer that is no float", CLASSIFIED, [10**400, *[0.5] * (at.N - 1)], "Unknown label type"),
    Row(42, "mixed types after a name", CLASSIFIED, [*NAMES[:-1], 1], "label"),
    Row(42, "a tuple", CLASSIFIED, [*NAMES[:-1], ("good",)], r"\by\b"),
    Row(
        42,
        "bytes",
        CLASSIFIED,
        [name.encode() for name in NAMES],
        "Support for labels represented as bytes is not supported",
        TypeError,
    ),
    *(Row(42, "no y but weights", call(name, lambda name=name: no_y(name)), None, r"\by\b") for name in at.GIBBS),
    Row(46, "dictionaries", at.RATINGS, [{}] * len(at.RATING), r"\by\b"),
    Row(42, "no y", [*at.NUMBERS, *at.CLASSES, *at.LEVELS, *at.RATINGS], None, NO_Y),
    Row(0, "ragged", EVERY_TARGET, lambda y: [[y[0], y[0]], *y[1:]], r"\by\b"),
    Row(42, "2-D", TARGETS, lambda y: np.column_stack([y, y]), "y should be a 1d array"),
    Row(43, "one class", at.LEVELS, np.ones(at.N, dtype=int), "classes"),
    Row(43, "one name", at.LEVELS, ["good"] * at.N, "classes"),
    *(
        Row(number, what, [p._replace(call=partial(p.call, class_order=order)) for p in at.LEVELS], y, name)
        for number, what, y, order, name in (
            (43, "one class of 2", np.ones(at.N), [0.0, 1.0], "levels"),
            (44, "level missing", GRADES, ["poor", "fair"], "class_order"),
            (44, "level twice", at.LEVEL, [0, 1, 2, 1], "class_order"),
            (44, "level None", at.LEVEL, [0, 1, 2, None], "class_order"),
            (44, "2-D", at.LEVEL, [[0, 1], [1, 2]], "class_order"),
        )
    ),
    Row(45, "names", at.LEVELS, FIVE, "levels"),
    Row(46, "7 of 1..5", at.RATINGS, entry(4, 7.0), "user"),
    Row(46, "0 of 1..5", at.RATINGS, entry(4, 0.0), "levels"),
    Row(46, "2.5", at.RATINGS, entry(4, 2.5), "levels"),
    Row(46, "infinity", at.RATINGS, entry(4, np.inf), "rating"),
    *(
        Row(47, what, call(f"{name}.{what}", partial(run, name)), None, "user")
        for name in at.GIBBS
        for what, run in (
            ("fit", lambda name: at.MAKERS[name]().fit([*at.RATED, at.RATED[0]], [*at.RATING, at.RATING[0] % 5 + 1])),
            ("partial_fit", lambda name: fitted(name).partial_fit(at.RATED[:1], [at.RATING[0] % 5 + 1])),
        )
    ),
    Row(
        49,
        "explicit zero",
        [
            p
            for name in at.GIBBS
            for p in call(name, lambda name=name: at.MAKERS[name]().fit(*from_matrix(with_zero())))
        ],
        None,
        "matrix",
    ),
    Row(52, "one class", pick(at.CLASSES, "FMClassifier.fit"), ["a"] * at.N, r"\by\b"),
    Row(52, "one class", pick(at.CLASSES, "SVGPClassifier.fit"), np.zeros(at.N), "classes"),
    Row(52, "new class", pick(at.CLASSES, "FMClassifier.partial_fit"), np.arange(at.N) % 3, "label"),
    Row(52, "new class", pick(at.CLASSES, "SVGPClassifier.partial_fit"), np.arange(at.N) % 3, r"\by\b"),
    Row(52, "3 classes", pick(at.CLASSES, "FMClassifier.fit"), np.arange(at.N) % 3, "target"),
    Row(54, "1e200", pick(at.ROWS, *at.MACHINES), entry((3, 1), 1e200), r"\bX\b"),
    *(
        Row(54, "1e300", [p], lambda X: 1e300 * X, r"\bX\b")
        for p in pick(at.ROWS, "SVGPClassifier.fit", "GPOrdinalRegressor.fit")
    ),
    Row(54, "y of 1e300", pick(at.NUMBERS, "VariationalFM.fit"), lambda y: 1e300 * y, r"\by\b", DataError),
    Row(
        54,
        "1e308",
        [Place("GPPLRegressor.fit", [[1e308], [-1e308]], lambda X: at.regressor().fit(X, [0, 1]))],
        lambda X: X,
        r"\bX\b",
    ),
    *(
        Row(61, what, SPARSE_ROWS, damage, "matrix", DataError)
        for kind, what, noun, damage in (
            ("CSR", "index too large", "X", damaged("csr", "indices", 10**9)),
            ("CSR", "index of another row", "X", damaged("csr", "indices", 4)),
            ("CSR", "negative index", "X", damaged("csr", "indices", -3)),
            ("CSR", "indptr too large", "X", damaged("csr", "indptr", 10**6)),
            ("CSR", "indptr descends", "X", damaged("csr", "indptr", 0)),
            ("CSC", "index too large", "X", damaged("csc", "indices", 10**6)),
            ("COO", "index too large", "X", damaged("coo", "row", 10**6)),
        )
    ),
    Row(
        61,
        "index too large",
        [
            Place("from_matrix", at.X, from_matrix, "matrix"),
            Place("inducing", at.X, lambda Z: at.regressor(inducing=Z).fit(at.X, at.SCORE), "inducing"),
            Place("session", at.X, lambda pool: Session(fitted("VariationalFM"), pool), "candidates"),
        ],
        damaged("csr", "indices", 10**6),
        "matrix",
        DataError,
    ),
    *(
        Row(65, what, pick(at.ROWS, without="utility"), spoiled, r"\bX\b", DataError)
        for what, spoiled in (
            ("dates", lambda X: X.astype("datetime64[s]")),
            ("durations", lambda X: X.astype("timedelta64[s]")),
            ("NaT", entry((3, 1), np.datetime64("NaT", "s"))),
            ("masked", masked),
            ("column of dates", column("M8[s]")),
            ("category without value", column("category")),
            ("NA", column("Int64")),
        )
    ),
    Row(65, "masked", [*at.NUMBERS, *at.CLASSES, *at.LEVELS, *at.RATINGS], masked, r"\by\b"),
    Row(65, "masked", at.WEIGHTS, masked, "sample_weight"),
    Row(2, "long float", at.NUMBERS, lambda y: y.astype("longdouble") * np.longdouble("1e400"), "Input y contains inf"),
    Row(26, "None", at.NUMBERS, lambda y: [None, *y[1:].tolist()], "Input y contains NaN"),
    Row(65, "durations", at.NUMBERS, lambda y: y.astype("timedelta64[s]"), r"\by\b"),
    # ----------------------------------------------------------------------------------- what the table does not number
    Row(0, "neither y nor comparisons", call("GPPLRegressor.fit", lambda: at.regressor().fit(at.X)), None, NO_Y),
    Row(
        0,
        "y and comparisons",
        call("GPPLRegressor.fit", lambda: at.regressor().fit(at.X, at.SCORE, comparisons=at.PAIRS)),
        None,
        r"\by\b",
    ),
    Row(0, "other rows", methods("GPPLRegressor", at.X[:2], names="predict_preference"), at.X, "X_left"),
    Row(
        0,
        "std and cov",
        call("GPPLRegressor.predict", lambda: fitted("GPPLRegressor").predict(at.X, return_std=True, return_cov=True)),
        None,
        "return_std",
    ),
    Row(0, "inducing points", [at.PARAMETERS["CrowdGPPL"]], {"items": at.ITEMS, "inducing": np.eye(5)}, "inducing"),
    Row(0, "not square", call("GPOrdinalRegressor.fit", lambda: precomputed(at.X)), None, "matrix"),
    Row(0, "not symmetric", call("GPOrdinalRegressor.fit", lambda: precomputed(np.tril(at.K))), None, "covariance"),
    Row(
        0, "not definite", call("GPOrdinalRegressor.fit", lambda: precomputed(at.K - np.eye(at.N))), None, "covariance"
    ),
    Row(0, "sparse inference", call("GPOrdinalRegressor.fit", lambda: precomputed(inference="vb")), None, "inference"),
    Row(
        0,
        "in parts",
        call("GPOrdinalRegressor.partial_fit", lambda: at.ordinal(kernel="precomputed").partial_fit(at.K, at.LEVEL)),
        None,
        "partial_fit",
    ),
    Row(
        0,
        "relevance",
        call("GPOrdinalRegressor.relevance_", lambda: fitted("GPOrdinalRegressor(precomputed)").relevance_),
        None,
        "relevance_",
        AttributeError,
    ),
    Row(0, "length-scales", [at.PARAMETERS["GPOrdinalRegressor"]], {"kernel": RBF([1.0] * 2)}, "length_scale"),
    Row(
        0,
        "inducing points",
        [at.PARAMETERS["GPOrdinalRegressor"]],
        {"inference": "vb", "inducing": at.X[:4, :2]},
        "inducing",
    ),
    Row(
        0,
        "inducing points of NaN",
        [at.PARAMETERS["GPOrdinalRegressor"]],
        {"inference": "vb", "inducing": at.X[:4] * np.nan},
        "Input inducing contains NaN",
    ),
]
