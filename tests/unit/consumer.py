"""Code of a user that mypy reads (`files` in pyproject.toml) and nothing runs: `fit` keeps the estimator's type."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

from skpref import (
    BayesianGPLVM,
    CrowdGPPL,
    GibbsIPM3F,
    GibbsM3F,
    GPOrdinalRegressor,
    GPPLClassifier,
    GPPLRegressor,
    OneHotDesign,
    SVGPClassifier,
    SVGPRegressor,
    VariationalFM,
    VariationalFMClassifier,
    VariationalFMOrdinal,
)
from skpref.search import OptunaSearch

if TYPE_CHECKING:
    from collections.abc import Hashable
    from datetime import date
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray


def fit_in_memory(X: NDArray[np.float64], y: NDArray[np.float64]) -> None:
    """Fit every estimator to arrays."""
    assert_type(BayesianGPLVM().fit(X), BayesianGPLVM)
    assert_type(CrowdGPPL().fit(X, y), CrowdGPPL)
    assert_type(GPOrdinalRegressor().fit(X, y), GPOrdinalRegressor)
    assert_type(GPPLClassifier().fit(X, y), GPPLClassifier)
    assert_type(GPPLRegressor().fit(X, y), GPPLRegressor)
    assert_type(GibbsIPM3F().fit(X, y), GibbsIPM3F)
    assert_type(GibbsM3F().fit(X, y), GibbsM3F)
    assert_type(OneHotDesign().fit(X), OneHotDesign)
    assert_type(SVGPClassifier().fit(X, y), SVGPClassifier)
    assert_type(SVGPRegressor().fit(X, y), SVGPRegressor)
    assert_type(VariationalFM().fit(X, y), VariationalFM)
    assert_type(VariationalFMClassifier().fit(X, y), VariationalFMClassifier)
    assert_type(VariationalFMOrdinal().fit(X, y), VariationalFMOrdinal)
    assert_type(OptunaSearch(SVGPRegressor()).fit(X, y), OptunaSearch)


def parameters_are_kept(X: NDArray[np.float64], y: NDArray[np.float64]) -> None:
    """Pass what `fit` refuses: an error that mypy does not find makes the comment one that is not needed."""
    SVGPRegressor().fit(X)  # type: ignore[call-arg]
    SVGPRegressor().fit(X, y, weights=y)  # type: ignore[call-arg]
    assert_type(SVGPRegressor().partial_fit(X, y, sample_weight=y).score(X, y), float)
    assert_type(GPPLClassifier().fit(X, y).predict_proba(X), "NDArray[np.float64]")


def other_inputs(
    pairs: list[tuple[str, str]], dates: list[tuple[date, date]], mixed: list[tuple[Hashable, ...]], path: Path
) -> None:
    """Pass ids of any kind, and files."""
    GPPLClassifier().fit(pairs).predict(dates)
    CrowdGPPL().fit(mixed)
    GibbsM3F().fit(dates, [1, 2]).predict(dates)
    SVGPRegressor().fit(path, "y")
    GPPLClassifier().fit(str(path), "y")


def what_predictions_return(X: NDArray[np.float64], y: NDArray[np.float64], *, spread: bool) -> None:
    """Ask for predictions with and without standard deviations."""
    assert_type(GPPLRegressor().fit(X, y).predict(X), "NDArray[np.float64]")
    assert_type(
        GPPLRegressor().fit(X, y).predict(X, return_cov=True), "tuple[NDArray[np.float64], NDArray[np.float64]]"
    )
    assert_type(GPPLClassifier().fit(X, y).utility(), "NDArray[np.float64]")
    assert_type(CrowdGPPL().fit(X, y).utility(users=X), "NDArray[np.float64]")
    assert_type(VariationalFM().fit(X, y).predict(X), "NDArray[np.float64]")
    mean, std = VariationalFM().fit(X, y).predict(X, return_std=True)
    assert_type((mean, std), "tuple[NDArray[np.float64], NDArray[np.float64]]")
    assert_type(GibbsM3F().fit(X, y).predict_score(X), "NDArray[np.float64]")
    assert_type(GPOrdinalRegressor().fit(X, y).predict_latent(X), "NDArray[np.float64]")
    assert_type(BayesianGPLVM().fit(X).transform(X), "NDArray[np.float64]")
    assert_type(SVGPRegressor().fit(X, y).predict(X), "NDArray[np.float64]")
    assert_type(
        SVGPRegressor().fit(X, y).predict(X, return_cov=True), "tuple[NDArray[np.float64], NDArray[np.float64]]"
    )
    assert_type(SVGPRegressor().fit(X, y).predict_latent(X), "NDArray[np.float64]")
    assert_type(SVGPClassifier().fit(X, y).predict_latent(X), "NDArray[np.float64]")
    either = BayesianGPLVM().fit(X).reconstruct(X, return_std=spread)
    assert_type(either, "NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]]")
