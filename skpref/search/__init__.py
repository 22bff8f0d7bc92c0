"""Search for the parameters of an estimator by cross-validation, with Optuna.

`OptunaSearch` has the surface of scikit-learn's searches, `default_space` says what is worth a search, and the
splitters make folds in which every tested user has other rows to learn from.
"""

from skpref.search.default_spaces import LogInteger, default_space
from skpref.search.optuna_search import OptunaSearch
from skpref.search.splitters import WithinUserKFold, WithinUserShuffleSplit

__all__ = ["LogInteger", "OptunaSearch", "WithinUserKFold", "WithinUserShuffleSplit", "default_space"]
