"""What every estimator does around its inference."""

import inspect
import sys
from types import ModuleType

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skpref
from skpref import _estimator
from skpref._events import Iteration
from skpref.exceptions import DataError, DataWarning
from tests.unit.bad_inputs import places as at


class Model:
    max_iter, tol = 3, 0.1


def change_and_fail(model, error):
    with _estimator.unchanged_on_failure(model):
        model.changed_ = 2
        model.new_ = 3
        del model.kept_
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_puts_everything_back(error):
    model = Model()
    model.kept_, model.changed_ = object(), 1
    before = vars(model).copy()
    with pytest.raises(error):
        change_and_fail(model, error)
    assert vars(model) == before


def test_not_converged_names_the_parameter():
    with pytest.warns(ConvergenceWarning, match=r"Model did not converge in 3 iterations \(max_iter=3\)"):
        _estimator.warn_not_converged(Model(), 3)


def test_a_search_that_rounding_errors_stopped_is_not_told_to_go_on():
    with pytest.warns(ConvergenceWarning, match=r"stopped before it met its tolerance \(tol=0.1\): .*Increase tol\.$"):
        _estimator.warn_not_converged(Model(), 3, cut_short=False)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_constant_features_are_named(make):
    X = np.array([[1.0, 0.0, 2.0], [1.0, 0.0, 3.0]])
    with pytest.warns(DataWarning, match=r"2 of 3 features are constant .*\(columns 0, 1\)"):
        _estimator.warn_constant(make(X))
    _estimator.warn_constant(make(X[:, 2:]))


def test_only_a_few_constant_features_are_named():
    with pytest.warns(DataWarning, match=r"9 of 9 .*\(columns 0, 1, 2, 3, 4, \.\.\.\)"):
        _estimator.warn_constant(np.ones((2, 9)))


def test_memory_is_counted_before_it_is_taken(monkeypatch):
    monkeypatch.setattr(_estimator, "half_of_memory", lambda: 8e9)
    _estimator.check_memory(1_000_000, 1000)  # 8.0 GB
    with pytest.raises(DataError, match=r"1000001 items by 1000 inducing points needs 8\.0 GB.* set inducing"):
        _estimator.check_memory(1_000_001, 1000)
    with pytest.raises(DataError, match=r"needs 80\.0 GB, more than the 4\.3 GB allowed; set inducing"):
        _estimator.check_memory(100_000, 100_000)


def test_the_last_step_is_what_predicts():
    model = DummyClassifier()
    assert _estimator.last_step(model) is model
    assert _estimator.last_step(make_pipeline(StandardScaler(), model)) is model


@pytest.mark.parametrize(
    ("name", "parameter", "method"),
    [
        ("GPPLRegressor", "inducing", "fit"),
        ("GPPLClassifier(items)", "inducing", "fit"),
        ("CrowdGPPL(items, users)", "inducing", "fit"),
        ("GPOrdinalRegressor", "inducing", "partial_fit"),
        ("SVGPRegressor", "inducing", "fit"),
        ("SVGPRegressor", "inducing", "partial_fit"),
        ("SVGPClassifier", "inducing", "fit"),
        ("BayesianGPLVM", "inducing", "fit"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_matrices_that_do_not_fit_in_memory_are_refused(monkeypatch, name, parameter, method):
    model = clone(at.fitted(name)).set_params(**{parameter: 4})
    monkeypatch.setattr("skpref._estimator._MAX_DENSE_BYTES", 8 * 4 * 4 - 1)
    with pytest.raises(DataError, match=rf"A dense kernel matrix of 4 .* by 4 inducing points.*set {parameter} to"):
        getattr(model, method)(*at.TRAINING[name.split("(", maxsplit=1)[0]])
    assert not hasattr(model, "n_iter_")


def test_half_of_the_memory_or_16_gib(monkeypatch):
    monkeypatch.setattr("os.sysconf", {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert _estimator.half_of_memory() == 2_048_000.0
    _estimator.check_memory(1000, 256)
    with pytest.raises(DataError, match="1000 items by 257 inducing points"):
        _estimator.check_memory(1000, 257)
    monkeypatch.delattr("os.sysconf")
    assert _estimator.half_of_memory() == 16 * 2**30


@pytest.mark.parametrize("name", [name for name in skpref.__all__ if hasattr(getattr(skpref, name), "fit")])
def test_results_are_missing_before_a_fit(name):
    make = getattr(skpref, name)
    model = make()
    for result, _ in inspect.getmembers(make, lambda member: isinstance(member, property)):
        if not result.startswith("_"):
            with pytest.raises(NotFittedError, match=f"This {name} instance is not fitted yet"):
                getattr(model, result)


def test_a_notebook_shows_one_line_that_changes(capsys, monkeypatch):
    show = _estimator.verbose_printer("Model")
    show(Iteration(1, 2, -3.0, 1.0))
    assert capsys.readouterr().out == "Model: pass 1/2  bound -3.0000  1.0/s  ETA 1 s\n"
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    for step in (1, 2):
        show(Iteration(step, 2, -3.0, 1.0))
    first, last = capsys.readouterr().out.split("\r")
    assert first.endswith("ETA 1 s")
    assert last == "Model: pass 2/2  bound -3.0000  2.0/s  ETA 0 s\n"
