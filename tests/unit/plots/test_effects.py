"""Effects of covariates, drawn."""

import numpy as np
import pytest

from skpref import GPPLClassifier
from skpref.exceptions import DataError
from skpref.plots import CovariateEffectsDisplay, offscreen_axes


def test_effects_are_drawn_for_typical_values():
    rng = np.random.default_rng(0)
    pairs = np.array([rng.permutation(4)[:2] for _ in range(100)])
    X = np.column_stack([pairs, 10.0 * rng.choice([-1, 1], 100)])
    model = GPPLClassifier(covariates=[2], order_effect=True).fit(X, rng.integers(0, 2, 100))
    display = CovariateEffectsDisplay.from_estimator(model, credibility=0.8, ax=offscreen_axes())
    assert display.names == ["2 = 10", "left side = 1"]
    np.testing.assert_allclose(display.effect, [10.0 * model.coef_[0], model.order_effect_[0]])
    assert "80 %" in display.ax_.get_xlabel()
    with pytest.raises(DataError, match="no effects to plot"):
        CovariateEffectsDisplay.from_estimator(GPPLClassifier().fit(pairs))
