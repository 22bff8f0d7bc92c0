"""Lines of code by folder; time of `import skpref` against `import sklearn`, and the proportions of the code.

Wanted: a ratio under 1.5; tests of at least 0.8 x the source lines; a median function of at most ten lines.

    python benchmarks/house.py [REPEATS]    # everything
    python benchmarks/house.py lines        # lines of code only, for which the package need not be installed
"""

from __future__ import annotations

import ast
import io
import statistics
import subprocess
import sys
import time
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def seconds(statement: str) -> float:
    """Wall time of a fresh interpreter that runs one statement."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True, cwd=ROOT)
    return time.perf_counter() - start


def import_ratio(repeats: int) -> tuple[float, float]:
    """Median seconds of the two imports, taken in turns so that a busy machine slows both; bare start-up taken off."""
    rows = [[seconds(s) for s in ("pass", "import sklearn", "import skpref")] for _ in range(repeats + 1)]
    bare, sklearn, skpref = (statistics.median(column) for column in zip(*rows[1:], strict=True))
    return sklearn - bare, skpref - bare


def code_lines(path: Path) -> int:
    """Lines of a file that hold code: no blank lines, comments or docstrings."""
    text = path.read_text("utf-8")
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        if ast.get_docstring(node, clean=False) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(code - docstrings)


def lines_by_folder(folder: str) -> Counter[str]:
    """Lines of code in each folder of a folder; "top" is for its own files."""
    counts: Counter[str] = Counter()
    for path in sorted((ROOT / folder).rglob("*.py")):
        parts = path.relative_to(ROOT / folder).parts
        counts[parts[0] if len(parts) > 1 else "top"] += code_lines(path)
    return counts


def print_lines() -> tuple[int, int]:
    """Print lines of code by folder; return the totals of package and tests."""
    counts = {folder: lines_by_folder(folder) for folder in ("skpref", "tests")}
    for folder, by_folder in counts.items():
        print(f"{folder}: {by_folder.total()} lines of code")
        for name, number in sorted(by_folder.items()):
            print(f"  {name:16}{number:6}")
    return counts["skpref"].total(), counts["tests"].total()


def function_lengths() -> list[int]:
    """Lines of each function of the package from `def` to its end, the docstring left out."""
    lengths = []
    for path in (ROOT / "skpref").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno:
                doc = node.body[0] if ast.get_docstring(node, clean=False) is not None else None
                doc_lines = doc.end_lineno - doc.lineno + 1 if doc and doc.end_lineno else 0
                lengths.append(node.end_lineno - node.lineno + 1 - doc_lines)
    return lengths


def main() -> None:
    """Measure and print."""
    source, tests = print_lines()
    if sys.argv[1:] == ["lines"]:
        return
    sklearn, skpref = import_ratio(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
    print(f"import sklearn {sklearn:.2f} s, import skpref {skpref:.2f} s: ratio {skpref / sklearn:.2f} (wanted < 1.5)")
    lengths = function_lengths()
    print(f"source {source} lines, tests {tests}: ratio {tests / source:.2f} (wanted >= 0.8)")
    median = statistics.median(lengths)
    print(f"{len(lengths)} functions, median {median:.0f} lines (wanted <= 10), longest {max(lengths)}")


if __name__ == "__main__":
    main()
