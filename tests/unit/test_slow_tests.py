"""The lists of slow tests name tests that exist (tests/slow_tests.py)."""

from tests import slow_tests


def test_listed_tests_exist(root):
    # Of cases the function, since their names depend on what is installed.
    places = {
        slow_tests.function_of(name).partition("::")[::2] for name in (*slow_tests.listed(), *slow_tests.nightly())
    }
    texts = {path: (root / path).read_text("utf-8") if (root / path).exists() else "" for path, _ in places}
    gone = sorted(f"{path}::{name}" for path, name in places if f"def {name}(" not in texts[path])
    assert gone == [], f"remove them, or measure anew: {slow_tests.UPDATE}"
