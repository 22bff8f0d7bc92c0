"""Choices of the factorization models that are not parameters, each with what decided it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """Numbers that could be others; limits that follow from arithmetic or memory stand where they are used."""

    # Fits of the factorization machine
    start_scale: float = 0.1  # standard deviation of the interaction of two ones at the start: libFM's for factors
    most_start: float = 100.0  # limit on the start's scale: with so small entries in X interactions do not matter
    first_prior_pass: int = 2  # passes before priors are learnt: they would shrink factors that are still noise to 0
    most_fields: int = 3  # one-hot fields with patterns: the cost of a pass grows with the square of their number
    probe_rows: int = 2000  # rows looked at before all: cost alone, judged

    # Chains of ordered levels
    passes_before_chain: int = 15  # judged: burn-in makes more passes superfluous
    most_products: float = 6e6  # entries of X times (1 + d) up to which "auto" draws: a chain then takes seconds
    thresholds_period: int = 3  # sweeps from one draw of the thresholds to the next: the dearest part of a sweep
    relaxation: float = -0.9  # correlation of a feature's draw with the one before: errors cancel ([Adl81], docs/maths)
    chain_tau: float = 10.0  # autocorrelation time of the log likelihood, in draws of the thresholds: as measured
    slice_width: float = 4.0  # first interval of slice sampling: cost alone, judged

    # Priors and new users of max-margin factorization
    threshold_spacing: float = 3.0  # distance of neighbouring thresholds' means, in margins: [XZZ13] section 4
    # Users that the prior of the mean of the users' factors counts for: of .3 to 30 the best on simulated ratings with
    # and without item effects and on a thousand ratings of restaurants; without a mean, item effects are hardly learnt.
    mean_users: float = 3.0
    most_joint: int = 30  # thresholds that a learnt prior correlates: the cost grows with the cube of their number
    sweeps_per_sample: int = 3  # sweeps of new users for each kept sample: they start near the end of the sample before
    unseen_nodes: int = 256  # points that average over the prior of unseen users and items: a power of 2, for Sobol
    held_feature: float = 0.5  # probability from which a user counts as a holder: more probable than not
    least_holders: float = 0.5  # holders on average below which a feature that is gone leaves the averages: judged

    # Calibration by ratings held out. On simulated ratings and on MovieLens-100k more sweeps of either kind changed the
    # temperature by less than its error.
    forgetting_sweeps: int = 5  # sweeps in which the chain forgets the ratings held out
    calibration_sweeps: int = 10  # sweeps after these, all kept
    calibration_share: int = 10  # one in so many ratings is held out at a time: as in ten-fold cross-validation
    least_calibration: int = 3_000  # ratings held out in turn: weights of five levels learnt from 70 lost .03 log-loss
    most_calibration: int = 5_000  # ratings held out at a time: the temperature then has a standard error of 2 %
    most_probabilities: int = 400_000  # ratings held out at a time, times levels: cost alone, judged
    log_temperatures: tuple[float, float] = (-1.5, 4.0)  # bounds of the search: judged

    # Shards and threads
    own_bytes: int = 1 << 28  # bytes of the patterns of single rows of a shard in memory
    least_shard_rows: int = 1000  # rows of such a shard
    shard_ratings: int = 1_000_000  # ratings of a shard
    most_shards: int = 64  # shards: merging takes 200 bytes a rating of one shard
    typical_width: int = 256  # features assumed when ratings are split into portions for threads
    most_log_sd: float = 20.0  # limit on log standard deviations, so that no step overflows


POLICY = Policy()
