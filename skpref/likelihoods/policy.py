"""Choices of the likelihoods' own optimisers, each with what decided it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """Numbers that could be others; limits that follow from arithmetic or memory stand where they are used."""

    # Newton's method for a likelihood's own parameters
    halvings: int = 20  # halvings of a step that lowers the objective
    least_step: float = 1e-5  # step of the log of a parameter below which `learnt` stops
    least_curvature: float = 1e-10  # least curvature along a step, or of the largest one
    least_gain: float = 1e-10  # gain of a step, relative to the objective, below which `learnt` stops
    left: float = 0.1  # share of a gap between thresholds, or of 1/noise, that a step must leave
    robust_rounds: int = 20  # iterations of the fixed point of `learnt`

    # Modes
    newton_steps: int = 30  # steps to the mode of a row
    longest_step: float = 10.0  # longest of them

    # Counts
    dispersion: tuple[float, float] = (1e-5, 1e4)  # range of a learnt dispersion
    count_rounds: int = 3  # rounds of learning rate and dispersion, which hardly depend on each other
    dispersion_tol: float = 1e-3  # tolerance of its logarithm
    count_gain: float = 1e-7  # relative gain of the bound below which rounds end

    # Ordinal mixtures
    kink: float = 4.0  # ratio to the noise of the length over which log p changes where random levels outweigh


POLICY = Policy()
