"""Kernels on some of the columns: the same numbers as the inner kernel at those columns, however they are named."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from skpref import GPPLClassifier, Table, kernels
from skpref.kernels import AdditiveMatern, Columns, Identity, Linear, ProductMatern

INNER = [ProductMatern(), AdditiveMatern(0.7), Linear(2.0), Identity(), sk.RBF(1.3), sk.Matern() + sk.WhiteKernel(0.2)]
FORMS = ["list", "tuple", "array", "mask", "mask list"]


def named(numbers, d, form):
    """Column numbers in one of the forms that `columns` takes."""
    mask = np.isin(np.arange(d), numbers)
    given = {"list": list(numbers), "tuple": tuple(numbers), "array": np.array(numbers), "mask": mask}
    return given.get(form, mask.tolist())


@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 6),
    inner=st.sampled_from(INNER),
    form=st.sampled_from(FORMS),
    stored=st.sampled_from([np.asarray, sparse.csr_array]),
    data=st.data(),
)
def test_the_inner_kernel_at_the_chosen_columns(seed, d, inner, form, stored, data):
    rng = np.random.default_rng(seed)
    numbers = data.draw(st.lists(st.integers(0, d - 1), min_size=1, unique=True))
    if form.startswith("mask"):
        numbers = sorted(numbers)
    X, Z = (np.where(rng.random((n, d)) < 0.4, 0.0, rng.normal(size=(n, d))) for n in (5, 4))
    kernel = Columns(inner, named(numbers, d, form))
    few = [np.ascontiguousarray(table[:, numbers]) for table in (X, Z)]
    at = {"cross": (0, 1), "gram": (1,), "diagonal": (0,), "paired": (0, 0)}
    for name, sides in at.items():
        of, gradient = getattr(kernels, name), getattr(kernels, f"{name}_vjp")
        want = of(inner, *(few[i] for i in sides))
        G = rng.normal(size=want.shape)
        all_columns = [stored((X, Z)[i]) for i in sides]
        np.testing.assert_allclose(of(kernel, *all_columns), want, rtol=1e-12, atol=1e-12)
        want = gradient(inner, *(few[i] for i in sides), G)
        np.testing.assert_allclose(gradient(kernel, *all_columns, G), want, rtol=1e-9, atol=1e-9)


@given(
    seed=st.integers(0, 2**32 - 1),
    ends=st.tuples(st.none() | st.integers(-5, 5), st.none() | st.integers(-5, 5), st.sampled_from([None, 1, 2, -1])),
)
def test_slices_are_read_as_python_reads_them(seed, ends):
    X = np.random.default_rng(seed).normal(size=(4, 5))
    columns = slice(*ends)
    want = X[:, columns] @ X[:, columns].T
    if want.any():
        np.testing.assert_allclose(Columns(Linear(), columns)(X), want, rtol=1e-12, atol=1e-12)
    else:
        with pytest.raises(ValueError, match=r"columns: got slice"):
            Columns(Linear(), columns)(X)


def test_the_other_columns_are_not_read():
    X = np.array([[1.0, np.nan, 2.0], [0.0, np.inf, 1.0]])
    kernel = Columns(ProductMatern(), [0, 2])
    assert np.isfinite(kernel(X)).all()
    assert np.isfinite(kernels.gram_vjp(kernel, X, np.ones((2, 2)))).all()


def test_one_kernel_and_one_scale_for_each_kind_of_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 7))
    kernel = sk.ConstantKernel(3.0) * Columns(AdditiveMatern(4.0), slice(0, 3)) + Columns(Linear(0.1), slice(3, None))
    want = 3.0 * AdditiveMatern(4.0)(X[:, :3]) + 0.1 * X[:, 3:] @ X[:, 3:].T
    np.testing.assert_allclose(kernel(X), want, rtol=1e-12)
    np.testing.assert_allclose(kernel.theta, np.log([3.0, 4.0, 0.1]), rtol=1e-12)
    names = [h.name for h in kernel.hyperparameters]
    assert names == ["k1__k1__constant_value", "k1__k2__kernel__length_scale", "k2__kernel__variance"]


def test_sklearn_manners():
    inner = ProductMatern([1.0, 2.0], (0.1, 10.0))
    kernel = Columns(inner, [2, 0])
    assert kernel.columns == [2, 0]
    assert kernel.n_dims == 2
    np.testing.assert_array_equal(kernel.bounds, inner.bounds)
    again = kernel.clone_with_theta(np.log([3.0, 4.0]))
    np.testing.assert_allclose(again.kernel.length_scale, [3.0, 4.0])
    np.testing.assert_array_equal(inner.length_scale, [1.0, 2.0])
    assert set(kernel.get_params(deep=False)) == {"kernel", "columns"}
    assert kernel.get_params()["kernel__nu"] == 1.5
    assert clone(kernel).set_params(kernel__nu=2.5).kernel.nu == 2.5
    assert kernel.requires_vector_input
    assert kernel.is_stationary()
    assert not Columns(Linear(), [0]).is_stationary()


@pytest.mark.parametrize("columns", [[2, 0], (0, 1), slice(0, 2), slice(None), np.array([1]), np.array([True, False])])
def test_clones_are_equal_and_keep_what_was_given(columns):
    kernel = Columns(Linear(), columns)
    other = clone(kernel)
    assert other == kernel
    assert type(other.columns) is type(columns)
    assert kernel != Columns(Linear(2.0), columns)
    assert kernel != Linear()


def test_columns_given_differently_are_different_kernels():
    forms = [[0, 1], [1, 0], [0], slice(0, 2), slice(0, 2, 1), [True, True], [False, True]]
    different = [Columns(Linear(), columns) for columns in forms]
    for i, kernel in enumerate(different):
        assert [kernel == other for other in different] == [i == j for j in range(len(forms))]
    assert Columns(Linear(), [0, 1]) == Columns(Linear(), np.array([0, 1]))


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        ([2, 0], "2, 0"),
        ([0, 1, 2, 5, 6, 9], "0:3, 5, 6, 9"),
        (slice(0, 21), "0:21"),
        (slice(3, None), "3:"),
        (slice(None, None, 2), "::2"),
        ([True, True, True, False, True], "0:3, 4"),
    ],
)
def test_repr_shows_columns_briefly(columns, shown):
    assert repr(Columns(Linear(), columns)) == f"Columns(Linear(variance=1), [{shown}])"


def test_gaussian_process_regressor_learns_each_kind():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(60, 4))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1:] @ [0.1, -0.2, 0.1] + 0.05 * rng.normal(size=60)
    parts = Columns(sk.RBF(), [0]), Columns(Linear(), slice(1, None)), sk.WhiteKernel(0.1, (1e-4, 1.0))
    model = GaussianProcessRegressor(sk.ConstantKernel() * parts[0] + parts[1] + parts[2]).fit(X[:40], y[:40])
    same = GaussianProcessRegressor(sk.RBF() + sk.WhiteKernel(0.1, (1e-4, 1.0)), random_state=0).fit(X[:40], y[:40])
    assert model.log_marginal_likelihood_value_ > same.log_marginal_likelihood_value_ + 5.0
    assert model.score(X[40:], y[40:]) > 0.95


def test_gppl_learns_the_scale_of_each_kind():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 6))
    utility = 2.0 * np.sin(1.5 * X[:, 0])  # the linear part is idle
    pairs = np.array([rng.choice(40, 2, replace=False) for _ in range(400)])
    y = utility[pairs[:, 0]] > utility[pairs[:, 1]]
    bounds = (1e-3, 1e2)
    kernel = Columns(ProductMatern(1.0, "fixed"), [0]) + sk.ConstantKernel(1.0, bounds) * Columns(
        Linear(0.2, "fixed"), slice(1, None)
    )
    fixed = GPPLClassifier(Table(X), kernel=kernel, random_state=0).fit(pairs, y)
    table = Table(sparse.csr_array(X))
    model = GPPLClassifier(table, kernel=kernel, optimizer="l-bfgs-b", random_state=0).fit(pairs, y)
    assert model.lower_bound_ > fixed.lower_bound_
    assert model.kernel_.theta[0] < np.log(0.2)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([0, 3], r"columns: got column 3 for 3 features, wanted numbers in 0\.\.2"),
        ([-1], r"columns: got column -1 for 3 features"),
        (np.array([2**64 - 1], dtype=np.uint64), r"columns: got column 18446744073709551615 for 3 features"),
        ([1, 0, 1], r"columns: got column 1 2 times, wanted each at most once"),
        (slice(1, 4), r"columns: got slice\(1, 4, None\) for 3 features, wanted a non-empty part of 0:3"),
        (slice(-4, None), r"columns: got slice\(-4, None, None\)"),
        (slice(3, None), r"columns: got slice\(3, None, None\)"),
        ([True, False], r"columns: got a mask of 2 with 1 True for 3 features"),
        ([False] * 3, r"columns: got a mask of 3 with 0 True"),
        ([], r"columns: got \[\], wanted a list of column numbers"),
        (1, r"columns: got 1, wanted a list of column numbers.*\[2\]"),
        ([0.0, 1.0], r"columns: got \[0\.0, 1\.0\], wanted a list"),
        ("ab", r"columns: got 'ab', wanted a list"),
        ([[0, 1]], r"columns: got \[\[0, 1\]\], wanted a list"),
    ],
)
@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array])
def test_errors_name_parameter_got_and_wanted(columns, message, stored):
    kernel, X = Columns(Linear(), columns), stored(np.ones((2, 3)))
    for call in (
        lambda: kernel(X),
        lambda: kernel(X, eval_gradient=True),
        lambda: kernels.cross(kernel, X, X),
        lambda: kernels.paired_vjp(kernel, X, X, np.ones(2)),
        lambda: kernel.diag(X),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_no_gradient_between_two_tables():
    with pytest.raises(ValueError, match="eval_gradient: got True"):
        Columns(Linear(), [0])([[0.0]], [[0.0]], eval_gradient=True)
