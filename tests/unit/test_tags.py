"""What estimators tell scikit-learn of themselves, all of them in one table."""

import pytest
from sklearn.utils import get_tags

import skpref
from skpref.data import OneHotDesign

IDS = {"categorical", "string"}
# Kinds of input beyond dense numbers, and what else differs from scikit-learn's usual answers.
TAGS = {
    "GPPLClassifier": (IDS, {"one class only", "no target"}),
    "CrowdGPPL": (IDS, {"one class only", "no target"}),
    "GPPLRegressor": ({"sparse"}, set()),
    "GPOrdinalRegressor": ({"sparse"}, set()),
    "SVGPRegressor": ({"sparse"}, set()),
    "SVGPClassifier": ({"sparse"}, set()),
    "BayesianGPLVM": (set(), {"no target"}),
    "GibbsM3F": (IDS, set()),
    "GibbsIPM3F": (IDS, set()),
    "VariationalFM": ({"sparse"}, set()),
    "VariationalFMClassifier": ({"sparse"}, {"one class only"}),
    "VariationalFMOrdinal": ({"sparse"}, {"poor score"}),
    "OneHotDesign": (IDS, {"no target"}),
}


@pytest.mark.parametrize("name", TAGS)
def test_tags(name):
    tags = get_tags(OneHotDesign() if name == "OneHotDesign" else getattr(skpref, name)())
    kinds = {kind for kind in ("categorical", "string", "sparse", "pairwise") if getattr(tags.input_tags, kind)}
    others = {"no target"} - ({"no target"} if tags.target_tags.required else set())
    if tags.classifier_tags is not None:
        others |= set() if tags.classifier_tags.multi_class else {"one class only"}
        others |= {"poor score"} if tags.classifier_tags.poor_score else set()
    assert (kinds, others) == TAGS[name]


def test_a_precomputed_kernel_is_of_pairs():
    tags = get_tags(skpref.GPOrdinalRegressor(kernel="precomputed")).input_tags
    assert tags.pairwise
    assert not tags.sparse
