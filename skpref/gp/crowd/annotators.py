"""What a crowd's posterior says of each annotator: agreement, accuracy, distance from the consensus, position bias."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from skpref._estimator import check_n_samples
from skpref.exceptions import DataError

if TYPE_CHECKING:
    import numpy.typing as npt

    from skpref._typing import Array, IntArray
    from skpref.data import Comparisons
    from skpref.gp.crowd.posterior import CrowdPosterior
    from skpref.gp.entities import Items
    from skpref.likelihoods import Likelihood

_PAIRS = 300  # compared pairs on which accuracies are measured: standard error of their average below .03
_CHUNK = 2**22  # numbers of personal draws held at once


@dataclass(frozen=True, eq=False)
class Annotators:
    """One row a user; see `CrowdGPPL.annotators`."""

    user: npt.NDArray[Any]  # (n,): ids
    n_labels: Array  # (n,): as in `CrowdGPPL.annotators`
    agreement: Array  # (n,): as in `CrowdGPPL.annotators`
    accuracy: Array  # (n,): as in `CrowdGPPL.annotators`
    accuracy_low: Array  # (n,): as in `CrowdGPPL.annotators`
    accuracy_high: Array  # (n,): as in `CrowdGPPL.annotators`
    distance: Array  # (n,): as in `CrowdGPPL.annotators`
    bias: Array | None = None  # (n,): advantage given to the left side; None without an order effect
    bias_low: Array | None = None  # (n,): advantage given to the left side; None without an order effect
    bias_high: Array | None = None  # (n,): advantage given to the left side; None without an order effect

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns by name, in order."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def frame(self) -> Any:
        """Return a data frame where pandas is installed."""
        if importlib.util.find_spec("pandas") is None:
            return self
        import pandas as pd

        return pd.DataFrame(self.columns())

    def __len__(self) -> int:
        """Number of users."""
        return len(self.user)


def describe_annotators(
    posterior: CrowdPosterior,
    ids: Any,
    seen: tuple[Items, Items, Comparisons],
    likelihood: Likelihood,
    draws: tuple[float, int],
    rng: np.random.Generator,
) -> Annotators:
    """Describe every user."""
    credibility, n_samples = draws
    if not 0.0 < credibility < 1.0:
        msg = f"credibility must be a probability between 0 and 1, such as 0.9; got {credibility!r}."
        raise DataError(msg)
    check_n_samples(n_samples)
    users, items, comparisons = seen
    tails = np.array([50.0 * (1.0 - credibility), 50.0 * (1.0 + credibility)])
    accuracy, low, high = _accuracies(
        posterior, (users, items), _some_pairs(comparisons, rng), likelihood, n_samples, tails, rng
    )
    bias = _biases(posterior, users, credibility) if "bias" in posterior.scales else (None, None, None)
    n_labels = np.bincount(np.asarray(comparisons.user), comparisons.weight, users.size).astype(np.float64)
    return Annotators(
        np.asarray(ids),
        n_labels,
        _agreement(posterior, items, comparisons, users.size),
        accuracy,
        low,
        high,
        _distances(posterior, users, items),
        *bias,
    )


def _some_pairs(comparisons: Comparisons, rng: np.random.Generator) -> tuple[IntArray, IntArray, Array]:
    """Pairs of items that were compared, as often as they were: each once with its weight, or 300 drawn by weight."""
    n, weight = comparisons.n_pairs, comparisons.weight / comparisons.weight.sum()
    if n <= _PAIRS:
        return comparisons.left, comparisons.right, weight
    rows = rng.choice(n, _PAIRS, p=weight)
    return comparisons.left[rows], comparisons.right[rows], np.full(_PAIRS, 1.0 / _PAIRS)


def _agreement(posterior: CrowdPosterior, items: Items, comparisons: Comparisons, n_users: int) -> Array:
    """Share of each user's answers that favours the side of the consensus; NaN with ties alone.

    A soft label is that share of an answer for the left item, and the rest of it for the right one.
    """
    u = posterior.consensus.utility(items)[0]
    side = np.sign(u[comparisons.left] - u[comparisons.right])
    decided = np.where(comparisons.y == 0.5, 0.0, comparisons.weight)
    user = np.asarray(comparisons.user)
    total = np.bincount(user, decided, n_users)
    with_it = np.bincount(user, decided * (0.5 + side * (comparisons.y - 0.5)), n_users)
    return np.divide(with_it, total, out=np.full(n_users, np.nan), where=total > 0.0)


def _accuracies(
    posterior: CrowdPosterior,
    people: tuple[Items, Items],
    pairs: tuple[IntArray, IntArray, Array],
    likelihood: Likelihood,
    n_samples: int,
    tails: Array,
    rng: np.random.Generator,
) -> tuple[Array, Array, Array]:
    """Mean and interval of the probability that an answer of a user agrees with the consensus, order effects aside."""
    users, items = people
    *sides, weight = pairs
    used, inverse = np.unique(np.concatenate(sides), return_inverse=True)
    a, b = np.split(inverse, 2)
    some = items.take(used)
    t = posterior.consensus.sample_residuals_independently(some, n_samples, rng)
    t = t[:, a] - t[:, b]
    v = posterior.items.sample(some, n_samples, rng)
    v = v[:, :, a] - v[:, :, b]
    side = np.sign(t)
    out = np.empty((3, users.size))
    step = max(1, _CHUNK // max(1, n_samples * len(a)))
    for start in range(0, users.size, step):
        group = users.take(slice(start, start + step))
        w = posterior.users.sample(group, n_samples, rng)
        z = t[:, None, :] + np.einsum("sdu,sdp->sup", w, v)
        agree = likelihood.predict(side[:, None, :] * z, np.zeros_like(z)) @ weight
        out[0, start : start + step] = agree.mean(axis=0)
        out[1:, start : start + step] = np.percentile(agree, tails, axis=0)
    return out[0], out[1], out[2]


def _distances(posterior: CrowdPosterior, users: Items, items: Items) -> Array:
    v = posterior.items.moments(items)[0] - posterior.centre[:, None]
    w = posterior.users.moments(users)[0]
    return np.asarray(np.sqrt(np.maximum(np.einsum("du,de,eu->u", w, v @ v.T / items.size, w), 0.0)))


def _biases(posterior: CrowdPosterior, users: Items, credibility: float) -> tuple[Array, Array, Array]:
    """Posterior mean and interval of the advantage that each user gives to the left side."""
    shared = posterior.consensus.order_effect
    mean, variance = (x[:-1] for x in posterior.bias(users))
    reach = ndtri(0.5 + 0.5 * credibility) * np.sqrt(variance + shared[1])
    centre = mean + shared[0]
    return centre, centre - reach, centre + reach
