"""Choices of ordinal regression that are not parameters, each with what decided it."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Policy:
    """Numbers that could be others; limits that follow from arithmetic or memory stand where they are used."""

    # Defaults
    inducing: int = 300  # inducing points
    batch_size: int = 1000  # rows of a batch in SVI
    restarts: int = 2  # restarts of a search for the parameters of a given kernel

    # Search of families, from few rows to all
    few_rows: int = 250  # rows of the first exact search of families
    more_rows: int = 600  # rows of the last one
    sparse_rows: int = 1000  # rows of the last one if the final inference has inducing points
    sample_rows: int = 20_000  # rows of the search through inducing points
    least_gain: float = 1.0  # nats: features that add less are left to the search of all
    most_added: int = 30  # features that are added, at a search each
    more_iterations: int = 6  # iterations of a search that continues at more rows
    most_single_scales: int = 256  # features with length-scales of their own: with so many a fit takes 20 s
    hopeless: float = 3.0  # nats that the start of a search with another likelihood may lie behind
    least_weight: float = 0.02  # weight below which a family is left out
    least_large_weight: float = 0.2  # weight below which it is left out where each model takes time
    refinements: int = 2  # fits of thresholds and noise at all rows after the search
    # Evaluations without convergence after which a search ends: such values depend on the path to them, and a search
    # among them does not end (weights of 1 and 1e300 together).
    most_unconverged: int = 10
    restart_width: float = 1.5  # e-folds around the first start within which restarts are uniform
    near: float = 1.5  # change of log hyper-parameters up to which an inference starts at the posterior of the last one

    # Tolerances
    # Tolerance of `hyper.maximise`: a search ends at a gain of less than 2e-4 of the evidence.
    maximise_tol: float = 2e-2
    # Exact inference in a search: the evidence is stationary in the sites, its error about n 1e-6.
    search_tol: float = 1e-3
    # Inference on some of the rows, and in the refinements: the evidence is then off by hundredths of a nat.
    rough_tol: float = 1e-2
    bound_tol: float = 1e-4  # sparse inference within a search, as `Schedule.tol`
    mode_tol: float = 1e-5  # error of Laplace's mode, in posterior standard deviations
    final_tol: float = 1e-6  # tolerance of the last exact inference

    # Families and their priors beside those of `hyperpriors`: means and standard deviations of logarithms
    # Smoothness of kernels with one length-scale; the first is searched from the start.
    smoothness: tuple[float, ...] = (1.5, np.inf, 0.5)
    noise_prior: tuple[float, float] = (-1.0, 1.5)  # standard deviation of the noise, in levels
    linear_prior: tuple[float, float] = (-0.7, 1.5)  # variance of the linear part
    fixed_scale_sd: float = 1e-2  # scale of a linear kernel alone, which the noise determines
    linear_odds: float = 1.0  # nats against a linear part: where it is wrong it predicts badly far from the data
    absent_sd: float = 1.0  # width of a level between thresholds that the data do not determine
    # Bounds in prior standard deviations of f: beyond them predictions hardly change.
    first_threshold: tuple[float, float] = (-1e2, 1e2)
    curvature_step: float = 0.05  # step of the differences of gradients that give H
    least_curvature: float = 1e-2  # least eigenvalue of H: a direction without information is 10 e-folds wide


POLICY = Policy()
