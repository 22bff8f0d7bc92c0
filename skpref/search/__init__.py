"""Search for the parameters of an estimator by cross-validation, with Optuna.

`OptunaSearch` has the surface of scikit-learn's searches, and `default_space` says what is worth a search. Splitters
make folds in which every tested user has other rows to learn from, or in which the past predicts the future.
"""

from skpref.search.default_spaces import LogInteger, default_space
from skpref.search.optuna_search import OptunaSearch
from skpref.search.splitters import TimeBlocks, WithinUserKFold, WithinUserShuffleSplit

__all__ = ["LogInteger", "OptunaSearch", "TimeBlocks", "WithinUserKFold", "WithinUserShuffleSplit", "default_space"]
