"""Choices of preference learning from comparisons that are not parameters, each with what decided it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """Numbers that could be others; limits that follow from arithmetic or memory stand where they are used."""

    # Fits
    inducing: int = 300  # inducing points by default
    joint_size: int = 1500  # variables up to which inducing values and offsets share one dense block: 0.1 s per pass
    many_pairs: int = 4_000_000  # comparisons from which a pass goes through parts
    part: int = 1_000_000  # comparisons of such a part
    # Strength of the prior of the offsets' inverse variance beside features. Few answers an item say little of it, and
    # a prior as strong as that of f keeps offsets at the size of the answer noise, where they fit noise: in simulations
    # without offsets the slope of the truth on predicted logits was .80, and is .91 now. Where offsets are that large,
    # log loss and coverage hardly change.
    offset_strength: float = 0.125
    # Strength of the prior of the covariates' inverse variance. Effects are mostly smaller than the answer noise, and
    # among many covariates most have none: with 10 and 30 in simulations, excess log loss .046 and .052 for .054 and
    # .068.
    covariate_strength: float = 0.125
    most_filtered: float = 100.0  # weight of an answer beyond which the filter's quadrature is inaccurate
    most_weight: float = 1e6  # weight of an answer beyond which rounding loses other answers

    # Searches of hyperparameters
    hyper_pairs: int = 50_000  # comparisons that the search for length-scales uses
    # Items that the search uses, whose rows are what it costs, and comparisons for which it takes more of them: for one
    # factor on all length-scales, for each of them, and for each once more, from there.
    few_items: tuple[int, int] = (2500, 5000)
    some_items: tuple[int, int] = (5000, 10_000)
    many_items: int = 10_000
    # Passes over the data of all fits of the search for the default length-scales. Ordinary data need 100 to 200; with
    # huge weights of separable comparisons no fit converges, and a search among unfinished fits would not end either.
    search_passes: int = 600
    search_tol: float = 1e-4  # tolerance of a fit within the search: 1e-6 of the bound, which the optimizer resolves
    last_tol: float = 3e-3  # tolerance of the last part of the search, where each step takes seconds
    near: float = 1.5  # difference of log hyperparameters within which a fit starts from the same posterior
    most_single_scales: int = 256  # features beyond which they share one factor on the length-scales
    # Bounds of length-scales, in medians of the distances between items.
    factor_bounds: tuple[float, float] = (0.1, 1000.0)

    # Scored rows
    all_rows: int = 10_000  # rows up to which all are brought into memory
    # Comparisons that a score is worth together with the scores it is compared with. If two rows have equal noise, k
    # pairs of a row are worth 2 k / (k + 1) independent ones to first order; with 3 intervals cover what they say in
    # simulations (benchmarks/coverage.py), since all pairs together show the scores themselves.
    worth_of_score: float = 3.0
    most_rounds: int = 6  # rounds of weights and fit
    weights_stay: float = 0.05  # change of weights that ends the rounds
    averaged_items: int = 1000  # items over which residuals are averaged; each of them has a covariance with every item

    # Movements over time: normal priors of logs, mean and standard deviation, as in `over_time`
    # Standard deviation of differences between groups, which do not move.
    groups_prior: tuple[float, float] = (-1.6, 1.5)
    # Standard deviation of differences by one of the numbers of context. Where there were none, in simulations of 12
    # and 60 items with 20 comparisons each, log-loss rose by .0003 and .0005; with the prior of groups, by .0006.
    context_prior: tuple[float, float] = (-2.3, 1.5)
    # Operations, about, of a step for which a fit takes a minute: 200 groups of 12 items are 1e8 and take 6 s.
    slow_groups: float = 1e9
    # Comparisons beyond which a random part finds the hyperparameters: it follows the same model.
    moving_pairs: int = 50_000
    moving_pairs_each: int = 10  # comparisons for each item beyond which it does
    moving_points: int = 64  # inducing points of this search
    least_points: int = 8  # inducing points of a fit
    most_responses: int = 2**23  # inducing points times comparisons: 2 GB
    search_iterations: int = 40  # passes of a fit within the search
    ages: int = 200  # ages that are told apart in a span
    most_ages: int = 2_000  # ages of which covariances are taken at most

    # Thresholds of users
    centrings: int = 3  # steps of the centre, as the kinds of users depend on it
    hopeless: float = 50.0  # nats behind the best after which a standard deviation is not looked at any more
    centre: float = -1.0  # mean of the prior of the centre, for answers without ties or of nothing else
    centre_precision: float = 0.25  # precision of this prior
    threshold_step: float = 1.0  # largest change of a log threshold at a time
    threshold_damping: float = 0.5  # part of a step of ratios, as all thresholds of a user move at the same time
    threshold_nodes: int = 7  # nodes of the average over the posterior of a log threshold

    # Warnings and texts
    side_errors: float = 3.5  # standard errors: about one warning in 2,000 data sets without an advantage of a side
    shown_items: int = 10  # items in the text of a ranking
    shown_cells: int = 8  # items in the text of a matrix of wins
    id_width: int = 12  # characters of an id in this text
    most_ranked_jointly: int = 4000  # items whose covariance is factored at once; it takes two seconds
    sorted_at_once: int = 256  # items whose ranks are sorted at once


POLICY = Policy()
