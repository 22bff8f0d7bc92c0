"""Choices of searches for parameters that are not parameters themselves, each with what decided it."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Policy:
    """Numbers that could be others; limits that follow from arithmetic or memory stand where they are used."""

    # Spaces
    few_items: int = 100  # items up to which all are inducing points, and their number is not searched
    most_smooth: int = 500  # products up to which utilities may be a smooth function of attributes, which takes longer
    many_features: int = 50  # features up to which length-scales of single ones are tried; beyond, it takes too long

    # Trials that the Gaussian process learns from
    startup_trials: int = 8  # trials spread over the space before the process is used
    least_values: int = 2  # finite values that the process needs
    most_trials: int = 200  # trials that are kept: half of them the best, the others spread evenly
    least_slope: float = 0.1  # share of a pruned trial's gap to the best that remains at its end
    vague: float = 100.0  # variance of the logarithm of an unknown value; more only upsets the arithmetic
    prior_sds: float = 3.0  # bounds of the search, in standard deviations of the priors

    # Search for the point of largest expected improvement
    random_points: int = 512  # points of the first round
    parents: int = 16  # best points, around which the search goes deeper
    children: int = 16  # neighbours of each parent
    widths: tuple[float, ...] = (0.2, 0.05, 0.02)  # distance of the neighbours, a round each
    same: float = 0.01  # share of each range within which settings count as tried

    # Pruning and trials of other processes
    parts: int = 4  # parts of a fit; the pruner looks after the first one
    # Chance of pruning, at one step, a trial that would have ended level with the best: after a fold, and inside a fit,
    # whose end is further away than other steps suggest.
    alpha: float = 0.1
    alpha_inside: float = 0.05
    first_trials: int = 8  # trials that have a fold at least, to learn how well a look into a fit predicts its end
    # Times the longest trial: after that, a trial of another machine counts as dead, and one here as killed.
    patience: float = 10.0
    shortest: float = 6.0  # seconds that the longest trial is taken to have at least
    pause: float = 0.1  # seconds between two looks at trials that other processes run
    attempts: int = 8  # attempts to open a study that other processes create at the same time

    # Figures
    fewest_trials: int = 4  # complete trials before anything can be said of parameters
    shown_parameters: int = 12  # parameters that are shown

    # Normal priors (mean, sd) of log hyperparameters of values with variance 1. Length-scales grow with the root of the
    # number of settings, or no two points would be alike; noise is some 5 %.
    length_prior: tuple[float, float] = (np.log(0.5), 1.0)
    scale_prior: tuple[float, float] = (0.0, 1.0)
    noise_prior: tuple[float, float] = (np.log(0.05), 1.5)


POLICY = Policy()
