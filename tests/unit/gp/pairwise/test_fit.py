"""From comparisons to a posterior: what is built, which way is taken, and the search for length-scales."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skpref import LBFGS, SVI, Gamma, GPPLClassifier, Inducing
from skpref._estimator import verbose_printer
from skpref.data import Comparisons
from skpref.gp.pairwise import fit as pair_fit
from skpref.gp.pairwise.base import max_inducing
from skpref.gp.pairwise.fit import (
    PairConfig,
    PairData,
    WarmStart,
    fit_pairs,
    pair_model,
    root_mean_square,
    typical_size,
)
from skpref.inference.blocks import DenseBlock, DiagonalBlock
from skpref.inference.scale import GammaScale
from skpref.inference.shards import ShardedProblem
from skpref.inference.svi import Schedule
from skpref.kernels import ProductMatern
from skpref.likelihoods import PairwiseLogit, PairwiseProbit
from tests.policies import set_policy

CONFIG = PairConfig(
    likelihood=PairwiseProbit(),
    inference="auto",
    n_inducing=100,
    inducing="kmeans++",
    schedule=Schedule(),
    scale=GammaScale.prior(2.0, 2.0),
    offsets=True,
    order=False,
    learn_length_scales=False,
    n_restarts=None,
)


def draw(seed=0, n=20, p=150, d=2):
    """Comparisons whose utilities depend on the first feature alone."""
    rng = np.random.default_rng(seed)
    X, left = rng.normal(size=(n, d)), rng.integers(0, n, p)
    right = (left + rng.integers(1, n, p)) % n
    u = 2.0 * np.sin(2.0 * X[:, 0])
    y = (u[left] - u[right] + rng.normal(size=p) > 0.0).astype(float)
    return PairData(X, Comparisons(left, right, y, np.ones(p), n))


def run(data, kernel=None, seed=0, **options):
    start = options.pop("start", None)
    return fit_pairs(data, kernel, replace(CONFIG, **options), np.random.default_rng(seed), start)


def test_the_kernel_of_the_user_is_not_changed():
    kernel = ProductMatern([1.0, 1.0])
    fit = run(draw(), kernel, n_restarts=0)
    assert_array_equal(kernel.length_scale, [1.0, 1.0])
    assert fit.kernel is not kernel
    assert not np.allclose(fit.kernel.length_scale, 1.0)


def test_optimised_hyper_parameters_raise_the_bound_and_find_the_relevant_feature():
    data = draw(1, d=2, p=300)
    plain = run(data, ProductMatern([1.0, 1.0]), offsets=False)
    learnt = run(data, ProductMatern([1.0, 1.0]), offsets=False, n_restarts=0)
    assert learnt.bound > plain.bound
    assert learnt.kernel.length_scale[1] > 3.0 * learnt.kernel.length_scale[0]
    assert (learnt.kernel.theta >= learnt.kernel.bounds[:, 0]).all()
    assert (learnt.kernel.theta <= learnt.kernel.bounds[:, 1]).all()


def test_fixed_hyper_parameters_stay():
    kernel = ConstantKernel(1.0, "fixed") * RBF(1.0)
    fit = run(draw(), kernel, n_restarts=0)
    assert fit.kernel.k1.constant_value == 1.0
    assert fit.kernel.k2.length_scale != 1.0


def test_learnt_length_scales_are_better_than_multiples_of_the_medians():
    data = draw(2)
    medians, best = run(data).kernel, run(data, learn_length_scales=True)
    for factor in (0.1, 0.5, 1.0, 3.0, 10.0):
        assert best.bound > run(data, medians.clone_with_theta(medians.theta + np.log(factor))).bound - 0.5


@pytest.mark.parametrize("offsets", [True, False])
@pytest.mark.parametrize("order", [True, False])
def test_blocks_of_the_state(offsets, order):
    data = draw(3)
    fit = run(data, RBF(1.0), offsets=offsets, order=order)
    (block,) = fit.state.blocks.values()
    assert isinstance(block, DenseBlock)
    assert block.size == 20 + 20 * offsets + order
    assert set(fit.state.scales) == {"f"} | ({"offset"} if offsets else set()) | ({"order"} if order else set())
    split = pair_fit.pair_model(
        data, RBF(1.0), replace(CONFIG, offsets=offsets, order=order), np.random.default_rng(0), None
    )
    problem, diagonal = replace(split, joint_size=0).problem(split.basis(RBF(1.0)))
    assert diagonal == ({"offsets"} if offsets else set())
    assert set(problem.terms) == {"f"} | diagonal


def test_without_features_there_are_offsets_alone():
    data = replace(draw(4), X=None)
    fit = run(data)
    assert fit.kernel is None
    assert fit.posterior.basis is None
    assert set(fit.state.scales) == {"offset"}
    model = replace(pair_fit.pair_model(data, None, CONFIG, np.random.default_rng(0), None), joint_size=0)
    problem, diagonal = model.problem(None)
    assert diagonal == set(problem.terms) == {"offsets"}


def test_joint_and_mean_field_offsets_agree_on_the_means(monkeypatch):
    data = draw(5)
    tight = Schedule(max_iter=2000, tol=1e-9)
    joint = run(data, RBF(1.0), schedule=tight)
    monkeypatch.setattr(pair_fit.PairModel, "joint", lambda self, basis: False)
    split = run(data, RBF(1.0), schedule=tight)
    assert isinstance(split.state.blocks["offsets"], DiagonalBlock)
    assert split.bound < joint.bound
    mean_joint = joint.posterior.basis.rows(data.X) @ joint.posterior.mean[:20] + joint.posterior.offset_mean
    mean_split = split.posterior.basis.rows(data.X) @ split.posterior.mean[:20] + split.posterior.offset_mean
    assert np.corrcoef(mean_joint, mean_split)[0, 1] > 0.99


def test_no_residual_where_the_inducing_points_are_all_items():
    data = draw(6)
    for n_inducing, exact in ((20, True), (19, False)):
        model = pair_fit.pair_model(
            data, RBF(1.0), replace(CONFIG, n_inducing=n_inducing), np.random.default_rng(0), None
        )
        problem, _ = model.problem(model.basis(RBF(1.0)))
        assert (problem.terms["f"].residual is None) == exact


@pytest.mark.parametrize("n_inducing", [20, 8])
@pytest.mark.parametrize("kernel", [RBF(1.0), RBF(1.0) + WhiteKernel(0.5)], ids=["rbf", "white"])
def test_the_prior_variance_of_a_pair_is_that_of_the_kernel(kernel, n_inducing):
    # White noise belongs to an item: it counts once for each of the two, inducing points at the items or not.
    data = draw(7)
    config = replace(CONFIG, offsets=False, n_inducing=n_inducing)
    model = pair_fit.pair_model(data, kernel, config, np.random.default_rng(0), None)
    problem, _ = model.problem(model.basis(kernel))
    K, c = kernel(data.X), data.comparisons
    kappa = K[c.left, c.left] + K[c.right, c.right] - 2.0 * K[c.left, c.right]
    assert_allclose(problem.terms["f"].prior_variance({"f": 1.0}), kappa, rtol=1e-6)


def test_auto_takes_mini_batches_when_a_full_pass_is_expensive(monkeypatch):
    data, batches = draw(8), Schedule(batch_size=30, max_iter=5)
    assert run(data, RBF(1.0), schedule=batches, offsets=False).state.step == 0
    set_policy(monkeypatch, "inference", pass_bytes=0)
    assert run(data, RBF(1.0), schedule=batches, offsets=False).state.step == 25
    assert run(data, RBF(1.0), schedule=batches, offsets=False, inference="vb").state.step == 0


def test_the_search_subsamples_many_comparisons(monkeypatch):
    data, sizes = draw(9), []
    original = pair_fit.bound_and_gradient

    def spy(model, kernel):
        sizes.append(model.data.comparisons.left.size)
        return original(model, kernel)

    set_policy(monkeypatch, "gp.pairwise", hyper_pairs=40)
    monkeypatch.setattr(pair_fit, "bound_and_gradient", spy)
    fit = run(data, RBF(1.0), n_restarts=0, offsets=False)
    assert set(sizes) == {40}
    assert np.isfinite(fit.bound)


def test_the_search_takes_comparisons_among_random_items_and_more_where_these_are_few(monkeypatch):
    rng = np.random.default_rng(0)
    left, right = np.triu_indices(30, 1)
    data = PairData(rng.normal(size=(30, 2)), Comparisons(left, right, np.ones(435), np.ones(435), 30))
    model = pair_model(data, RBF(1.0), CONFIG, rng, None)
    for n_items, n_least, n_pairs, n_compared in (
        (10, 20, 45, 10),
        (10, 66, 66, 12),
        (30, 20, 435, 30),
        (2, 500, 435, 30),
    ):
        part = pair_fit._among_few_items(model, n_items, n_least, rng).data
        assert (part.comparisons.n_pairs, part.X.shape[0], part.comparisons.n_items) == (
            n_pairs,
            n_compared,
            n_compared,
        )
    set_policy(monkeypatch, "gp.pairwise", hyper_pairs=40)
    part = pair_fit._among_few_items(model, 20, 10, rng).data
    assert part.comparisons.n_pairs == 40
    assert part.X.shape[0] > 10


def test_sampled_comparisons_keep_their_weights(monkeypatch):
    data, weight = draw(9), np.arange(1.0, 151.0)
    data = replace(data, comparisons=replace(data.comparisons, weight=weight, y=weight / 200.0))
    set_policy(monkeypatch, "gp.pairwise", hyper_pairs=40)
    model = pair_model(data, RBF(1.0), CONFIG, np.random.default_rng(0), None)
    sample = pair_fit.subsample(model, np.random.default_rng(1)).data.comparisons
    assert_allclose(sample.weight, 200.0 * sample.y)


def test_a_search_of_fits_that_do_not_converge_ends(monkeypatch):
    X, (left, right) = np.random.default_rng(12).normal(size=(8, 3)), np.triu_indices(8, 1)
    utility, passes = X[:, 0] + X[:, 1] * X[:, 2], []
    y = (utility[left] > utility[right]).astype(float)
    original = pair_fit.svi.fit

    def spy(*args):
        result = original(*args)
        passes.append(len(result.bounds))
        return result

    monkeypatch.setattr(pair_fit.svi, "fit", spy)
    data = PairData(X, Comparisons(left, right, y, np.full(y.size, 1e6), 8))
    assert np.isfinite(run(data, offsets=False, learn_length_scales=True).bound)
    assert sum(passes[:-1]) < 800


def test_a_warm_start_uses_an_earlier_posterior_of_the_same_sizes():
    data = draw(10)
    cold = run(data, RBF(1.0))
    warm = run(data, start=WarmStart(cold.state, cold.kernel, cold.posterior.basis.points))
    assert len(warm.bounds) < len(cold.bounds)
    assert warm.bound >= cold.bound - 1e-6
    other = run(draw(11, n=15), start=WarmStart(cold.state, cold.kernel, None))
    assert_allclose(other.bound, run(draw(11, n=15), RBF(1.0)).bound)


@pytest.mark.parametrize("inference", ["vb", "svi", "laplace", "linearised"])
def test_the_same_seed_gives_the_same_bits(inference):
    ends = [
        run(draw(12), RBF(1.0), seed=5, inference=inference, schedule=Schedule(batch_size=40, max_iter=8), n_inducing=7)
        for _ in range(2)
    ]
    assert ends[0].bounds == ends[1].bounds
    assert_array_equal(ends[0].posterior.mean, ends[1].posterior.mean)


@pytest.mark.parametrize("inference", ["vb", "laplace", "linearised"])
@pytest.mark.parametrize("offsets", [True, False])
def test_merged_comparisons_have_the_posterior_of_their_rows(inference, offsets):
    data = draw(15, n=6, p=60)  # opposite answers of most pairs
    ends = [
        run(replace(data, comparisons=c), RBF(1.0), inference=inference, offsets=offsets).posterior
        for c in (data.comparisons, data.comparisons.merged())
    ]
    assert_allclose(ends[1].mean, ends[0].mean, atol=1e-10)
    assert_allclose(ends[1].half, ends[0].half, atol=1e-10)


def test_the_printer_prints_a_line_a_pass_and_hands_on(capsys):
    schedule = Schedule(max_iter=3, tol=0.0, on_iteration=verbose_printer("GPPL", lambda event: event.step == 2))
    fit = run(draw(14), RBF(1.0), schedule=schedule)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(fit.bounds) == 2
    assert lines[0].startswith("GPPL: pass 1/3  bound ")


def test_inducing_points_are_exact_only_where_they_are_the_items():
    data, kernel, rng = draw(), ProductMatern([1.0, 1.0]), np.random.default_rng(0)
    for points, exact in ((data.X[::-1], True), (data.X + 0.1, False), (data.X[1:], False)):
        assert pair_model(data, kernel, CONFIG, rng, np.ascontiguousarray(points)).exact is exact


def test_length_scales_have_normal_priors_about_the_median_heuristic(monkeypatch):
    data, searches = draw(7), []

    def maximise(objective, theta, bounds, **options):
        searches.append((objective, theta, bounds, options))
        return SimpleNamespace(theta=theta + 0.25, scale=None)

    monkeypatch.setattr(pair_fit.hyper, "maximise", maximise)
    config = replace(CONFIG, learn_length_scales=True, n_restarts=2)
    kernel = pair_fit.start_kernel(data.X, None, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    model = pair_model(data, kernel, config, rng, None)
    chosen = pair_fit.choose_kernel(model, kernel, rng)
    assert_allclose(chosen.theta, kernel.theta + 0.75)
    (of_shift, start, bounds, _), (density, *single), (of_theta, all_start, all_bounds, options) = searches
    assert_array_equal(start, [0.0])
    assert_allclose(kernel.theta + bounds[0, 0], kernel.bounds[:, 0])
    assert_allclose(kernel.theta + bounds[0, 1], kernel.bounds[:, 1])
    assert_allclose(single[0], kernel.theta + 0.25)
    assert_array_equal(single[1], kernel.bounds)
    assert_allclose(all_start, kernel.theta + 0.5)
    assert_array_equal(all_bounds, kernel.bounds)
    assert (options["n_restarts"], options["rng"]) == (2, rng)
    small, h = replace(model, joint_size=0), 1e-4
    for shift in (0.0, 0.4):
        value, slope = of_shift(np.array([shift]))
        moved = kernel.clone_with_theta(kernel.theta + shift)
        bound, gradient = pair_fit.bound_and_gradient(small, moved)
        assert value == pytest.approx(bound - 0.5 * shift**2, abs=1e-3)
        assert slope[0] == pytest.approx(gradient.sum() - shift, abs=1e-2)
        assert of_theta(moved.theta)[0] == pytest.approx(bound, abs=1e-3)
        ends = [of_shift(np.array([shift + side * h]))[0] for side in (1.0, -1.0)]
        assert slope[0] == pytest.approx((ends[0] - ends[1]) / (2.0 * h), abs=0.05)
    assert pair_fit.choose_kernel(model, RBF(1.0, "fixed"), rng).theta.size == 0
    assert len(searches) == 3
    # The prior is of the average and of each about it, about the median heuristic that the bounds know.
    for theta in (kernel.theta + np.array(off) for off in ((0.4, -0.2), (1.3, 0.1))):
        value, slope = density(theta)
        bound, gradient = pair_fit.bound_and_gradient(small, kernel.clone_with_theta(theta))
        off = theta - kernel.theta
        prior = -0.5 * (off.mean() ** 2 + np.sum((off - off.mean()) ** 2) / 0.25)
        assert value == pytest.approx(bound + prior, abs=1e-3)
        assert_allclose(slope - gradient, -off.mean() / 2.0 - (off - off.mean()) / 0.25, atol=0.02)
    plain = replace(model, config=replace(config, learn_length_scales=False, n_restarts=None))
    assert pair_fit.choose_kernel(plain, kernel, rng) is kernel


def test_default_kernels_and_priors_of_the_parts():
    X, rng = np.random.default_rng(0).normal(size=(30, 4)) * [1.0, 2.0, 3.0, 4.0], np.random.default_rng(0)
    kernel, medians = pair_fit.start_kernel(X, None, rng), pair_fit.kernels.median_length_scales(X, rng)
    assert_allclose(kernel.length_scale, 2.0 * medians)
    assert_allclose(np.exp(kernel.bounds), np.column_stack([0.1 * medians, 1000.0 * 2.0 * medians]))
    data = draw(8)
    c = replace(data.comparisons, covariates=np.arange(150.0)[:, None])

    def scales(data, **options):
        config = replace(CONFIG, scale=GammaScale.prior(4.0, 8.0), **options)
        return pair_fit.PairModel(data=data, config=config).scales()

    # Offsets beside features, and covariates, have an eighth of the prior's weight.
    assert {name: (s.shape0, s.rate0) for name, s in scales(replace(data, comparisons=c)).items()} == {
        "f": (4.0, 8.0),
        "offset": (0.5, 1.0),
        "covariate": (0.5, 1.0),
    }
    alone = scales(replace(data, X=None), order=True)
    assert (alone["offset"].shape0, alone["order"].mean, len(alone)) == (4.0, 1.0, 2)
    assert set(scales(data, offsets=False)) == {"f"}


def test_settings_are_the_parameters_of_the_estimator():
    options = {"max_iter": 7, "tol": 0.03, "inference": SVI(11, delay=2.0, forgetting_rate=0.7)}
    options |= {"inducing": Inducing(5, "random"), "scale_prior": Gamma(3.0, 4.0), "optimizer": LBFGS(2)}
    model = GPPLClassifier(likelihood="logit", **options)
    config = model._config(offsets=False, order=True)
    schedule = config.schedule
    assert (schedule.max_iter, schedule.tol, schedule.batch_size) == (7, 0.03, 11)
    assert (schedule.delay, schedule.forgetting_rate, schedule.on_iteration) == (2.0, 0.7, None)
    assert (config.n_inducing, config.inducing, config.inference) == (5, "random", "svi")
    assert (config.scale, config.offsets, config.order) == (GammaScale.prior(3.0, 4.0), False, True)
    assert (config.learn_length_scales, config.n_restarts) == (True, 2)
    assert config.likelihood == PairwiseLogit()
    # A kernel of the caller is not stretched.
    assert not model.set_params(kernel=RBF(1.0))._config(offsets=True, order=False).learn_length_scales
    X = np.zeros((3, 2))
    assert [max_inducing(model.set_params(inducing=n), X) for n in (2, 3, 4)] == [2, 3, 3]
    assert max_inducing(model.set_params(inducing=np.zeros((7, 2))), X) == 7
    assert max_inducing(model.set_params(inducing=[[0.0, 1.0]]), X) == 1


@pytest.mark.parametrize("unit", [1e-300, 1e-170, 1.0, 1e170, 1e300])
def test_root_mean_squares_follow_the_unit(unit):
    values, weight = np.array([[3.0, 0.0, 0.0], [4.0, 0.0, 2.0], [0.0, 0.0, 9.0]]), np.array([1.0, 1.0, 0.0])
    wanted = np.array([np.sqrt(12.5), 1.0 / unit, np.sqrt(2.0)])
    assert_allclose(root_mean_square(unit * values, weight) / unit, wanted)


def test_the_typical_size_of_an_indicator_does_not_depend_on_how_often_it_is_one():
    values = np.array([[1.0, 0.0, 0.0, 3.0], [-1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 4.0], [0.0, 0.0, 0.0, 9.0]])
    weight = np.array([1.0, 2.0, 3.0, 0.0])
    assert_allclose(typical_size(values, weight), [1.0, 1.0, 1.0, np.sqrt((9.0 + 3.0 * 16.0) / 4.0)])


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("options", [{}, {"n_inducing": 5}, {"order": True}, {"inference": "laplace"}])
def test_many_comparisons_are_fitted_in_parts_with_the_same_result(monkeypatch, options, features):
    data = draw(p=400)
    data = data if features else replace(data, X=None)
    kernel = RBF(1.0) if features else None
    whole = run(data, kernel, **options)
    parts = []
    divided_problem = ShardedProblem.divided
    monkeypatch.setattr(ShardedProblem, "divided", lambda *args: parts.append(divided_problem(*args)) or parts[-1])
    set_policy(monkeypatch, "gp.pairwise", many_pairs=399, part=150)
    divided = run(data, kernel, **options)
    assert [len(rows.left) for rows in parts[0].rows] == [150, 150, 100]
    assert_allclose(divided.bounds, whole.bounds, rtol=1e-10)
    for name, block in whole.state.blocks.items():
        assert_allclose(divided.state.blocks[name].mean, block.mean, rtol=1e-7, atol=1e-9)
    set_policy(monkeypatch, "gp.pairwise", many_pairs=400)
    parts.clear()
    run(data, kernel, **options)
    assert not parts


def test_covariates_and_likelihoods_with_parameters_are_fitted_whole(monkeypatch):
    set_policy(monkeypatch, "gp.pairwise", many_pairs=0, part=50)
    pairs = np.random.default_rng(0).integers(0, 9, (200, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    y = np.random.default_rng(1).choice([0.0, 0.5, 1.0], len(pairs))
    ties = GPPLClassifier(likelihood="logit-ties").fit(pairs, y)
    assert ties.likelihood_.has_parameters
    frame = pd.DataFrame(pairs, columns=["left", "right"]).assign(length=y + np.linspace(-1.0, 1.0, len(y)))
    effects = GPPLClassifier(covariates=["length"]).fit(frame, y)
    set_policy(monkeypatch, "gp.pairwise", many_pairs=len(y))
    assert_array_equal(effects.utility(), GPPLClassifier(covariates=["length"]).fit(frame, y).utility())


def test_the_default_kernel_finds_the_feature_that_matters():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 10))
    u = 2.0 * np.sin(2.0 * X[:, 4])
    left = rng.integers(60, size=600)
    right = (left + rng.integers(1, 60, size=600)) % 60
    y = (rng.random(600) < expit(u[left] - u[right])).astype(float)
    data = PairData(X, Comparisons(left, right, y, np.ones(600), 60))
    scale = run(data, learn_length_scales=True).kernel.length_scale
    assert scale[4] < 0.2 * np.delete(scale, 4).min()


def test_many_features_share_one_factor(monkeypatch):
    set_policy(monkeypatch, "gp.pairwise", most_single_scales=1)
    data = draw(2)
    ratio = run(data, learn_length_scales=True).kernel.length_scale / run(data).kernel.length_scale
    assert_allclose(ratio, ratio[0])
