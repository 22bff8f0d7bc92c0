"""Choices of the inference engines that are not parameters, each with what decided it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """Numbers that could be others; limits that follow from arithmetic or memory stand where they are used."""

    # Memory: entries, rows and bytes that are held at once
    kernel_rows: int = 8192  # rows of kernel values
    summed_pairs: int = 32_768  # comparisons whose rows are held at once
    filtered_rows: int = 1000  # rows whose answers are tabulated together
    pass_bytes: int = 2**31  # memory up to which inference="auto" makes full passes
    # Comparisons whose items and weights are brought to this process: 24 bytes each save further passes.
    brought_rows: int = 2_000_000
    new_seconds: float = 60.0  # seconds for which a folder without a lock counts as new

    # Natural-gradient steps
    slack: float = 1e-12  # relative rounding error of a bound or a log joint, below which a fall is no fall
    halvings: int = 60  # halvings of a step, after which the fit ends
    level_halvings: int = 4  # halvings of a step of the likelihood's level, which is tried once a pass
    most_level_step: float = 20.0  # step of the likelihood's level, as wide as the level's range
    learning_rows: int = 20_000  # observations from which mini-batches learn the likelihood's own parameters
    mean_tol: float = 1e-7  # residual of joint means: relative, and absolute in posterior standard deviations
    mean_tol_of_products: float = 1e-3  # residual where the problem has products
    most_ratio: float = 0.95  # ratio of two successive changes of log E[s]: a jump of at most 19 changes
    worth_jump: float = 1e-3  # jump of log E[s] below which none is tried
    # Jump of log E[s]: beside a prior precision of 1e16 times the sites' precision, a sum loses the sites.
    most_jump: float = 10.0
    # Curvature of a row of which the metric of the search is made: with two equally probable classes it is 0.25, of a
    # row whose class is certain 0.
    curvature: float = 0.05

    # Expectation propagation
    ep_memory: int = 5  # steps that Anderson's method combines
    ep_near: float = 0.3  # gap below which steps are combined
    ep_condition: float = 1e-8  # relative condition of the residuals of these steps
    ep_shrinks: float = 0.7  # factor on the damping when the gap does not fall
    ep_least_damping: float = 0.1  # least damping
    ep_recovers: float = 1.3  # factor on the damping when the gap falls, since short steps converge slowly

    # Chains over time
    start_site: float = 0.2  # precision of the sites at the start
    # Length of the last step of the means in posterior standard deviations: by the bound alone, which is flat there,
    # means of 55,000 rows were up to .02 off.
    still: float = 1e-3
    same_message: float = 1e-3  # change of messages, of the largest one, after which no further round is needed
    solved: float = 1e-3  # relative residuals of the conjugate gradients, for means and for features' coefficients
    solved_later: float = 1e-4  # residuals once the sites move less
    most_steps: int = 300  # steps of the conjugate gradients
    least_share: float = 0.05  # least share of the way that sites go
    turn: float = 1e-4  # relative fall that shortens it
    turns: int = 3  # falls after a rise from which any further one shortens it
    fall: float = 1e-3  # relative fall of the bound after which the sites go half the way
    chain_halvings: int = 8  # such halvings
    same_sites: float = 0.02  # change of sites, of the largest one, after which that precision stays
    log_reach: float = 7.0  # distance of each log from the mean of its prior
    filter_points: int = 24  # nodes of the quadrature over an item's utility
    filter_grid: tuple[float, float] = 40.0, 0.02  # end, beyond which log p is a line, and step of a table of log p(z)

    # Choices
    # Points that an expectation is taken at, and the least number of Gauss-Hermite points for each difference: where
    # there would be fewer, they are those of Sobol's sequence. The second rule is for fits that only prepare others.
    rules: tuple[tuple[int, int], tuple[int, int]] = (256, 4), (81, 3)
    most_a_line: int = 20  # Gauss-Hermite points of one difference
    least_weight: float = 1e-9  # weight of a point that counts
    sets: int = 16  # sets of points that choices take in turn, so that their errors do not add up

    # Optimisers
    many_variables: int = 100  # variables beyond which no scale is learnt: its cost is their square
    widest_scale: float = 100.0  # largest scale of a variable; the least is its inverse


POLICY = Policy()
