"""The table of the features that users hold."""

import numpy as np
import pytest

from skpref import GibbsIPM3F
from skpref.data import Vocabulary
from skpref.exceptions import DataError
from skpref.factorization.max_margin.features import describe_features
from skpref.factorization.max_margin.posterior import Factors, RatingVocabularies

VOCABULARIES = RatingVocabularies(
    Vocabulary.from_columns(np.array(["ann", "bob", "cleo"])),
    Vocabulary.from_columns(np.array(["milk", "tea", "wine"])),
    np.array([1, 2, 3]),
)
HELD = np.array([[[0.9, 0.2, 0.6], [0.4, 0.3, 1.0], [0.8, 0.1, 0.7]]])  # users by features
ADDED = np.array([[[3.0, 1.0, -2.0], [0.0, 1.0, 2.0], [-4.0, 1.0, 1.0]]])  # items by features


def table(n_ids):
    average = Factors(HELD, ADDED, np.zeros((1, 1, 2)))
    return describe_features(average, VOCABULARIES, 2.0, n_ids)


def test_features_are_described_by_their_holders_and_items():
    features = table(2)
    assert features.share.tolist() == pytest.approx([2.3 / 3, 2.1 / 3])  # the second one has no holder
    assert features.chain.tolist() == [0, 0]
    assert features.users.tolist() == [["cleo", "bob"][::-1], ["ann", "cleo"]]
    assert features.liked.tolist() == [["tea", "wine"], ["milk"]]
    assert features.disliked.tolist() == [["milk"], ["wine"]]
    np.testing.assert_allclose(features.strength, np.sqrt([9 / 3, 25 / 3]) / 2.0)
    assert len(features) == len(features.to_frame()) == 2


def test_no_more_ids_are_named_than_asked_for():
    assert table(1).users.tolist() == [["bob"], ["ann"]]
    assert table(1).liked.tolist() == [["tea"], ["milk"]]


@pytest.mark.filterwarnings("ignore:The chains of Gibbs")
def test_chains_have_tables_of_their_own_and_numbers_are_checked():
    X = [(u, i) for u in range(6) for i in range(5)]
    y = [5 if (u < 3) == (i < 2) else 1 for u, i in X]
    model = GibbsIPM3F(C=1.0, n_chains=2, max_iter=12, burn_in=4, random_state=0).fit(X, y)
    features = model.feature_table(n_ids=3)
    assert set(features["chain"]) == {0, 1}
    assert features["share"].is_monotonic_decreasing
    for wrong in (0, 1.5, True, None):
        with pytest.raises(DataError, match="n_ids must be a positive integer"):
            model.feature_table(n_ids=wrong)
