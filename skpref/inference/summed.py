"""Full passes over rows that are elsewhere: a round brings the bound with gradient and curvature, summed over all rows.

`SummedProblem` is a `Problem` for the loop of `skpref.inference.svi`, of one latent function through inducing points.
Nothing of a row is kept from one pass to the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._math.linalg import inverse_lower
from skpref.inference.basis import chunks
from skpref.inference.problem import Evaluation, Problem, objectives
from skpref.inference.shards import summed
from skpref.inference.sites import Sites
from skpref.inference.terms.inducing import InducingTerm, row_term

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from skpref._typing import Array, Features
    from skpref.inference.basis import InducingBasis
    from skpref.inference.problem import State
    from skpref.likelihoods import Likelihood

__all__ = ["SummedProblem", "empty_problem", "sums_over"]

_NOTHING = np.empty(0)
_NO_SITES = Sites(_NOTHING, _NOTHING, _NOTHING)


def empty_problem(basis: InducingBasis, likelihood: Likelihood) -> Problem:
    """Return the problem of f through inducing points without rows."""
    term = InducingTerm(basis, basis.points[:0])
    return Problem({"f": term}, likelihood, _NOTHING, _NOTHING, learns=False)


def sums_over(template: Problem, state: State, X: Features, y: Array, weight: Array) -> tuple[float, Array, Array]:
    """Return what rows add to the fit, and to its curvature and gradient in the inducing variables."""
    term = template.terms["f"]
    assert isinstance(term, InducingTerm)  # noqa: S101 - of `empty_problem`
    inverse = inverse_lower(term.basis.chol)

    def sums_of(part: slice) -> tuple[float, Array, Array]:
        terms = {"f": row_term(term.basis, X[part], term.scale, inverse)}
        rows = replace(template, terms=terms, y=y[part], weight=weight[part])
        evaluation = rows.evaluate(state)
        (curvature,), gradient = rows.normal_equations(evaluation, state.expected, {"f": False})["f"]
        return float(np.sum(evaluation.sites.value)), curvature, gradient

    total: tuple[float, Array, Array] = summed(map(sums_of, chunks(y.size)))
    return total


@dataclass(frozen=True, eq=False)
class _SummedEvaluation(Evaluation):
    """A problem seen from a state: sums over its rows."""

    curvature: Array = field(kw_only=True)
    gradient: Array = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class SummedProblem(Problem):
    """A problem whose rows are elsewhere, with a fixed prior scale; terms, y and weight have no rows."""

    collect: Callable[[Problem, State], Iterator[Any]] = field(kw_only=True)  # yields `sums_over` batches, or None

    @classmethod
    def of(cls, template: Problem, collect: Callable[[Problem, State], Iterator[Any]]) -> SummedProblem:
        """Return the problem of rows elsewhere with the terms and the likelihood of a problem without rows."""
        parts = template.terms, template.likelihood, template.y, template.weight
        return cls(*parts, learns=template.learns, collect=collect)

    def evaluate(self, state: State, earlier: Evaluation | None = None, moved: Collection[str] = ()) -> Evaluation:
        """Return the bound at a state, and all sums that a step from there needs."""
        if earlier is not None and not moved:
            return earlier  # nothing else can change
        template = Problem(self.terms, self.likelihood, self.y, self.weight, learns=self.learns)
        fit, curvature, gradient = summed(sums for sums in self.collect(template, state) if sums is not None)
        both = objectives(self, state, fit)
        return _SummedEvaluation({}, _NOTHING, _NOTHING, _NO_SITES, *both, curvature=curvature, gradient=gradient)

    def normal_equations(
        self, evaluation: Evaluation, expected: Mapping[str, float], diagonal: Mapping[str, bool]
    ) -> dict[str, tuple[Any, Array]]:
        """Return the sums that the evaluation brought along."""
        del expected
        assert isinstance(evaluation, _SummedEvaluation)  # noqa: S101 - what `evaluate` returns
        return {name: ((evaluation.curvature.copy(),), evaluation.gradient) for name in diagonal}

    def pulls(self, evaluation: Evaluation, expected: Mapping[str, float]) -> dict[str, float]:
        """Return nothing: the scale is fixed."""
        del evaluation, expected
        return {}
