"""Calibration, drawn."""

import numpy as np
import pytest

from skpref.plots import PairCalibrationDisplay, offscreen_axes


def test_calibration_from_estimator_and_from_predictions(model, comparisons):
    X, Y = comparisons
    one = PairCalibrationDisplay.from_estimator(model, X, Y, n_bins=4, ax=offscreen_axes())
    p = model.predict_proba(X)[:, 1]
    two = PairCalibrationDisplay.from_predictions(Y, p, n_bins=4, ax=offscreen_axes())
    assert one.calibration.mean_observed.tolist() == two.calibration.mean_observed.tolist()
    assert one.calibration.count.sum() == len(Y)
    offsets = np.asarray(one.ax_.collections[-1].get_offsets())
    assert offsets[:, 0] == pytest.approx(one.calibration.mean_predicted)
    assert offsets[:, 1] == pytest.approx(one.calibration.mean_observed)
    c, ax = one.calibration, one.ax_
    assert [line.get_xydata().tolist() for line in ax.lines] == [[[0.0, 0.0], [1.0, 1.0]]]  # perfect
    error = np.sqrt(c.mean_predicted * (1.0 - c.mean_predicted) / c.count)
    ends = [np.clip(c.mean_predicted + sign * error, 0.0, 1.0) for sign in (-1.0, 1.0)]
    (band,) = ax.collections[0].get_paths()
    wanted = {(x, y) for x, *both in np.transpose([c.mean_predicted, *ends]).round(9).tolist() for y in both}
    assert {tuple(point) for point in band.vertices.round(9).tolist()} == wanted
    assert (ax.get_xlim(), ax.get_ylim()) == ((0.0, 1.0), (0.0, 1.0))
    area = ax.collections[-1].get_sizes()
    assert area.argmax() == c.count.argmax()
    assert np.argsort(area, kind="stable").tolist() == np.argsort(c.count, kind="stable").tolist()
