"""The bound after each pass, drawn."""

from skpref.plots import BoundDisplay, offscreen_axes


def test_the_bound_after_each_pass(model):
    ax = offscreen_axes()
    display = BoundDisplay.from_estimator(model, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    (line,) = ax.lines
    assert line.get_xdata().tolist() == list(range(1, model.n_iter_ + 1))
    assert line.get_ydata().tolist() == model.lower_bounds_
    assert ax.get_title() == "GPPLClassifier"
