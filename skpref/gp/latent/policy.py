"""Choices of the latent variable model that are not parameters, each with what decided it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """Numbers that could be others; limits that follow from arithmetic or memory stand where they are used."""

    # Start
    most_components: int = 10  # coordinates with n_components=None
    signal_to_noise: float = 50.0  # variance of the data over that of the noise
    variance: float = 0.9  # variance of the coordinates; the prior's is 1
    correlation: float = 0.25  # negative log of the kernel between rows at the mean distance

    # Rounds of L-BFGS-B
    # Iterations of the first rounds, in which rows move far and outdate their units.
    first_rounds: tuple[int, ...] = (30, 30, 40)
    later_rounds: int = 100  # iterations of all others
    memory: int = 30  # steps from which L-BFGS-B learns the curvature
    # Units of the variables, in which the bound is about equally curved along all of them. Those of inducing inputs and
    # warps also grow with the root of their number, and of the number of data.
    point_unit: float = 0.5
    shared_unit: float = 3.0
    warp_unit: float = 0.1
    log_variance_bounds: tuple[float, float] = (-15.0, 3.0)  # bounds of the coordinates' variances
    log_bounds: tuple[float, float] = (-25.0, 15.0)  # bounds of the hyperparameters

    # Inputs of rows
    new_row: tuple[int, float] = 200, 1e-5  # iterations and tolerance of a search: more changes no third decimal
    known_row: tuple[int, float] = 20, 1e-3  # iterations and tolerance from the row's input of the last pass

    # Mini-batches
    first_sample: int = 2000  # rows of the search by L-BFGS-B that mini-batches start from
    first_iterations: int = 1000
    adam_rate: float = 1e-3  # step of Adam, for logarithms and for inducing inputs in length-scales of at most 1
    final_passes: int = 2  # passes with fixed hyperparameters at the end, each exact in q(u)


POLICY = Policy()
