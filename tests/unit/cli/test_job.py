"""The search of a job: trials that fail, and a search that was stopped and ends as if it had not been."""

import gc
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from skpref import GPPLClassifier
from skpref.cli import main
from skpref.cli.options import Tune
from skpref.cli.tasks.base import Rows, SearchResult
from skpref.cli.tasks.comparisons import Compared, make_task
from skpref.cli.tune import Job, narrowed
from skpref.exceptions import DataError
from skpref.search.evaluation import TrialRecord

RNG = np.random.default_rng(0)
X = np.array([RNG.choice(5, 2, replace=False) for _ in range(50)])
ROWS = Rows(X, (X[:, 0] + RNG.normal(size=50) > X[:, 1]).astype(float), np.ones(50))
FIT = GPPLClassifier.fit


class Builds:
    """Fits models, counts them, and fails where the prior is strong."""

    def __init__(self):
        self.n = 0
        self.fail = self.strong

    def strong(self, n, settings):
        del n
        if settings["scale_prior__rate"] > 20.0:
            raise ValueError("no such prior")

    def __call__(self, model, *data, **more):
        self.n += 1
        self.fail(self.n, model.get_params())
        return FIT(model.set_params(max_iter=2), *data, **more)


@pytest.fixture
def builds(monkeypatch):
    found = Builds()

    def fit(model, *data, **more):
        return found(model, *data, **more)

    monkeypatch.setattr(GPPLClassifier, "fit", fit)
    return found


def searched(out, builds, rows=ROWS, **options):
    """What the search of a job found, and how many models it built."""
    out.mkdir(exist_ok=True)
    given = {"trials": 4, "folds": 2, "holdout": 0.2, "out": out, "mlflow": False, **options}
    tune = Tune(None, **given)
    job = Job(make_task(Compared(rows, None, "here"), tune.seed), tune)
    before = builds.n
    return job.search(), builds.n - before


def same(one, other):
    def untimed(trial):
        scores = [None if out is None else out["test_scores"] for out in trial.outs]
        return replace(trial, seconds=0.0, outs=scores)

    # NaN is not NaN
    return [repr(untimed(trial)) for trial in one.trials] == [repr(untimed(trial)) for trial in other.trials]


# --------------------------------------------------------------------------------------------------------------- trials
def test_the_first_trial_has_the_defaults_and_seeds_count(tmp_path, builds, capsys):
    one, two, other = (searched(tmp_path, builds, seed=seed)[0] for seed in (5, 5, 6))
    assert one.trials[0].settings == {
        "likelihood": "auto",
        "scale_prior__shape": 0.5,
        "scale_prior__rate": 0.1,
        "order_effect": False,
    }
    assert same(one, two)
    assert not same(one, other)
    out, err = capsys.readouterr()
    assert not out
    for trial in one.trials:  # a line of progress for each, with the numbers of the report
        assert f"trial {trial.number}: {trial.state}" in err


def test_a_trial_that_fails_is_recorded_and_the_search_goes_on(tmp_path, builds):
    def first(n, _):
        if n == 1:
            raise ValueError("no such thing")

    builds.fail = first
    result, _ = searched(tmp_path, builds, trials=2)
    assert [trial.state for trial in result.trials] == ["failed", "complete"]
    assert result.trials[0].error == "ValueError: no such thing"
    assert math.isnan(result.trials[0].score)
    assert result.best.number == 1


def test_if_all_fail_the_first_error_is_shown_in_a_line(tmp_path, builds, capsys):
    def always(n, _):
        raise ValueError(f"number {n}")

    builds.fail = always
    rows = [f"i{k % 4},i{(k + 1) % 4},{k % 2}" for k in range(20)]
    (tmp_path / "votes.csv").write_text("left,right,label\n" + "\n".join(rows) + "\n", "utf-8")
    assert main(["tune", "votes.csv", "--trials", "2", "--folds", "2", "--no-mlflow"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    # scikit-learn 1.8 runs all folds and has the last one's error.
    assert re.fullmatch(
        r"skpref: error: none of 2 trials succeeded; the first error was: ValueError: number [12]", error
    )


def test_an_infinite_loss_is_a_failure(tmp_path, builds, monkeypatch):
    monkeypatch.setattr("skpref.cli.tasks.figures.cross_entropy", lambda *_: math.inf)
    result, _ = searched(tmp_path, builds, trials=1)
    assert [trial.state for trial in result.trials] == ["failed"]
    assert "the score of a fold must be finite; got -inf" in result.trials[0].error


def test_weights_count(tmp_path, builds):
    builds.fail = lambda *_: None
    plain, _ = searched(tmp_path, builds, trials=1)
    weighted, _ = searched(tmp_path, builds, replace(ROWS, weight=np.where(ROWS.y == 1.0, 3.0, 1.0)), trials=1)
    assert weighted.best.score > plain.best.score


def test_no_trial_begins_after_the_timeout(tmp_path, builds):
    result, _ = searched(tmp_path, builds, trials=1000, timeout=0.3)
    assert 1 <= len(result.trials) < 1000
    assert not result.interrupted


def test_the_best_trial_is_complete():
    trials = [TrialRecord(0, {}, state, [], score, 0.1, "") for state, score in (("failed", -0.5), ("complete", -0.6))]
    assert SearchResult(trials).best.score == -0.6


# -------------------------------------------------------------------------------------------------------------- storage
def test_a_search_that_was_stopped_ends_as_if_it_had_not_been(tmp_path, builds, capsys):
    whole, n_built = searched(tmp_path, builds, trials=12)
    assert {trial.state for trial in whole.trials} == {"complete", "pruned", "failed"}
    asked = {"trials": 12, "storage": str(tmp_path / "a")}

    fail, n_stop = builds.fail, builds.n + n_built // 2

    def stop(n, settings):
        if n == n_stop:
            raise KeyboardInterrupt
        fail(n, settings)

    builds.fail = stop
    part, n_part = searched(tmp_path, builds, **asked)
    assert part.interrupted
    n_done = len(part.trials)
    assert 0 < n_done < 12
    capsys.readouterr()
    rest, n_rest = searched(tmp_path, builds, **asked)
    err = capsys.readouterr().err
    assert f"trial {n_done - 1}:" not in err
    assert f"trial {n_done}:" in err
    assert same(rest, whole)
    assert n_part + n_rest <= n_built + 2  # the trial that was stopped is fitted again
    assert rest.trials[0].seconds == part.trials[0].seconds  # of the run in which it was fitted
    again, n_again = searched(tmp_path, builds, **asked)
    assert same(again, whole)
    assert n_again <= 1  # a fold, for the names of the scores


def test_all_settings_of_a_small_space_are_tried_after_a_stop_too(tmp_path, builds):
    space = {"scale_prior__shape": [1.0, 2.0, 3.0], "scale_prior__rate": 1.0, "order_effect": False}
    asked = {"trials": 9, "storage": str(tmp_path / "a"), "settings": tuple(space.items())}
    whole, _ = searched(tmp_path, builds, **asked | {"storage": None})
    assert len({str(trial.settings) for trial in whole.trials}) == len(whole.trials) == 6
    builds.fail = lambda n, _: (_ for _ in ()).throw(KeyboardInterrupt) if n == n_stop else None
    n_stop = builds.n + 4
    part, _ = searched(tmp_path, builds, **asked)
    assert part.interrupted
    builds.fail = lambda *_: None
    rest, _ = searched(tmp_path, builds, **asked)
    assert [trial.settings for trial in rest.trials] == [trial.settings for trial in whole.trials]


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the engine's pool, when the study is forgotten
@pytest.mark.parametrize("address", ["sqlite:///{}", "{}"])
def test_trials_are_stored_in_files_and_databases(tmp_path, builds, address):
    storage = address.format(tmp_path / "study")
    whole, _ = searched(tmp_path, builds, storage=storage)
    again, n_again = searched(tmp_path, builds, storage=storage)
    assert again.trials == whole.trials  # their seconds too
    assert n_again <= 1  # a fold, for the names of the scores
    gc.collect()  # in another test, the warning would be an error


def test_a_torn_line_is_cut_off(tmp_path, builds, capsys):
    whole, _ = searched(tmp_path, builds, storage=str(tmp_path / "a"))
    content = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(content + content.splitlines()[-1][:30])
    for _ in range(2):  # the first one writes behind it
        capsys.readouterr()
        again, _ = searched(tmp_path, builds, storage=str(tmp_path / "a"))
        assert same(again, whole)
    assert "trial" not in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"left,right,label\na,b,1", b"{}\n", b"\x00\x01"])
def test_another_file_is_no_journal_and_stays_as_it_is(tmp_path, builds, content):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DataError, match="is a file, but not the journal of a search"):
        searched(tmp_path, builds, storage=str(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == content
    for storage in (tmp_path, tmp_path / "no" / "where"):
        with pytest.raises(DataError, match="cannot be used"):
            searched(tmp_path, builds, storage=str(storage))


def test_a_study_stands_for_all_that_trials_depend_on(tmp_path, builds):
    def name(rows=ROWS, **options):
        tune = Tune(None, storage=str(tmp_path / "a"), **options)
        task = make_task(Compared(rows, None, "here"))
        return Job(task, tune).study_name(*narrowed(task.space, task.estimator.get_params(), dict(tune.settings or ())))

    names = [
        name(),
        name(replace(ROWS, y=1.0 - ROWS.y)),
        name(seed=1),
        name(folds=3),
        name(holdout=0.3),
        name(settings=tuple({"scale_prior__shape": {"low": 1.0, "high": 2.0}}.items())),
        name(settings=tuple({"scale_prior__shape": {"low": 1.0, "high": 1.5}}.items())),
        name(settings=tuple({"likelihood": "logit"}.items())),
    ]
    assert len(set(names)) == len(names)
    assert name() == name(trials=9) == names[0]
