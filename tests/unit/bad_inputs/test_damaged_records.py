"""Every part of a fitted model that predictions need refuses what it cannot be, as `load` asks it to."""

from __future__ import annotations

from copy import copy
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from skpref.exceptions import SkprefError
from tests.unit.bad_inputs import places as at

if TYPE_CHECKING:
    from collections.abc import Iterator

# Only reported, or only used in some models.
REPORTED = (
    "lower_bound_ lower_bounds_ n_iter_ n_skipped_ converged_ risk_ risks_ r_hat_ effective_sample_size_ n_factors_ "
    "scale_ noise_ amplitude_ length_scale_ relevance_ inference_ log_marginal_likelihood_value_ n_samples_seen_ "
    "order_effect_ coef_ coef_std_ _warm_key _warm_start_key _distribution_key _segments _alive user_kernel_"
)
COPIES = {"SVGPClassifier": {"kernel_", "posterior_"}, "BayesianGPLVM": {"inducing_points_"}}
WORDS = {"estimator", "feature_names"}


def parts(record: Any) -> dict[str, Any]:
    if is_dataclass(record):
        return {field.name: getattr(record, field.name) for field in fields(record) if field.init}
    return record._asdict() if hasattr(record, "_asdict") else {}


def records(value: Any) -> Iterator[Any]:
    """Yield all records in a value that check themselves."""
    within = list(value.values()) if isinstance(value, dict) else list(parts(value).values())
    if isinstance(value, (list, tuple)) and not hasattr(value, "_asdict"):
        within = list(value)
    if parts(value) and hasattr(value, "validate"):
        yield value
    for part in within:
        yield from records(part)


def unused(record: Any, name: str) -> bool:
    """Tell whether a part has no meaning in such a record."""
    if type(record).__name__ == "ExactLatent":
        return name == "prior_variance" and record.kernel is not None
    if type(record).__name__ == "PersonalPosterior":
        return name.startswith("effect_") and name != "effect_precision" and not record.B.shape[1]
    return name in WORDS


@pytest.mark.parametrize("name", [*at.MAKERS, *at.VARIANTS])
def test_no_part_of_a_record_may_be_something_else(name: str) -> None:
    for record in records(vars(at.fitted(name))):
        record.validate()
        for part, value in parts(record).items():
            if unused(record, part):
                continue
            wrongs: list[Any] = ["damage"]
            wrongs += [value[None]] if isinstance(value, np.ndarray) else []
            wrongs += [-1, 0.5] if type(value) is int else []
            for wrong in wrongs:
                change = {part: wrong}
                damaged = replace(record, **change) if is_dataclass(record) else record._replace(**change)
                with pytest.raises(SkprefError):
                    damaged.validate()


@pytest.mark.parametrize("name", [*at.MAKERS, *at.VARIANTS])
def test_no_attribute_that_predictions_need_may_be_something_else(name: str) -> None:
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
def test_the_number_of_columns_belongs_to_the_posterior(name: str) -> None:
    damaged = copy(at.fitted(name))
    damaged.n_features_in_ = damaged.n_features_in_ + 1
    with pytest.raises(SkprefError):
        damaged._check_fitted()
