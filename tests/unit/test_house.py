"""The house keeps its own rules: what is imported when, who imports whom, sizes, docstrings, examples, lists."""

import ast
import doctest
import functools
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import skpref

pytestmark = pytest.mark.usefixtures("all_candidates")  # pages print numbers

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "skpref"
SOURCES = sorted(PACKAGE.rglob("*.py"))
EXTRAS = ("mlflow", "optuna", "dask", "distributed", "matplotlib", "pandas", "pyarrow", "statsmodels", "torch")
MODULES = sorted(m.name for m in pkgutil.walk_packages(skpref.__path__, "skpref."))


@functools.cache
def parsed(path):
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text("utf-8"))


# ------------------------------------------------------------------------------------------------------------- imports
# scikit-learn imports pandas, and pandas pyarrow, where they are installed: what the core loads by itself is not ours.
CORE = "import numpy, scipy, sklearn.gaussian_process, sklearn.cluster, numba, joblib, threadpoolctl"


def test_importing_loads_no_extra_and_rooms_are_attributes():
    """In a fresh interpreter: what the core, skpref and all its modules load, and the names of skpref."""
    loaded = "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    names = "print(skpref.metrics.__name__, *(name for name in dir(skpref) if name[:2] != '__'))"
    steps = ["import sys", CORE, loaded, "import skpref", loaded, names, f"import {', '.join(MODULES)}", loaded]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(steps)], capture_output=True, text=True, check=True, timeout=300, cwd=ROOT
    )
    core, package, (first, *rooms), everything = (line.split() for line in done.stdout.splitlines())
    for loads in (package, everything):
        assert (set(loads) - set(core)) & set(EXTRAS) == set()
    assert first == "skpref.metrics"
    assert {"metrics", "plots", "search", "tracking"} <= set(rooms)
    assert not {name for name in rooms if name not in skpref.__all__ and f"skpref.{name}" not in MODULES}


def test_import_skpref_does_not_touch_the_network_or_the_disk(tmp_path):
    code = (
        "import sys\n"
        "seen = []\n"
        "def watch(event, args):\n"
        "    writes = event == 'open' and isinstance(args[1], str) and set(args[1]) & set('wax+')\n"
        "    if event == 'socket.connect' or (writes and '__pycache__' not in str(args[0])):\n"
        "        seen.append((event, args))\n"
        "sys.addaudithook(watch)\n"
        "import skpref\n"
        "print(seen)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        cwd=tmp_path,
        env=environment,
    )
    assert done.stdout.strip() == "[]"
    assert list(tmp_path.iterdir()) == []


# What import-linter's layers cannot say: these two stand beside the levels and may use some of them only.
SIDE_ROOMS = {
    "metrics": {
        "_typing",
        "_validation",
        "_warn",
        "_math",
        "exceptions",
        "kernels",
        "likelihoods",
        "inducing",
        "data",
        "metrics",
    },
    "datasets": {"_typing", "_math", "exceptions", "data", "datasets"},
}


def rooms_imported(source):
    """Rooms of skpref named by the import statements of a file, those inside functions too."""
    names = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("skpref.")}


def test_side_rooms_import_only_what_they_may():
    wrong = {
        str(source.relative_to(PACKAGE)): more
        for source in SOURCES
        for allowed in [SIDE_ROOMS.get(source.relative_to(PACKAGE).with_suffix("").parts[0])]
        if allowed is not None and (more := rooms_imported(source) - allowed)
    }
    assert wrong == {}


# --------------------------------------------------------------------------------------------------------------- sizes
def written_files():
    """Every Python file a person wrote."""
    folders = ("skpref", "tests", "benchmarks", "docs/examples")
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def test_no_file_is_longer_than_700_lines():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in written_files()}
    assert {path: length for path, length in lengths.items() if length > 700} == {}


def test_modules_bind_a_name_once():
    twice = []
    for path in SOURCES:
        names = []
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names += [] if "overload" in map(ast.unparse, node.decorator_list) else [node.name]
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                bound = [part for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
                names += [part.id for part in bound if isinstance(part.ctx, ast.Store)]
        twice += [f"{path}: {name}" for name in sorted(set(names)) if names.count(name) > 1]
    assert not twice


def test_estimators_of_pairs_have_few_classes_above_them():
    """What they share are records and functions; each class more is one more place to look for a method."""
    most = {skpref.GPPLClassifier: 5, skpref.GPPLRegressor: 3, skpref.CrowdGPPL: 7}
    own = {cls: sum(base.__module__.startswith("skpref") for base in cls.__mro__) for cls in most}
    assert {cls: n for cls, n in own.items() if n > most[cls]} == {}


def test_no_function_is_longer_than_100_lines():
    lengths = {
        f"{path.relative_to(ROOT)}:{node.lineno} {name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in written_files()
        for name, node in definitions(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    assert {function: length for function, length in lengths.items() if length > 100} == {}


def test_nothing_is_left_to_be_done():
    left = re.compile(r"\b(TODO|FIXME|XXX)\b")
    found = [f"{path.relative_to(ROOT)}" for path in SOURCES if left.search(path.read_text("utf-8"))]
    assert found == []


# ---------------------------------------------------------------------------------------------------------- docstrings
# Documented is what docs/api.rst lists: numpydoc, with a table of parameters. All else has types and one sentence.
# Left out of numpydoc's checks, each for a reason:
NUMPYDOC_LEFT_OUT = {
    "GL01",  # the summary stands on the line of the quotes, as ruff's D212 wants
    "GL02",  # closing quotes: ruff's business
    "GL03",  # double blank lines: ruff's business
    "GL08",  # no docstring at all: replaced by test_everything_public_is_documented, which knows inheritance
    "SS05",  # an infinitive is asked for by the first letter's guess, wrong for nouns ending in s
    "ES01",  # an extended summary where the summary says all is padding
    "SA01",  # See Also is written where there is something to see
    "SA04",  # and its names speak
    "EX01",  # examples: test_the_api_has_examples, which knows what can have one
    "SS02",  # a summary may open with a letter of the notation: log|S|, k(x, x)
    "PR08",  # the same for parameters
    "RT04",  # the same for returned values
    "SA03",  # the same for See Also
    "RT02",  # a single returned value may have a name
    "YD01",  # a generator's annotation says it
}


def listed_in_the_api():
    """Return the classes and functions that docs/api.rst and docs/api list, by the name that users type."""
    page = "\n".join(path.read_text("utf-8") for path in [ROOT / "docs/api.rst", *(ROOT / "docs/api").glob("*.rst")])
    objects = {}
    for block in re.split(r"\n(?=\.\. )", page):
        if block.startswith(".. autosummary::"):
            for name in re.findall(r"^   ([A-Za-z]\w*)$", block, flags=re.MULTILINE):
                objects[f"skpref.{name}"] = getattr(skpref, name)
        elif directive := re.match(r"\.\. automodule:: (\S+)\n   :members:", block):
            module = importlib.import_module(directive[1])
            excluded = re.search(r":exclude-members: (.*)", block)
            left_out = {name.strip() for name in excluded[1].split(",")} if excluded else set()
            own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == directive[1]]
            for name in getattr(module, "__all__", own):
                value = getattr(module, name)
                if name not in left_out and not name.startswith("_") and (inspect.isclass(value) or callable(value)):
                    objects[f"{directive[1]}.{name}"] = value
    return objects


def public_methods(cls):
    """Return public methods and properties of a class, each with the classes of skpref that define it."""
    methods = {}
    for owner in (base for base in cls.__mro__ if base.__module__.startswith("skpref")):
        for name, value in vars(owner).items():
            written = inspect.isfunction(value) or isinstance(value, (property, classmethod, staticmethod))
            public = not name.startswith("_") or name == "__call__"
            # Metadata routing adds set_fit_request and the like.
            if written and public and not re.fullmatch(r"set_\w+_request", name):
                methods.setdefault(name, []).append(owner)
    # A mixin of scikit-learn may come first.
    return {
        name: owners for name, owners in methods.items() if inspect.getattr_static(cls, name) is vars(owners[0])[name]
    }


API = {
    name: value
    for name, value in listed_in_the_api().items()
    if inspect.isfunction(value) or (inspect.isclass(value) and value.__module__.startswith("skpref"))
}
METHODS = {
    f"{name}.{method}": owners
    for name, value in API.items()
    if inspect.isclass(value)
    for method, owners in public_methods(value).items()
}
DOCUMENTED = [*API, *METHODS]


def is_protocol(value):
    """Whether a class only says what others must offer; its constructor's signature is typing's, not ours."""
    return getattr(value, "_is_protocol", False)


def wants_example(name, value):
    """Whether a name is a class or function of the API, and not an error or a protocol."""
    if name.split(".")[1] in {"tracking", "inference"}:
        return False
    return not (inspect.isclass(value) and (issubclass(value, BaseException) or is_protocol(value)))


def resolve(name):
    """Return the object of a dotted name of the API."""
    if name in API:
        return API[name]
    cls, method = name.rsplit(".", 1)
    return getattr(API[cls], method)


def test_everything_in_the_api_is_documented():
    assert [name for name in DOCUMENTED if not (inspect.getdoc(resolve(name)) or "").strip()] == []


def test_the_api_has_examples():
    names = [name for name, value in API.items() if wants_example(name, value)]
    assert [name for name in names if ">>>" not in (inspect.getdoc(API[name]) or "")] == []


@pytest.mark.slow  # numpydoc parses the file of every name anew
@pytest.mark.filterwarnings("ignore:Unknown section:UserWarning:numpydoc")
def test_numpydoc_finds_nothing():
    # It asks for a table of parameters wherever there are parameters.
    validate = pytest.importorskip("numpydoc.validate").validate
    errors = [
        f"{name}: {code} {text}"
        for name in DOCUMENTED
        if not is_protocol(resolve(name))
        for code, text in validate(name)["errors"]
        if code not in NUMPYDOC_LEFT_OUT
    ]
    assert errors == []


def documented_types(text):
    """Return the type that a docstring's table gives each parameter; of several on a line, each its own default."""
    types = {}
    for row in importlib.import_module("numpydoc.docscrape").NumpyDocString(text)["Parameters"]:
        names = row.name.replace("*", "").split(", ")
        kind, _, default = row.type.partition("default=")
        defaults = re.split(", | and ", default) if len(names) > 1 and not default.startswith("(") else [default]
        defaults = defaults if len(defaults) == len(names) else [default] * len(names)
        types |= {name: f"{kind}default={d}" if d else kind for name, d in zip(names, defaults, strict=True)}
    return types


def is_default(text, default, module):
    """Whether a table's "default=" is the default of the signature, its type included."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        value = getattr(sys.modules[module], text, text)
    return repr(value) == repr(default) or value == str(default)


def wrong_defaults(value):
    """Return the parameters whose documented default is not that of the signature."""
    types, wrong = documented_types(inspect.getdoc(value) or ""), []
    for parameter in inspect.signature(value).parameters.values():
        text = types.get(parameter.name, "None")
        written = text.partition("default=")[2]
        # y that only pipelines pass, and a default that a dataclass makes anew, have nothing to compare.
        if text in {"None", "Ignored"} or repr(parameter.default) == "<factory>":
            continue
        default = parameter.default
        right = is_default(written, default, value.__module__) if written else default is parameter.empty
        wrong += [] if right else [f"{parameter}: {text}"]
    return wrong


@pytest.mark.filterwarnings("ignore:Unknown section:UserWarning:numpydoc")
def test_documented_defaults_are_those_of_the_signature():
    pytest.importorskip("numpydoc")
    values = {name: resolve(name) for name in DOCUMENTED}
    found = {
        name: wrong_defaults(value)
        for name, value in values.items()
        if callable(value) and not is_protocol(value)
        # The signature of an exception is Python's.
        if not (inspect.isclass(value) and issubclass(value, BaseException))
    }
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def documented_places():
    """Return (module, qualified name) of everything documented."""
    return {(value.__module__, value.__qualname__) for value in API.values()} | {
        (owner.__module__, f"{owner.__qualname__}.{name.rsplit('.', 1)[1]}")
        for name, owners in METHODS.items()
        for owner in owners
    }


def definitions(tree, prefix=""):
    """Return all functions and classes of a module with their qualified names."""
    nodes = [node for node in ast.iter_child_nodes(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return [
        pair for node in nodes for pair in [(prefix + node.name, node), *definitions(node, f"{prefix}{node.name}.")]
    ]


def test_only_the_api_has_tables_of_parameters():
    documented = documented_places()
    tables = [
        f"{module}.{name}"
        for source in SOURCES
        for module in [module_of(source)]
        for name, node in definitions(parsed(source))
        if re.search(r"^\s*(Parameters|Returns|Raises|Attributes)\n\s*---", ast.get_docstring(node) or "", re.MULTILINE)
        and (module, name) not in documented
        and (module, name.removesuffix(".__init__")) not in documented
    ]
    assert tables == []


def module_of(source):
    """Return the dotted name of a source file."""
    parts = source.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# -------------------------------------------------------------------------------------------------------------- borders
# Modules of the lower levels that the whole package may import.
SHARED_ROOMS = {"_callbacks", "_compiled", "_estimator", "_events", "_math", "_text", "_typing", "_version"}


def private_imports(source):
    """Return the private modules and names of other folders that a file imports."""
    here = ("skpref", *source.relative_to(PACKAGE).parts[:-1])
    crossing = []
    for node in ast.walk(parsed(source)):
        if not (isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "skpref"):
            continue
        for alias in node.names:
            path = (*node.module.split("."), alias.name)
            for place, part in enumerate(path):
                private = part.startswith("_") and not part.startswith("__")
                if private and not (place == 1 and part in SHARED_ROOMS) and here[:place] != path[:place]:
                    crossing.append(f"{source.relative_to(ROOT)}: {'.'.join(path)}")
    return crossing


def test_no_private_name_crosses_a_border():
    assert [name for source in SOURCES for name in private_imports(source)] == []


# Where users could import our classes from since the first release; addresses of files may change, these do not.
PUBLIC_PATHS = {
    "skpref": "BayesianGPLVM CrowdGPPL GPOrdinalRegressor GPPLClassifier GPPLRegressor GibbsIPM3F GibbsM3F "
    "OneHotDesign SVGPClassifier SVGPRegressor Table VariationalFM VariationalFMClassifier VariationalFMOrdinal "
    "load save",
    "skpref.gp.pairwise": "GPPLClassifier GPPLRegressor",
    "skpref.gp.crowd": "CrowdGPPL",
    "skpref.gp.ordinal": "GPOrdinalRegressor",
    "skpref.gp.sparse": "SVGPClassifier SVGPRegressor",
    "skpref.gp.latent": "BayesianGPLVM",
    "skpref.factorization.m3f": "GibbsM3F",
    "skpref.factorization.ipm3f": "GibbsIPM3F",
    "skpref.factorization.fm": "VariationalFM",
    "skpref.factorization.fm_classifier": "VariationalFMClassifier",
    "skpref.factorization.fm_ordinal": "VariationalFMOrdinal",
    "skpref.data.tables": "Table",
    "skpref.data.design": "OneHotDesign",
    "skpref.persistence": "load save",
    "skpref.search": "OptunaSearch default_space",
    "skpref.tracking": "Iteration MLflowCallback OnIteration TrackedRun Tracker autolog save_model served_model sync "
    "track",
    "skpref.tracking.mlflow": "Tracker",
    "skpref.cli": "main",
}


def test_public_import_paths_keep_working():
    missing = [
        f"{module}.{name}"
        for module, names in PUBLIC_PATHS.items()
        for name in names.split()
        if not hasattr(importlib.import_module(module), name)
    ]
    assert missing == []


# ---------------------------------------------------------------------------------------------------------------- words
# Words of our own that nobody can search for, and what is said instead (docs/glossary.rst).
BANNED = {
    r"given up": "pruned, stopped",
    r"strangers?": "unseen user, unseen item, new user",
    r"heard": "received",
    r"whoever": "the user who, callers that",
    r"of those (who|that|which|given)": "name them",
    r"what is known of": "say what it is",
    r"(to go|go|goes|going) on": "warm start, resume, continue",
    r"settled": "stationary",
    r"loose": "closed-form",
    r"gauge": "rescaling",
    r"spelt": "formatted",
    r"dealt": "assigned, split",
    r"glance": "exact evidence of a subset",
    r"doubtful": "say what is in doubt",
    r"dine": "draw features of the Indian buffet process",
    r"believing": "conditioned on",
    r"calm_blas": "limit_blas_threads",
    r"Followed": "CallbackMixin",
    r"going_on|goes_on": "warm_start",
    r"with the manners of": "compatible with",
}


def test_banned_words_do_not_come_back():
    pattern = re.compile(rf"\b({'|'.join(BANNED)})\b")
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.rst"), *(ROOT / "docs/examples").glob("*.py")]
    built = ROOT / "docs/generated", ROOT / "docs/auto_examples", ROOT / "docs/_build"
    places = [
        f"{path.relative_to(ROOT)}:{number} {word[0]}: "
        + next(instead for own, instead in BANNED.items() if re.fullmatch(own, word[0]))
        for path in [*SOURCES, *pages]
        if not any(folder in path.parents for folder in built)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        for word in pattern.finditer(line)
    ]
    assert places == []


# A name has a verb or is a noun, a comment after a constant begins with a noun, and a first line names what it means.
PREPOSITION = (
    "(about|above|after|against|and|apart|around|at|before|below|beside|between|beyond|by|few|for|in|into|many|near|of"
    "|on|over|per|this|those|through|towards|under|up|via|within|without)"
)
# Names that scikit-learn's callbacks and Optuna's samplers have.
PROTOCOLS = {"on_fit_task_begin", "on_fit_task_end", "on_iteration", "on_notify", "before_trial", "after_trial"}
RIDDLE = re.compile(r"\b(those|that of|of which|of them|whose is)\b")
NOT_FIRST = rf"  # ({PREPOSITION}|as|from|how|that|to|what|when|where|which|who|whose|with)\b"
NO_NOUN = re.compile(r"_?[A-Z][A-Z0-9_, ]*(: [^=]+)? = .*" + NOT_FIRST)
NOT_YET = ["cli", "dask", "data", "factorization"]  # folders to do, of which none may come back


def misread(source):
    """Return the names, first lines and comments of a file that have to be read twice."""
    text, path = source.read_text("utf-8"), source.relative_to(PACKAGE)
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if NO_NOUN.match(line)]
    wrong = [f"{path}:{number} {line} <- begin the comment with a noun" for number, line in lines]
    for node in ast.walk(parsed(source)):
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
            continue
        name, first_line = getattr(node, "name", ""), (ast.get_docstring(node) or "").partition("\n")[0]
        is_ours = isinstance(node, ast.FunctionDef) and name not in PROTOCOLS
        if is_ours and re.match(rf"_*{PREPOSITION}(_|$)", name):
            wrong.append(f"{path} {name} <- begin the name with a verb or a noun")
        if riddle := RIDDLE.search(first_line):
            wrong.append(f"{path} {name}: {first_line} <- write the noun in the place of {riddle[0]!r}")
    return wrong


def test_names_and_first_lines_are_read_once():
    wrong = {}
    for source in SOURCES:
        wrong.setdefault(source.relative_to(PACKAGE).parts[0], []).extend(misread(source))
    assert [line for folder, lines in wrong.items() if folder not in NOT_YET for line in lines] == []
    assert [folder for folder in NOT_YET if not wrong.get(folder)] == []  # done: take it off the list


# ------------------------------------------------------------------------------------------------------------ policies
# Choices stand in the `POLICY` of a package, with what decided them. The constants that are left are formats, limits of
# arithmetic, spellings and all of _compiled, since numba reads those of modules. Wanted were 260 at most.
MOST_CONSTANTS = 240
CONSTANT = re.compile(r"^_?[A-Z][A-Z0-9_, ]*(: [^=]*)? = [-0-9.(]", re.MULTILINE)


def test_choices_stand_in_policies():
    texts = {source: source.read_text("utf-8") for source in SOURCES}
    assert sum(len(CONSTANT.findall(text)) for text in texts.values()) <= MOST_CONSTANTS
    read = {name for text in texts.values() for name in re.findall(r"\b(?:POLICY|PAIRWISE)\.([a-z_]+)", text)}
    fields = {module: vars(importlib.import_module(module).POLICY) for module in MODULES if module.endswith(".policy")}
    assert [(module, name) for module, names in fields.items() for name in names if name not in read] == []
    policies = [text for source, text in texts.items() if source.name == "policy.py"]
    assert [
        line for text in policies for line in text.splitlines() if re.match(rf"    [a-z_]+: .*{NOT_FIRST}", line)
    ] == []


# ------------------------------------------------------------------------------------------------------------ examples
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.rst")), *sorted((ROOT / "docs/user_guide").glob("*.rst"))]


@pytest.mark.slow  # fits and plots
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_of_the_pages_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT if page.name == "README.md" else tmp_path)  # README reads tables of the examples
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=flags, encoding="utf-8")
    assert failed == 0


# Blocks that are no doctests, because they take long or stand for the reader's own data.
def test_blocks_of_the_pages_are_python_and_import_what_exists():
    missing = [
        f"{page.relative_to(ROOT)}: {node.module}.{name.name}"
        for page in PAGES
        for block in re.findall(
            r"^ *\.\. code-block:: python\n\n((?:(?: {3,}.*)?\n)+)", page.read_text("utf-8"), flags=re.MULTILINE
        )
        for node in ast.walk(ast.parse(inspect.cleandoc(f"\n{block}"), str(page)))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("skpref")
        for name in node.names
        if not hasattr(importlib.import_module(str(node.module)), name.name)
    ]
    assert missing == []


# ------------------------------------------------------------------------------------------------------------ formulas
def test_formulas_are_converted(monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    mathml = importlib.import_module("mathml").mathml
    pages = [*(ROOT / "docs").glob("*.rst"), *(ROOT / "docs/user_guide").glob("*.rst")]
    for formula in {formula for page in pages for formula in re.findall(r":math:`([^`]+)`", page.read_text("utf-8"))}:
        assert mathml(None, formula, block=False).startswith("<math "), formula
    # What docutils reads otherwise than TeX: digits after a fraction, an index of an accented letter.
    half, accent, brace = (mathml(None, formula, block=False) for formula in (r"\tfrac12 x", r"\hat z_i", r"\{1\}"))
    assert re.search(r"<mn>1</mn>\s*<mn>2</mn>\s*</mfrac>", half)
    assert "munderover" not in accent
    assert '<mo stretchy="false">{</mo>' in brace


# --------------------------------------------------------------------------------------------------------------- lists
def test_dependency_groups_repeat_the_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras, groups = project["project"]["optional-dependencies"], project["dependency-groups"]
    used = re.fullmatch(r"skpref\[(.+)\]", extras["all"][0])
    assert used is not None
    assert groups["extras"] == [line for name in used[1].split(",") for line in extras[name]]
    assert groups["test"] == extras["test"]
    assert groups["lint"] == extras["lint"]


def test_lock_names_public_registries_only():
    hosts = set(re.findall(r"https?://([^/\"]+)", (ROOT / "uv.lock").read_text("utf-8")))
    assert hosts <= {"pypi.org", "files.pythonhosted.org"}


def test_readme_gives_two_commands_that_set_themselves_up():
    readme = (ROOT / "README.md").read_text("utf-8")
    for name in ("main", "test"):
        block = re.search(
            rf"<!-- {name}-command:begin -->\s*```bash\n(.+?)```\s*<!-- {name}-command:end -->", readme, re.DOTALL
        )
        assert block is not None
        assert "python3 -m venv" in block[1]


def test_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == skpref.__version__


def test_citation_and_conda_recipe_repeat_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation, recipe = ((ROOT / name).read_text("utf-8") for name in ("CITATION.cff", ".ci/conda/recipe.yaml"))
    assert f"\nversion: {project['version']}\n" in citation
    assert f'\n  version: "{project["version"]}"\n' in recipe
    run = recipe.partition("\n  run:\n")[2].partition("\n\n")[0]
    packages = [line.strip(" -").replace(" ", "") for line in run.splitlines()]
    assert packages == ["python>=${{python_min}}", *project["dependencies"]]


def test_the_package_is_typed():
    assert (PACKAGE / "py.typed").exists()


def test_types_of_all_fits_are_checked():
    read = (ROOT / "tests/unit/consumer.py").read_text("utf-8")
    modules = [importlib.import_module(name) for name in ("skpref", "skpref.search")]
    names = [name for module in modules for name in module.__all__ if hasattr(getattr(module, name), "fit")]
    assert [name for name in names if not re.search(rf"assert_type\({name}\(.*\.fit\(.*, {name}\)", read)] == []
