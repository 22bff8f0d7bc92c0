"""The pages of the documentation: their commands are commands, and their blocks of Python run.

Doctests of the pages run in `test_house`. Here are the other blocks, which use data of the reader: `YOURS` makes them.
Blocks on searches and clusters run with fewer trials and on this machine: `LESS` says what is replaced.
"""

import inspect
import re
import shlex
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

from skpref.cli.options import parse
from skpref.cli.tune import read_task

pytestmark = pytest.mark.usefixtures("all_candidates")

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.rst")), *sorted((ROOT / "docs/user_guide").glob("*.rst"))]


def _blocks(page, language):
    """Return the blocks of a page in a language, in their order."""
    text = page.read_text("utf-8")
    found = re.findall(rf"^ *\.\. code-block:: {language}\n\n((?:(?: {{3,}}.*)?\n)+)", text, flags=re.MULTILINE)
    return [inspect.cleandoc(f"\n{block}") for block in found]


# --------------------------------------------------------------------------------------------------------------- links
TEXTS = [path for path in [*ROOT.glob("*.md"), *ROOT.glob(".github/*.md"), *ROOT.glob("*/README.md")] if path.is_file()]


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8"))
    files = [target for target in targets if not re.match(r"[a-z]+:", target)]
    assert [target for target in files if not (page.parent / target).exists()] == []


def test_initials_of_authors_are_not_read_as_lists():
    # An initial at the start of an entry of one line is an item "A." for docutils, which leaves it out.
    item = re.compile(r"^(?: *\.\. \[\w+\]| +) ?[A-Z]\. [A-Z].*\n(?= *(?:\n|\.\. ))", re.MULTILINE)
    sources = [*(ROOT / "docs").rglob("*.rst"), *(ROOT / "skpref").rglob("*.py")]
    assert [found for path in sources for found in item.findall(path.read_text("utf-8"))] == []


# ------------------------------------------------------------------------------------------------------------- lengths
def test_guides_and_benchmarks_are_read_in_one_sitting():
    guides = [ROOT / "docs/benchmarks.rst", *(ROOT / "docs/user_guide").glob("*.rst")]
    lengths = {page.name: len(page.read_text("utf-8").splitlines()) for page in guides}
    assert {name: length for name, length in lengths.items() if length > 200} == {}


# Blocks of Python that need no page of the reader's own: they are doctests, or run by a test above.
NO_BLOCKS = "layouts_"


def test_every_page_with_blocks_is_run():
    with_blocks = {page.stem for page in PAGES if _blocks(page, "python") and page.suffix == ".rst"}
    assert {name for name in with_blocks if not name.startswith(NO_BLOCKS)} == set(YOURS)


# ------------------------------------------------------------------------------------------------------------ commands
COMMANDS = [
    line
    for page in PAGES
    for block in _blocks(page, "console")
    for line in block.replace("\\\n", " ").splitlines()
    if re.match(r"skpref [a-z]", line)
]


def test_pages_have_commands():
    assert len(COMMANDS) > 25


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_of_the_pages_are_understood(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("EXPERIMENT.toml").write_text('[data]\nfile = "battles.csv"\n', "utf-8")
    words = shlex.split(re.sub(r"[\[\]]", "", line), comments=True)
    parse(["a=1" if word == "NAME=VALUE" else word for word in words[1:]])


# ------------------------------------------------------------------------------------------------------------- layouts
def test_every_layout_is_read_as_its_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pages = [page.read_text("utf-8") for page in sorted((ROOT / "docs/user_guide").glob("layouts_*.rst"))]
    text = "".join(page.partition("An example of each\n")[2] for page in pages)
    blocks = re.findall(r"code-block:: (\w+)\n(?:   :caption: (\S+)\n)?\n((?:(?: {3}.*)?\n)+)", text)
    names = {}
    lines = []  # what was printed, in Python and by the command
    n_compared = 0
    for language, file, indented in blocks:
        block = inspect.cleandoc(f"\n{indented}")
        if file:
            Path(file).write_text(f"{block}\n", "utf-8")
            lines = []
        elif language == "python":
            exec(compile(block, f"layouts: {block[:60]!r}", "exec"), names)  # noqa: S102 - our own page
            lines += [f"Read: {names['rows'].read_}"] if "rows" in names else []
        elif language == "console":
            lines.append(read_task(parse(shlex.split(block.replace("\\\n", ""))[1:])).headline.splitlines()[1])
        elif block.startswith("Read: "):
            assert lines == [block] * len(lines)
            n_compared += len(lines)
    assert n_compared > 20


# -------------------------------------------------------------------------------------------------------------- blocks
NUMBERS = """
import numpy as np
rng = np.random.default_rng(0)
X, X_new = rng.normal(size=(60, 2)), rng.normal(size=(5, 2))
latent = X[:, 0] + 0.3 * rng.normal(size=60)
"""
YOURS = {
    "index": """
import shutil
for name in ("battles", "cars", "games"):
    shutil.copy(ROOT / f"docs/examples/{name}.csv", f"{name}.csv")
""",
    "quickstart": """
import numpy as np
import pandas as pd
from skpref import GPPLClassifier
from skpref.data import from_winners
table = {"HomeTeam": ["Arsenal", "Chelsea"] * 5, "AwayTeam": ["Chelsea", "Arsenal"] * 5, "FTR": list("HDAHHDAAHD")}
pd.DataFrame(table).to_csv("E0.csv", index=False)
shown = pd.DataFrame([np.random.default_rng(row).permutation(list("stuv")) for row in range(60)])
shown.columns = [f"item_{number}" for number in range(1, 5)]
survey = shown.assign(person=101 + np.arange(60) // 6, best=shown["item_1"], worst=shown["item_3"])
survey.to_csv("maxdiff.csv", index=False)
""",
    "compare": """
from skpref import GPPLClassifier
model = GPPLClassifier().fit([("a", "b"), ("b", "c")])
""",
    "teams": "",
    "people": """
import numpy as np
import pandas as pd
from skpref import CrowdGPPL, Table
from skpref.data import from_choices
rng = np.random.default_rng(0)
shown = pd.DataFrame([rng.permutation(list("stuv")) for _ in range(60)], columns=[f"item_{i}" for i in range(1, 5)])
survey = shown.assign(id=np.arange(60) // 3, best=shown["item_1"], worst=shown["item_3"])
survey = survey.assign(age=20.5 + survey["id"], sex=np.where(survey["id"] % 2, "female", "male"))
survey.to_csv("maxdiff.csv", sep=";", encoding="latin-1", decimal=",", index=False)
""",
    "judges": """
import numpy as np
import pandas as pd
rng = np.random.default_rng(0)
def table(n):
    pairs = [rng.choice(list("xyz"), 2, replace=False) for _ in range(n)]
    return pd.DataFrame(pairs, columns=["model_a", "model_b"]).assign(judge=np.arange(n) % 4)
table(60).assign(verdict=rng.choice(["A", "B", "tie"], 60)).to_json("verdicts.jsonl", orient="records", lines=True)
battles = table(200).assign(winner=rng.choice(["model_a", "model_b", "tie"], 200))
battles = battles.assign(words_a=rng.integers(9, 99, 200), words_b=rng.integers(9, 99, 200))
""",
    "factorization": """
import numpy as np
import pandas as pd
rng = np.random.default_rng(0)
frame = pd.DataFrame({"user": rng.choice(["ann", "bob"], 40), "film": rng.integers(5, size=40)})
frame["hour"] = np.arange(40) % 3
y = rng.normal(size=40)
pd.DataFrame({"user": frame["user"], "film": frame["film"], "amount": y}).to_parquet("sales.parquet")
""",
    "rate": """
import numpy as np
import pandas as pd
ratings = np.random.default_rng(0).integers(1, 6, (20, 3)).astype(float)
ratings[::4, 0] = np.nan
survey = pd.DataFrame(ratings, columns=["Q3_tea", "Q3_coffee", "Q3_water"])
survey.assign(person=np.arange(20), age=30).to_csv("survey.csv", index=False)
""",
    "reduce": "",
    "regress": f"""
{NUMBERS}
y, prices = np.digitize(latent, [-0.5, 0.5]), np.exp(latent)
parts = [(X[:30], y[:30]), (X[30:], y[30:])]
""",
    "grade": f"""
from sklearn.model_selection import cross_val_score
{NUMBERS}
y = np.array(["very poor", "poor", "fair", "good", "very good"])[np.digitize(latent, [-1.0, -0.3, 0.3, 1.0])]
""",
    "ask": """
from skpref import GPPLClassifier
model = GPPLClassifier().fit([("a", "b"), ("b", "c"), ("a", "c")])
def ask_the_person(question):
    return 1
""",
    "tracking": "",
    "search": "",
    "sklearn": "",
    "scale": """
import pandas as pd
rows = pd.DataFrame({"left": list("abca") * 50, "right": list("bcac") * 50, "won": [1, 1, 0, 1] * 50, "times": 2.0})
Path("comparisons").mkdir()
for k in range(2):
    rows.assign(y=rows["won"]).to_parquet(f"comparisons/{k}.parquet")
""",
}
YOURS["clusters"] = YOURS["scale"]
YOURS["extend"] = """
import sys
class Page: ...
sys.modules[__name__] = Page()  # pickle and dataclasses look for classes in their module
sys.modules[__name__].__dict__ = globals()
"""
LESS = {
    "as_frame=True)": "as_frame=True); X, y = X[:90], y[:90]",
    "inducing=30": "inducing=5",
    "GibbsM3F(max_iter=30": "GibbsM3F(max_iter=12",
    "n_trials=20": "n_trials=1",
    "n_trials=10": "n_trials=1",
    "size=(60, 2)": "size=(20, 2)",
    "range(60)": "range(20)",
    "KFold(4": "KFold(2",
    "cv=3)": "cv=2)",
    "cv=3, scoring": "cv=2, scoring",
    'Client("scheduler:8786")': 'Client(processes=False, dashboard_address=":0")',
    "Client(n_workers=2, threads_per_worker=1)": 'Client(processes=False, dashboard_address=":0")',
    "s3://bucket/": "",
    "n_startup_trials=5)": "n_startup_trials=5), n_jobs=None",
}
NEEDED = {
    "tracking": ["mlflow.pyfunc"],
    "search": ["optuna", "distributed"],
    "sklearn": [],
    "scale": ["pyarrow"],
    "clusters": ["pyarrow", "dask.dataframe", "distributed"],
}


@pytest.mark.slow  # pages fit, search and start clusters
@pytest.mark.parametrize("name", YOURS)
@pytest.mark.filterwarnings("ignore")  # few rows and short chains, which warn
def test_blocks_of_the_pages_run(name, tmp_path, monkeypatch):
    for package in ["pandas", *NEEDED.get(name, [])]:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    (blocks,) = filter(None, (_blocks(page, "python") for page in PAGES if page.stem == name))
    names = {"__name__": name, "np": np, "Path": Path, "ROOT": ROOT}
    for block in [YOURS[name], *blocks]:
        changes = LESS.items() if name in NEEDED else ()
        less = reduce(lambda text, change: text.replace(*change), changes, block)
        exec(compile(less, f"{name}: {block[:60]!r}", "exec"), names)  # noqa: S102 - our own pages
