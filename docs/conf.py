"""Sphinx configuration: `sphinx-build -b html docs docs/_build/html`, offline."""

from __future__ import annotations

import os
import re
import sys
import tomllib
import warnings
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx_gallery.directives import imgsgnode

# Before numpy is imported by autodoc and by the examples, so that timings do not depend on the number of cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
_project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

project = "skpref"
author = "The skpref developers"
copyright = f"2026, {author}"
version = release = _project["version"]

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "mathml",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
html_math_renderer = "mathml"
exclude_patterns = ["_build", "examples", "**/GALLERY_HEADER.rst"]
templates_path = ["_templates"]
nitpicky = True
nitpick_ignore_regex = [
    (r"py:.*", r"sklearn\..*"),  # scikit-learn's pages are not on this machine
    (r"py:obj", r"client"),  # an attribute that is set, not defined in the class
]
suppress_warnings = [
    "ref.citation",  # the bibliography may hold what no page cites
    "ref.python",  # temperature_ of a class on Dask is the property of two classes in memory
]
default_role = "code"

autosummary_generate = True
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # types and shapes stand in the numpydoc sections
autodoc_default_options = {"members": True}
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_attributes_as_param_list = True
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": ["examples"],
    "gallery_dirs": ["auto_examples"],
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"__init__\.py",
    "within_subsection_order": "gallery_order.Order",
    "doc_module": ("skpref",),
    "backreferences_dir": "generated/backreferences",
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,  # those pages load scripts from other servers
    "show_signature": False,
    "matplotlib_animations": False,
    "reset_modules": ("matplotlib",),
}

html_theme = "pydata_sphinx_theme"
html_title = f"skpref {release}"
html_static_path = ["_static"]
html_css_files = ["skpref.css"]
html_show_sourcelink = False
_ALONE = "index installation quickstart benchmarks glossary maths bibliography citing changelog support contributing"
html_sidebars = {page: [] for page in _ALONE.split()}  # pages without a section to navigate in
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navbar_persistent": ["search-button"],  # an icon: a field makes a second line of the header on small laptops
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
}

# An example that warns is an example to mend; matplotlib's Agg saying that it cannot show is not about the example.
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive", category=UserWarning)


def _skip(_app: Any, _what: str, name: str, _obj: object, skip: bool, _options: Any) -> bool | None:
    """Leave out methods that scikit-learn adds to every estimator and documents itself."""
    return True if re.fullmatch(r"set_(\w+_request|output)|get_metadata_routing", name) else skip or None


def _read_changelog(_app: Any, page: str, source: list[str]) -> None:
    """Append CHANGELOG.md to the page, as reStructuredText: headings, links; code has the same marks here."""
    if page != "changelog":
        return
    lines = re.sub(r"\[([^]]+)\]\(([^)]+)\)", r"`\1 <\2>`__", (ROOT / "CHANGELOG.md").read_text("utf-8")).splitlines()
    for line in lines[1:]:
        title = re.fullmatch(r"(##+) (.+)", line)
        source[0] += f"{title[2]}\n{'=-~^'[len(title[1]) - 1] * len(title[2])}\n" if title else f"{line}\n"


def _list_members(_app: Any, page: str, source: list[str]) -> None:
    """Open a page of the API with a table of what it documents."""
    if not page.startswith("api/"):
        return
    found: dict[type, list[str]] = {FunctionType: [], type: []}  # functions first: most pages are looked up for them
    for module, options in re.findall(r"\.\. automodule:: (\S+)\n((?: +:.*\n)+)", f"{source[0]}\n"):
        left_out = re.findall(r"\w+", "".join(re.findall(r":exclude-members: (.*)", options)))
        package = import_module(module)
        for kind, names in found.items():
            of_kind = [name for name in package.__all__ if isinstance(getattr(package, name), kind)]
            names += [f"~{module}.{name}" for name in of_kind if name not in left_out]
    listed = "\n   ".join(found[FunctionType] + found[type])
    table = f".. autosummary::\n   :nosignatures:\n\n   {listed}\n\n"
    source[0] = source[0].replace(".. automodule::", f"{table}.. automodule::", 1)


PACKAGES = [f"skpref{name}" for name in ("", ".data", ".kernels", ".metrics", ".plots", ".search", ".tracking")]


def _open_with_picture(_app: Any, page: str, source: list[str]) -> None:
    """Show a figure of an example above its code: that of its thumbnail, by default the first."""
    figures = re.findall(r"\.\. image-sg:: (\S+)\n +:alt: (.+)", source[0])
    if not (page.startswith("auto_examples/plot_") and figures):
        return
    script = (ROOT / "docs" / "examples" / Path(page).name).with_suffix(".py").read_text("utf-8")
    number = re.search(r"^# sphinx_gallery_thumbnail_number = (\d+)", script, re.MULTILINE)
    path, text = figures[int(number[1]) - 1 if number else 0]
    if text == Path(page).name.replace("_", " "):  # sphinx-gallery found no title in the figure
        text = script.split("\n")[1]
    figure = f".. figure:: {path}\n   :alt: {text}\n   :align: center\n   :figclass: mb-4\n"
    source[0] = source[0].replace("\n.. GENERATED FROM PYTHON", f"\n{figure}\n.. GENERATED FROM PYTHON", 1)


def _space_figures(_app: Any, doctree: nodes.document) -> None:
    """Put space below the figures of examples: mb-4 is a class of the theme; the directive takes one class only."""
    for figure in doctree.findall(imgsgnode):
        figure["class"] = ["sphx-glr-single-img mb-4"]


def _link_names(_app: Any, doctree: nodes.document) -> None:
    """Make a link of every name of the API that is set as code in a text."""
    for literal in list(doctree.findall(nodes.literal)):
        name = literal.astext()
        home = next((home for home in PACKAGES if name in import_module(home).__all__), None)
        if home is None or isinstance(literal.parent, (nodes.reference, nodes.title, addnodes.pending_xref)):
            continue
        link = addnodes.pending_xref(
            "", literal.deepcopy(), refdomain="py", reftype="obj", reftarget=f"{home}.{name}", plain=True
        )
        literal.replace_self(link)


def _keep_units(_app: Any, doctree: nodes.document) -> None:
    """Let no line end between a number and its per cent sign."""
    for text in list(doctree.findall(nodes.Text)):
        if re.search(r"\d %", text) and not isinstance(text.parent, (nodes.literal, nodes.literal_block)):
            text.parent.replace(text, nodes.Text(re.sub(r"(\d) %", "\\1\N{NO-BREAK SPACE}%", text)))


def _resolve(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Find names of skpref without their module; show labels of scikit-learn's pages as plain text."""
    if node.get("plain") or node.get("reftarget") in {"accuracy_score", "r2_score"}:
        return content
    if node.get("refdomain") == "py":
        for package in ("skpref", "skpref.data"):
            name = f"{package}.{node['reftarget']}"
            found = env.get_domain("py").resolve_xref(
                env, node["refdoc"], app.builder, node["reftype"], name, node, content
            )
            if found is not None:
                return found
    return None


def setup(app: Any) -> None:
    """Connect the hooks."""
    app.connect("autodoc-skip-member", _skip)
    app.connect("source-read", _read_changelog)
    app.connect("source-read", _list_members)
    app.connect("source-read", _open_with_picture)
    app.connect("missing-reference", _resolve)
    app.connect("doctree-read", _space_figures)
    app.connect("doctree-read", _link_names)
    app.connect("doctree-read", _keep_units)
