"""skpref's own entry in the tables: one estimator, its defaults, and what the data say of themselves.

What is set by the kind of data, not by trial on the test sets:

- ties in the training labels (ukpconvarg) -> ``likelihood="probit-ties"``;
- a left side that may have an advantage (nba) -> ``order_effect=True``;
- test labels that are aggregated answers, not single ones (ukpconvarg's gold pairs) -> the probability that the left
  item *is* better (`predict_preference`), not the one that a single answer says so; ``{"answers": "single"}`` gives the
  latter.
"""

from __future__ import annotations

import time
import tracemalloc
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from _data import Prediction

from skpref import GPPLClassifier, Table
from skpref.exceptions import DataWarning

if TYPE_CHECKING:
    from _data import Split, Task


def fit_predict(task: Task, split: Split, params: dict[str, Any]) -> Prediction:
    """Fit `GPPLClassifier` on the training pairs and predict the test pairs.

    Parameters
    ----------
    task, split : Task, Split
        From `_data`.
    params : dict
        Parameters of the estimator; "answers": "single" or "latent" (default: latent for ukpconvarg's gold pairs);
        "memory": whether to trace the peak of numpy's memory, which slows the fit.

    Returns
    -------
    Prediction
        Probabilities, utilities, CPU time.
    """
    params = dict(params)
    gold = params.pop("answers", "latent" if task.name == "ukpconvarg-unseen" else "single") == "latent"
    memory = bool(params.pop("memory", False))
    defaults = {"random_state": 0, "order_effect": task.order_effect}
    if np.any(split.train_y == 0.5):
        defaults["likelihood"] = "probit-ties"
    model = GPPLClassifier(items=Table(task.features), **{**defaults, **params})
    pairs = np.column_stack([split.train_left, split.train_right])
    if memory:
        tracemalloc.start()
    start = time.process_time()
    with warnings.catch_warnings():
        # Topics are never compared with each other: the features join them, as they are to.
        warnings.simplefilter("ignore", DataWarning)
        model.fit(pairs, split.train_y)
    seconds = time.process_time() - start
    peak = tracemalloc.get_traced_memory()[1] / 1e6 if memory else None
    tracemalloc.stop()
    test = np.column_stack([split.test_left, split.test_right])
    probability = model.predict_preference(test) if gold else model.predict_proba(test)[:, 1]
    chosen = f"bound {model.lower_bound_:.1f}, {model.n_iter_} passes, {model.kernel_}"
    return Prediction(probability, model.utility(), seconds, peak, chosen if len(chosen) < 200 else chosen[:200])
