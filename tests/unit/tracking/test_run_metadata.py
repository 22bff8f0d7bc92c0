"""What a run says of an estimator."""

from skpref import VariationalFM
from skpref.tracking.run_metadata import parameters


def test_long_parameters_are_cut_to_five_hundred_characters():
    exact, longer = (parameters(VariationalFM(groups="g" * n))["groups"] for n in (500, 501))
    assert exact == "g" * 500
    assert longer == "g" * 497 + "..."
