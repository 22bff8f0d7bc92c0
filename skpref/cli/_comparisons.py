"""The task of comparisons: one view for all, or a crowd's."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from skpref.cli._inputs import Sources, demo_problem, read_problem
from skpref.cli._rankings import (
    annotators_text,
    calibration_text,
    factors_text,
    ranking_text,
    write_crowd,
    write_plots,
    write_ranking,
)
from skpref.cli._task import Task, refuse_one
from skpref.metrics import calibration, cross_entropy, pair_accuracy
from skpref.search import Builder, CrowdBuilder, CrowdSpace, Space

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from skpref._typing import Array
    from skpref.cli._inputs import Problem
    from skpref.cli._task import Outcome
    from skpref.gp.crowd import CrowdGPPL
    from skpref.metrics import Calibration
    from skpref.search import Answers, Rows
    from skpref.search.loop import Settings

_BINS = 10
_TOP = 10
_MAX_INDUCING = 500
_DEMO_MAX_INDUCING = 150
_ANNOTATOR_DRAWS = 1_000_000  # of all users together, so that reports on a hundred thousand of them take a minute


@dataclass(frozen=True, eq=False)
class PairFigures:
    """How well probabilities did on the hold-out."""

    accuracy: float  # share predicted right, ties left out; nats per comparison
    log_loss: float  # share predicted right, ties left out; nats per comparison
    calibration: Calibration  # with the expected calibration error

    @classmethod
    def of(cls, answers: Rows, p: Array) -> PairFigures:
        """Score probabilities."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # accuracy is undefined, NaN, when all answers are ties
            accuracy = pair_accuracy(answers.y, p, answers.weight)
        loss = cross_entropy(answers.y, p, answers.weight)
        return cls(accuracy, loss, calibration(answers.y, p, _BINS, answers.weight))

    def metrics(self, prefix: str) -> dict[str, float]:
        """Return the figures by name."""
        error = self.calibration.expected_calibration_error
        return {f"{prefix}accuracy": self.accuracy, f"{prefix}log_loss": self.log_loss, f"{prefix}ece": error}

    def cells(self) -> dict[str, str]:
        """Return what the table shows."""
        error = self.calibration.expected_calibration_error
        return {
            "accuracy": f"{self.accuracy:.3f}",
            "log-loss": f"{self.log_loss:.4f}",
            "calibration error": f"{error:.3f}",
        }


def _annotators(model: CrowdGPPL, seed: int) -> dict[str, Any]:
    """Columns of the report on users, the one nearest to the consensus first."""
    draws = int(np.clip(_ANNOTATOR_DRAWS // model.user_ids_.size, 100, 500))
    report = model.annotators(n_samples=draws, random_state=seed)
    # A data frame where pandas is installed, else a record.
    columns = report.columns() if callable(report.columns) else {name: report[name] for name in report.columns}
    order = np.argsort(-np.asarray(columns["accuracy"]), kind="stable")
    return {name: np.asarray(column)[order] for name, column in columns.items()}


class Findings(NamedTuple):
    """What is found in the final model."""

    ranking: Any  # of all items; by a crowd's consensus
    annotators: dict[str, Any] | None  # columns of a crowd's report on its users


class ComparisonTask(Task):
    """Comparisons of items, answered by nobody in particular or by known users."""

    noun: ClassVar[str] = "comparisons"

    def __init__(self, problem: Problem, seed: int = 0, max_inducing: int = _MAX_INDUCING) -> None:
        self.problem = problem
        self.data: Answers = problem.answers
        self._max_inducing = max_inducing
        if problem.user is None:
            self._build: Builder | CrowdBuilder = Builder(problem.items, seed)
        else:
            self._build = CrowdBuilder(problem.items, problem.users, seed)

    def describe(self) -> dict[str, Any]:
        return self.problem.describe()

    def options(self) -> dict[str, Any]:
        return {"max_inducing": self._max_inducing}

    def headline(self) -> str:
        problem, facts = self.problem, self.problem.describe()
        features = f"{facts['data.n_features']} features" if problem.items is not None else "no features"
        groups = f", {facts['data.n_groups']} groups" if facts["data.n_groups"] else ""
        people = f" by {facts['data.n_users']} users" if problem.user is not None else ""
        if problem.users is not None:
            people += f" ({facts['data.n_user_features']} features)"
        return (
            f"Data: {facts['data.source']}: {facts['data.n_comparisons']} comparisons{people} of "
            f"{facts['data.n_items']} items, {features}{groups}; sha256 {facts['data.sha256'][:12]}"
        )

    def space(self) -> Space | CrowdSpace:
        problem, most = self.problem, self._max_inducing
        if problem.user is None:
            n_items = problem.n_items if problem.items is not None else 1
            return Space(problem.items is not None, n_items, most)
        return CrowdSpace(
            n_items=problem.n_items,
            n_users=problem.n_users,
            has_features=problem.items is not None,
            has_user_features=problem.users is not None,
            has_ties=bool((problem.answers.y == 0.5).any()),
            has_sides=problem.has_sides,
            max_inducing=most,
        )

    def build(self, settings: Settings) -> Any:
        return self._build(settings)

    def figures(self, model: Any, test: Answers) -> PairFigures:
        return PairFigures.of(test, model.predict_proba(test.X)[:, 1])

    def baselines(self, train: Answers, test: Answers) -> dict[str, Any]:
        del train
        return {"coin flip": PairFigures.of(test, np.full(test.size, 0.5))}

    def findings(self, model: Any, seed: int) -> Findings:
        annotators = None if self.problem.user is None else _annotators(model, seed)
        return Findings(model.rank(), annotators)

    def split_note(self) -> str:
        if self.problem.group is not None:
            return f", split by {self.problem.group}"
        return "" if self.problem.user is None else ", of users with other comparisons among the latter"

    def sections(self, outcome: Outcome) -> list[str]:
        ranking, annotators = outcome.findings
        title = "Ranking" if annotators is None else "Ranking by the consensus"
        parts = [calibration_text(_tuned(outcome).calibration), ranking_text(ranking, _TOP, title)]
        if annotators is not None:
            parts += [factors_text(outcome.model), annotators_text(annotators)]
        if self.problem.profiles is not None:
            profiles = outcome.model.rank(self.problem.profiles)
            parts.append(ranking_text(profiles, len(profiles), "Ranking of typical items"))
        return parts

    def write(self, outcome: Outcome, out: Path) -> list[Path]:
        ranking, annotators = outcome.findings
        files = [out / "ranking.csv"]
        write_ranking(ranking, files[0])
        files += [] if annotators is None else write_crowd(outcome.model, annotators, out)
        plots = write_plots(outcome.model.lower_bounds_, ranking, _tuned(outcome).calibration, annotators, out)
        return files + plots

    def next_command(self, model: Path) -> str:
        one = "" if self.problem.user is None else " [--user ID]"
        return f"Rank new items:   skpref rank {model} ITEMS.csv{one}"


def _tuned(outcome: Outcome) -> PairFigures:
    figures = outcome.figures["tuned"]
    assert isinstance(figures, PairFigures)  # noqa: S101 - this task made it
    return figures


def read(arguments: argparse.Namespace) -> ComparisonTask:
    """Read the files of a job."""
    refuse_one(arguments.holdout)
    user = (arguments.user or "user") if arguments.model == "crowd" else None
    names = ("items", "group", "users")
    files = {name: getattr(arguments, name) for name in names}
    sources = Sources(arguments.data, **files, id_column=arguments.id or "id", user=user)
    most = arguments.max_inducing or _MAX_INDUCING
    return ComparisonTask(read_problem(sources, arguments.seed), arguments.seed, most)


def read_demo(arguments: argparse.Namespace) -> ComparisonTask:
    """Read the choices of travellers."""
    refuse_one(arguments.holdout)
    return ComparisonTask(demo_problem(), arguments.seed, arguments.max_inducing or _DEMO_MAX_INDUCING)
