"""A search that was stopped goes on from its finished trials, and ends as if nothing had happened."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from skpref.exceptions import DataError, DataWarning
from skpref.search import Answers, Builder, SearchResult, Space, search
from skpref.search._log import StudyLog, study_name
from skpref.search._narrowed import NarrowedSpace

if TYPE_CHECKING:
    from pathlib import Path

    from skpref.search import TrialRecord

pytest.importorskip("optuna")

RNG = np.random.default_rng(0)
X = np.array([RNG.choice(5, 2, replace=False) for _ in range(40)])
ANSWERS = Answers(X, (X[:, 0] + RNG.normal(size=40) > X[:, 1]).astype(float), np.ones(40))
SPACE = Space(has_features=False)


class Built:
    """A builder that counts, and fails where the prior is strong."""

    def __init__(self) -> None:
        self.n = 0

    def __call__(self, settings: dict[str, Any]) -> Any:
        self.n += 1
        if settings["rate_s0"] > 20.0:
            raise ValueError("no such prior")
        return Builder(None)(settings).set_params(max_iter=2)


def run(
    journal: Path | None, n_trials: int = 8, stop_after: int | None = None, **more: Any
) -> tuple[SearchResult, int]:
    """What a search found, and how often it built a model."""

    def stop(record: TrialRecord) -> None:
        if record.number == stop_after:
            raise KeyboardInterrupt

    build = Built()
    asked = {"n_trials": n_trials, "n_folds": 2, "journal": journal, "study_name": "x", "on_trial": stop, **more}
    return search(ANSWERS, build, SPACE, **asked), build.n


def same(one: SearchResult, other: SearchResult) -> bool:
    first, second = ([replace(trial, seconds=0.0) for trial in result.trials] for result in (one, other))
    return first == second


def test_a_search_that_was_stopped_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    whole, n_built = run(None, 12)
    assert {trial.state for trial in whole.trials} == {"complete", "pruned", "failed"}
    found: list[int] = []
    part, _ = run(tmp_path / "a", 12, stop_after=4)
    assert part.interrupted
    assert len(part.trials) == 5
    rest, n_rest = run(tmp_path / "a", 12, on_resume=found.append)
    assert found == [5]
    assert same(rest, whole)
    assert n_rest == n_built - 5
    assert rest.trials[0].seconds == part.trials[0].seconds  # of the run in which it was fitted
    again, n_again = run(tmp_path / "a", 12)
    assert same(again, whole)
    assert n_again == n_built - 12
    fewer, _ = run(tmp_path / "a", 3)
    assert same(fewer, SearchResult(whole.trials[:3]))


def test_without_a_name_a_journal_begins_a_new_study(tmp_path: Path) -> None:
    for _ in range(2):
        _, n_built = run(tmp_path / "a", 2, study_name=None)
        assert n_built == 2


def test_trials_of_another_search_are_not_taken(tmp_path: Path) -> None:
    other, _ = run(None, 6, seed=1)
    run(tmp_path / "a", 6)
    found, n_built = run(tmp_path / "a", 6, seed=1)  # of the same name, and the same first settings
    assert [trial.settings for trial in found.trials] == [trial.settings for trial in other.trials]
    assert n_built == 5
    assert len(StudyLog(tmp_path / "a", "x")) == 6
    again, n_built = run(tmp_path / "a", 6, seed=1)
    assert same(again, found)
    assert n_built == 0


def test_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    whole, _ = run(tmp_path / "a", 4)
    content = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(content[:-30])
    for _ in range(2):  # the first one writes behind it
        found: list[int] = []
        again, _ = run(tmp_path / "a", 4, on_resume=found.append)
        assert same(again, whole)
    assert found == [4]


@pytest.mark.parametrize("content", [b"left,right,label\na,b,1", b"{}\n", b"\x00\x01"])
def test_another_file_is_no_journal_and_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DataError, match="is a file, but no journal of a search"):
        run(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == content
    with pytest.raises(DataError, match="cannot be used"):
        run(tmp_path)
    with pytest.raises(DataError, match="cannot be used"):
        run(tmp_path / "no" / "where")


def test_a_storage_that_fails_costs_no_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = run(None, 3)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("optuna.storages.JournalStorage.create_new_trial", full)
    with pytest.warns(DataWarning, match="can no longer be kept.*No space left") as seen:
        found, _ = run(tmp_path / "a", 3)
    assert same(found, whole)
    assert len(seen) == 1


def test_a_name_stands_for_all_that_trials_depend_on() -> None:
    def name(space: Any = SPACE, **facts: Any) -> str:
        return study_name(space, [space.default()], {"data": "a", "seed": 0} | facts)

    narrow = NarrowedSpace(SPACE, {"shape_s0": {"low": 1.0, "high": 2.0}})
    narrower = NarrowedSpace(SPACE, {"shape_s0": {"low": 1.0, "high": 1.5}})
    names = [name(), name(data="b"), name(seed=1), name(narrow), name(narrower), name(Space(n_items=500))]
    assert len(set(names)) == len(names)
    assert name() == names[0]
