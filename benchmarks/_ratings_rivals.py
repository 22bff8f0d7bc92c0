"""Run by `ratings.py rivals` and `rating_levels.py --rivals` with the Python of an environment with myFM and Surprise.

    python _ratings_rivals.py DATA OUT {myfm,surprise}

DATA holds pairs X and levels y of the training ratings and pairs X_test; OUT gets predicted levels, of myFM their
probabilities p, and CPU seconds.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import time

import numpy as np

_RANK, _SWEEPS, _KEPT = 20, 200, 150


def ordered_probit(X, y, X_test):  # noqa: ANN001, ANN202 - arrays
    """Probabilities of the levels by myFM's ordered probit, Gibbs sampling."""
    import myfm
    from scipy import sparse

    (users, user), (items, item) = (np.unique(column, return_inverse=True) for column in X.T)
    places = [np.searchsorted(known, column) for known, column in ((users, X_test[:, 0]), (items, X_test[:, 1]))]
    # Ids that were not in training have no column: their rows are shorter.
    known = [users[np.minimum(places[0], users.size - 1)] == X_test[:, 0]]
    known.append(items[np.minimum(places[1], items.size - 1)] == X_test[:, 1])

    def design(u, i, has_u, has_i):  # noqa: ANN001, ANN202
        rows = np.arange(u.size)
        at = np.concatenate([rows[has_u], rows[has_i]]), np.concatenate([u[has_u], users.size + i[has_i]])
        return sparse.csr_matrix((np.ones(at[0].size), at), (u.size, users.size + items.size))

    every = np.ones(user.size, dtype=bool)
    model = myfm.MyFMOrderedProbit(_RANK, random_seed=0)
    shapes = [users.size, items.size]
    coded = np.unique(y, return_inverse=True)[1]
    model.fit(design(user, item, every, every), coded, n_iter=_SWEEPS, n_kept_samples=_KEPT, group_shapes=shapes)
    return model.predict_proba(design(*places, *known))


def svd(X, y, X_test):  # noqa: ANN001, ANN202 - arrays
    """Surprise's SVD with its own settings, rounded to levels."""
    import pandas as pd
    import surprise

    table = pd.DataFrame({"user": X[:, 0], "item": X[:, 1], "rating": y})
    data = surprise.Dataset.load_from_df(table, surprise.Reader(rating_scale=(1, 5)))
    model = surprise.SVD(random_state=0).fit(data.build_full_trainset())
    scores = np.array([model.predict(u, i).est for u, i in X_test])
    return np.clip(np.rint(scores), 1, 5).astype(int)


def main(data: str, out: str, kind: str) -> None:
    """Fit and predict."""
    given = np.load(data)
    began = time.process_time()
    rows = given["X"], given["y"], given["X_test"]
    if kind == "myfm":
        p = ordered_probit(*rows)
        predicted = np.unique(given["y"])[np.argmax(np.cumsum(p, axis=1) >= 0.5, axis=1)]
    else:
        p, predicted = np.zeros(0), svd(*rows)
    np.savez(out, p=p, predicted=predicted, seconds=time.process_time() - began)


if __name__ == "__main__":
    main(*sys.argv[1:4])
