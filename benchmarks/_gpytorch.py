"""Fit GPyTorch's SVGP in its own environment: ``python _gpytorch.py IN.npz OUT.npz``.

Run by ``regression.py`` with an interpreter that has torch and gpytorch; this file imports nothing of the benchmarks,
so that the two environments share only the two files.  ``IN.npz`` holds ``X``, ``y`` (standardised), ``X_test``,
``n_inducing``, ``batch_size``, ``n_steps``, ``classes`` (whether y is 0 or 1, seen through a probit); with ``n_steps``
0 natural-gradient steps alone are timed.  ``OUT.npz`` receives ``mean``, ``variance`` (of new y; for classes the mean
is the probability of 1), ``cpu_seconds``, ``step_seconds`` (CPU, of one natural-gradient step),
``bound`` (nats a row, mean of the last steps).

As its documentation has it: whitened natural variational distribution, NGD with step 0.1 for q, Adam with step 0.01
for hyper-parameters and inducing points, which start at rows; ARD squared exponential, float64, one thread.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import gpytorch
import numpy as np
import torch

#: Steps whose time is measured, after as many that are not.
TIMED = 10


class Model(gpytorch.models.ApproximateGP):
    """Constant mean, ARD squared exponential, inducing points learnt."""

    def __init__(self, points: torch.Tensor) -> None:
        q = gpytorch.variational.NaturalVariationalDistribution(points.shape[0])
        strategy = gpytorch.variational.VariationalStrategy(self, points, q, learn_inducing_locations=True)
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ConstantMean()
        rbf = gpytorch.kernels.RBFKernel(ard_num_dims=points.shape[1])
        rbf.lengthscale = points.shape[1] ** 0.5
        self.covar_module = gpytorch.kernels.ScaleKernel(rbf)
        self.covar_module.outputscale = 1.0

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        """Prior at some rows."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def main(source: Path, target: Path) -> None:
    """Read the problem, fit, predict, write."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    with np.load(source) as stored:
        given = {name: stored[name] for name in stored.files}
    X, y = torch.as_tensor(given["X"]), torch.as_tensor(given["y"])
    n, size, n_steps = X.shape[0], int(given["batch_size"]), int(given["n_steps"])
    points = X[torch.randperm(n)[: int(given["n_inducing"])]].clone()
    model = Model(points)
    likelihood = (
        gpytorch.likelihoods.BernoulliLikelihood if given["classes"] else gpytorch.likelihoods.GaussianLikelihood
    )()
    if not given["classes"]:
        likelihood.noise = 0.1
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=n)
    natural = gpytorch.optim.NGD(model.variational_parameters(), num_data=n, lr=0.1)
    adam = torch.optim.Adam([*model.hyperparameters(), *likelihood.parameters()], lr=0.01)
    model.train()
    likelihood.train()

    def step(index: torch.Tensor, *, hyper: bool) -> float:
        natural.zero_grad()
        adam.zero_grad()
        loss = -objective(model(X[index]), y[index])
        loss.backward()
        natural.step()
        if hyper:
            adam.step()
        return -float(loss)

    start, done, bounds = time.process_time(), 0, []
    while done < n_steps:
        for index in torch.randperm(n).split(size):
            bounds.append(step(index, hyper=True))
            done += 1
            if done == n_steps:
                break
    cpu_seconds = time.process_time() - start
    index = torch.randperm(n)[:size]
    for parameter in [*model.hyperparameters(), *likelihood.parameters()]:
        parameter.requires_grad_(requires_grad=False)
    times = []
    for _ in range(2 * TIMED):
        begun = time.process_time()
        step(index, hyper=False)
        times.append(time.process_time() - begun)
    model.eval()
    likelihood.eval()
    means, variances = [], []
    with torch.no_grad():
        for part in torch.as_tensor(given["X_test"]).split(4096):
            new = likelihood(model(part))
            means.append(new.mean.numpy())
            variances.append(new.variance.numpy())
    np.savez(
        target,
        mean=np.concatenate(means),
        variance=np.concatenate(variances),
        cpu_seconds=cpu_seconds,
        step_seconds=float(np.median(times[TIMED:])),
        bound=float(np.mean(bounds[-50:])) if bounds else np.nan,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
