"""Choices of models of crowds that are not parameters, each with what decided it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """Numbers that could be others; limits that follow from arithmetic or memory stand where they are used."""

    # Sizes
    most_items: int = 2_000  # items that "ep" accepts: 32 MB a matrix, seconds a pass
    # Weight of the answers of a user about an item: rounding errors of the evidence grow with its square. On simulated
    # crowds they are up to 1e-5 of it up to here, near the tolerance of passes, and .003 at 9e5, where fits never end.
    most_weight: float = 3e5
    # Share of entries of the design below which it is sparse, and entries up to which that saves nothing.
    few_entries: float = 0.1
    small_design: int = 10_000
    most_covariates: int = 100  # features of users that are covariates as they are; more are reduced by a linear kernel
    # Items have effects of their own beside part-worths where each stood in so many pairs, there are at most so many,
    # and a pass over the pairs takes less than about a second.
    shown_often: int = 30
    most_effects: int = 200
    most_work: float = 1e9
    users_at_once: int = 4096  # users whose sums are computed at a time
    stack: int = 2**16  # entries of one stack of matrices, which stay in the cache of a processor
    least_stack: int = 2**12  # entries of a stack that take as long as calling NumPy does
    near_size: float = 0.8  # size of the smallest user of a stack, as a share of the largest
    blocks_at_once: int = 256  # users whose matrices are made together where each is asked for
    backup: int = 8  # passes between copies of the sites, all that a lost worker's users repeat
    most_personal: int = 2**27  # entries of a table of personal utilities: 1 GB
    most_matrix: int = 2_000  # items of a win matrix, which has a prediction for each pair
    parts_of_step: int = 4  # parts of a step of time that predictions of rows tell apart
    new_people: int = 300  # people who stand for a population

    # Passes of the sites
    start_site: float = 0.3  # precision of the sites at the start
    # Share of the way that sites move: all at once they may swing, and then the objective falls.
    damping: float = 0.9
    least_damping: float = 0.2
    damping_of_choices: float = 0.6  # sites of choices swing more
    radius: float = 1.0  # radius of a step in the logarithms of the eigenvalues of S
    least_radius: float = 1e-3  # least radius
    falls: float = 1e-6  # relative fall of the objective that shortens the next step
    least_size: float = 10.0  # nats of the evidence, to which changes are compared: a share of fewer is nothing
    warm_up: int = 2  # iterations of the sites before S moves
    # Iterations before its rank is limited: at first all directions are equally strong, and rounding would choose.
    full_rank: int = 6
    few_comparisons: int = 20_000  # comparisons up to which all is learnt again
    growth: float = 1.25  # growth of the comparisons after which everything is learnt again
    most_changed: float = 0.5  # share of the comparisons whose users changed up to which only these are learnt again

    # Priors
    # Gamma prior of the precision of effects; the rate is divided by the number of covariates, which share what they
    # explain. Without support effects stay small.
    effect_prior: tuple[float, float] = 1.0, 0.01
    # Gamma priors of the inverse variance of the parts of groups, and of slopes. They are weak: without support parts
    # stay small, and groups that differ by much are not held back. On crowds of 20 people, 12 items and 600 answers,
    # the prior of groups costs slopes that are 0 .0008 nats more.
    group_prior: tuple[float, float] = 1.0, 0.03
    slope_prior: tuple[float, float] = 0.5, 0.003
    # Prior of the scale of S = scale * shape: p(log scale) ~ scale^a / (1 + scale)^b, in variances of the noise. The
    # mode is .2, and 1 for choices: where each person ranks items once, their answers hardly tell tastes from noise.
    scale_rise: float = 0.25
    rise_of_choices: float = 0.75
    scale_fall: float = 1.5
    # Prior of the variance of the logarithms of own scales: so many attributes, whose squares have so large a sum. On
    # simulations, divergences from the true choices fall by 5 to 28 % where tastes are unequal, and rise by up to 3 %
    # where they are equal.
    spread_count: float = 1.0
    spread_sum: float = 0.1

    # Choice of shape and regularisation
    own_shares: tuple[float, float] = (0.03, 0.3)  # shares of independent items in the shape, where items have features
    length_factors: tuple[float, ...] = (0.5, 1.0, 2.0)  # factors on the length-scales of the consensus
    # Items from which factors are compared with the candidates, and from which there are no other candidates.
    several_items: int = 120
    many_items: int = 500
    # What is compared with S = scale * shape: the weight of its prior, in users an item; the prior's scale, in units of
    # that scale; and the penalty of the trace. From close to that to few strong directions. A scale of 4 is for answers
    # almost without noise, scales of .1 and .3 leave little but the strong directions. Chosen on simulations of 8 to 50
    # items and on draws of Sushi rankings other than those of the benchmark. Their number was chosen on the
    # benchmark's draws, too: ten are .2 to .4 % of the log-loss ahead of these five (.3 % on other draws), level on
    # simulations, and twice as slow; three are .7 to 1.4 % behind ten. The weight with the largest evidence, without
    # candidates, is 20 % behind where 60 users share two strong directions of 30 items.
    candidates: tuple[tuple[float, ...], ...] = (
        (2.0, 1.0, 0.3),
        (0.5, 4.0, 0.1),
        (0.5, 1.0, 0.3),
        (0.0, 0.3, 2.0),
        (0.5, 0.1, 0.3),
    )
    least_weight: float = 0.5  # least weight of the prior, in users
    no_taste: float = 1e-6  # scale of the personal parts of a model without factors
    no_penalty: float = 1e-9  # penalty of the trace of S, where the prior is enough
    held_out: int = 2_000  # comparisons, about, that are held out in turn if there are more
    folds: int = 5  # folds of the comparisons that are held out
    factor_shares: tuple[float, float] = (0.1, 0.4)  # shares of S = scale * shape beside the factors
    held_out_passes: int = 5  # passes of the sites at the S of a candidate with factors
    hopeless: float = 10.0  # nats behind the best after which a candidate, or a larger share of effects, is not tried
    clearly: float = 2.0  # nats by which factors are better if not by chance: without tastes they follow noise
    tie: float = 1e-2  # nats that are no difference: without tastes all candidates predict the same, up to rounding
    # Shares in the average are exp(trust * nats): the same answers in other folds would rank the candidates
    # differently.
    trust: float = 0.5
    least_share: float = 0.05
    # Share of S = scale * shape in the size of that average. Its one free number is the scale of tastes; a free S
    # follows noise as well: with 300 users of 5 answers it was 1.7 times too wide.
    of_isotropic: float = 0.4
    # Comparisons by which shape and regularisation are chosen; more tell the candidates apart, so that one is enough.
    most_choice: int = 10_000
    most_pairs: int = 20_000  # pairs of alternatives, of whole users, by which the prior of choices is chosen
    most_times: int = 3_000  # comparisons by which it is chosen how the consensus moves
    most_averaged: int = 100_000  # comparisons; with more, S is known well enough
    # Fits that only choose. With a tolerance of .03 they ended before the scale of S had moved: on crowds without
    # tastes strong ones looked as good as none.
    choice_passes: int = 100
    choice_tol: float = 1e-3
    soon: float = 0.1  # tolerance of a fit of choices from whose sites, and scale of S, the next one starts
    # Shares of effects of single items, relative to attributes, in what utilities vary by.
    effect_shares: tuple[float, ...] = (0.0, 0.2, 1.0)
    # Of choices: users that the prior of S counts for beyond its dimension, at least; the largest weight, in units of
    # the least one; weights that are compared, nats that are no difference, and fits to compare them.
    freedom: float = 2.0
    most_freedom: float = 1000.0
    weights: int = 40
    same: float = 0.3
    weighings: int = 8

    # Movements over time
    # Largest numbers of steps, of variables of items over all steps, and of items by group and step: a pass factors
    # dense matrices. The same while the covariance of tastes is chosen, which takes many fits.
    most_steps: int = 40
    most_variables: int = 1_000
    most_places: int = 1_000
    few_steps: int = 10
    few_variables: int = 300
    # How utilities may move: the share of a random walk in their variance, and the length of the form in spans.
    kinds: tuple[tuple[float, float], ...] = (1.0, 0.5), (0.0, 0.5), (0.0, 0.15), (0.0, 0.05)

    # Spread of S beyond its mode
    # Draws of S, each with its mirror image; shares of six panels are as uncertain with one and with four.
    draws_of_s: int = 2
    # Largest standard deviation of a direction's logarithm: where answers say nothing, it would have no bound.
    largest_spread: float = 1.2
    spread_passes: int = 3  # passes of the sites at another S, of which the last one only looks
    spread_step: float = 0.5  # step in the logarithm of the scale of S, by which the curvature is measured
    # Least share of the information of numbers that answers have; 3 answers of 8 items have .06.
    least_known: float = 0.02
    scale_step: float = 0.5  # step in the logarithm of the scale by which slopes are measured
    scale_passes: int = 6  # passes of the sites at another scale
    largest_change: float = 0.7  # largest change of the logarithm of the scale at a time
    small_change: float = 0.02  # change that is none
    scale_rounds: int = 2  # changes, as the second derivative differs from place to place
    least_curvature: float = 1.0  # nats: with less, answers tell nothing of the scale
    most_answers: int = 200  # answers of a user from which on expectation propagation is exact enough
    difference: float = 1e-2  # step in mu, in standard deviations, of the third derivative

    # Annotators
    # Compared pairs on which accuracies are measured; the standard error of their average is below 0.03.
    annotator_pairs: int = 300
    prior_of_bias: tuple[float, float] = 0.0, 1.0  # mean and precision of the mean bias of users
    em_steps: int = 50  # steps of expectation-maximisation
    reliability_sd: float = 0.5  # prior guess of the standard deviation of log rho
    reliability_users: float = 1.0  # users that this guess counts for
    most_tables: int = 8  # labels that have tables of their log-likelihood
    table_reach: float = 100.0  # largest |z| in these
    table_cells: int = 40_000  # cells of a table: cubics leave 1e-11 of a likelihood's curve within 100

    # Variational inference of factors
    start_mean: float = 0.5  # mean of the strongest factor at the start, in prior standard deviations
    # Posterior standard deviation of factors at the start, by that of the prior. At 1, one side is only noise to the
    # other.
    start_width: float = 0.3
    start_passes: int = 5  # passes of the consensus alone, before factors are added
    small_svd: int = 4_000_000  # entries of a matrix up to which all singular vectors are computed
    # Root mean square of a factor's part of z, whose noise is 1, below which the factor is dropped.
    negligible: float = 0.01
    full_entries: int = 2**23  # entries P D up to which "auto" takes full passes: each of a dozen arrays has 64 MB then
    least_factors: int = 4  # fewest factors for which full passes are worthwhile at the start
    # Passes after which negligible factors are dropped: they cost as much as the others.
    first_checks: tuple[int, ...] = (1, 2, 4)
    check_every: int = 8  # passes between later checks
    search_factors: int = 3  # factors of the small fits that choose the length-scales of the factors
    search_passes: int = 10  # passes of these fits
    shorter: float = 4.0  # divisor of the length-scales of the factors, from each of these fits to the next
    # Numbers by which the rates of the priors of item and user factors are multiplied if held-out comparisons ask for
    # it. With the priors as they are, factors that few answers of each user show are dropped even where they predict.
    broader: tuple[float, float] = (10.0, 100.0)
    fewest_to_choose: int = 1000  # comparisons: fewer do not tell taste from chance, and later calls keep the choice
    held_out_share: float = 0.1  # share of the comparisons held out by fits that choose priors
    prior_passes: int = 30  # passes of these fits
    prior_rows: int = 200_000  # comparisons of these fits
    # Size of a direction of tastes, relative to the largest, below which it turns with rounding.
    least_direction: float = 1e-4


POLICY = Policy()
