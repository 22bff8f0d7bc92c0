"""The table of bad inputs that are refused: number, what is wrong, where, the input, the message, the error's type.

A row runs over every place of its list (`places.py`). The input is a value, or a function that makes it from the
place's valid input. The message is a regular expression; ESTIMATOR in it stands for the estimator's name. To add a row,
add one line to ROWS. Number 0 is for inputs that the numbered table does not list.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils._param_validation import InvalidParameterError

from skpref import VariationalFM
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
    WIDTH,
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

if TYPE_CHECKING:
    from collections.abc import Iterator

# --------------------------------------------------------------------------------------------------- rows of parameters
# Every parameter of every estimator, with values that none of them takes.
PARAMETERS: dict[str, list[Any]] = {
    name: values
    for names, values in (
        ("batch_size n_inducing max_iter n_epochs n_chains n_components", [0]),
        ("n_sweeps pairs_per_item n_iter_no_change n_max_exact window", [0]),
        ("n_restarts_optimizer burn_in n_samples", [-1]),
        ("tol delay checkpoint_seconds max_new", [-1.0]),
        ("shape_s0 rate_s0 shape_sd0 rate_sd0 shape_sw0", [0.0, -2.0, 1e-12, 1e300]),
        ("learning_rate noise C alpha", [-1.0]),
        ("length_scale_factor", [-1.0, 5e-324, 1e300]),
        ("threshold_scale margin sigma", [0.0, -1.0, np.nan, "wide"]),
        ("consensus item_effects early_stopping average user_thresholds", ["yes", 2]),
        ("warm_start order_effect learn_inducing learn_priors", [3, None]),
        ("categorical_features", [3]),
        ("verbose unknown unknown_user duplicates prediction posterior kl_weights", ["loud"]),
        ("kernel factor_kernel user_kernel", ["matern", 3]),
        ("likelihood link multi_class", ["cauchit"]),
        ("optimizer inference evidence on_self", ["newton"]),
        ("class_order levels groups", [5]),
        ("n_factors", [-1, 2.5]),
        ("n_inducing_users", [1.5]),
        ("inducing", ["all"]),
        ("forgetting_rate", [0.5]),
        ("rate_sw0", [np.nan]),
        ("validation_fraction", [1.0]),
        ("items", [7]),
        ("user item left right weight", [1.5]),
        ("covariates", ["home", 7]),
        ("users", ["ann"]),
        ("dtype", [7]),
        ("checkpoint", [7]),
        ("n_jobs", ["two"]),
        ("threshold_means tie_thresholds", ["low"]),
        ("random_state", ["a"]),
    )
    for name in names.split()
}


def parameter_rows() -> Iterator[Row]:
    """One row a parameter and value, over the estimators that have the parameter."""
    for name, values in PARAMETERS.items():
        owners = [p for p in at.PARAMETERS.values() if name in at.MAKERS[p.estimator]().get_params()]
        number = {"random_state": 16, "threshold_scale": 51, "threshold_means": 51, "margin": 51, "sigma": 51}
        for value in values:
            text = rf"The '{name}' parameter of ESTIMATOR must be "
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
    Row(3, "no rows", [*at.LEARN_PAIRS, *at.ASK_PAIRS], np.empty((0, 2)), r"Found array with 0 sample\(s\)"),
    Row(3, "empty list", at.ASK_PAIRS, [], r"Found array with 0 sample\(s\)"),
    Row(4, "no features", at.ROWS, lambda X: X[:, :0], r"Found array with 0 feature\(s\)|X has 0 features, but"),
    Row(4, "no columns", at.LEARN_PAIRS, np.empty((at.P, 0)), WIDTH),
    # A list of one dimension holds ids where items are described.
    Row(5, "1-D", pick(at.ROWS, without="utility"), lambda X: X[:, 0], "Expected 2D array, got 1D array"),
    Row(5, "1-D", [*at.LEARN_PAIRS, *at.ASK_PAIRS], at.LEFT, "Expected 2D array, got 1D array"),
    Row(5, "one row", at.ASK_TRIPLES, ["u0", "x1", "x2"], "Expected 2D array, got 1D array"),
    # A string is a path to `fit`; later rows come from memory.
    Row(5, "a string", pick(at.LEARN_TRIPLES, without="partial_fit"), "u0 x1 x2", "which is no Parquet file and no"),
    Row(5, "a string", pick(at.LEARN_TRIPLES, "partial_fit"), "u0 x1 x2", "Expected 2D array, got scalar array"),
    Row(6, "strings", at.ROWS, entry((3, 1), "red"), "could not convert string to float"),
    Row(8, "complex", at.ROWS, lambda X: X.astype(complex), "Complex data not supported"),
    Row(8, "complex ids", at.LEARN_PAIRS, at.PAIRS.astype(complex), "Complex data not supported"),
    Row(9, "sparse", [*at.LEARN_PAIRS, *at.ASK_PAIRS], sparse.csr_array(at.PAIRS), SPARSE, TypeError),
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
        "has 2 features, but .* is expecting 0",
    ),
    Row(
        10,
        "other rows than in fit",
        methods("GPOrdinalRegressor(precomputed)", names="predict"),
        at.X,
        "X has 3 features, but GPOrdinalRegressor is expecting 30",
    ),
    Row(
        10,
        "4 coordinates",
        methods("BayesianGPLVM", names="inverse_transform"),
        np.ones((2, 4)),
        "X must have 1 columns",
    ),
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
            "threshold_means must be 4 ascending numbers, one fewer than levels; got",
            InvalidParameterError,
        )
        for means in ([3, 2, 1, 0], [0, 1], [0, 1, 2, np.nan])
    ),
    *(
        Row(
            15,
            f"noise={noise}",
            [at.PARAMETERS["SVGPRegressor"]],
            {"noise": noise},
            "standard deviations of y .* set noise",
        )
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
        Row(
            15,
            f"dtype={word}",
            [at.PARAMETERS["VariationalFM"]],
            {"dtype": word},
            f"dtype must be float64 or float32; got '{word}'",
            InvalidParameterError,
        )
        for word in ("float16", "")
    ),
    Row(
        15,
        "groups of 2",
        [at.PARAMETERS[name] for name in at.MACHINES],
        {"groups": [0, 1]},
        r"groups must name the group of each of 3 features; got shape \(2,\)",
        DataError,
    ),
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
        r"freeze names group 'c', which is not one of \['a', 'b'\]",
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
        "n_factors is 2, but the model was fitted with 5; set n_factors back, or call fit with all rows",
        DataError,
    ),
    *(
        Row(15, "n_samples=0", call(name, draw), None, "n_samples must be an integer of at least 1; got 0", DataError)
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
        "random_state: got 'a', wanted a non-negative int, a numpy Generator or RandomState, or None",
    ),
    *(
        Row(19, f"{n} rows", call(name, many(name, n)), None, text)
        for name, n, text in (
            ("GPPLRegressor", 100_000, r"needs 80\.0 GB.* set n_inducing"),
            ("GPPLClassifier", 30_000, r"needs 7\.2 GB.* set n_inducing"),
            ("CrowdGPPL.items", 30_000, r"30000 items .* needs 7\.2 GB.* set n_inducing to"),
            ("CrowdGPPL.users", 30_000, r"30000 users .* needs 7\.2 GB.* set n_inducing_users to"),
            ("GPOrdinalRegressor", 100_000, r"needs 80\.0 GB.*set inference='vb', or n_max_exact"),
            ("GPOrdinalRegressor.n_inducing", 100_000, r"needs 80\.0 GB.*set n_inducing"),
            ("SVGPRegressor", 40_000, r"needs 12\.8 GB.* set n_inducing"),
            ("SVGPClassifier", 40_000, r"needs 12\.8 GB.* set n_inducing"),
        )
    ),
    Row(
        19,
        "return_cov",
        call("GPPLRegressor.predict", lambda: fitted("GPPLRegressor").predict(np.zeros((20_000, 3)), return_cov=True)),
        None,
        r"covariance of 20000 items needs 3\.2 GB",
    ),
    *ROWS_OF_COMPARISONS,
    Row(26, "NaN", EVERY_TARGET, entry(1, np.nan), "Input y contains NaN"),
    Row(26, "infinity", TARGETS, entry(1, np.inf), "Input y contains infinity"),
    Row(29, "too few", EVERY_TARGET, lambda y: y[:-1], "inconsistent numbers of samples"),
    Row(38, "negative", at.WEIGHTS, lambda w: -w, "Negative values in data passed to `sample_weight`: -1 in row 0"),
    Row(38, "NaN", at.WEIGHTS, entry(3, np.nan), "sample_weight contains NaN"),
    Row(38, "infinity", at.WEIGHTS, entry(3, np.inf), "sample_weight contains infinity"),
    Row(38, "too few", at.WEIGHTS, np.ones(7), r"sample_weight.shape == \(7,\), expected \(\d+,\)"),
    Row(38, "2-D", at.WEIGHTS, lambda w: w[:, None], "Sample weights must be 1D array or scalar"),
    Row(38, "complex", at.WEIGHTS, 1j, "sample_weight must be numbers"),
    Row(38, "no float", at.WEIGHTS, 10**400, "sample_weight must be numbers"),
    Row(38, "no floats", at.WEIGHTS, lambda w: [10**400] * len(w), "sample_weight must be numbers"),
    Row(38, "words", at.WEIGHTS, lambda w: ["heavy"] * len(w), "sample_weight must be numbers"),
    Row(
        38,
        "zero",
        pick(at.WEIGHTS, "Ordinal", "SVGP", "Variational", "Gibbs"),
        np.zeros_like,
        "positive weight is required; every sample_weight is zero|must have rows of positive weight; got 0",
    ),
    Row(
        38,
        "one class",
        pick(at.WEIGHTS, "Ordinal"),
        (at.LEVEL == 1).astype(float),
        r"at least 2 classes \(levels\) must have rows of positive weight; got 1",
    ),
    Row(
        38,
        "one class",
        pick(at.WEIGHTS, "SVGPClassifier"),
        1.0 - at.CLASS,
        "number of classes has to be greater than one: at least 2 classes must have rows of positive weight; got 1",
    ),
    # VariationalFMOrdinal takes levels with fractions, such as half stars.
    Row(
        42,
        "1.5",
        pick(CLASSIFIED, "fit", without="FMOrdinal"),
        lambda y: y + 0.5 + 0.1 * np.arange(len(y)),
        "Unknown label type: continuous",
    ),
    Row(42, "None", CLASSIFIED, [None, *NAMES[1:]], r"Input y contains NaN \(row 0\)"),
    Row(42, "NaN among names", CLASSIFIED, [*NAMES[:-1], float("nan")], r"Input y contains NaN \(row 29\)"),
    Row(42, "mixed types", CLASSIFIED, [1, *NAMES[1:]], "Unknown label type"),
    Row(42, "no float", at.LABELS, lambda y: [10**400, *y.tolist()[1:]], "Unknown label type"),
    Row(42, "an integer that is no float", CLASSIFIED, [10**400, *[0.5] * (at.N - 1)], "Unknown label type"),
    Row(42, "mixed types after a name", CLASSIFIED, [*NAMES[:-1], 1], "Unknown label type"),
    Row(42, "a tuple", CLASSIFIED, [*NAMES[:-1], ("good",)], rf"row 0 is one value, row {at.N - 1} has length 1"),
    Row(
        42,
        "bytes",
        CLASSIFIED,
        [name.encode() for name in NAMES],
        "Support for labels represented as bytes is not supported",
        TypeError,
    ),
    *(Row(42, "no y but weights", call(name, lambda name=name: no_y(name)), None, NO_Y) for name in at.GIBBS),
    Row(46, "dictionaries", at.RATINGS, [{}] * len(at.RATING), "y must hold numbers or words"),
    Row(42, "no y", [*at.NUMBERS, *at.CLASSES, *at.LEVELS, *at.RATINGS], None, NO_Y),
    Row(0, "ragged", EVERY_TARGET, lambda y: [[y[0], y[0]], *y[1:]], "the rows of y have different lengths"),
    Row(42, "2-D", TARGETS, lambda y: np.column_stack([y, y]), "y should be a 1d array"),
    Row(
        43,
        "one class",
        at.LEVELS,
        np.ones(at.N, dtype=int),
        r"at least 2 classes \(levels\); got 1 class: 1 ",
    ),
    Row(43, "one name", at.LEVELS, ["good"] * at.N, r"at least 2 classes \(levels\); got 1 class: 'good' "),
    *(
        Row(number, what, [p._replace(call=partial(p.call, class_order=order)) for p in at.LEVELS], y, text)
        for number, what, y, order, text in (
            (
                43,
                "one class of 2",
                np.ones(at.N),
                [0.0, 1.0],
                r"at least 2 classes \(levels\); got 1 class: 1.0 ",
            ),
            (
                44,
                "level missing",
                GRADES,
                ["poor", "fair"],
                r"y holds 'good' .*, which is not among the levels 'poor', 'fair'",
            ),
            (44, "level twice", at.LEVEL, [0, 1, 2, 1], "class_order must list every level once"),
            (44, "level None", at.LEVEL, [0, 1, 2, None], "class_order must list every level once"),
            (44, "2-D", at.LEVEL, [[0, 1], [1, 2]], "class_order must list every level once"),
        )
    ),
    Row(45, "names", at.LEVELS, FIVE, r"state the order of the levels: class_order=\["),
    Row(46, "7 of 1..5", at.RATINGS, entry(4, 7.0), r"y holds 7(\.0)? \(user \d+, item \d+, row 4\), .*levels 1\.\.5"),
    Row(46, "0 of 1..5", at.RATINGS, entry(4, 0.0), r"y holds 0(\.0)? .*levels 1\.\.5"),
    Row(46, "2.5", at.RATINGS, entry(4, 2.5), r"y holds 2\.5 .*levels 1\.\.5"),
    Row(46, "infinity", at.RATINGS, entry(4, np.inf), r"infinite rating \(user \d+, item \d+, row 4\)"),
    *(
        Row(
            47,
            what,
            call(f"{name}.{what}", partial(run, name)),
            None,
            "duplicate ratings that differ: user .* rated item .* 2 times",
        )
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
        r"explicit zero in row 0, column 1 of the matrix",
    ),
    Row(52, "one class", pick(at.CLASSES, "FMClassifier.fit"), ["a"] * at.N, r"only one class: \['a'\]"),
    Row(
        52,
        "one class",
        pick(at.CLASSES, "SVGPClassifier.fit"),
        np.zeros(at.N),
        "number of classes has to be greater than one",
    ),
    Row(
        52,
        "new class",
        pick(at.CLASSES, "FMClassifier.partial_fit"),
        np.arange(at.N) % 3,
        r"label 2 in row 2 is not one of the classes \[0, 1\]",
    ),
    Row(
        52,
        "new class",
        pick(at.CLASSES, "SVGPClassifier.partial_fit"),
        np.arange(at.N) % 3,
        r"y has classes that `classes` lacks: \[2\]",
    ),
    Row(
        52,
        "3 classes",
        pick(at.CLASSES, "FMClassifier.fit"),
        np.arange(at.N) % 3,
        "Only binary classification is supported. The type of the target is multi",
    ),
    Row(
        54,
        "1e200",
        pick(at.ROWS, *at.MACHINES),
        entry((3, 1), 1e200),
        r"overflow in interactions; scale X: row 3 holds values up to 1e\+200",
    ),
    *(
        Row(
            54,
            "1e300",
            [p],
            lambda X: 1e300 * X,
            "X holds numbers whose squares overflow or .*: scale the features",
        )
        for p in pick(at.ROWS, "SVGPClassifier.fit", "GPOrdinalRegressor.fit")
    ),
    Row(
        54,
        "y of 1e300",
        pick(at.NUMBERS, "VariationalFM.fit"),
        lambda y: 1e300 * y,
        r"y has standard deviation 1\.\d+e\+300, whose square does not fit into float64; scale y",
        DataError,
    ),
    Row(
        54,
        "1e308",
        [Place("GPPLRegressor.fit", [[1e308], [-1e308]], lambda X: at.regressor().fit(X, [0, 1]))],
        lambda X: X,
        "X holds numbers whose differences overflow: scale the features",
    ),
    *(
        Row(61, what, SPARSE_ROWS, damage, rf"{noun} is a damaged {kind} matrix: .*Build it anew", DataError)
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
        " is a damaged CSR matrix: indices holds 1000000 at place 5, wanted 0 to 2",
        DataError,
    ),
    *(
        Row(65, what, pick(at.ROWS, without="utility"), spoiled, text, DataError)
        for what, spoiled, text in (
            ("dates", lambda X: X.astype("datetime64[s]"), r"X holds dates or durations \(datetime64\[s\]\)"),
            ("durations", lambda X: X.astype("timedelta64[s]"), r"X holds dates or durations \(timedelta64"),
            ("NaT", entry((3, 1), np.datetime64("NaT", "s")), r"X holds dates or durations \(datetime64\) in column 1"),
            ("masked", masked, r"Input X contains NaN: row 3 in column 1 is masked"),
            ("column of dates", column("M8[s]"), r"X holds dates or durations \(datetime64\[s\]\) in column 'b'"),
            ("category without value", column("category"), "Input X contains NaN: row 3 in column 'b' has no value"),
            (
                "NA",
                column("Int64"),
                r"Input X contains NaN: (item 3 \(row 3\) has no value in column 1, 'b'|row 3 in column 'b')",
            ),
        )
    ),
    Row(65, "masked", [*at.NUMBERS, *at.CLASSES, *at.LEVELS, *at.RATINGS], masked, "Input y contains NaN: row 3"),
    Row(65, "masked", at.WEIGHTS, masked, "Input sample_weight contains NaN: row 3 is masked"),
    Row(2, "long float", at.NUMBERS, lambda y: y.astype("longdouble") * np.longdouble("1e400"), "Input y contains inf"),
    Row(26, "None", at.NUMBERS, lambda y: [None, *y[1:].tolist()], "Input y contains NaN"),
    Row(65, "durations", at.NUMBERS, lambda y: y.astype("timedelta64[s]"), "y holds dates or durations"),
    # ----------------------------------------------------------------------------------- what the table does not number
    Row(0, "neither y nor comparisons", call("GPPLRegressor.fit", lambda: at.regressor().fit(at.X)), None, NO_Y),
    Row(
        0,
        "y and comparisons",
        call("GPPLRegressor.fit", lambda: at.regressor().fit(at.X, at.SCORE, comparisons=at.PAIRS)),
        None,
        "either y or comparisons, not both: each of them says which rows are preferred",
    ),
    Row(
        0,
        "other rows",
        methods("GPPLRegressor", at.X[:2], names="predict_preference"),
        at.X,
        "X_left and X_right must have the same number of rows; got 30 and 2",
    ),
    Row(
        0,
        "std and cov",
        call("GPPLRegressor.predict", lambda: fitted("GPPLRegressor").predict(at.X, return_std=True, return_cov=True)),
        None,
        "At most one of return_std and return_cov can be .*; got both",
    ),
    Row(
        0,
        "inducing points",
        [at.PARAMETERS["CrowdGPPL"]],
        {"items": at.ITEMS, "inducing": np.eye(5)},
        "the inducing points have 5 features, but X has 3 features",
    ),
    Row(
        0,
        "not square",
        call("GPOrdinalRegressor.fit", lambda: precomputed(at.X)),
        None,
        r"Precomputed matrix must be square.*got shape \(30, 3\)",
    ),
    Row(
        0,
        "not symmetric",
        call("GPOrdinalRegressor.fit", lambda: precomputed(np.tril(at.K))),
        None,
        r"must be symmetric; got K\[\d+, \d+\]=",
    ),
    Row(
        0,
        "not definite",
        call("GPOrdinalRegressor.fit", lambda: precomputed(at.K - np.eye(at.N))),
        None,
        "positive semi-definite; its lowest",
    ),
    Row(
        0,
        "sparse inference",
        call("GPOrdinalRegressor.fit", lambda: precomputed(inference="vb")),
        None,
        "inference='vb' needs rows of features",
    ),
    Row(
        0,
        "in parts",
        call("GPOrdinalRegressor.partial_fit", lambda: at.ordinal(kernel="precomputed").partial_fit(at.K, at.LEVEL)),
        None,
        "partial_fit needs rows of features",
    ),
    Row(
        0,
        "relevance",
        call("GPOrdinalRegressor.relevance_", lambda: fitted("GPOrdinalRegressor(precomputed)").relevance_),
        None,
        "relevance_ needs features; kernel='precomputed' has none",
        AttributeError,
    ),
    Row(
        0,
        "length-scales",
        [at.PARAMETERS["GPOrdinalRegressor"]],
        {"kernel": RBF([1.0] * 2)},
        r"length_scale: got shape \(2,\) for 3 features, wanted one number or one per feature",
    ),
    Row(
        0,
        "inducing points",
        [at.PARAMETERS["GPOrdinalRegressor"]],
        {"inference": "vb", "inducing": at.X[:4, :2]},
        "the inducing points have 2 features, but X has 3 features",
    ),
    Row(
        0,
        "inducing points of NaN",
        [at.PARAMETERS["GPOrdinalRegressor"]],
        {"inference": "vb", "inducing": at.X[:4] * np.nan},
        "Input inducing contains NaN",
    ),
]
