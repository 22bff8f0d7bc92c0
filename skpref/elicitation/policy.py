"""Choices of elicitation that are not parameters, each with what decided it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """Numbers that could be others; limits that follow from arithmetic or memory stand where they are used."""

    # Candidates
    tasks: int = 500  # random tasks that are candidates by default
    most_tasks: int = 5000  # candidates, whose probabilities under all draws take a few hundred megabytes
    draws: int = 1000  # draws of the utilities of the people asked, under which tasks are compared
    most_pairs: int = 2000  # candidate pairs: more are a random part of all
    most_covariances: int = 5000  # candidates with a covariance matrix: 0.2 GB

    # Unseen people
    most_users: int = 400  # trained users, over all samples, that stand for an unseen one
    prior_share: float = 0.99  # share of its prior variances above which a column has no data
    rater_draws: int = 400  # draws of an unseen rater over all kept samples
    sweeps: int = 30  # sweeps of each draw, from the prior
    shrinks: int = 60  # reductions of an angle's bracket after which a draw stays where it is


POLICY = Policy()
