"""The smallest and largest values that parameters take, and the next beyond them."""

import pytest
from sklearn.base import clone
from sklearn.utils._param_validation import InvalidParameterError

from skpref import LBFGS, SVI, Adam, FactorPrior, Fixed, Gamma, Inducing
from tests.unit.bad_inputs import places as at

SCALE = [1e-9, 1e9], [0.9e-9, 1.1e9]
PRIOR = [Gamma(1e-6, 1e6), Gamma(1e6, 1e-6), None], [Gamma(0.9e-6, 1.0), Gamma(1.0, 1.1e6), "wide"]
METHODS = "kmeans++", "kmeans", "random", "variance"
INDUCING = [1, 2, *(Inducing(1, method) for method in METHODS)], [0, 1.5, "grid", Inducing(0), Inducing(3, "grid")]
STEPS = (
    [SVI(1, 0.0, 0.5 + 1e-9), SVI(None, 0.5, 1.0)],
    [SVI(0), SVI(1.5), SVI(1, -1e-9), SVI(1, 1.0, 0.5), SVI(1, 1.0, 1.1)],
)
# Of each parameter, values that are taken and values that are not; a dot leads to those of single estimators.
LIMITS = {
    name: limits
    for names, limits in (
        ("max_iter n_chains n_components", ([1, 2], [0, 1.5])),
        ("batch_size window n_iter_no_change pairs_per_item n_max_exact", ([1, 2], [0, 1.5])),
        ("burn_in n_factors max_new", ([0, 1], [-1, 0.5])),
        ("GibbsM3F.n_factors GibbsM3F.n_samples GibbsIPM3F.n_samples", ([1, 2], [0, 1.5])),
        ("n_samples", ([0, 1], [-1, 0.5])),
        ("tol C", ([0.0, 0.5], [-1e-9])),
        ("learning_rate noise", ([1e-9, 0.5], [0.0, -1.0])),
        ("validation_fraction", ([1e-9, 1.0 - 1e-9, None], [0.0, 1.0])),
        ("alpha", ([1e-9, 1e4], [0.0, 1.1e4])),
        ("scale_prior", ([*PRIOR[0], Fixed(1e-6), Fixed(1e6)], [*PRIOR[1], Fixed(1.1e6)])),
        ("factor_prior", tuple([FactorPrior(item_scale=prior) for prior in priors] for priors in PRIOR)),
        ("GPPLClassifier.inference CrowdGPPL.inference SVGPRegressor.inference GPOrdinalRegressor.inference", STEPS),
        (
            "GPPLClassifier.optimizer GPOrdinalRegressor.optimizer",
            ([None, LBFGS(0), LBFGS(1)], [LBFGS(-1), LBFGS(0.5)]),
        ),
        ("SVGPRegressor.optimizer", ([None, Adam(1e-9)], [Adam(0.0)])),
        ("margin sigma threshold_scale", SCALE),
        ("inducing", INDUCING),
        ("VariationalFM.batch_size SVGPRegressor.window BayesianGPLVM.batch_size", ([None, 1], [0])),
        ("BayesianGPLVM.inducing", ([1, 2], [0, 1.5])),
    )
    for name in names.split()
}


@pytest.mark.parametrize("name", at.MAKERS)
def test_values_at_the_limits_are_taken_and_those_beyond_are_not(name):
    model = clone(at.MAKERS[name]())
    for parameter, default in model.get_params(deep=False).items():
        accepted, refused = LIMITS.get(f"{name}.{parameter}", LIMITS.get(parameter, ([], [])))
        for value in accepted:
            model.set_params(**{parameter: value})._validate_params()
        for value in refused:
            with pytest.raises(
                InvalidParameterError, match=f"The '.*' parameter of ({name}|{type(value).__name__}|Gamma)"
            ):
                model.set_params(**{parameter: value})._validate_params()
        model.set_params(**{parameter: default})
