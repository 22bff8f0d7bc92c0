"""What a job has to know of a kind of data and of the models for it: one class a kind, and nothing else knows it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from skpref.search import Rows, SearchResult
    from skpref.search.loop import Settings, Space


@dataclass(frozen=True)
class Options:
    """What the command line asks of any job."""

    model: str  # what to learn
    trials: int  # trials at most
    timeout: float | None  # seconds for the search
    out: Path  # folder of the results
    seed: int  # of everything random
    folds: int | None  # folds of the cross-validation; None: as many as the task has by default
    holdout: float  # share that is held out; 0: one rating of each user
    storage: str | Path | None = None  # where trials are kept for the same command to go on from; None: it begins anew
    space: Mapping[str, Any] = field(default_factory=dict)  # what was chosen of the space, as `NarrowedSpace` takes it

    @property
    def again(self) -> str:
        """What the same command does after it was stopped."""
        more = "begins anew; with --storage FILE (in a TOML file, storage in [search]) it would go on"
        return "goes on from there" if self.storage is not None else more


class Figures(Protocol):
    """How well predictions did on the hold-out."""

    def cells(self) -> dict[str, str]:
        """Return what the table shows, by the title of the column."""
        ...

    def metrics(self, prefix: str) -> dict[str, float]:
        """Return the figures by name, for the tracker."""
        ...


@dataclass(frozen=True, eq=False)
class Outcome:
    """All that a report tells."""

    task: Task  # the data and what they are about
    n_train: int  # rows on the two sides of the hold-out
    n_test: int  # rows on the two sides of the hold-out
    result: SearchResult  # trials
    figures: dict[str, Figures]  # on the hold-out: tuned, default settings, baselines
    model: Any  # fitted with everything
    findings: Any  # what the task found in the final model


class Task(ABC):
    """A kind of data, and the models for it."""

    data: Rows  # all rows, which know how to be split and what the loss is
    noun: ClassVar[str]  # what rows are called, in the plural
    n_folds: ClassVar[int] = 4  # folds of the search unless the user says otherwise

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return shape and hash of the data, for the tracker (never the data themselves)."""

    @abstractmethod
    def headline(self) -> str:
        """Return one line about the data."""

    def options(self) -> dict[str, Any]:
        """Return options of the command line that only this kind of data has, for the tracker."""
        return {}

    @abstractmethod
    def space(self) -> Space:
        """Return the settings to choose from."""

    @abstractmethod
    def build(self, settings: Settings) -> Any:
        """Turn settings into an estimator that is not fitted."""

    def final(self, settings: Settings, params: Settings | None = None) -> Any:
        """Return an estimator fitted with all rows, as it is saved."""
        return self.data.fit(self.build(settings).set_params(**(params or {})))

    @abstractmethod
    def figures(self, model: Any, test: Any) -> Figures:
        """Score a model on the hold-out."""

    @abstractmethod
    def baselines(self, train: Any, test: Any) -> dict[str, Figures]:
        """Score what needs no model."""

    def findings(self, model: Any, seed: int) -> Any:
        """Find what there is to report in the final model."""
        del model, seed

    def split_note(self) -> str:
        """Return how the hold-out was drawn, to stand behind the numbers of rows."""
        return ""

    @abstractmethod
    def sections(self, outcome: Outcome) -> list[str]:
        """Return what the report tells beside the search and the figures."""

    @abstractmethod
    def write(self, outcome: Outcome, out: Path) -> list[Path]:
        """Write files beside the model and the trials."""

    @abstractmethod
    def next_command(self, model: Path) -> str:
        """Return the command that uses the model, with what it does before it."""


def refuse_one(holdout: float) -> None:
    """Complain of ``--holdout one`` where rows are not of users."""
    if not holdout:
        raise DataError("--holdout one is for ratings (m3f, ipm3f); of other rows, a share is held out, such as 0.2")
