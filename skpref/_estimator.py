"""What every estimator does around its inference, whatever it infers."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skpref.exceptions import DataWarning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skpref._typing import Features


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:  # noqa: ANN401 - any estimator
    """Put the attributes back as they were if the body raises, so that an earlier fit stays usable.

    Parameters
    ----------
    estimator : estimator
        Whose attributes are guarded.

    Yields
    ------
    None
        Control to the body.
    """
    before = vars(estimator).copy()
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def warn_not_converged(estimator: Any, n_iter: int) -> None:  # noqa: ANN401 - any estimator
    """Warn that a fit stopped at its last iteration.

    Parameters
    ----------
    estimator : estimator
        For its name and `max_iter`.
    n_iter : int
        Iterations done.
    """
    msg = (
        f"{type(estimator).__name__} did not converge in {n_iter} iterations (max_iter={estimator.max_iter}). "
        "Increase max_iter, or tol."
    )
    warnings.warn(msg, ConvergenceWarning, stacklevel=3)


def warn_constant(X: Features) -> None:
    """Warn of features that have one value in all items, and so tell nothing apart.

    Parameters
    ----------
    X : {ndarray, CSR} of shape (n, d)
        Features of the items.
    """
    low, high = X.min(axis=0), X.max(axis=0)
    if not isinstance(X, np.ndarray):
        low, high = low.toarray().ravel(), high.toarray().ravel()
    constant = np.flatnonzero(low == high)
    if constant.size:
        few = ", ".join(map(str, constant[:5])) + (", ..." if constant.size > 5 else "")  # noqa: PLR2004 - enough to see
        msg = f"{constant.size} of {X.shape[1]} features are constant over the compared items (columns {few})."
        warnings.warn(msg + " They cannot tell items apart; drop them to silence this.", DataWarning, stacklevel=3)
