"""Which stages a fit of sparse regression has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from skpref.gp.sparse import fit


@pytest.mark.parametrize(
    ("n", "n_sample", "searched"),
    [(500, 500, False), (10_001, 10_000, True), (10**6, 10_000, True), (10**6 + 1, 10_000, False)],
)
def test_all_rows_are_searched_where_they_are_more_than_the_sample_and_at_most_a_million(
    monkeypatch: pytest.MonkeyPatch, n: int, n_sample: int, *, searched: bool
) -> None:
    calls: list[tuple[Any, int]] = []

    def ascend(objective: Any, max_iter: int) -> None:
        calls.append((objective, max_iter))

    def rows_of(n: int) -> Any:
        return SimpleNamespace(n=n)

    monkeypatch.setattr(fit, "bound_objective", lambda rows: rows.n)
    fit._search_all_rows(SimpleNamespace(ascend=ascend), rows_of(n), rows_of(n_sample))
    assert calls == [(n, 10)] * searched
