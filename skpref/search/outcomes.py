"""What `OptunaSearch` keeps while it runs: folds, what came out of them, trials that ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sklearn.utils import indexable

from skpref.search.sampler import ERROR

if TYPE_CHECKING:
    from skpref.search.loop import SearchResult, Settings

_KEPT = ("test_scores", "train_scores", "fit_time", "score_time", "n_test_samples")


class Gathered:
    """What a running fit holds."""

    def __init__(self, key: str | None, X: Any, y: Any) -> None:
        self.key = key
        self.X = X
        self.y = y
        self.out: list[dict[str, Any]] = []
        self.formatted: dict[str, Any] = {}
        self.scorers: Any = None
        self.score_params: dict[str, Any] = {}

    def scoring(self) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Return the data as scikit-learn splits them, scorers, and what scorers are given."""
        return *indexable(self.X, self.y), self.scorers, self.score_params


class Row(NamedTuple):
    """A trial that ended."""

    settings: Settings  # parameters by name
    state: str  # how it ended
    outs: list[dict[str, Any] | None]  # what came out of each fold; None where it was not run
    score: float  # mean over the folds; NaN if it is not complete


class Folds:
    """The same folds for all trials, some of them at a time."""

    def __init__(self, splitter: Any) -> None:
        self.wanted = range(0)
        self._splitter = splitter
        self._all: list[Any] = []

    def split(self, X: Any, y: Any = None, **params: Any) -> list[Any]:
        """Return the folds that are wanted."""
        self._all = self._all or list(self._splitter.split(X, y, **params))
        return [self._all[fold] for fold in self.wanted]

    def rows(self, fold: int) -> Any:
        """Return the rows of one fold."""
        return self._all[fold]


def has_ended(trial: Any) -> bool:
    """Whether a trial ended by itself, and not since its process was stopped."""
    return trial.state.name in {"COMPLETE", "PRUNED"} or (trial.state.name == "FAIL" and ERROR in trial.user_attrs)


def plain(out: dict[str, Any]) -> dict[str, Any]:
    """What a storage can hold of a fold."""
    kept = {name: out[name] for name in _KEPT if name in out}
    return {
        name: {key: float(one) for key, one in value.items()} if isinstance(value, dict) else float(value)
        for name, value in kept.items()
    }


def blank(example: dict[str, Any], score: Any) -> dict[str, Any]:
    """A fold that was not run: scores alone."""
    blank: dict[str, Any] = {**example, "fit_time": float("nan"), "score_time": float("nan")}
    for name in ("test_scores", "train_scores"):
        if name in example:
            known = example[name]
            blank[name] = dict.fromkeys(known, score) if isinstance(known, dict) else score
    return blank


def none_succeeded(result: SearchResult, n: int) -> str:
    """Return the message of a search in which every trial failed."""
    errors = [trial.error for trial in result.trials if trial.error]
    return f"none of {n} trials succeeded; the first error was: {errors[0] if errors else 'of an earlier run'}"


def in_a_line(error: BaseException | str) -> str:
    """Return the line of an error that tells what happened: the last one, as in a traceback."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1].strip() if any("Traceback" in line for line in lines) else lines[0]
