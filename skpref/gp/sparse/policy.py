"""Choices of sparse Gaussian processes on features that are not parameters, each with what decided it."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Policy:
    """Numbers that could be others; limits that follow from arithmetic or memory stand where they are used."""

    # Rows and inducing points
    subset_rows: int = 400  # rows for the exact evidence from several starts; its time grows with their cube
    exact_rows: int = 1_500  # rows for the exact evidence from the best of these, and inducing points, at most
    exact_rows_a_point: int = 4  # such rows per inducing point: few points are asked for to save time
    # Rows for searches of the bound, for the kernel of a stream and for a look at residuals: more change little.
    sample_rows: int = 10_000
    cold_start_rows: int = 2_000  # rows up to which the cold start is also tried on all rows
    # Rows above which no search uses all, and points are no more where they lose much: a pass takes minutes.
    all_rows: int = 1_000_000
    inducing: int = 500  # inducing points of more than `exact_rows` distinct rows
    worth_more: float = 0.02  # nats per row lost to inducing points from which on the bound is no guide to the kernel
    worth_moving: float = 0.001  # nats per row lost to inducing points: less cannot be seen in predictions
    movable_share: tuple[int, int] = (2, 3)  # points per row up to which they are moved: more points lose nothing
    batch_size: int = 1000  # rows of a batch in SVI
    kept_bytes: int = 2**28  # bytes up to which kernel values of the first pass are kept for the second
    chunk: int = 1 << 19  # entries of the kernel matrix of a chunk (4 MiB)

    # Searches of hyperparameters: iterations, and factors on the tolerance
    # `hyper.maximise` ends at .01 of its tol: tol=1e-4 ends when an iteration gains 1e-5 per row.
    tol_factor: float = 10.0
    sample_tol: float = 10.0  # searches by some of the rows: others would give other values
    memory_of_points: int = 50  # steps of L-BFGS-B's memory where inducing points are moved too
    line_steps_capped: int = 4  # evaluations in a search of capped length: all rows, and a start near the end
    free_iterations: int = 20  # iterations without priors: of 230 public sets three gained .3 nats a row, one lost .04
    worth_priors: float = 20.0  # nats that it must gain for a search with priors after it: less is what priors cost
    final_iterations: int = 10  # iterations of the search on all rows, which begins near its end

    # Families of the default kernel
    smoothness: tuple[float, float] = (1.5, np.inf)  # smoothness of a regression's Matern kernel: the evidence chooses
    class_smoothness: float = 2.5  # smoothness of a classifier's
    # Rows up to which a classifier's kernel has a linear part: few rows hardly tell it from a smooth function, and more
    # learn the smooth one as well.
    linear_rows: int = 500
    linear_odds: float = 1.0  # nats against a linear part: where it is wrong it predicts badly far from the data
    warped_odds: float = 2.0  # nats against warped features: on 87 rows .4 nats for them were wrong

    # Starts and bounds; variances are relative to that of the targets
    # First variance of a linear part: a search that begins at 1 missed a line in 21 features of 47 rows.
    linear_start: float = 10.0
    # Factor on the variance of a linear part, for differences of features that are nearly the same.
    stronger: float = 1e3
    variance_bounds: tuple[float, float] = (1e-4, 1e4)  # bounds of the default kernel's variance
    shorter: float = 0.4  # factor on the length-scales of the second start
    initial_noise: float = 0.1  # variance of the noise
    second_noise: float = 0.01  # least noise at the start of the second stage: a subset may be explained without noise
    noise_bounds: tuple[float, float] = (1e-7, 1e2)  # bounds of the noise variance
    # Prior of a learnt noise variance next to the default kernel, log p = -little_noise / noise, up to a constant.
    # Without it few rows are often interpolated: of 100 rows, intervals were a twenty-fifth as wide as the errors.
    little_noise: float = 1e-3

    # Two classes, counts and other likelihoods
    ep_rows: int = 1_000  # rows of the exact evidence, and inducing points of a posterior by it, at most
    exact_share: float = 0.1  # least share of the rarer class: a subset tells little of a class with fewer rows
    # Nats per row lost to inducing points from which on the bound is no guide to the kernel.
    class_worth_more: float = 0.1
    class_inducing: int = 300  # inducing points of two classes
    # Tolerance of the inference within a search, as `Schedule.tol`. A likelihood's own parameters lag behind q, and a
    # search that sees them half-way ends early.
    search_tol: float = 1e-2
    search_tol_of_parameters: float = 1e-4
    ep_tol: float = 1e-3  # tolerance of expectation propagation, as in the ordinal model
    # An inference of so many passes ends where it is so many nats per row below the best: where a kernel has a large
    # variance between few points, means of counts overflow, and each of hundreds of passes is halved many times.
    hopeless_passes: int = 5
    hopeless_nats: float = 1.0
    least_rate: float = 1e-6  # rate of counts that are all 0

    # Adam between the steps of mini-batches
    adam_batches: int = 10  # least batches of a pass, so that few rows have many steps
    # Steps before the first: gradients at the prior are huge, and the averages would remember them.
    adam_delay: int = 10
    adam_step: float = 0.1  # least step of q, which must follow the kernel; GPyTorch's and GPflow's usual one
    adam_window: int = 100  # steps whose mean bound is compared with the mean of as many steps before

    # Classes together
    shared_inducing: int = 2000  # inducing points that the functions of all classes share
    shared_rows: int = 20_000  # rows of the searches of more classes together, which limits their time
    least_shared_rows: int = 3_000  # least rows of each of these searches
    shared_tol: float = 10.0  # factor on the tolerance: an iteration gains 1e-4 nats per row and class, or searches end
    softmax_rows: int = 3000  # rows of the search for the kernel of a softmax
    softmax_variance: float = 10.0  # first variance of its functions
    softmax_points: int = 700  # inducing points of the search
    # Iterations of the regression on indicators, whose length-scales are then tried on the classes themselves.
    indicator_iterations: int = 30
    # Steps towards the length-scales by the indicators: 0 keeps the start.
    indicator_shares: tuple[float, ...] = (0.0, 0.5, 1.0)
    folds: int = 5
    left_out_rows: int = 2000  # rows in all folds together that are learnt from or left out, about: many need one fold
    shift_sd: float = 2.0  # steps in one sd of the weak priors of both shifts; few rows left out may all be right
    worth_step: float = 0.002  # relative fall of the log-loss that is worth a step

    # Warnings of targets
    spread: float = 1.3  # variance over that of a Poisson distribution that is worth a warning
    spread_errors: float = 5.0  # standard errors by which the ratio must exceed it
    least_freedom: float = 0.05  # degrees of freedom, as a share of the rows
    # Share of one number that is worth a warning: where half of two sets were 0, 95 % intervals had 79 % of new ones.
    repeated_share: float = 0.3
    repeated_rows: int = 20  # targets from which it is


POLICY = Policy()
