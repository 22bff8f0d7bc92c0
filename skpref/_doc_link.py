"""The link from an estimator's HTML representation to its page in the documentation."""

from __future__ import annotations

from importlib import metadata


class DocLinkMixin:
    """Base class of estimators whose HTML representation links to their page."""

    def _get_doc_link(self) -> str:
        """Return the address of the page, or nothing: of classes of other packages, and without an address."""
        package, _, path = type(self).__module__.partition(".")
        root = _address() if package == "skpref" else ""
        if not root:
            return ""
        name, folder = type(self).__name__, path.partition(".")[0]
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
