"""The smallest and largest values that parameters take, and the next beyond them."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.base import clone
from sklearn.utils._param_validation import InvalidParameterError

from tests.unit.bad_inputs import places as at

GAMMA = [1e-6, 1e6], [0.9e-6, 1.1e6]
SCALE = [1e-9, 1e9], [0.9e-9, 1.1e9]
INDUCING = ["kmeans++", "kmeans", "random", "variance"], ["grid"]
# Of each parameter, values that are taken and values that are not; a dot leads to those of single estimators.
LIMITS: dict[str, tuple[list[Any], list[Any]]] = {
    name: limits
    for names, limits in (
        ("n_inducing n_inducing_users max_iter n_epochs n_sweeps n_chains n_components", ([1, 2], [0, 1.5])),
        ("batch_size window n_iter_no_change pairs_per_item n_max_exact", ([1, 2], [0, 1.5])),
        ("n_restarts_optimizer burn_in n_factors max_new", ([0, 1], [-1, 0.5])),
        ("GibbsM3F.n_factors GibbsM3F.n_samples GibbsIPM3F.n_samples", ([1, 2], [0, 1.5])),
        ("VariationalFMOrdinal.n_sweeps", ([2, 3], [1, 2.5])),
        ("n_samples", ([0, 1], [-1, 0.5])),
        ("tol delay C checkpoint_seconds", ([0.0, 0.5], [-1e-9])),
        ("learning_rate noise", ([1e-9, 0.5], [0.0, -1.0])),
        ("forgetting_rate", ([0.5 + 1e-9, 1.0], [0.5, 1.0 + 1e-9])),
        ("validation_fraction", ([1e-9, 1.0 - 1e-9, None], [0.0, 1.0])),
        ("alpha", ([1e-9, 1e4], [0.0, 1.1e4])),
        ("shape_s0 rate_s0 shape_sd0 rate_sd0 shape_sw0 rate_sw0", GAMMA),
        ("length_scale_factor", ([*GAMMA[0], "auto"], GAMMA[1])),
        ("margin sigma threshold_scale", SCALE),
        ("inducing", INDUCING),
        ("VariationalFM.batch_size SVGPRegressor.window BayesianGPLVM.batch_size", ([None, 1], [0])),
        ("GPPLClassifier.batch_size SVGPRegressor.batch_size GPOrdinalRegressor.batch_size", ([1], [0, None])),
    )
    for name in names.split()
}


@pytest.mark.parametrize("name", at.MAKERS)
def test_values_at_the_limits_are_taken_and_those_beyond_are_not(name: str) -> None:
    model = clone(at.MAKERS[name]())
    for parameter, default in model.get_params(deep=False).items():
        accepted, refused = LIMITS.get(f"{name}.{parameter}", LIMITS.get(parameter, ([], [])))
        for value in accepted:
            model.set_params(**{parameter: value})._validate_params()
        for value in refused:
            with pytest.raises(InvalidParameterError, match=f"The '{parameter}' parameter of {name}"):
                model.set_params(**{parameter: value})._validate_params()
        model.set_params(**{parameter: default})
