"""What CrowdGPPL reports of annotators: agreement by hand, accuracy and bias against the truth, distances, formats."""

import importlib.util

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr
from scipy.stats import binom

from skpref import CrowdGPPL
from skpref.datasets import make_crowd
from skpref.exceptions import DataError
from skpref.gp.crowd import annotators, posterior
from tests.policies import set_policy

pd = pytest.importorskip("pandas")


def quick(**options):
    return CrowdGPPL(**{"n_factors": 2, "random_state": 0, **options})


# a beats b beats c for all but "odd".
CHAIN = [(u, *pair) for u in ("ann", "bob", "cat", "odd") for pair in (("a", "b"), ("b", "c"), ("a", "c"))] * 10
LABELS = [0.0 if u == "odd" else 1.0 for u, _, _ in CHAIN]


# -------------------------------------------------------------------------------------------------------- by hand
def test_agreement_by_hand():
    answers = [
        # By ann, of one pair three times: twice as the consensus has it, once not; a tie is no answer.
        (("ann", "a", "b"), 1.0),
        (("ann", "b", "a"), 0.0),
        (("ann", "a", "b"), 0.0),
        (("ann", "a", "b"), 0.5),
        # By bob: a soft label is 0.7 of an answer for a, and 0.3 of one for c.
        (("bob", "a", "c"), 0.7),
        (("bob", "c", "b"), 1.0),
        # By cat: nothing but ties.
        (("cat", "b", "c"), 0.5),
        (("cat", "b", "a"), 0.5),
        # By dan, who is always right, and by eve, who never is.
        *[(("dan", *pair), 1.0) for pair in (("a", "b"), ("b", "c"), ("a", "c"))] * 8,
        *[(("dan", *pair), 0.0) for pair in (("b", "a"), ("c", "b"), ("c", "a"))] * 8,
        (("eve", "c", "a"), 1.0),
    ]
    rows, y = zip(*answers, strict=True)
    for likelihood in ("probit", "probit-ties"):
        for order_effect in (False, True):
            model = quick(likelihood=likelihood, order_effect=order_effect, inference="vb").fit(list(rows), y)
            u = dict(zip(model.item_ids_, model.utility(model.item_ids_), strict=True))
            assert u["a"] > u["b"] > u["c"]
            report = model.annotators(n_samples=10).set_index("user")
            assert report["n_labels"].to_dict() == {"ann": 4, "bob": 2, "cat": 2, "dan": 48, "eve": 1}
            wanted = {"ann": 2 / 3, "bob": 0.7 / 2, "cat": np.nan, "dan": 1.0, "eve": 0.0}
            assert report["agreement"].to_dict() == pytest.approx(wanted, nan_ok=True)


def test_accuracy_and_agreement_leave_ties_out():
    """Of a consensus that is clear, with half of the answers ties, both are near 1."""
    pairs = [("a", "b"), ("b", "c"), ("a", "c")]
    rows = [(user, *pair) for user in "uvwx" for pair in pairs * 8]
    report = quick(likelihood="probit-ties").fit(rows, [1.0, 0.5] * 48).annotators(random_state=0)
    assert (report["agreement"] == 1.0).all()
    assert report["accuracy"].min() > 0.9


def test_weights_count_as_answers():
    rows, y = [("u", "a", "b"), ("u", "b", "a"), ("v", "a", "b")], [1, 1, 1]
    model = quick().fit(rows, y, sample_weight=[3.0, 1.0, 5.0])
    report = model.annotators(n_samples=10).set_index("user")
    assert report["n_labels"].to_dict() == {"u": 4.0, "v": 5.0}
    assert report["agreement"].to_dict() == pytest.approx({"u": 0.75, "v": 1.0})
    repeated = [rows[0]] * 3 + [rows[1]] + [rows[2]] * 5
    same = quick().fit(repeated, np.ones(9)).annotators(n_samples=10)
    pd.testing.assert_frame_equal(same, model.annotators(n_samples=10))


def test_agreement_of_all_answers_is_that_of_predictions():
    data = make_crowd(12, 8, 900, n_factors=1, n_features=0, n_user_features=0, random_state=0)
    model = quick().fit(data.comparisons, data.y)
    report = model.annotators(n_samples=10)
    right = (model.predict_preference(data.comparisons[:, 1:]) > 0.5) == data.y
    wanted = [right[data.comparisons[:, 0] == user].mean() for user in report["user"]]
    np.testing.assert_allclose(report["agreement"], wanted)
    np.testing.assert_array_equal(report["n_labels"], np.bincount(data.comparisons[:, 0])[report["user"]])


def test_distance_is_that_of_utilities():
    data = make_crowd(8, 6, 600, n_factors=1, factor_scale=0.2, random_state=0)
    model = quick(items=data.table, users=data.user_table).fit(data.comparisons, data.y)
    report = model.annotators(n_samples=10)
    apart = model.utility(model.item_ids_, users=report["user"]) - model.utility(model.item_ids_)
    np.testing.assert_allclose(report["distance"], np.sqrt(np.mean(apart**2, axis=1)), atol=1e-10)


# ------------------------------------------------------------------------------------------------ against the truth
def test_accuracy_and_bias_against_the_truth():
    inside, bias_inside, n = 0, 0, 0
    for seed in range(5):
        data = make_crowd(
            15, 8, 2500, n_factors=1, n_features=0, n_user_features=0, order_effect=(0.4, 0.5), random_state=seed
        )
        model = quick(order_effect=True).fit(data.comparisons, data.y)
        report = model.annotators(credibility=0.99, n_samples=200)
        user, (a, b) = report["user"].to_numpy(), data.comparisons[:, 1:].T
        # An answer agrees if it is on the side of the consensus of this crowd; the order effect is left out.
        consensus = data.utilities.mean(axis=0)
        side = np.sign(consensus[a] - consensus[b])
        truth = ndtr(side * (data.utilities[:, a] - data.utilities[:, b])).mean(axis=1)[user]
        inside += np.count_nonzero(report["accuracy_low"].le(truth) & report["accuracy_high"].ge(truth))
        assert np.all(report["accuracy_low"] <= report["accuracy"])
        assert np.all(report["accuracy"] <= report["accuracy_high"])
        np.testing.assert_allclose(report["accuracy"], truth, atol=0.2)
        bias = data.position_bias[user]
        bias_inside += np.count_nonzero(report["bias_low"].le(bias) & report["bias_high"].ge(bias))
        assert np.corrcoef(report["bias"], bias)[0, 1] > 0.7
        n += user.size
    # A factorised posterior is too certain: of intervals of 99 % it is asked that 85 % hold the truth.
    assert inside > 0.85 * n
    assert bias_inside > binom.ppf(1e-4, n, 0.95)


def test_random_answers_show():
    data = make_crowd(
        20, 8, 3000, n_factors=0, n_features=0, n_user_features=0, scale=0.2, share_random=0.2, random_state=1
    )
    report = quick(n_factors=4).fit(data.comparisons, data.y).annotators(n_samples=200)
    random = data.random_users[report["user"]]
    assert np.count_nonzero(random) == 4
    assert np.all(np.abs(report["accuracy"][random] - 0.5) < 0.1)
    assert report["accuracy"][~random].min() > report["accuracy"][random].max() + 0.15
    assert report["distance"][random].min() > report["distance"][~random].max()


def test_few_labels_give_a_wide_interval():
    data = make_crowd(
        20, 8, 3000, n_factors=0, n_features=0, n_user_features=0, scale=0.2, share_random=0.2, random_state=1
    )
    best, *_, worst = np.argsort(-data.consensus)
    rows, y = np.vstack([data.comparisons, [99, worst, best]]), np.append(data.y, 1.0)
    for inference, low in (("vb", 0.35), ("auto", 0.5)):  # 0.5: answers at random
        report = quick(inference=inference).fit(rows, y).annotators(n_samples=300).set_index("user")
        check_one_answer(report, low)


def check_one_answer(report, low):
    width = report["accuracy_high"] - report["accuracy_low"]
    assert width[99] > 1.5 * width.drop(99).max()
    # One answer against the consensus is no proof of carelessness.
    assert report["agreement"][99] == 0.0
    assert report["accuracy_low"][99] < low
    assert report["accuracy_high"][99] > 0.65


# ---------------------------------------------------------------------------------------------------------- formats
def test_columns_and_options():
    columns = ["user", "n_labels", "agreement", "accuracy", "accuracy_low", "accuracy_high", "distance"]
    columns += ["reliability", "reliability_low", "reliability_high", "p_random"]
    plain, biased = quick().fit(CHAIN, LABELS), quick(order_effect=True).fit(CHAIN, LABELS)
    assert list(plain.annotators(n_samples=10)) == columns
    assert list(biased.annotators(n_samples=10)) == [*columns, "bias", "bias_low", "bias_high"]
    assert plain.annotators(n_samples=10)["user"].tolist() == plain.user_ids_.tolist()
    pd.testing.assert_frame_equal(plain.annotators(), plain.annotators(random_state=0))
    wide, narrow = (plain.annotators(credibility=c) for c in (0.99, 0.5))
    assert np.all(wide["accuracy_high"] - wide["accuracy_low"] > narrow["accuracy_high"] - narrow["accuracy_low"])
    np.testing.assert_array_equal(wide["accuracy"], narrow["accuracy"])
    for options, text in (
        ({"credibility": 0}, "credibility must be a probability between 0 and 1"),
        ({"credibility": 90}, "credibility must be a probability between 0 and 1"),
        ({"credibility": None}, "credibility must be a probability between 0 and 1"),
        ({"n_samples": 0}, "n_samples must be an integer of at least 1"),
        ({"n_samples": 1.5}, "n_samples must be an integer of at least 1"),
        ({"random_state": "a"}, "random_state"),
    ):
        with pytest.raises(ValueError, match=text):
            plain.annotators(**options)
    with pytest.raises(DataError):
        plain.annotators(credibility=2.0)


def test_intervals_of_little_credibility_are_medians():
    report = quick().fit(CHAIN, LABELS).annotators(credibility=1e-6, n_samples=50)
    assert_allclose(report["reliability_low"], report["reliability_high"], atol=1e-4)
    # Of the accuracy the mean, too, lies in the interval: it is one of the ends.
    low, high = (np.abs(report["accuracy"] - report[f"accuracy_{end}"]) for end in ("low", "high"))
    assert_allclose(np.minimum(low, high), 0.0, atol=1e-12)


def test_without_pandas_it_is_a_record(monkeypatch):
    model = quick(order_effect=True).fit(CHAIN, LABELS)
    frame = model.annotators(n_samples=10)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    record = model.annotators(n_samples=10)
    assert isinstance(record, annotators.Annotators)
    assert len(record) == 4
    assert list(record.columns()) == list(frame)
    for name, column in record.columns().items():
        np.testing.assert_array_equal(column, frame[name])


def test_users_are_described_in_groups_that_fit(monkeypatch):
    model = quick(n_factors=0).fit(CHAIN, LABELS)
    whole = model.annotators(n_samples=50)
    monkeypatch.setattr(posterior, "_DRAWN", 1)
    pd.testing.assert_frame_equal(model.annotators(n_samples=50), whole)  # without factors nothing else is drawn


def test_pairs_are_drawn_as_often_as_they_were_compared(monkeypatch):
    # "careful" knows a from b and not c from d, and nearly all comparisons are of a and b.
    rng = np.random.default_rng(0)
    often, rarely = [("careful", "a", "b"), ("other", "a", "b")], [("careful", "c", "d"), ("other", "c", "d")]
    rows = often * 40 + rarely * 4 + [("other", "b", "c"), ("careful", "b", "c")]
    y = [1] * 80 + rng.permutation([0, 1] * 4).tolist() + [1, 1]
    model = quick().fit(rows, y)
    exact = model.annotators(n_samples=400).set_index("user")["accuracy"]
    set_policy(monkeypatch, "gp.crowd", annotator_pairs=3)
    sampled = np.mean([model.annotators(n_samples=50, random_state=s)["accuracy"] for s in range(30)], axis=0)
    np.testing.assert_allclose(sampled, exact, atol=0.05)
    assert exact["careful"] > 0.85


@pytest.mark.parametrize("options", [{"consensus": False}, {"n_factors": 0}, {"likelihood": "logit"}], ids=str)
def test_every_model_has_a_report(options):
    report = quick(**options).fit(CHAIN, LABELS).annotators(n_samples=20)
    assert len(report) == 4
    assert np.all(report["accuracy"].between(0.0, 1.0))
    if "consensus" in options:  # nobody agrees or disagrees with what does not exist
        np.testing.assert_allclose(report[["agreement", "accuracy"]], 0.5)


def test_the_report_is_of_all_comparisons_after_partial_fit():
    model = quick().fit(CHAIN[:60], LABELS[:60])
    model.partial_fit([*CHAIN[60:], ("eve", "a", "b")], [*LABELS[60:], 1.0])
    report = model.annotators(n_samples=10).set_index("user")
    assert report["n_labels"].to_dict() == {"ann": 30.0, "bob": 30.0, "cat": 30.0, "odd": 30.0, "eve": 1.0}
    assert report["agreement"].to_dict() == {"ann": 1.0, "bob": 1.0, "cat": 1.0, "odd": 0.0, "eve": 1.0}


@pytest.mark.parametrize("inference", ["vb", "ep"])
def test_deviations_are_personal_utilities_less_those_of_the_consensus(inference):
    data = make_crowd(12, 6, 1500, n_factors=1, n_features=0, n_user_features=0, random_state=2)
    model = CrowdGPPL(n_factors=2, inference=inference, random_state=0).fit(data.comparisons, data.y)
    users, items = model._users.select(None)[1], model._items.select(None)[1]
    deviations = model.posterior_.deviations(users, items)
    assert np.abs(deviations).max() > 0.1
    own, shared = model.posterior_.utility(users, items)[0], model.posterior_.consensus.utility(items, centred=True)[0]
    np.testing.assert_allclose(deviations, own - shared, atol=1e-9)


def test_draws_are_mixed_with_what_a_factor_of_the_consensus_says():
    draws = np.array([[0.2, 0.4, 0.6, 0.8], [0.5, 0.5, 0.5, 0.9]])
    ends = np.array([12.5, 87.5])
    mean, low, high = annotators._summary(draws, None, ends)
    assert_allclose(mean, [0.5, 0.6])
    assert_allclose(low, [0.2, 0.5])
    assert_allclose(high, [0.8, 0.9])
    # The first user's factor is .1 or .9 for sure; of the second the others know nothing.
    factors = np.array([0.1, 0.9]), np.array([[0.75, 0.25], [0.0, 0.0]])
    mean, low, high = annotators._summary(draws, factors, np.array([0.0, 100.0]))
    assert_allclose(mean, [0.5 * 0.5 + 0.5 * (0.75 * 0.1 + 0.25 * 0.9), 0.6])
    assert_allclose(low, [0.1, 0.5])
    assert_allclose(high, [0.9, 0.9])
    # Weights of .1, .2, .4, .6, .8, .9: 3/8, 1/8, 1/8, 1/8, 1/8, 1/8; percentiles are at the middle of each.
    _, low, high = annotators._summary(draws[:1], (factors[0], factors[1][:1]), np.array([18.75, 93.75]))
    assert_allclose([low[0], high[0]], [0.1, 0.9])
    skewed = annotators._summary(np.array([[0.0, 0.0, 0.0, 1.0]]), None, np.array([12.5, 62.5]))
    assert_allclose(np.ravel(skewed), [0.25, 0.0, 0.25])  # an interval holds the mean


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_narrow_intervals_reach_the_mean(sign):
    draws = sign * np.array([[0.0] * 9 + [1.0]])  # all but one are beside the mean
    mean, low, high = annotators._summary(draws, None, np.array([45.0, 55.0]))
    assert_allclose([mean[0], low[0], high[0]], [sign * 0.1, min(0.0, sign * 0.1), max(0.0, sign * 0.1)])
