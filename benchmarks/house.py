"""Time of `import skpref` against `import sklearn`, and the proportions of the code.

Wanted: a ratio under 1.5; tests of at least 0.8 x the source lines; a median function of at most ten lines.

    python benchmarks/house.py [REPEATS]
"""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


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


def lines(folder: str) -> int:
    """Lines of Python that are neither empty nor comments."""
    texts = (path.read_text("utf-8").splitlines() for path in (ROOT / folder).rglob("*.py"))
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for text in texts for line in text)


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
    sklearn, skpref = import_ratio(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
    print(f"import sklearn {sklearn:.2f} s, import skpref {skpref:.2f} s: ratio {skpref / sklearn:.2f} (wanted < 1.5)")
    source, tests, lengths = lines("skpref"), lines("tests"), function_lengths()
    print(f"source {source} lines, tests {tests}: ratio {tests / source:.2f} (wanted >= 0.8)")
    median = statistics.median(lengths)
    print(f"{len(lengths)} functions, median {median:.0f} lines (wanted <= 10), longest {max(lengths)}")


if __name__ == "__main__":
    main()
