"""The HTML representation of an estimator links to a page that the documentation has."""

from email.message import Message
from importlib import metadata
from pathlib import Path

import pytest

import skpref
from skpref.search import OptunaSearch

API = (Path(__file__).resolve().parents[2] / "docs" / "api.rst").read_text("utf-8")
ESTIMATORS = [value for name in skpref.__all__ if hasattr(value := getattr(skpref, name), "fit")]


@pytest.fixture
def published(monkeypatch):
    """Give the documentation an address."""
    message = Message()
    message["Project-URL"] = "Source, https://example.org/source"
    message["Project-URL"] = "Documentation, https://example.org/docs/"
    monkeypatch.setattr(metadata, "metadata", lambda _name: message)


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_estimators_link_to_their_page(cls):
    assert cls()._get_doc_link() == f"https://example.org/docs/generated/skpref.{cls.__name__}.html"
    assert f"\n   {cls.__name__}\n" in API  # autosummary makes the page
    assert f"skpref.{cls.__name__}.html" in cls()._repr_html_()


@pytest.mark.usefixtures("published")
def test_estimators_of_other_levels_link_to_their_place_in_the_api():
    link = OptunaSearch(skpref.GibbsM3F())._get_doc_link()
    assert link == "https://example.org/docs/api/search.html#skpref.search.OptunaSearch"


@pytest.mark.usefixtures("published")
def test_classes_of_other_packages_have_no_link():
    class Mine(skpref.GPPLClassifier):
        pass

    Mine.__module__ = "mine"
    assert Mine()._get_doc_link() == ""


@pytest.mark.parametrize("installed", [True, False])
def test_without_an_address_there_is_no_link(monkeypatch, *, installed):
    def read(name):
        if not installed:
            raise metadata.PackageNotFoundError(name)
        return Message()

    monkeypatch.setattr(metadata, "metadata", read)
    assert skpref.GPPLClassifier()._get_doc_link() == ""
    assert "GPPLClassifier" in skpref.GPPLClassifier()._repr_html_()
