"""Fit BoTorch's PairwiseGP in its own environment: ``python _botorch.py IN.npz OUT.npz``.

Run by `_rivals.botorch` with an interpreter that has torch and botorch; this file
imports nothing of the benchmarks, so that the two environments share only the two
files.  ``IN.npz`` holds ``features`` (n_items, n_features), ``winner``, ``loser``
(rows of the items), ``left``, ``right`` (the test pairs); ``OUT.npz`` receives
``probabilities``, ``utilities``, ``cpu_seconds``, ``peak_mb``.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood

#: L-BFGS-B iterations.  One takes about ten seconds of CPU: each evaluation solves for
#: the mode of 1,020 utilities anew.
MAX_ITER = 5

#: Test pairs whose joint posterior is computed at once.
CHUNK = 256


def fit(features: torch.Tensor, winner: np.ndarray, loser: np.ndarray) -> PairwiseGP:
    """Fit on the compared items, as shipped: ARD squared exponential, probit, Laplace."""
    compared, rows = np.unique(np.concatenate([winner, loser]), return_inverse=True)
    pairs = torch.as_tensor(rows.reshape(2, -1).T.copy())
    model = PairwiseGP(features[compared], pairs)
    objective = PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model)
    # One attempt: stopping at MAX_ITER would otherwise start a second one.
    fit_gpytorch_mll(
        objective,
        optimizer_kwargs={"options": {"maxiter": MAX_ITER}},
        max_attempts=1,
    )
    return model


def probabilities(
    model: PairwiseGP,
    left: torch.Tensor,
    right: torch.Tensor,
) -> np.ndarray:
    """Probability of left: Phi(mean / sqrt(2 + variance)) of the utility difference."""
    chunks = []
    for start in range(0, left.shape[0], CHUNK):
        # Shape (chunk, 2, n_features): a batch of joint posteriors over two items.
        pair = torch.stack([left[start : start + CHUNK], right[start : start + CHUNK]], 1)
        posterior = model.posterior(pair)
        mean = posterior.mean[..., 0]
        covariance = posterior.distribution.covariance_matrix
        difference = mean[:, 0] - mean[:, 1]
        diagonal = covariance.diagonal(dim1=-2, dim2=-1).sum(-1)
        variance = (diagonal - 2.0 * covariance[:, 0, 1]).clamp_min(0.0)
        # Two unit-variance noises, one an item: the model's probit has sqrt(2).
        chunks.append(torch.special.ndtr(difference / (2.0 + variance).sqrt()))
    return torch.cat(chunks).numpy()


def main(source: Path, target: Path) -> None:
    """Read the problem, fit, predict, write."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with np.load(source) as stored:
        problem = {name: stored[name] for name in stored.files}
    start = time.process_time()
    features = torch.as_tensor(problem["features"], dtype=torch.float64)
    # Its length-scales start near 0.5: standardised features are brought to unit mean
    # square distance, else no item knows another (accuracy .52, log-loss .693).
    features = features / features.shape[1] ** 0.5
    model = fit(features, problem["winner"], problem["loser"])
    cpu_seconds = time.process_time() - start
    with torch.no_grad():
        utilities = model.posterior(features).mean[..., 0].numpy()
        p = probabilities(model, features[problem["left"]], features[problem["right"]])
    # ru_maxrss is in kB on Linux.
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    np.savez(
        target,
        probabilities=p,
        utilities=utilities,
        cpu_seconds=cpu_seconds,
        peak_mb=peak_mb,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
