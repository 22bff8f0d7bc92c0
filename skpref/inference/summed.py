"""Full passes over rows that are elsewhere: a round brings the bound with gradient and curvature, summed over all rows.

`SummedProblem` is a `Problem` for the loop of `skpref.inference.svi`, of one latent function through inducing points,
at rows or of pairs of rows. Nothing of a row is kept from one pass to the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._math.linalg import inverse_lower
from skpref.inference.basis import chunks
from skpref.inference.policy import POLICY
from skpref.inference.problem import Evaluation, Problem, objectives
from skpref.inference.shards import summed
from skpref.inference.sites import VARIATIONAL, Sites
from skpref.inference.terms.inducing import InducingTerm, row_term
from skpref.inference.terms.pairs import PairTerm

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from skpref._typing import Array, Features, IntArray
    from skpref.inference.basis import InducingBasis
    from skpref.inference.problem import State
    from skpref.inference.sites import Rule
    from skpref.inference.terms.base import LinearTerm
    from skpref.likelihoods import Likelihood

# The sites' values, curvature and gradient in the inducing variables, and the pulls of the residuals by scale.
Sums = tuple[float, Any, Any, dict[str, float]]
_NOTHING = np.empty(0)
_NO_SITES = Sites(_NOTHING, _NOTHING, _NOTHING)


def empty_problem(basis: InducingBasis, likelihood: Likelihood, rule: Rule = VARIATIONAL) -> Problem:
    """Return the problem of f through inducing points without rows."""
    term = InducingTerm(basis, basis.points[:0])
    return Problem({"f": term}, likelihood, _NOTHING, _NOTHING, rule, learns=False)


def sums_over(template: Problem, state: State, X: Features, y: Array, weight: Array) -> Sums | None:
    """Return the rows' sums for the fit, its curvature and gradient in the inducing variables; None without rows."""
    basis, inverse = basis_of(template)

    def sums_of(part: slice) -> Sums:
        return _sums(template, state, row_term(basis, X[part], "f", inverse), y[part], weight[part])

    total: Sums | None = summed(map(sums_of, chunks(y.size)))
    return total


def pair_sums_over(
    template: Problem, state: State, X: Features, pairs: tuple[IntArray, IntArray, Array, Array]
) -> Sums | None:
    """Return the sums over comparisons of rows: left and right rows, labels, weights; neighbours share rows."""
    basis, inverse = basis_of(template)
    left, right, y, weight = pairs

    def sums_of(part: slice) -> Sums:
        used, place = np.unique(np.concatenate([left[part], right[part]]), return_inverse=True)
        rows, (first, second) = X[used], np.split(place, 2)
        phi = basis.rows(rows, inverse)
        residual = basis.pair_residual(rows, phi, first, second)
        term = PairTerm(phi, first, second, used.size, residual=residual)
        return _sums(template, state, term, y[part], weight[part])

    total: Sums | None = summed(map(sums_of, chunks(y.size, POLICY.summed_pairs)))
    return total


def basis_of(template: Problem) -> tuple[InducingBasis, Array]:
    """Return the basis of an `empty_problem`, and the inverse of its Cholesky factor."""
    term = template.terms["f"]
    assert isinstance(term, InducingTerm)  # noqa: S101 - of `empty_problem`
    return term.basis, inverse_lower(term.basis.chol)


def _sums(template: Problem, state: State, term: LinearTerm, y: Array, weight: Array) -> Sums:
    """Return the sums over the observations of a term."""
    part = replace(template, terms={"f": term}, y=y, weight=weight)
    evaluation = part.evaluate(state)
    (curvature,), gradient = part.normal_equations(evaluation, state.expected, {"f": False})["f"]
    pull = part.pulls(evaluation, state.expected) if part.rule.integrates else {}
    return float(np.sum(evaluation.sites.value)), curvature, gradient, pull


@dataclass(frozen=True, eq=False)
class _SummedEvaluation(Evaluation):
    """A problem seen from a state: sums over its rows."""

    expected: Mapping[str, float] = field(kw_only=True)  # E[s] of every scale at that state
    curvature: Array = field(kw_only=True)
    gradient: Array = field(kw_only=True)
    pulled: dict[str, float] = field(kw_only=True)  # what smaller residuals add to the bound


@dataclass(frozen=True, eq=False)
class SummedProblem(Problem):
    """A problem whose rows are elsewhere; terms, y and weight have no rows."""

    collect: Callable[[Problem, State], Iterator[Sums | None]] = field(kw_only=True)  # yields the sums of batches

    @classmethod
    def from_template(
        cls, template: Problem, collect: Callable[[Problem, State], Iterator[Sums | None]]
    ) -> SummedProblem:
        """Return the problem of rows elsewhere with the terms and the likelihood of a problem without rows."""
        parts = template.terms, template.likelihood, template.y, template.weight, template.rule
        return cls(*parts, learns=template.learns, collect=collect)

    def evaluate(self, state: State, earlier: Evaluation | None = None, moved: Collection[str] = ()) -> Evaluation:
        """Return the bound at a state, and all sums that a step from there needs."""
        expected = state.expected
        if isinstance(earlier, _SummedEvaluation) and not moved and expected == earlier.expected:
            return earlier
        template = Problem(self.terms, self.likelihood, self.y, self.weight, self.rule, learns=self.learns)
        fit, *sums = summed(sums for sums in self.collect(template, state) if sums is not None)
        both = objectives(self, state, fit)
        named = dict(zip(("curvature", "gradient", "pulled"), sums, strict=True))
        return _SummedEvaluation({}, _NOTHING, _NOTHING, _NO_SITES, *both, expected=expected, **named)

    def normal_equations(
        self, evaluation: Evaluation, _expected: Mapping[str, float], diagonal: Mapping[str, bool]
    ) -> dict[str, tuple[Any, Array]]:
        """Return the sums that the evaluation brought along."""
        assert isinstance(evaluation, _SummedEvaluation)  # noqa: S101 - what `evaluate` returns
        return {name: ((evaluation.curvature.copy(),), evaluation.gradient) for name in diagonal}

    def pulls(self, evaluation: Evaluation, _expected: Mapping[str, float]) -> dict[str, float]:
        """Return the sums that the evaluation brought along."""
        assert isinstance(evaluation, _SummedEvaluation)  # noqa: S101 - what `evaluate` returns
        return evaluation.pulled
