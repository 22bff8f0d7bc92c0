"""Derivatives by differences, which tests compare with those of formulas."""


def central(function, step=1e-3):
    """Fourth-order central difference at 0."""
    far_left, left, right, far_right = (function(k * step) for k in (-2, -1, 1, 2))
    return (far_left - 8.0 * left + 8.0 * right - far_right) / (12.0 * step)
