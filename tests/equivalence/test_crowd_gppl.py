"""C1 to C6: CrowdGPPL against reference posteriors, GPPL, differences of its bound, and itself in other words."""

import json
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skpref import CrowdGPPL, FactorPrior, Gamma, GPPLClassifier, Table
from skpref.data import Comparisons
from skpref.datasets import make_crowd
from skpref.gp.crowd import fit as crowd_fit
from skpref.gp.crowd import model as crowd_models
from skpref.gp.crowd.fit import bound_and_gradient, kernel_gradient
from skpref.gp.pairwise.fit import PairConfig
from skpref.inference import svi
from skpref.inference.basis import InducingBasis
from skpref.inference.blocks import DenseBlock, DiagonalBlock, StackedBlock
from skpref.inference.scale import FixedScale, GammaScale
from skpref.inference.terms.entities import EntityTerm
from skpref.inference.terms.pairs import PairTerm
from skpref.inference.terms.products import FactorTerm, ProductTerm
from skpref.kernels import ProductMatern
from skpref.likelihoods import PairwiseLogit, PairwiseProbit
from tests.differences import central
from tests.examples import examples
from tests.policies import set_policy

pytestmark = pytest.mark.filterwarnings("ignore:The comparisons form", "ignore:n_factors", "ignore:.*did not converge")
TIGHT = svi.Schedule(max_iter=3000, tol=1e-12)
seeds = st.integers(0, 2**32 - 1)
few = examples(15)


# ---------------------------------------------------------------------------------------------------- C1: the reference
@dataclass(frozen=True, eq=False)
class Reference:
    """One case of the reference posteriors of a crowd: fixed scales, four items, three users, nine comparisons."""

    data: dict

    def config(self, name):
        value = self.data["config"].get(name)
        return np.array(value, dtype=np.float64) if isinstance(value, list) else value

    def problem(self):
        user, left, right, y = (np.ascontiguousarray(x) for x in np.array(self.data["config"]["comparisons"]).T)
        kernel = {"rbf": RBF, "matern32_product": ProductMatern}[self.config("kernel")]
        X, X_users = self.config("X"), self.config("user_features")
        rows, phi = InducingBasis.from_points(kernel(self.config("lengthscales")), X).rows(X), None
        if not self.config("independent_users"):
            phi = InducingBasis.from_points(kernel(self.config("user_lengthscales")), X_users).rows(X_users)
        term = PairTerm(rows, left, right, len(X))
        names = tuple(tuple(f"{side}{d}" for d in range(self.config("D"))) for side in "vw")
        people = EntityTerm(phi, user, len(X_users), "w")
        products = (ProductTerm(FactorTerm(term, names[0]), FactorTerm(people, names[1])),)
        problem = svi.Problem({"f": term}, PairwiseProbit(), y.astype(float), np.ones(y.size), products=products)
        scales = dict(zip(names[0], self.config("s_d"), strict=True)) | dict.fromkeys(names[1], 1.0)
        scales = {"f": self.config("sigma_t"), **scales}
        diagonal = {"users"} if phi is None else set()
        start = svi.initial_state(problem, {name: FixedScale(s) for name, s in scales.items()}, diagonal=diagonal)
        return problem, start

    def asked(self, problem):
        """The same model, seen at every pair of items of every user."""
        pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
        user = np.repeat(np.arange(3), len(pairs))
        left, right = np.tile(np.array(pairs).T, 3)
        term, product = problem.terms["f"], problem.products[0]
        term = replace(term, left=left, right=right)
        first = replace(product.first, rows=term)
        second = replace(product.second, rows=replace(product.second.rows, index=user))
        full = np.ones(user.size)
        return replace(problem, terms={"f": term}, products=(ProductTerm(first, second),), y=full, weight=full)

    def pair_probabilities(self):
        return np.concatenate([list(row.values()) for row in self.data["posterior"]["user_pair_probability"]])


# By BFGS from random starts on a bound written for this purpose alone (numpy, Cholesky factors of all covariances).
OPTIMA = {"d1": (-9.216934, 0.0871), "d2_independent_users": (-9.879183, 0.2787)}


@pytest.mark.parametrize("case", OPTIMA)
def test_reference_posteriors(shared, case, record_property):
    # Probabilities within .05 of the exact ones are wanted. No q that factorises as in docs/maths section 6 is so near:
    # with nine comparisons the bound is best where the factors are (almost) zero for everybody, 1.06 and 2.29 nats
    # below the evidence. So the best of these q is asked for here, and its gap is recorded.
    reference = Reference(json.loads((shared / "reference" / "crowd_gppl" / "cases.json").read_text())["cases"][case])
    problem, prior = reference.problem()
    rng = np.random.default_rng(0)  # other starts end there, too
    sides = {name: prior.blocks[name] for name in ("items", "users")}
    blocks = {name: block.with_mean(rng.normal(size=block.size)) for name, block in sides.items()}
    best = svi.fit(problem, prior.with_blocks(blocks), replace(TIGHT, tol=1e-8), rng)
    seen = svi.evaluate(reference.asked(problem), best.state)
    gap = np.abs(problem.likelihood.predict(seen.mu, seen.v) - reference.pair_probabilities()).max()
    record_property("gap in pair probabilities", float(gap))
    record_property("log evidence - bound", float(reference.data["log_evidence"] - best.evaluation.bound))
    bound, gap_of_the_best = OPTIMA[case]
    assert best.evaluation.bound == pytest.approx(bound, abs=2e-5)
    assert gap == pytest.approx(gap_of_the_best, abs=2e-3)


# ---------------------------------------------------------------------------------------- C2: symmetries of the factors
def somewhere(seed, *, users="ids", items="features", n_factors=3, alike=False):
    """A problem and a state anywhere; with `alike`, all factors have the same scales and the same covariances."""
    rng = np.random.default_rng(seed)
    n, n_users, p = int(rng.integers(3, 7)), int(rng.integers(2, 5)), int(rng.integers(3, 20))
    left, user = rng.integers(0, n, p), rng.integers(0, n_users, p)
    right = (left + rng.integers(1, n, p)) % n
    rows = phi = residual = None
    if items == "features":
        X = rng.normal(size=(n, 2))
        basis = InducingBasis.from_points(ProductMatern([0.8, 1.5]), X[:-1])
        rows = basis.rows(X)
        residual = basis.pair_residual(X, rows, left, right)
    if users == "features":
        phi = rng.normal(size=(n_users, 2))
    term = PairTerm(rows, left, right, n, rows is None, residual=residual)
    names = tuple(tuple(f"{side}{d}" for d in range(n_factors)) for side in "vw")
    product = ProductTerm(FactorTerm(term, names[0]), FactorTerm(EntityTerm(phi, user, n_users, "w"), names[1]))
    y = np.where(rng.random(p) < 0.6, rng.integers(0, 2, p), rng.random(p))
    problem = svi.Problem({"f": term}, PairwiseProbit(), y, rng.exponential(size=p) + 0.1, products=(product,))
    sizes = {"v": product.first.size, "w": product.second.size}
    t = "offset" if rows is None else "f"
    scales = {t: draw_scale(rng)}
    blocks = {"f": draw_dense(rng, sum(s.size for s in term.segments))}
    for block_name, side, dense in (("items", "v", rows is not None), ("users", "w", phi is not None)):
        shared_scale, parts = draw_scale(rng), []
        shared = draw_dense(rng, sizes[side]) if dense else np.exp(rng.normal(size=sizes[side]))
        for d in range(n_factors):
            scales[f"{side}{d}"] = shared_scale if alike else draw_scale(rng)
            other = draw_dense(rng, sizes[side]) if dense else np.exp(rng.normal(size=sizes[side]))
            mean, part = rng.normal(size=sizes[side]), shared if alike else other
            parts.append(part.with_mean(mean) if dense else DiagonalBlock.isotropic(part, mean))
        blocks[block_name] = joined_factors(parts)
    return rng, problem, svi.State(blocks, scales)


def draw_scale(rng):
    return GammaScale(*np.exp(rng.normal(size=4)))


def draw_dense(rng, size):
    A = rng.normal(size=(size, size))
    return DenseBlock(A @ A.T + np.eye(size), rng.normal(size=size))


def joined_factors(parts):
    if isinstance(parts[0], DenseBlock):
        return StackedBlock(tuple(parts))
    return DiagonalBlock(*(np.concatenate([getattr(part, x) for part in parts]) for x in ("precision", "linear")))


def factors_of(block, n_factors):
    if isinstance(block, StackedBlock):
        return list(block.parts)
    halves = (np.split(x, n_factors) for x in (block.precision, block.linear))
    return [DiagonalBlock(*pair) for pair in zip(*halves, strict=True)]


def assert_same_view(problem, one, other):
    a, b = svi.evaluate(problem, one), svi.evaluate(problem, other)
    assert_allclose(a.mu, b.mu, rtol=1e-10, atol=1e-10)
    assert_allclose(a.v, b.v, rtol=1e-10, atol=1e-10)
    assert_allclose(a.bound, b.bound, rtol=1e-10)


sides = pytest.mark.parametrize(("items", "users"), [("ids", "ids"), ("features", "ids"), ("features", "features")])


@sides
@few
@given(seed=seeds)
def test_permuting_factors_and_flipping_their_signs(items, users, seed):
    rng, problem, state = somewhere(seed, items=items, users=users)
    order, sign = rng.permutation(3), rng.choice([-1.0, 1.0], 3)
    blocks, scales = dict(state.blocks), dict(state.scales)
    for k, side in (("items", "v"), ("users", "w")):
        parts = factors_of(state.blocks[k], 3)
        blocks[k] = joined_factors([parts[d].with_mean(sign[d] * parts[d].mean) for d in order])
        scales |= {f"{side}{to}": state.scales[f"{side}{d}"] for to, d in enumerate(order)}
    moved = replace(state, blocks=blocks, scales=scales)
    assert_same_view(problem, state, moved)
    # A step from there is the same step.
    after, _ = svi.full_step(problem, state, svi.evaluate(problem, state))
    other, _ = svi.full_step(problem, moved, svi.evaluate(problem, moved))
    a, b = svi.evaluate(problem, after), svi.evaluate(problem, other)
    assert_allclose(a.bound, b.bound, rtol=1e-4)  # joint means are solved for to 1e-4


@sides
@few
@given(seed=seeds)
def test_rotating_factors_of_equal_scales_and_covariances(items, users, seed):
    # Independent factors of the same covariance stay so under a rotation of (v, w).
    rng, problem, state = somewhere(seed, items=items, users=users, alike=True)
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    blocks = dict(state.blocks)
    for k in ("items", "users"):
        parts = factors_of(state.blocks[k], 3)
        means = rotation @ np.array([part.mean for part in parts])
        blocks[k] = joined_factors([part.with_mean(mean) for part, mean in zip(parts, means, strict=True)])
    assert_same_view(problem, state, replace(state, blocks=blocks))


# ----------------------------------------------------------------------------- C3 and the like: the same in other words
LAYOUTS = {"ids": (0, 0), "items": (2, 0), "users": (0, 2), "both": (2, 2)}


def simulated(seed, layout, *, n=300, **options):
    """Comparisons of seven items by eight users of clearly different tastes."""
    n_features, n_user_features = LAYOUTS[layout]
    options = {"n_factors": 1, "factor_scale": 0.1, **options}
    return make_crowd(8, 7, n, n_features=n_features, n_user_features=n_user_features, random_state=seed, **options)


def learnt(X, y, items=None, users=None, weight=None, **options):
    wanted = {
        "n_factors": 2,
        "random_state": 0,
        "inference": "vb",
        "tol": 1e-9,
        "max_iter": 2000,
        "optimizer": None,
        **options,
    }
    return CrowdGPPL(items, users, **wanted).fit(X, y, weight)


def assert_same(a, b, rows_a, rows_b):
    """Converged to the same optimum, from starts that differ by small random numbers."""
    assert_allclose(a.lower_bound_, b.lower_bound_, atol=1e-4)
    assert_allclose(a.predict_proba(rows_a), b.predict_proba(rows_b), atol=1e-3)
    assert_allclose(np.sort(a.factor_scales_), np.sort(b.factor_scales_), rtol=0.02, atol=1e-4)


@pytest.mark.parametrize(("layout", "order_effect"), [("ids", True), ("both", True), ("ids", False)])
def test_swapping_left_and_right_and_the_order_of_comparisons(layout, order_effect):
    data, rng = simulated(1, layout, order_effect=(0.5, 0.5)), np.random.default_rng(0)
    options = {"items": data.table, "users": data.user_table, "order_effect": order_effect}
    swapped, order = data.comparisons[:, [0, 2, 1]], rng.permutation(data.y.size)
    a = learnt(data.comparisons, data.y, **options)
    b = learnt(swapped, 1.0 - data.y, **options)
    assert_allclose(a.lower_bound_, b.lower_bound_, atol=1e-4)
    assert_allclose(a.predict_proba(data.comparisons), b.predict_proba(swapped)[:, ::-1], atol=1e-3)
    assert_allclose(a.order_effect_[0], -b.order_effect_[0], atol=1e-3)
    c = learnt(data.comparisons[order], data.y[order], **options)
    assert_same(a, c, data.comparisons, data.comparisons)


@pytest.mark.filterwarnings("ignore:unknown user")
@pytest.mark.parametrize("layout", ["ids", "items"])
def test_a_silent_user_has_the_consensus(layout):
    data = simulated(4, layout)
    plain = learnt(data.comparisons, data.y, data.table)
    # User 8 is named by a comparison of weight zero only; the other user is not named at all.
    X = np.vstack([data.comparisons, [[8, 0, 1]]])
    model = learnt(X, np.append(data.y, 1.0), data.table, weight=np.append(np.ones(data.y.size), 0.0))
    assert_same(plain, model, data.comparisons, data.comparisons)
    pairs = np.array([(a, b) for a in range(7) for b in range(7) if a != b])
    consensus = model.posterior_.consensus.utility(model._items.rows(np.arange(7)))[0]
    for user in (8, "unseen"):
        rows = [[user, int(a), int(b)] for a, b in pairs]
        assert_allclose(model.decision_function(rows), consensus[pairs[:, 0]] - consensus[pairs[:, 1]], atol=1e-12)
        assert_allclose(model.utility(users=[user])[0], model.utility(), atol=1e-12)
        # With less certainty than the consensus itself.
        assert (model.utility(users=[user], return_std=True)[1][0] > model.utility(return_std=True)[1]).all()


def test_a_user_of_the_table_without_comparisons():
    data = simulated(5, "users")
    far = np.vstack([data.user_table.features, [[1e3, -1e3]]])
    plain = learnt(data.comparisons, data.y, None, data.user_table)
    model = learnt(data.comparisons, data.y, None, Table(far))
    assert_same(plain, model, data.comparisons, data.comparisons)
    # Far from everybody the kernel knows nothing: the consensus.
    assert_allclose(model.utility(users=[8])[0], model.utility(), atol=1e-10)
    # Near to somebody it does.
    near = Table(np.vstack([data.user_table.features, data.user_table.features[:1]]))
    twin = learnt(data.comparisons, data.y, None, near)
    assert_allclose(twin.utility(users=[8]), twin.utility(users=[0]), atol=1e-9)


# ---------------------------------------------------------------------------------------------------------- C4: is GPPL
@pytest.mark.parametrize("layout", ["ids", "items"])
@pytest.mark.parametrize("order_effect", [False, True])
def test_one_user_and_no_factors_are_gppl(layout, order_effect):
    data = simulated(6, layout, order_effect=(0.5, 0.0))
    X = data.comparisons.copy()
    X[:, 0] = 0
    options = {"optimizer": None, "random_state": 0, "inference": "vb", "tol": 1e-12, "max_iter": 3000}
    options |= {"scale_prior": Gamma(2.0, 2.0)}  # the two have priors of their own
    one = GPPLClassifier(data.table, order_effect=order_effect, **options).fit(X[:, 1:], data.y)
    crowd = CrowdGPPL(data.table, n_factors=0, order_effect=order_effect, **options).fit(X, data.y)
    if not order_effect:
        assert_allclose(crowd.lower_bound_, one.lower_bound_, rtol=1e-9)
        assert_allclose(crowd.predict_proba(X), one.predict_proba(X[:, 1:]), atol=1e-7)
        assert_allclose(crowd.utility(return_std=True), one.utility(return_std=True), atol=1e-7)
        return
    # The user's own departure from the shared order effect is one more variable for the same thing: it costs a little.
    assert crowd.lower_bound_ < one.lower_bound_
    assert_allclose(crowd.predict_proba(X), one.predict_proba(X[:, 1:]), atol=0.02)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_factors_are_gppl_with_many_users(layout):
    data = simulated(7, layout)
    options = {"optimizer": None, "random_state": 0, "inference": "vb", "tol": 1e-12, "max_iter": 3000}
    options |= {"scale_prior": Gamma(2.0, 2.0)}  # the two have priors of their own
    one = GPPLClassifier(data.table, **options).fit(data.comparisons[:, 1:], data.y)
    crowd = CrowdGPPL(data.table, data.user_table, n_factors=0, **options).fit(data.comparisons, data.y)
    assert_allclose(crowd.lower_bound_, one.lower_bound_, rtol=1e-9)
    # A bound that is met to 1e-9 leaves the square root of that to the posterior.
    assert_allclose(crowd.utility(return_std=True), one.utility(return_std=True), atol=1e-5)


@sides
def test_silent_factors_are_gppl(items, users, monkeypatch):
    # w is fixed at zero by an enormous scale; v is at its prior. Joint means next to factors are solved for up to a
    # thousandth of the step; solved for as those of GPPL are, nothing is left between the two.
    set_policy(monkeypatch, "inference", mean_tol_of_products=1e-12)
    _, problem, _ = somewhere(3, items=items, users=users)
    names = problem.products[0].first.scales + problem.products[0].second.scales
    prior = GammaScale.prior(2.0, 2.0)
    silent = {name: FixedScale(1e24 if name[0] == "w" else 1.0) for name in names}
    t = problem.terms["f"].segments[0].scale
    diagonal = {name for name, layout in (("items", items), ("users", users)) if layout == "ids"}
    start = svi.initial_state(problem, {t: prior, **silent}, diagonal=diagonal)
    start = start.with_blocks({"items": start.blocks["items"].with_mean(np.ones(start.blocks["items"].size))})
    crowd = svi.fit(problem, start, TIGHT, np.random.default_rng(0))
    linear = replace(problem, products=())
    gppl = svi.fit(linear, svi.initial_state(linear, {t: prior}), TIGHT, np.random.default_rng(0))
    assert_allclose(crowd.evaluation.mu, gppl.evaluation.mu, atol=1e-9)
    assert_allclose(crowd.evaluation.v, gppl.evaluation.v, atol=1e-9)
    assert_allclose(crowd.evaluation.bound, gppl.evaluation.bound, atol=1e-9)


# --------------------------------------------------------------------------------------- C5: factors that are not there
@pytest.mark.statistical
def test_factors_that_nobody_needs_are_switched_off():
    # One true factor, four fitted: E[s_d] of each unused one at least five times that of the used one (on both sides,
    # hence 25 times their product), and its prior variance under 1 % of the largest. Measured once: 20 of 20, with
    # ratios of 140 to 400. By chance alone one of twenty may miss.
    hits = []
    for seed in range(20):
        data = make_crowd(40, 20, 3000, n_factors=1, n_features=0, n_user_features=0, random_state=100 + seed)
        model = CrowdGPPL(n_factors=4, inference="vb", random_state=seed).fit(data.comparisons, data.y)
        largest, *others = np.sort(model.factor_scales_)[::-1]
        hits.append(max(others) < min(1.0 / 25.0, 0.01) * largest)
    assert sum(hits) >= 19


# ---------------------------------------------------------------------------------------- C7: the updates of the scales
@pytest.mark.parametrize("layout", LAYOUTS)
def test_scales_end_at_the_maximum_of_the_bound(layout, monkeypatch):
    set_policy(monkeypatch, "inference", mean_tol_of_products=1e-9)
    made = crowd_model(4, layout)
    problem, diagonal = made.model.problem(made.model.bases(made.kernels))
    schedule = made.model.config.pair.schedule
    start = crowd_models.start_state(made.model, problem, diagonal, schedule, made.rng)
    end = svi.fit(problem, start, schedule, made.rng)
    best, state = end.evaluation.bound, end.state
    assert {"v0", "w0", "v1", "w1"} < set(state.scales)
    for name, scale in state.scales.items():
        for factor in (0.99, 1.01):
            for aside in (replace(scale, rate=scale.rate * factor), replace(scale, shape=scale.shape * factor)):
                moved = replace(state, scales={**state.scales, name: aside})
                assert svi.evaluate(problem, moved).bound < best, name


# ------------------------------------------------------------------------------------------------- C6: kernel gradients
def crowd_model(seed, layout, *, n_inducing=300, n_factors=2, **options):
    """The fixed parts of a fit, and its kernels: of the consensus, the factors and the users."""
    rng = np.random.default_rng(seed)
    n, n_users, p = 6, 5, 40
    left = rng.integers(0, n, p)
    comparisons = Comparisons(
        left,
        (left + rng.integers(1, n, p)) % n,
        np.where(rng.random(p) < 0.7, rng.integers(0, 2, p), rng.random(p)),
        rng.exponential(size=p) + 0.5,
        n,
        rng.integers(0, n_users, p),
        n_users,
    )
    wanted = {"offsets": True, "order": False, "likelihood": PairwiseProbit(), "consensus": True, **options}
    pair = PairConfig(
        likelihood=wanted["likelihood"],
        inference="vb",
        n_inducing=n_inducing,
        inducing="random",
        schedule=replace(TIGHT, tol=1e-13),
        scale=GammaScale.prior(2.0, 1.0),
        offsets=wanted["offsets"],
        order=wanted["order"],
        learn_length_scales=False,
        n_restarts=None,
    )
    config = crowd_models.CrowdConfig(pair, n_factors, wanted["consensus"], (2.0, 1.0), (2.0, 1.0))
    n_features, n_user_features = LAYOUTS[layout]
    X = rng.normal(size=(n, n_features)) if n_features else None
    X_users = rng.normal(size=(n_users, n_user_features)) if n_user_features else None
    given = crowd_models.Kernels(
        None if X is None else ProductMatern([0.8, 1.5]),
        None if X is None else ConstantKernel(1.3) * RBF([0.7, 1.1]),
        None if X_users is None else ProductMatern([1.2, 0.6]),
    )
    data = crowd_models.CrowdData(X, X_users, comparisons)
    model, given = crowd_fit.build_model(data, given, config, rng, None)
    return SimpleNamespace(rng=rng, model=model, kernels=given, X={"items": X, "factors": X, "users": X_users})


CASES = {
    "items": ("items", {}),
    "items-sparse": ("items", {"n_inducing": 4}),
    "items-alone": ("items", {"n_inducing": 4, "offsets": False, "order": True}),
    "users": ("users", {}),
    "users-sparse": ("users", {"n_inducing": 3}),
    "both": ("both", {"n_inducing": 3, "likelihood": PairwiseLogit()}),
    "both-no-consensus": ("both", {"n_inducing": 3, "consensus": False}),
}


def moved(kernels, which, direction, shift):
    kernel = getattr(kernels, which)
    return kernels._replace(**{which: kernel.clone_with_theta(kernel.theta + shift * direction)})


@pytest.mark.parametrize("case", CASES)
def test_kernel_gradients_at_any_fixed_q(case):
    layout, options = CASES[case]
    made = crowd_model(1, layout, **options)
    problem, diagonal = made.model.problem(made.model.bases(made.kernels))
    state = svi.initial_state(problem, made.model.scales(), diagonal=diagonal)
    state = state.with_blocks({k: b.with_mean(made.rng.normal(size=b.size)) for k, b in state.blocks.items()})
    # One step, so that covariances are those of a posterior; then anywhere but at the optimum.
    state, _ = svi.full_step(problem, state, svi.evaluate(problem, state))
    state = state.with_blocks(
        {k: b.with_mean(b.mean + 0.3 * made.rng.normal(size=b.size)) for k, b in state.blocks.items()}
    )
    seen = svi.evaluate(problem, state)
    for which, basis in made.model.bases(made.kernels)._asdict().items():
        if basis is None:
            continue
        gradient = kernel_gradient(problem, state, seen, basis, made.X[which], which)
        for axis, unit in enumerate(np.eye(basis.kernel.theta.size)):

            def bound(shift, which=which, unit=unit):
                there = made.model.bases(moved(made.kernels, which, unit, shift))
                return svi.evaluate(made.model.problem(there)[0], state).bound

            wanted = central(bound, 1e-3)
            tol = 1e-6 * (1.0 + np.abs(gradient).max())
            assert_allclose(gradient[axis], wanted, rtol=1e-6, atol=tol, err_msg=f"{which}, theta {axis}")


@pytest.mark.parametrize("case", ["items-sparse", "users-sparse", "both"])
def test_kernel_gradients_at_the_optimum(case, monkeypatch):
    # There the partial derivative is the total one: q is solved for anew at every shifted kernel.
    set_policy(monkeypatch, "inference", mean_tol_of_products=1e-12)
    layout, options = CASES[case]
    made = crowd_model(2, layout, **options, n_factors=1)
    names = [which for which, kernel in made.kernels._asdict().items() if kernel is not None]
    value, gradient, state = bound_and_gradient(made.model, made.kernels, made.rng)
    assert gradient.size == sum(getattr(made.kernels, which).theta.size for which in names)
    at = 0
    for which in names:
        size = getattr(made.kernels, which).theta.size
        direction = made.rng.normal(size=size)

        def bound(shift, which=which, direction=direction):
            return bound_and_gradient(made.model, moved(made.kernels, which, direction, shift), made.rng, state)[0]

        assert_allclose(gradient[at : at + size] @ direction, central(bound, 3e-3), rtol=1e-4, atol=1e-5, err_msg=which)
        at += size
    assert bound_and_gradient(made.model, made.kernels, made.rng, state)[0] == pytest.approx(value, abs=1e-8)


def test_learnt_kernels_have_a_higher_bound():
    data = simulated(8, "both", n=200)
    options = {
        "kernel": ProductMatern([3.0, 3.0]),
        "factor_prior": FactorPrior(user_kernel=ProductMatern([3.0, 3.0])),
        "n_factors": 1,
    }
    fixed = learnt(data.comparisons, data.y, data.table, data.user_table, tol=1e-4, **options)
    free = learnt(data.comparisons, data.y, data.table, data.user_table, tol=1e-4, optimizer="l-bfgs-b", **options)
    assert free.lower_bound_ > fixed.lower_bound_ + 0.1
    for name in ("kernel_", "factor_kernel_", "user_kernel_"):
        assert not np.allclose(getattr(free, name).theta, getattr(fixed, name).theta)


@pytest.mark.parametrize("options", [{"n_factors": 0}, {"consensus": False}, {"item_effects": False}], ids=str)
def test_kernels_are_learnt_in_every_ablation(options):
    data = simulated(9, "both", n=100)
    wanted = {"n_factors": 1, "optimizer": "l-bfgs-b", "tol": 1e-3, "max_iter": 50, **options}
    model = learnt(data.comparisons, data.y, data.table, data.user_table, **wanted)
    assert np.isfinite(model.lower_bound_)
