"""Formulas as MathML, written when the pages are built: they need no script and no network.

Docutils converts LaTeX to MathML, which all current browsers show. A formula that it cannot convert is a warning,
which `sphinx-build -W` makes an error.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

logger = logging.getLogger(__name__)
# A function's name, such as log, before an argument without parentheses.
BEFORE_ARGUMENT = re.compile(r'(<mo>&ApplyFunction;</mo>)(?!\s*<mo stretchy="false">\()')

# Braces and bars without \left and \right have the size of a letter. Bars are fences, without space around them.
OPENING = re.compile(r"(?<!<mrow>\n)(?<=\n)( *)<mo>([{‖])</mo>")
CLOSING = re.compile(r"<mo>([}‖])</mo>(?!\s*</mrow>)")
BAR = '<mo stretchy="false">|</mo>'

# An accented letter with an index: docutils would set the index under the letter, so it gets an empty base of its own.
ACCENT_WITH_INDEX = re.compile(r"(\\(?:hat|bar|tilde|dot|ddot|vec)\s*(?:\{[^{}]*\}|\\[A-Za-z]+|[A-Za-z]))(?=[_^])")

# TeX takes one digit where there are no braces, docutils takes the number: \\frac12 would be 12 over what follows.
BARE_FRACTION = re.compile(r"(\\[tdc]?frac(?:\{[^{}]*\})?)\s*(\d)")


def mathml(node: nodes.Node, latex: str, *, block: bool) -> str:
    """Return the formula as MathML with its LaTeX in `alttext`, for screen readers."""
    source = ACCENT_WITH_INDEX.sub(r"\1{}", latex)
    for _ in range(2):  # numerators, then denominators
        source = BARE_FRACTION.sub(r"\1{\2}", source)
    try:
        converted = tex2mathml(source, as_block=block)
    except Exception as error:  # noqa: BLE001 - whatever the converter raises, the warning names the formula
        logger.warning("no MathML for %r: %s", latex, error, location=node)
        return f"<code>{escape(latex)}</code>"
    spaced = BEFORE_ARGUMENT.sub(r'\1<mspace width="0.17em"></mspace>', converted)
    spaced = CLOSING.sub(r'<mo stretchy="false">\1</mo>', OPENING.sub(r'\1<mo stretchy="false">\2</mo>', spaced))
    spaced = spaced.replace(BAR, BAR.replace(">|", ' lspace="0" rspace="0">|')).replace(r"\_", "_")
    alternative = escape(re.sub(r"\s+", " ", latex))
    return spaced.replace("<math ", f'<math alttext="{alternative}" ', 1)


def visit_inline(self: Any, node: nodes.math) -> None:
    """Write a formula in the text."""
    self.body.append(mathml(node, node.astext(), block=False))
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    """Write a displayed formula, with its number if it has one."""
    self.body.append(self.starttag(node, "div", CLASS="math-block"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body += [mathml(node, part, block=True) for part in re.split(r"\n\s*\n", node.astext()) if part.strip()]
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", inline_renderers=(visit_inline, None), block_renderers=(visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
