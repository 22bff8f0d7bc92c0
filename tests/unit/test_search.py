"""The search: what is tried, how it is scored, and that nothing but the user ends it."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from skpref import GPPLClassifier, Table, kernels
from skpref.exceptions import MissingExtraError, SkprefError
from skpref.search import Answers, Builder, SearchResult, Space, TrialRecord, folds, search

if TYPE_CHECKING:
    from pathlib import Path

optuna = pytest.importorskip("optuna")

RNG = np.random.default_rng(1)
X = np.array([("ab", "cd"), ("cd", "ef"), ("ab", "ef"), ("cd", "ab")] * 6, dtype=object)
Y = np.array([1.0, 1.0, 1.0, 0.0] * 6)
ANSWERS = Answers(X, Y, np.ones(24))
FEATURES = Table(RNG.normal(size=(120, 4)) * [1.0, 10.0, 0.1, 1.0], np.arange(120))
PLAIN = Space(has_features=False)


class Guess(BaseEstimator):
    """Answers p to everything, or does what it is told to."""

    def __init__(self, p: float = 0.6, act: Any = None) -> None:
        self.p = p
        self.act = act

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Guess:
        if self.act is not None:
            self.act()
        self.lower_bounds_ = [-2.0, -1.0]
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.tile([1.0 - self.p, self.p], (len(X), 1))


@dataclass
class Script:
    """Builds guesses by a script: the p of each trial, or an exception of it."""

    steps: list[Any]
    built: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, settings: dict[str, Any]) -> Guess:
        step = self.steps[len(self.built) % len(self.steps)]
        self.built.append(settings)
        return Guess(step) if isinstance(step, float) else Guess(act=lambda: self.fail(step))

    @staticmethod
    def fail(error: BaseException) -> None:
        raise error


# ---------------------------------------------------------------------------------------------------------------- space
def drawn(space: Space, n: int = 60) -> list[dict[str, Any]]:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    return [space.suggest(study.ask()) for _ in range(n)]


@pytest.mark.parametrize("space", [PLAIN, Space(n_items=80), Space(n_items=5000), Space(n_items=5000, max_inducing=30)])
def test_the_default_is_a_point_of_the_space(space: Space) -> None:
    study = optuna.create_study()
    study.enqueue_trial(space.default())
    assert space.suggest(study.ask()) == space.default()


def test_every_choice_is_drawn_and_bounded() -> None:
    settings = drawn(Space(n_items=2000, max_inducing=300))
    assert {s["kernel"].split("-")[0] for s in settings} == {"product", "squared", "additive"}
    assert {s["ard"] for s in settings} == {s["item_effects"] for s in settings} == {False, True}
    assert {s["length_scale"] for s in settings} == {"auto", "factor"}
    assert all(50 <= s["n_inducing"] <= 300 for s in settings)
    assert all(s["length_scale"] == "factor" or s["kernel"] == "product-matern-3/2" for s in settings)


def test_few_items_leave_no_question_of_their_number() -> None:
    assert all("n_inducing" not in s for s in [*drawn(Space(n_items=80)), *drawn(PLAIN)])
    assert all("kernel" not in s for s in drawn(PLAIN))


def test_settings_become_estimators() -> None:
    build = Builder(FEATURES, seed=3)
    default = build(Space(n_items=120).default())
    assert default.items is FEATURES
    plain = GPPLClassifier(FEATURES, random_state=3).get_params(deep=False)
    assert default.get_params(deep=False) == {**plain, "n_inducing": 120}
    for settings in drawn(Space(n_items=120)):
        model = build(settings)
        assert model.item_effects == settings["item_effects"]
        assert model.optimizer == ("l-bfgs-b" if settings["ard"] else None)
        assert model.n_inducing == settings["n_inducing"]
        assert (model.kernel is None) == (settings["length_scale"] == "auto")
        if model.kernel is not None:
            assert isinstance(model.kernel, kernels.AdditiveMatern) == settings["kernel"].startswith("additive")
            low, high = model.kernel.bounds.T
            assert ((low < model.kernel.theta) & (model.kernel.theta < high)).all()


def test_length_scales_are_multiples_of_the_median_heuristic() -> None:
    settings = {**Space(n_items=120).default(), "length_scale": "factor", "length_scale_factor": 1.5}
    product = Builder(FEATURES)({**settings, "kernel": "squared-exponential"}).kernel
    additive = Builder(FEATURES)({**settings, "kernel": "additive-matern-5/2"}).kernel
    median = kernels.median_length_scales(FEATURES.features, np.random.default_rng(0))
    assert product.nu == np.inf
    assert product.length_scale == pytest.approx(1.5 * 2.0 * median)
    assert additive.length_scale == pytest.approx(1.5 * median)


# ---------------------------------------------------------------------------------------------------------------- folds
def test_folds_cover_everything_once_and_stay_the_same() -> None:
    first, second = folds(ANSWERS, 5, seed=1), folds(ANSWERS, 5, seed=1)
    assert sorted(np.concatenate([test for _, test in first])) == list(range(24))
    assert all(np.array_equal(a, b) for x, y in zip(first, second, strict=True) for a, b in zip(x, y, strict=True))


def test_groups_are_never_split() -> None:
    groups = np.array([f"person {i // 3}" for i in range(24)], dtype=object)
    for train, test in folds(Answers(X, Y, np.ones(24), groups), 4):
        assert not set(groups[train]) & set(groups[test])


def test_there_are_no_more_folds_than_groups() -> None:
    assert len(folds(Answers(X, Y, np.ones(24), np.repeat([0, 1], 12)), 4)) == 2


# --------------------------------------------------------------------------------------------------------------- search
def test_the_lowest_loss_wins_and_the_default_is_tried_first() -> None:
    script = Script([0.55, 0.75, 0.65])
    ticks: list[tuple[int, int, int]] = []
    records: list[TrialRecord] = []
    result = search(
        ANSWERS,
        script,
        PLAIN,
        n_trials=3,
        n_folds=3,
        on_fold=lambda *tick: ticks.append(tick),
        on_trial=records.append,
    )
    assert script.built[0] == PLAIN.default()
    assert result.best.number == 1
    assert result.best.score == pytest.approx(-0.75 * np.log(0.75) - 0.25 * np.log(0.25), rel=0.2)
    assert result.trials == records
    assert ticks[:4] == [(0, 0, 3), (0, 1, 3), (0, 2, 3), (0, 3, 3)]
    assert result.best.bounds == (-2.0, -1.0)
    assert not result.interrupted


def test_equal_seeds_give_equal_trials() -> None:
    one, two = (search(ANSWERS, Script([0.6]), PLAIN, n_trials=4, n_folds=2, seed=5) for _ in range(2))
    assert [t.settings for t in one.trials] == [t.settings for t in two.trials]
    other = search(ANSWERS, Script([0.6]), PLAIN, n_trials=4, n_folds=2, seed=6)
    assert [t.settings for t in one.trials] != [t.settings for t in other.trials]


def test_a_trial_that_fails_is_recorded_and_the_search_goes_on() -> None:
    result = search(ANSWERS, Script([ValueError("no such thing"), 0.7]), PLAIN, n_trials=4, n_folds=2)
    assert [t.state for t in result.trials] == ["failed", "complete", "failed", "complete"]
    assert result.trials[0].error == "ValueError: no such thing"
    assert np.isnan(result.trials[0].score)
    assert result.best.number == 1


def test_an_infinite_loss_is_a_failure() -> None:
    result = search(ANSWERS, Script([1.0, 0.7]), PLAIN, n_trials=2, n_folds=2)
    assert [t.state for t in result.trials] == ["failed", "complete"]
    assert "log-loss of a fold is inf" in result.trials[0].error


def test_if_all_fail_the_first_error_is_shown() -> None:
    result = search(ANSWERS, Script([ValueError("first"), ValueError("second")]), PLAIN, n_trials=2, n_folds=2)
    with pytest.raises(SkprefError, match="none of 2 trials succeeded; the first error was: ValueError: first"):
        _ = result.best


def test_ctrl_c_keeps_what_is_finished() -> None:
    result = search(ANSWERS, Script([0.6, 0.7, KeyboardInterrupt()]), PLAIN, n_trials=9, n_folds=2)
    assert result.interrupted
    assert [t.state for t in result.trials] == ["complete", "complete"]
    assert result.best.number == 1


def test_ctrl_c_while_a_trial_is_reported_keeps_that_trial() -> None:
    def stop(_: TrialRecord) -> None:
        raise KeyboardInterrupt

    result = search(ANSWERS, Script([0.6]), PLAIN, n_trials=9, n_folds=2, on_trial=stop)
    assert result.interrupted
    assert len(result.trials) == 1


def test_ctrl_c_before_the_first_result_says_so() -> None:
    result = search(ANSWERS, Script([KeyboardInterrupt()]), PLAIN, n_trials=9, n_folds=2)
    with pytest.raises(SkprefError, match="stopped before the first trial"):
        _ = result.best


def test_poor_trials_are_given_up() -> None:
    result = search(ANSWERS, Script([0.7] * 6 + [0.01]), PLAIN, n_trials=7, n_folds=4)
    last = result.trials[-1]
    assert last.state == "pruned"
    assert len(last.scores) < 4
    assert result.best.state == "complete"


def test_no_trial_begins_after_the_timeout() -> None:
    def slow(_: dict[str, Any]) -> Guess:
        return Guess(act=lambda: time.sleep(0.03))

    result = search(ANSWERS, slow, PLAIN, n_trials=1000, timeout=0.2, n_folds=2)
    assert 1 <= len(result.trials) < 10
    assert not result.interrupted


def test_the_journal_holds_the_study(tmp_path: Path) -> None:
    journal = tmp_path / "study.journal"
    search(ANSWERS, Script([0.6]), PLAIN, n_trials=2, n_folds=2, journal=journal)
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(journal)))
    (name,) = optuna.get_all_study_names(storage)
    assert len(optuna.load_study(study_name=name, storage=storage).trials) == 2


def test_weights_count() -> None:
    weight = np.where(Y == 1.0, 3.0, 1.0)
    p = 0.9
    result = search(Answers(X, Y, weight), Script([p]), PLAIN, n_trials=1, n_folds=2)
    plain = search(ANSWERS, Script([p]), PLAIN, n_trials=1, n_folds=2)
    assert result.best.score < plain.best.score


def test_the_real_model_with_features() -> None:
    rng = np.random.default_rng(0)
    pairs = np.array([rng.choice(120, 2, replace=False) for _ in range(40)])
    y = (FEATURES.features[pairs[:, 0], 0] > FEATURES.features[pairs[:, 1], 0]).astype(float)
    space = Space(n_items=120, max_inducing=20)
    result = search(Answers(pairs, y, np.ones(40)), Builder(FEATURES), space, n_trials=2, n_folds=2)
    assert [t.state for t in result.trials] == ["complete", "complete"], [t.error for t in result.trials]
    assert result.trials[0].bounds


def test_best_of_nothing_complete() -> None:
    assert SearchResult([TrialRecord(0, "complete", {}, (0.5,), 0.1)]).best.number == 0


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"skpref\[optuna\]"):
        search(ANSWERS, Script([0.6]), PLAIN, n_trials=1)
