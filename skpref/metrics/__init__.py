"""Metrics of rankings, of preference probabilities and of predicted levels.

Rankings: `concordance` (the score of `GPPLRegressor`) and `kendall_tau`. Probabilities of comparisons: `cross_entropy`,
`pair_accuracy` (the score of `GPPLClassifier`) and `calibration`; their labels are in [0, 1], where 0.5 is a tie and
other values between 0 and 1 are soft labels. Ordered levels: `mean_zero_one_error`, `ordinal_mae`, `averaged_mae`,
`quadratic_weighted_kappa`, and for probabilities `ranked_probability_score`. For `scoring` in cross-validation, where
folds may lack levels: `log_loss_scorer` and `ranked_probability_scorer`. Comparisons with ties as answers:
`answers_log_loss` and `answers_rps`, each with a scorer. Choices among several items: `choice_log_loss`, with a scorer.
"""

from skpref.metrics._answers import answers_log_loss, answers_log_loss_scorer, answers_rps, answers_rps_scorer
from skpref.metrics._choices import choice_log_loss, choice_log_loss_scorer
from skpref.metrics._levels import (
    averaged_mae,
    mean_zero_one_error,
    ordinal_mae,
    quadratic_weighted_kappa,
    ranked_probability_score,
)
from skpref.metrics._pairs import Calibration, calibration, concordance, cross_entropy, kendall_tau, pair_accuracy
from skpref.metrics._scorers import log_loss_scorer, ranked_probability_scorer

__all__ = [
    "Calibration",
    "answers_log_loss",
    "answers_log_loss_scorer",
    "answers_rps",
    "answers_rps_scorer",
    "averaged_mae",
    "calibration",
    "choice_log_loss",
    "choice_log_loss_scorer",
    "concordance",
    "cross_entropy",
    "kendall_tau",
    "log_loss_scorer",
    "mean_zero_one_error",
    "ordinal_mae",
    "pair_accuracy",
    "quadratic_weighted_kappa",
    "ranked_probability_score",
    "ranked_probability_scorer",
]
