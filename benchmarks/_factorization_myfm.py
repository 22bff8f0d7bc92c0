"""Run by `factorization.py --rivals` with the interpreter of an environment that has myFM.

    python _factorization_myfm.py DATA OUT {variational,gibbs} RANK

DATA holds users u, items i, ratings y and the test mask; OUT gets predictions and CPU seconds.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import time

import myfm
import numpy as np
from scipy import sparse

_PASSES = {"variational": 50, "gibbs": 300}


def main(data: str, out: str, kind: str, rank: int) -> None:
    """Fit a regression, and a classification where myFM has one."""
    given = np.load(data)
    u, i, y, test = (given[name] for name in ("u", "i", "y", "test"))
    sizes, n = [int(u.max()) + 1, int(i.max()) + 1], u.size
    entries = np.ones(2 * n), np.column_stack([u, sizes[0] + i]).ravel(), np.arange(0, 2 * n + 1, 2)
    X = sparse.csr_matrix(entries, (n, sum(sizes)))
    found, cost, passes = {}, [], _PASSES[kind]
    options = {"n_iter": passes, "group_shapes": sizes}
    if kind == "gibbs":
        options["n_kept_samples"] = passes - 20
    regressor = (myfm.VariationalFMRegressor if kind == "variational" else myfm.MyFMRegressor)(rank, random_seed=0)
    began = time.process_time()
    regressor.fit(X[~test], y[~test].astype(float), **options)
    cost.append((time.process_time() - began, passes))
    found["mean"] = regressor.predict(X[test])
    classifier = (myfm.VariationalFMClassifier if kind == "variational" else myfm.MyFMClassifier)(rank, random_seed=0)
    began = time.process_time()
    classifier.fit(X[~test], (y[~test] >= 4).astype(float), **options)
    cost.append((time.process_time() - began, passes))
    found["p"] = classifier.predict_proba(X[test])
    np.savez(out, cost=np.array(cost), **found)


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
