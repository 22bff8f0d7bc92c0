"""`skpref run`: a whole experiment in a TOML file, read strictly; equal files give equal digits."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from skpref import GPPLClassifier, Table
from skpref.cli import main
from skpref.cli.tune import narrowed
from skpref.exceptions import DataError
from skpref.search import default_space
from skpref.search.default_spaces import Distributions

pytestmark = pytest.mark.usefixtures("all_candidates")  # the README prints its numbers

optuna = pytest.importorskip("optuna")

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text("utf-8")
EXPERIMENT = """
[data]
file = "data/answers.csv"

[model]
name = "gppl"

[search]
trials = 2
folds = 2
holdout = 0.25
seed = 3

[tracking]
mlflow = false

[output]
folder = "results"
"""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    pairs = [rng.choice(6, 2, replace=False).tolist() for _ in range(40)]
    rows = [f"{a},{b},{int(a + rng.normal() > b)}" for a, b in pairs]
    (tmp_path / "plan" / "data").mkdir(parents=True)
    (tmp_path / "plan" / "data" / "answers.csv").write_text("left,right,label\n" + "\n".join(rows) + "\n", "utf-8")
    return tmp_path / "plan"


def ran(folder, text, capsys, *more):
    (folder / "experiment.toml").write_text(text, "utf-8")
    code = main(["run", str(folder / "experiment.toml"), *more])
    return code, *capsys.readouterr()


def digits(text):
    found = json.loads(text)
    for trial in found["trials"]:
        del trial["seconds"]
    del found["files"]
    return found


def test_an_experiment_is_run_twice_with_equal_digits(folder, capsys):
    text = EXPERIMENT + '\n[space]\nlikelihood = ["logit"]\nscale_prior__shape = { low = 1.0, high = 3.0 }\n'
    code, first, errors = ran(folder, text, capsys, "--json")
    assert code == 0, errors
    results = folder / "results"  # paths are from the folder of the file
    assert {"model.skpref", "trials.csv"} <= {path.name for path in results.iterdir()}
    settings = [trial["settings"] for trial in json.loads(first)["trials"]]
    assert all(one["likelihood"] == "logit" and 1.0 <= one["scale_prior__shape"] <= 3.0 for one in settings)
    assert json.loads(first)["n_holdout"] == 10
    code, second, _ = ran(folder, text, capsys, "--json", "--out", "elsewhere")
    assert code == 0
    assert digits(first) == digits(second)
    assert Path("elsewhere", "model.skpref").exists()


def replaced(old, new):
    assert old in EXPERIMENT
    return EXPERIMENT.replace(old, new)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[data\n", r"is not TOML: .*line 1"),
        (replaced("trials = 2", f"trials = {'9' * 5000}"), r"is not TOML: Exceeds the limit"),
        (replaced("trials = 2", f"trials = [0x{'f' * 5000}]"), r"is not TOML: Exceeds the limit"),
        ("[dat]\nfile = 'x'\n", r"unknown section \[dat\]; did you mean 'data'\?"),
        ("file = 'x'\n", r"'file' is in no section; they are \[data\], \[model\]"),
        ("data = 'x'\n", r"'data' is in no section"),
        ("", r"the following arguments are required: DATA"),
        (replaced("[model]", "dataset = 'travellers'\n[model]"), r"unrecognized arguments: .*answers.csv"),
        (replaced("trials = 2", "trails = 2"), r"\[search\] has no key 'trails'; did you mean 'trials'"),
        (replaced("trials = 2", "likelihood = 'logit'"), r"\[search\] has no key 'likelihood'; .* estimator are in"),
        (replaced("trials = 2", "model = 'gppl'"), r"\[search\] has no key 'model'; write name in \[model\]"),
        (replaced("trials = 2", "winner = 'winner'"), r"\[search\] winner: this key is of section \[data\]"),
        (replaced("[model]", "trials = 2\n[model]"), r"\[data\] trials: .* of section \[search\]"),
        (replaced("trials = 2", "trials = '2'"), r"\[search\] trials must be a number; got the text '2'"),
        (replaced("trials = 2", "trials = 0"), r"argument --trials: 0 is less than 1"),
        (replaced("trials = 2", "trials = true"), r"argument --trials: 'True' is not a whole number"),
        (replaced("trials = 2", "trials = [2, 3]"), r"argument --trials: '2,3' is not a whole number"),
        (replaced("trials = 2", "trials = {a = 2}"), r"\[search\] trials must be one value, or a list"),
        (replaced("[model]", "covariates = ['a,b']\n[model]"), r"\[data\] covariates must be .* without commas; got"),
        (replaced("trials = 2", "timeout = -1"), r"argument --timeout: -1 is less than 0"),
        (replaced("0.25", "1.5"), r"argument --holdout: 1.5 is more than 0.5"),
        (replaced("0.25", "'one'"), r"--holdout one is for ratings"),
        (replaced("trials = 2", "timeout = inf"), r"argument --timeout: inf is more than 1.79"),
        (replaced("trials = 2", "storage = ''"), r"argument --storage: is empty"),
        (replaced("trials = 2", "storage = 'data/answers.csv'"), "is a file, but not the journal of a search"),
        (replaced("gppl", "gpl"), r"argument --model: invalid choice: 'gpl' .*; did you mean 'gppl'"),
        (replaced("[search]", "levels = [1, 2]\n[search]"), r"\[model\] levels: this key is of section \[data\]"),
        (replaced("[model]", "levels = [1, 2]\n[model]"), r"--levels is for --model m3f"),
        (replaced("mlflow = false", "mlflow = 'no'"), r"unrecognized arguments: --mlflow=no"),
        (replaced('file = "data/answers.csv"', "dataset = 'voters'"), r"argument --dataset: invalid choice: 'voters'"),
        (
            replaced('file = "data/answers.csv"', "dataset = 'travellers'").replace("gppl", "crowd"),
            r"argument --model: invalid choice: 'crowd'",
        ),
        (EXPERIMENT + "[space]\nkernal = 'ard'\n", r"--set kernal: a GPPLClassifier has no such parameter; did you"),
        (EXPERIMENT + "[space]\nscale_prior__shape = {low = 1, high = inf}\n", r"\[space\] scale_prior__shape must be"),
        (EXPERIMENT + "[space]\ninducing = 60.5\n", r"none of .* succeeded.*The 'inducing' parameter .* int"),
        (EXPERIMENT + "[space]\nlikelihood = 'cubit'\n", r"none of .* succeeded.*'probit'.*Got 'cubit'"),
        (replaced("answers.csv", "answer.csv"), r"answer.csv: No such file .*; did you mean 'answers.csv'\?"),
    ],
)
def test_what_is_no_experiment(folder, capsys, text, message):
    code, _, errors = ran(folder, text, capsys)
    assert code == 2
    assert re.search(message, errors.splitlines()[-1]), errors


def test_a_file_that_is_not_there_or_no_text(folder, refuses):
    refuses(["run", "none.toml"], "none.toml: No such file or directory")
    (folder / "binary.toml").write_bytes(b"\xff\xfe\x00")
    refuses(["run", str(folder / "binary.toml")], "is not a text in UTF-8")


def between(name):
    """What README.md has between two marks, without the fence."""
    found = re.search(rf"<!-- {name}:begin -->\n```\w*\n(.*?)```\n<!-- {name}:end -->", README, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.filterwarnings("ignore:The comparisons form")
def test_readmes_experiment_gives_the_numbers_that_it_prints(folder, capsys):
    code, out, errors = ran(folder, between("experiment"), capsys)
    assert code == 0, errors
    printed, given = between("printed").splitlines(), out.splitlines()
    # A search ends elsewhere by another rounding: the last digits, and which trial is best, depend on the processor.
    words = [re.sub(r"\d+(\.\d+)?", "#", line) for line in given]
    numbers = [[float(number) for number in re.findall(r"\d+(?:\.\d+)?", line)] for line in given]
    for line in printed:
        wanted = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", line)]
        alike = [got for same, got in zip(words, numbers, strict=True) if same == re.sub(r"\d+(\.\d+)?", "#", line)]
        assert any(np.allclose(got, wanted, rtol=0.05, atol=0.005) for got in alike), line
    assert sum(bool(re.search(r"\d\.\d", line)) for line in printed) >= 5


# ---------------------------------------------------------------------------------------------------------------- space
MODEL = GPPLClassifier(Table(np.arange(500.0)[:, None]))
SPACE, PARAMS = default_space(MODEL), MODEL.get_params()


def drawn(chosen, n=30):
    """Settings of some trials, the first of which has the defaults, and the defaults."""
    space = Distributions(*narrowed(SPACE, PARAMS, chosen))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.enqueue_trial(space.encoded(space.default()))
    return [space.suggest(study.ask()) for _ in range(n)], space.default()


@pytest.mark.parametrize(
    ("chosen", "wanted"),
    [
        ({"scale_prior__shape": 3.0}, {3.0}),
        ({"scale_prior__shape": [1.0, 2.5]}, {1.0, 2.5}),
        ({"likelihood": "logit"}, {"logit"}),
        ({"optimizer": "l-bfgs-b"}, {"l-bfgs-b"}),
        ({"optimizer": False}, {None}),
        ({"kernel": ["additive-matern-5/2", False]}, {"additive-matern-5/2", None}),
        ({"max_iter": {"low": 7, "high": 8}}, {7, 8}),  # any parameter
    ],
)
def test_values_are_drawn_from_what_was_chosen(chosen, wanted):
    trials, default = drawn(chosen)
    (name,) = chosen
    assert {settings[name] for settings in trials} == wanted
    assert default[name] in wanted
    assert trials[0]["scale_prior__rate"] == PARAMS["scale_prior__rate"]
    assert len({settings["scale_prior__rate"] for settings in trials}) > 20  # the others are as they were


def test_whole_numbers_and_ranges():
    chosen = {"inducing": {"low": 60, "high": 70}, "tol": {"low": 1.0, "high": 2.0, "log": False}}
    trials, default = drawn(chosen)
    assert all(60 <= s["inducing"] <= 70 and isinstance(s["inducing"], int) for s in trials)
    assert all(1.0 <= s["tol"] <= 2.0 for s in trials)
    assert default["inducing"] == 70  # the default is 300
    assert narrowed({"a": [1, 2, 3], "b": [None, "x"]}, {"a": 3, "b": None}, {"a": [1, 2]}) == (
        {"a": [1, 2], "b": [None, "x"]},
        {"a": 1, "b": None},
    )


def test_false_is_none_unless_a_parameter_is_true_or_false():
    space, _ = narrowed({}, {"optimizer": "auto", "item_effects": True}, {"optimizer": False, "item_effects": False})
    assert space == {"optimizer": [None], "item_effects": [False]}


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (
            {"inducing": {"low": 60.5, "high": 70}},
            r"inducing must be a value, a list of them, or \{ low = A, high = B, log = true \} of whole numbers",
        ),
        ({"scale_prior__shape": {"low": 3.0}}, "scale_prior__shape must be a value"),
        ({"scale_prior__shape": {"low": 3.0, "high": 1.0}}, "scale_prior__shape must be a value"),
        ({"scale_prior__shape": {"low": 0.0, "high": 1.0}}, "scale_prior__shape must be a value"),
        ({"scale_prior__shape": {"low": True, "high": 2.0}}, "scale_prior__shape must be a value"),
        ({"scale_prior__shape": []}, "scale_prior__shape must be a value"),
    ],
)
def test_what_cannot_be_drawn_from(chosen, message):
    with pytest.raises(DataError, match=message):
        narrowed(SPACE, PARAMS, chosen)
