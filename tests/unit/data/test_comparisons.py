"""The record of comparisons and its builders: bad inputs, rows 14, 20-30, 32, 34-36 and 38."""

import dataclasses
import pickle
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.exceptions import DataConversionWarning

from skpref.data import Comparisons, Vocabulary, unique_rows
from skpref.data import comparisons as module
from skpref.data.columns import read_ids
from skpref.data.comparisons import from_labels, from_scores
from skpref.exceptions import DataError


def from_pairs(pairs, n_items, **options):
    """As GPPLRegressor reads comparisons of rows."""
    winner, loser = (
        Vocabulary.range(n_items).encode(side, "comparisons")
        for side in read_ids(pairs, ("left", "right"), "comparisons")
    )
    return from_labels(winner, loser, None, n_items, **options)


def log_likelihood(pairs, f):
    """The weighted sum that `merged` must keep, with a logistic p."""
    z = f[pairs.left] - f[pairs.right]
    return np.sum(pairs.weight * (-pairs.y * np.logaddexp(0, -z) - (1 - pairs.y) * np.logaddexp(0, z)))


@st.composite
def records(draw, max_items=8):
    n_items = draw(st.integers(2, max_items))
    n = draw(st.integers(0, 40))
    left = draw(hnp.arrays(np.int64, n, elements=st.integers(0, n_items - 1)))
    shift = draw(hnp.arrays(np.int64, n, elements=st.integers(1, n_items - 1)))
    y = draw(hnp.arrays(np.float64, n, elements=st.sampled_from([0.0, 1.0, 0.5, 0.3])))
    weight = draw(hnp.arrays(np.float64, n, elements=st.sampled_from([0.0, 1.0, 2.0, 0.25])))
    return Comparisons(left, (left + shift) % n_items, y, weight, n_items)


# ------------------------------------------------------------------------------------------------------------ record


def test_record_is_typed_and_frozen():
    pairs = from_labels([0, 1.0], np.array([1, 2], dtype=np.uint8), [True, False], 3)
    assert [getattr(pairs, field.name).dtype for field in dataclasses.fields(pairs)[:4]] == [
        np.int64,
        np.int64,
        np.float64,
        np.float64,
    ]
    assert (pairs.n_pairs, pairs.n_items, pairs.total_weight) == (2, 3, 2.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        pairs.y = None
    with pytest.raises(ValueError, match="read-only"):
        pairs.y[0] = 0.0
    again = pickle.loads(pickle.dumps(pairs))
    np.testing.assert_array_equal(again.left, pairs.left)


def test_row_14_input_stays_as_it_was():
    left, right, y, weight = np.array([0, 1]), np.array([1, 0]), np.array([1.0, 0.0]), np.array([1.0, 2.0])
    pairs = from_labels(left, right, y, 2, sample_weight=weight)
    pairs.merged()
    assert all(array.flags.writeable for array in (left, right, y, weight))
    np.testing.assert_array_equal(weight, [1.0, 2.0])


@pytest.mark.parametrize("n_items", ["3", None, 2.5, (1, 2)])
def test_numbers_of_items_that_are_none(n_items):
    with pytest.raises(DataError, match="n_items must be an integer; got"):
        from_labels([0], [1], [1], n_items)


@pytest.mark.parametrize(("label", "text"), [(2, "2"), (-1, "-1"), (1.5, "1.5"), (1 + 1e-9, "1")])
def test_row_25_label_outside(label, text):
    message = rf"labels must be 0 or 1 \(or 0.5 for a tie\); got {text} in comparison 2, and 2 of 4 labels"
    with pytest.raises(DataError, match=message):
        from_labels([0] * 4, [1] * 4, [0, 1, label, label], 2)


@pytest.mark.parametrize("y", [[1, np.nan], np.array([1, None], dtype=object), np.array([1, np.nan], dtype=object)])
def test_row_26_label_missing(y):
    with pytest.raises(ValueError, match="Input y contains NaN"):
        from_labels([0, 0], [1, 1], y, 2)


@pytest.mark.parametrize(
    "y", [["a", "b"], ["0", "1"], [b"0", b"1"], np.array(["x", 1], dtype=object), [1j, 0], [[1], {}]]
)
def test_row_27_labels_that_are_no_numbers(y):
    with pytest.raises(ValueError, match=r"Unknown label type|y must be an array"):
        from_labels([0, 0], [1, 1], y, 2)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float32, object])
def test_rows_20_and_27_labels_of_every_dtype(dtype):
    assert from_labels([0, 0], [1, 1], np.array([1, 0], dtype=dtype), 2).y.tolist() == [1.0, 0.0]


def test_column_vector_warns_as_in_scikit_learn():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        from_labels([0, 0], [1, 1], np.ones((2, 1)), 2)


@pytest.mark.parametrize("huge", [2**63 - 1, 2**63, 2**64 - 1, 2**100])
def test_row_36_huge_row_numbers(huge):
    with pytest.raises(DataError, match=f"comparison 0 refers to item {huge}, but there are 2 items"):
        from_pairs([(huge, 0)], 2)
    with pytest.raises(DataError, match=r"but there are 2 items|must hold row numbers"):
        from_labels([huge], [0], [1], 2)


def test_rows_must_be_numbers():
    with pytest.raises(DataError, match="left must hold row numbers"):
        from_labels(["a"], [0], [1], 2)


def test_weights_that_are_valid():
    assert from_labels([0, 0], [1, 1], [1, 1], 2, sample_weight=3).weight.tolist() == [3.0, 3.0]
    assert from_labels([0, 0], [1, 1], [1, 1], 2, sample_weight=[0, 2]).weight.tolist() == [0.0, 2.0]


# ------------------------------------------------------------------------------------------------------------ merged


@given(records(), st.booleans(), st.integers(0, 2**32 - 1))
def test_merged_keeps_the_likelihood(pairs, keep_order, seed):
    merged = pairs.merged(keep_order=keep_order)
    f = np.random.default_rng(seed).normal(size=pairs.n_items)
    np.testing.assert_allclose(log_likelihood(merged, f), log_likelihood(pairs, f), rtol=1e-12, atol=1e-12)
    assert merged.total_weight == pytest.approx(pairs.total_weight, rel=1e-13)


@given(records(), st.booleans())
def test_merged_has_one_sorted_row_per_pair(pairs, keep_order):
    merged = pairs.merged(keep_order=keep_order)
    rows = list(zip(merged.left.tolist(), merged.right.tolist(), strict=True))
    assert rows == sorted(set(rows))
    assert (merged.weight > 0).all()
    if not keep_order:
        assert (merged.left < merged.right).all()
    again = merged.merged(keep_order=keep_order)
    for name in ("left", "right", "y", "weight"):
        np.testing.assert_array_equal(getattr(again, name), getattr(merged, name))


@given(records(), st.randoms(use_true_random=False))
def test_merged_ignores_order_and_side(pairs, random):
    order = list(range(pairs.n_pairs))
    random.shuffle(order)
    flip = np.array([random.random() < 0.5 for _ in order], dtype=bool)
    left, right, y = pairs.left[order], pairs.right[order], pairs.y[order]
    swapped = Comparisons(
        np.where(flip, right, left),
        np.where(flip, left, right),
        np.where(flip, 1 - y, y),
        pairs.weight[order],
        pairs.n_items,
    )
    for name in ("left", "right"):
        np.testing.assert_array_equal(getattr(swapped.merged(), name), getattr(pairs.merged(), name))
    for name in ("y", "weight"):
        np.testing.assert_allclose(getattr(swapped.merged(), name), getattr(pairs.merged(), name), atol=1e-14)


def test_merged_by_hand():
    pairs = from_labels([0, 1, 2, 0], [1, 0, 0, 1], [1.0, 1.0, 0.5, 0.5], 3, sample_weight=[1, 3, 2, 0])
    merged = pairs.merged()
    assert list(zip(merged.left, merged.right, merged.y, merged.weight, strict=True)) == [
        (0, 1, 0.25, 4),
        (0, 2, 0.5, 2),
    ]
    ordered = pairs.merged(keep_order=True)
    assert list(zip(ordered.left, ordered.right, ordered.y, strict=True)) == [(0, 1, 1.0), (1, 0, 1.0), (2, 0, 0.5)]


def test_merged_labels_never_leave_the_interval():
    rng = np.random.default_rng(5)
    weight = rng.random(1000) * 10.0 ** rng.integers(-200, 200, 1000)
    for label in (0.0, 1.0):
        merged = from_labels(
            np.zeros(1000, int), np.ones(1000, int), np.full(1000, label), 2, sample_weight=weight
        ).merged()
        assert merged.y.tolist() == [label]


def test_merged_of_nothing():
    empty = from_labels([], [], [], 3)
    assert empty.merged().n_pairs == 0
    assert from_labels([0], [1], [1], 2, sample_weight=[0]).merged().n_pairs == 0


def test_a_million_comparisons_merge_in_a_fraction_of_a_second():
    rng = np.random.default_rng(0)
    left = rng.integers(0, 50_000, 1_000_000)
    pairs = from_labels(left, (left + rng.integers(1, 50_000, 1_000_000)) % 50_000, rng.random(1_000_000), 50_000)
    seconds = []
    for _ in range(3):  # the least of three, since other processes slow any of them
        start = time.process_time()
        np.argsort(pairs.left * 50_000 + pairs.right)
        middle = time.process_time()
        merged = pairs.merged()
        seconds.append((middle - start, time.process_time() - middle))
    sort, merge = np.min(seconds, axis=0)
    assert merge < 20 * sort  # 0.2 s and 5 sorts measured
    assert merged.n_pairs < 1_000_000


# ------------------------------------------------------------------------------------------------------------- users


@st.composite
def crowds(draw, max_users=4):
    pairs = draw(records(max_items=4))
    n_users = draw(st.integers(1, max_users))
    user = draw(hnp.arrays(np.int64, pairs.n_pairs, elements=st.integers(0, n_users - 1)))
    return dataclasses.replace(pairs, user=user, n_users=n_users)


def of_user(pairs, user):
    """The record of one user alone, users forgotten."""
    rows = pairs.user == user
    return Comparisons(pairs.left[rows], pairs.right[rows], pairs.y[rows], pairs.weight[rows], pairs.n_items)


def test_without_users_there_are_none():
    for pairs in (from_labels([0], [1], [1], 2), from_pairs([(0, 1)], 2), from_scores([0, 1])):
        assert (pairs.user, pairs.n_users) == (None, 0)
        assert (pairs.merged().user, pairs.merged(keep_ties=True).user, pairs.compact()[0].user) == (None, None, None)


@pytest.mark.parametrize(
    ("user", "n_users", "message"),
    [
        ([0, 0, 3], 3, r"comparison 2 refers to user 3, but there are 3 users \(n_users\); rows are counted from 0"),
        ([0, 0, 0], 0, "comparison 0 refers to user 0, but there are 0 users"),
        ([0, -1, 9], 3, "negative user index -1 in comparison 1; rows are counted from 0"),
        ([0, 0], 3, r"inconsistent numbers of samples: \[3, 3, 2\]"),
        (["a", "b", "a"], 3, "user must hold row numbers"),
        ([2**63, 0, 0], 3, "user must hold row numbers, integers from 0"),
        (None, 3, "n_users is 3, but user is None"),
    ],
)
@pytest.mark.parametrize("build", [from_labels, Comparisons])
def test_users_that_are_refused(build, user, n_users, message):
    given = {"user": user, "n_users": n_users} | ({"weight": np.ones(3)} if build is Comparisons else {})
    with pytest.raises(ValueError, match=message):
        build(left=[0, 1, 2], right=[1, 2, 0], y=np.ones(3), n_items=3, **given)


def test_self_comparisons_leave_with_their_users():
    pairs = from_labels([0, 1, 2], [1, 1, 0], [1, 0, 1], 3, on_self="drop", user=[2, 1, 0], n_users=3)
    assert (pairs.user.tolist(), pairs.left.tolist(), pairs.n_users) == ([2, 0], [0, 2], 3)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        from_labels([0, 1, 2], [1, 1, 0], [1, 0, 1], 3, on_self="drop", user=[2, 0], n_users=3)


def test_merged_by_hand_with_users():
    pairs = from_labels(
        [0, 1, 0, 0], [1, 0, 1, 2], [1, 1, 1, 0.5], 3, sample_weight=[1, 3, 2, 1], user=[1, 1, 0, 1], n_users=2
    )
    merged = pairs.merged()
    rows = zip(merged.user, merged.left, merged.right, merged.y, merged.weight, strict=True)
    assert list(rows) == [(0, 0, 1, 1.0, 2), (1, 0, 1, 0.25, 4), (1, 0, 2, 0.5, 1)]
    ordered = pairs.merged(keep_order=True)
    rows = list(zip(ordered.user, ordered.left, ordered.right, ordered.y, strict=True))
    assert rows == [(0, 0, 1, 1.0), (1, 0, 1, 1.0), (1, 0, 2, 0.5), (1, 1, 0, 1.0)]
    apart = from_labels([0, 0, 0], [1, 1, 1], [1, 0.5, 1], 2, user=[1, 1, 1], n_users=2).merged(keep_ties=True)
    assert list(zip(apart.user, apart.y, apart.weight, strict=True)) == [(1, 0.5, 1), (1, 1.0, 2)]


@given(crowds(), st.booleans(), st.booleans())
def test_merged_is_merged_user_by_user(pairs, keep_order, keep_ties):
    merged = pairs.merged(keep_order=keep_order, keep_ties=keep_ties)
    assert (merged.n_users, merged.n_items) == (pairs.n_users, pairs.n_items)
    for user in range(pairs.n_users):
        alone = of_user(pairs, user).merged(keep_order=keep_order, keep_ties=keep_ties)
        together = of_user(merged, user)
        for name in ("left", "right", "y", "weight"):
            np.testing.assert_allclose(getattr(together, name), getattr(alone, name), rtol=1e-14)
    if not keep_ties:
        rows = list(zip(merged.user.tolist(), merged.left.tolist(), merged.right.tolist(), strict=True))
        assert rows == sorted(set(rows))


@pytest.mark.parametrize(("n_items", "n_users"), [(2**40, 3), (2**21, 2**40), (2**62, 2**62)])
def test_merged_with_more_users_and_items_than_a_key_can_hold(n_items, n_users):
    last, end = n_items - 1, n_users - 1
    pairs = from_labels(
        [5, last, 5, 5], [last, 5, 7, last], [1, 1, 1, 1], n_items, user=[end, end, end, 0], n_users=n_users
    )
    merged = pairs.merged()
    rows = list(zip(merged.user, merged.left, merged.right, merged.y, strict=True))
    assert rows == [(0, 5, last, 1.0), (end, 5, 7, 1.0), (end, 5, last, 0.5)]
    ordered = pairs.merged(keep_order=True)
    rows = list(zip(ordered.user, ordered.left, ordered.right, strict=True))
    assert rows == [(0, 5, last), (end, 5, 7), (end, 5, last), (end, last, 5)]


@given(crowds())
def test_compact_renumbers_items_only(pairs):
    compact, items = pairs.compact()
    assert compact.n_users == pairs.n_users
    for name in ("user", "y", "weight"):
        np.testing.assert_array_equal(getattr(compact, name), getattr(pairs, name))
    np.testing.assert_array_equal(items[compact.left], pairs.left)
    np.testing.assert_array_equal(items[compact.right], pairs.right)
    assert compact.n_items == max(len({*pairs.left.tolist(), *pairs.right.tolist()}), 1)


@given(crowds())
def test_components_do_not_ask_who(pairs):
    n_components, labels = dataclasses.replace(pairs, user=None, n_users=0).components()
    assert pairs.components()[0] == n_components
    np.testing.assert_array_equal(pairs.components()[1], labels)


def test_merged_of_nobody_is_empty():
    empty = from_labels([], [], [], 3, user=[], n_users=2)
    for merged in (empty.merged(), empty.merged(keep_ties=True), empty.compact()[0]):
        assert (merged.n_pairs, merged.user.size, merged.user.dtype, merged.n_users) == (0, 0, np.int64, 2)


# -------------------------------------------------------------------------------------------------------- components


def test_components_by_hand():
    pairs = from_labels([0, 1, 4], [1, 2, 5], [1, 1, 1], 8)
    n_components, labels = pairs.components()
    assert n_components == 2
    assert labels.tolist() == [0, 0, 0, -1, 1, 1, -1, -1]


def test_comparisons_of_weight_zero_connect_nothing():
    pairs = from_labels([0, 1], [1, 2], [1, 1], 3, sample_weight=[1, 0])
    assert pairs.components()[1].tolist() == [0, 0, -1]


def test_repeated_comparisons_connect_once():
    assert from_labels([0] * 256, [1] * 256, [1] * 256, 2).components()[0] == 1


@given(records())
def test_components_agree_with_a_search(pairs):
    n_components, labels = pairs.components()
    used = pairs.weight > 0
    neighbours = {}
    for a, b in zip(pairs.left[used].tolist(), pairs.right[used].tolist(), strict=True):
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    found = set()
    for start in neighbours:
        reached, front = {start}, [start]
        while front:
            front = [item for at in [front.pop()] for item in neighbours[at] - reached] + front
            reached.update(front)
        found.add(frozenset(reached))
    assert n_components == len(found)
    assert {frozenset(np.flatnonzero(labels == label).tolist()) for label in range(n_components)} == found
    assert set(np.flatnonzero(labels < 0)) == set(range(pairs.n_items)) - set(neighbours)


# ------------------------------------------------------------------------------------------------------- from scores


def all_pairs(y, qid):
    n = len(y)
    return {(i, j) for i in range(n) for j in range(n) if qid[i] == qid[j] and y[i] > y[j]}


scored = st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.5, -3.0]), st.sampled_from("ab")), min_size=1, max_size=18)


@given(scored)
def test_small_groups_give_all_pairs(rows):
    y, qid = zip(*rows, strict=True)
    pairs = from_scores(y, list(qid))
    found = list(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))
    assert len(found) == len(set(found))
    assert set(found) == all_pairs(y, qid)
    assert (pairs.y == 1.0).all()
    assert (pairs.weight == 1.0).all()
    assert pairs.n_items == len(y)


@given(
    hnp.arrays(np.float64, st.integers(2, 60), elements=st.integers(0, 3).map(float)),
    st.integers(1, 5),
    st.integers(0, 2**32 - 1),
)
def test_large_groups_draw_partners(y, pairs_per_item, seed):
    pairs = from_scores(y, pairs_per_item=pairs_per_item, rng=seed)
    found = list(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))
    assert len(found) == len(set(found))
    assert set(found) <= all_pairs(y, [0] * y.size)
    if np.unique(y).size > 1:  # every row has some partner with another score
        assert set(np.concatenate([pairs.left, pairs.right])) == set(range(y.size))
    assert pairs.n_pairs <= y.size * pairs_per_item


def test_threshold_between_all_and_drawn():
    k = 3
    assert from_scores(np.arange(2 * k + 1.0), pairs_per_item=k, rng=0).n_pairs == k * (2 * k + 1)
    assert from_scores(np.arange(2 * k + 2.0), pairs_per_item=k, rng=0).n_pairs < k * (2 * k + 2)


def test_partners_are_drawn_uniformly():
    # 30 scores, one draw each: the partner of row 0 is any of the 29 others. Chi-square with 28 degrees of freedom.
    rng = np.random.default_rng(11)
    counts = np.zeros(30)
    for _ in range(2000):
        rows = module._join(np.zeros(30, int), np.arange(30.0), np.arange(30), np.ones(30))
        group, tied = (np.zeros(30, int), np.full(30, 30)), (np.arange(30), np.arange(30) + 1)
        better, worse = module._draw(np.array([0]), group, tied, 1, rng)
        counts[better] += 1
        assert worse.tolist() == [0]
    expected = 2000 / 29
    assert counts[0] == 0
    assert np.sum((counts[1:] - expected) ** 2 / expected) < 64.0  # false alarm 1e-4
    assert rows.weight.tolist() == [1.0] * 30


def test_drawing_depends_on_the_generator_alone():
    y = np.random.default_rng(0).normal(size=100)
    one, two, other = from_scores(y, rng=1), from_scores(y, rng=np.random.default_rng(1)), from_scores(y, rng=2)
    np.testing.assert_array_equal(one.left, two.left)
    np.testing.assert_array_equal(one.right, two.right)
    assert one.n_pairs != other.n_pairs or (one.left != other.left).any()


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=30
    ),
    st.integers(1, 10),
    st.randoms(use_true_random=False),
)
def test_a_weight_is_a_repetition(rows, pairs_per_item, random):
    # (feature, score, group, weight): also where partners are drawn, also for repeated items and weight 0.
    feature, y, qid, weight = (np.array(column) for column in zip(*rows, strict=True))
    copies = np.repeat(np.arange(len(rows)), weight)
    random.shuffle(copies)

    def merged(rows_, sample_weight):
        first, item = unique_rows(feature[rows_, None] * 1.0)
        pairs = from_scores(
            y[rows_],
            qid[rows_],
            pairs_per_item=pairs_per_item,
            rng=0,
            sample_weight=sample_weight,
            items=item,
            n_items=first.size,
        ).merged()
        values = feature[rows_][first]
        return sorted(
            zip(
                values[pairs.left].tolist(),
                values[pairs.right].tolist(),
                pairs.y.tolist(),
                pairs.weight.tolist(),
                strict=True,
            )
        )

    assert merged(np.arange(len(rows)), weight) == merged(copies, None)


def test_weight_of_a_pair_is_the_product():
    pairs = from_scores([1, 2, 3], sample_weight=[1, 2, 3])
    weight = dict(zip(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True), pairs.weight.tolist(), strict=True))
    assert weight == {(1, 0): 2.0, (2, 0): 3.0, (2, 1): 6.0}


def test_row_32_all_scores_equal():
    assert from_scores(np.ones(5)).n_pairs == 0
    assert from_scores(np.ones(100)).n_pairs == 0
    assert from_scores(np.arange(5.0), qid=np.arange(5)).n_pairs == 0
    assert from_scores(np.arange(5.0), sample_weight=np.zeros(5)).n_pairs == 0


def test_an_item_is_not_compared_with_itself():
    pairs = from_scores([1, 2, 3], items=np.array([0, 0, 1]), n_items=2)
    assert list(zip(pairs.left, pairs.right, strict=True)) == [(1, 0), (1, 0)]


@pytest.mark.parametrize("qid", [["b", "a", "b"], [2.0, 1.0, 2.0], np.array([2**63, 1, 2**63], dtype=np.uint64)])
def test_groups_of_any_kind(qid):
    pairs = from_scores([1, 2, 3], qid=qid)
    assert (pairs.left.tolist(), pairs.right.tolist()) == ([2], [0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": [1.0, np.nan]}, "Input y contains NaN"),
        ({"y": [1.0, np.inf]}, "Input y contains infinity"),
        ({"y": ["a", "b"]}, "could not convert string to float"),
        ({"y": [1, 10**400]}, "Input y contains infinity or a value too large"),
        ({"y": np.array([0, 1], dtype="M8[D]")}, "y holds dates or durations"),
        ({"y": [1j, 2.0]}, "Complex data not supported"),
        ({"y": [1, 2], "qid": [1]}, "inconsistent numbers of samples"),
        ({"y": [1, 2], "qid": [1, None]}, "missing item id in row 1 of qid"),
        ({"y": [1, 2], "items": np.array([0, 2])}, "refers to item 2, but there are 2 items"),
        ({"y": [1, 2], "items": np.array([0])}, "inconsistent numbers of samples"),
    ],
)
def test_bad_scores(arguments, message):
    with pytest.raises(ValueError, match=message):
        from_scores(**arguments)


def test_merging_keeps_covariates_apart_and_turns_their_signs():
    covariates = np.array([[2.0, 0.0], [-2.0, 0.0], [2.0, 1.0], [2.0, -0.0]])
    pairs = Comparisons([0, 1, 0, 0], [1, 0, 1, 1], [1, 1, 1, 0], np.ones(4), 2, covariates=covariates)
    merged = pairs.merged()
    assert merged.covariates.tolist() == [[2.0, 0.0], [2.0, 1.0]]
    assert merged.y.tolist() == [1.0 / 3.0, 1.0]
    assert merged.weight.tolist() == [3.0, 1.0]
    assert pairs.merged(keep_order=True).covariates.tolist() == [[2.0, 0.0], [2.0, 1.0], [-2.0, 0.0]]
    assert pairs.take(np.array([2])).covariates.tolist() == [[2.0, 1.0]]


def test_covariates_are_checked():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        Comparisons([0], [1], [1.0], np.ones(1), 2, covariates=np.ones((2, 1)))
    with pytest.raises(ValueError, match="covariates contains NaN"):
        Comparisons([0], [1], [1.0], np.ones(1), 2, covariates=np.array([[np.nan]]))
    dropped = from_labels([0, 0], [0, 1], [1, 1], 2, on_self="drop", covariates=np.array([[1.0], [2.0]]))
    assert dropped.covariates.tolist() == [[2.0]]


def test_comparisons_of_other_groups_are_not_merged():
    left, right, y = np.array([0, 1, 0, 0]), np.array([1, 0, 1, 1]), np.array([1.0, 0.0, 1.0, 0.0])
    group = np.array([[0, 1], [0, 1], [1, 1], [0, 1]])
    c = Comparisons(left, right, y, np.ones(4), 2, group=group)
    merged = c.merged()
    assert merged.group is not None
    assert merged.group.tolist() == [[0, 1], [1, 1]]
    assert merged.weight.tolist() == [3.0, 1.0]
    assert merged.y.tolist() == pytest.approx([2.0 / 3.0, 1.0])
    assert c.take(np.array([2])).group.tolist() == [[1, 1]]
    dropped = from_labels([0, 1], [0, 0], [1, 1], 2, on_self="drop", group=group[:2])
    assert dropped.group is not None
    assert dropped.group.tolist() == [[0, 1]]
    for wrong in (group[:, 0], group - 1, group.astype(float)):
        with pytest.raises(DataError, match="must be columns of numbers of groups"):
            Comparisons(left, right, y, np.ones(4), 2, group=wrong)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        Comparisons(left, right, y, np.ones(4), 2, group=group[:3])


@pytest.mark.parametrize("bad", [-1, -7, 3, 8])
@pytest.mark.parametrize("column", [0, 1])
def test_the_first_row_beside_the_items_or_users_is_named(bad, column):
    rows = np.tile([0, 2], (6, 1))
    rows[[2, 4], column] = bad
    what = f"negative item index {bad} in comparison 2;" if bad < 0 else f"comparison 2 refers to item {bad}, but"
    with pytest.raises(DataError, match=what):
        Comparisons(*rows.T, np.ones(6), np.ones(6), 3)
    user = np.array([0, 2, 0, bad, bad, 1])
    what = f"negative user index {bad} in comparison 3;" if bad < 0 else f"comparison 3 refers to user {bad}, but"
    with pytest.raises(DataError, match=what):
        Comparisons(*np.tile([0, 2], (6, 1)).T, np.ones(6), np.ones(6), 3, user=user, n_users=3)
