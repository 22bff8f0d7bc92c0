"""Shares of wins, drawn."""

import numpy as np

from skpref.plots import WinMatrixDisplay, offscreen_axes


def test_a_win_matrix_is_a_heat_map(model):
    display = WinMatrixDisplay.from_estimator(model, which="observed", n_items=3, ax=offscreen_axes())
    ax = display.ax_
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["5", "4", "3"]
    assert [text.get_text() for text in ax.texts] == ["1.00", "1.00", ".00", "1.00", ".00", ".00"]
    (image,) = ax.images
    np.testing.assert_array_equal(np.asarray(image.get_array().filled(np.nan)), model.win_matrix().observed[:3, :3])
    assert ax.images[0].get_clim() == (0.0, 1.0)
    assert {text.get_text(): text.get_color() for text in ax.texts} == {"1.00": "white", ".00": "white"}
    middle = WinMatrixDisplay(["a", "b"], [[np.nan, 0.7], [0.3, np.nan]]).plot(ax=offscreen_axes()).ax_
    assert {text.get_position(): text.get_color() for text in middle.texts} == {(1, 0): "black", (0, 1): "black"}
    few = WinMatrixDisplay(list(range(15)), np.full((15, 15), 0.5)).plot(ax=offscreen_axes())
    assert len(few.ax_.texts) == 225
    many = WinMatrixDisplay(list(range(16)), np.full((16, 16), 0.5)).plot(ax=offscreen_axes())
    assert len(many.ax_.texts) == 0
