"""The link from an estimator's HTML representation to its page in the documentation."""

from __future__ import annotations

from importlib import metadata


def doc_link(estimator: object) -> str:
    """Return the address of the page of an estimator; nothing for classes of other packages, or without an address."""
    package, _, path = type(estimator).__module__.partition(".")
    root = _address() if package == "skpref" else ""
    if not root:
        return ""
    name, folder = type(estimator).__name__, path.partition(".")[0]
    page = f"api/search.html#skpref.search.{name}" if folder == "search" else f"generated/skpref.{name}.html"
    return f"{root}/{page}"


def _address() -> str:
    """Return the address of the documentation, which is an entry of `project.urls` in pyproject.toml."""
    try:
        urls = metadata.metadata("skpref").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:  # a copy of the source that is not installed
        return ""
    addresses: dict[str, str] = dict(line.split(", ", 1) for line in urls)
    return addresses.get("Documentation", "").rstrip("/")
