"""skpref's own entries in the tables of `ordinal.py`.

- ``ours``: ``kernel="auto"``, chosen by evidence under weak priors among those that the estimator tries;
- ``ours-ep``, ``ours-map``: the paper's model, a squared-exponential kernel with one length-scale, by EP and by
  Laplace, from one start at the paper's kappa = 1/d: what ``plain-ep`` of `_ordinal_rivals` does.

``--ours`` overrides parameters of the estimator, whichever of the three it is.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from _ordinal_data import OrdinalPrediction, OrdinalSplit
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF

from skpref import LBFGS, GPOrdinalRegressor

if TYPE_CHECKING:
    from _data import FloatArray


def estimator(split: OrdinalSplit, params: dict[str, Any]) -> GPOrdinalRegressor:
    """Estimator for a cell; levels that are absent from training keep their place."""
    return GPOrdinalRegressor(**{"class_order": list(range(split.n_levels)), "random_state": 0} | params)


def probabilities(model: GPOrdinalRegressor, X: FloatArray, n_levels: int) -> FloatArray:
    """Columns by level, whatever `classes_` holds."""
    p = np.zeros((X.shape[0], n_levels))
    p[:, np.asarray(model.classes_, dtype=np.int64)] = model.predict_proba(X)
    return p


def fit_predict(split: OrdinalSplit, params: dict[str, Any]) -> OrdinalPrediction:
    """Fit `GPOrdinalRegressor` on the training rows and predict the test rows.

    Parameters
    ----------
    split : OrdinalSplit
        From `_ordinal_data`.
    params : dict
        Parameters of the estimator; ``kernel="auto"`` unless it says otherwise.

    Returns
    -------
    OrdinalPrediction
        Probabilities, the mode as the model's own level, its median level, CPU time.
    """
    model = estimator(split, {"kernel": "auto"} | params)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(split.train_X, split.train_y)
    seconds = time.process_time() - start
    return OrdinalPrediction(
        probabilities(model, split.test_X, split.n_levels),
        seconds,
        own=np.asarray(model.predict(split.test_X), dtype=np.int64),
        median=np.asarray(model.predict(split.test_X, loss="absolute"), dtype=np.int64),
        chosen=f"{model.kernel_}, noise {model.noise_:.3g}, evidence {model.log_marginal_likelihood_value_:.2f}",
    )


def fit_predict_ep(split: OrdinalSplit, params: dict[str, Any]) -> OrdinalPrediction:
    """The paper's model by EP."""
    kernel = RBF(np.sqrt(split.train_X.shape[1]))
    return fit_predict(split, {"kernel": kernel, "inference": "ep", "optimizer": LBFGS(0)} | params)


def fit_predict_map(split: OrdinalSplit, params: dict[str, Any]) -> OrdinalPrediction:
    """The paper's model by the Laplace approximation."""
    return fit_predict_ep(split, {"inference": "laplace"} | params)


def warm() -> None:
    """Load (or compile) what numba compiles, before a clock starts."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    y = np.digitize(X[:, 0], (-0.5, 0.5))
    for inference in ("ep", "laplace", "vb", "svi"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = GPOrdinalRegressor(kernel=RBF(), inference=inference, optimizer=LBFGS(0), random_state=0)
            model.fit(X, y).predict_proba(X)
