"""Version of the package; pyproject.toml repeats it, and a test keeps the two equal."""

__version__ = "0.2.0"
