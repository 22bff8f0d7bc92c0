"""The order of the examples: first those that start from a table, last those that show measurements only."""

from pathlib import Path

FIRST = ["leaderboard", "arena", "judges", "conjoint", "league", "seasons", "survey", "grades", "ratings", "regression"]
FIRST += ["latent", "pipeline"]
LAST = ["crowd_sizes", "coverage", "reliability", "peers", "scale"]


class Order:
    """A sort key of sphinx-gallery."""

    def __init__(self, src_dir: str) -> None:
        """Take the folder, as sphinx-gallery wants; the order does not depend on it."""

    def __call__(self, path: str) -> tuple[int, str]:
        """Return the place of an example by the name of its file."""
        name = Path(path).stem.removeprefix("plot_")
        return (FIRST.index(name) if name in FIRST else len(FIRST) + (name in LAST), name)
