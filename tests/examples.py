"""How many examples a property test draws."""

from hypothesis import settings

FULL = 40  # examples of a test under the profile `dev`, unless it says otherwise


def examples(n):
    """Draw this many examples under the profile `dev`, and in proportion under the others (tests/conftest.py)."""
    return settings(max_examples=max(2, n * settings.default.max_examples // FULL))
