"""Trials that ended, in a study that outlives the process: what a search that was killed goes on from."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from skpref.exceptions import DataError, DataWarning, SkprefError
from skpref.search.loop import Step, open_study, quietly, require_optuna

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skpref.search.loop import Settings, Space, Tell, TrialRecord

_KEPT = "skpref:trial"  # of a trial in a study: what it takes to go through it again without a fit
_DRAWS = 100  # of a space, to know all it may ask for


class Kept(NamedTuple):
    """What was kept of a trial."""

    trial: Any  # as it ended
    number: int  # among the trials of its search
    steps: list[list[Any]]  # fold, loss and steps done, of every step
    seconds: float  # time taken
    bounds: list[float]  # objective of the first fold's fit
    error: str  # why it failed


class StudyLog:
    """The trials of a search that ended, in a study of a storage.

    The search itself runs in memory, and goes through kept trials again, step by step but without their fits. So the
    sampler and the pruner come by the same state as in a search that was never stopped, and what follows is the same.
    """

    def __init__(self, storage: str | Path, name: str) -> None:
        if "://" not in str(storage):
            _check_journal(Path(storage))
        self._study: Any = open_study(name, storage=storage)
        self._kept: dict[int, Kept] = {}
        self._steps: list[list[Any]] = []
        for trial in self._study.get_trials(deepcopy=False):
            if _KEPT in trial.user_attrs:
                kept = Kept(trial, **json.loads(trial.user_attrs[_KEPT]))
                self._kept[kept.number] = kept  # of two with one number, the later one holds

    def __len__(self) -> int:
        """Trials that are kept, from the first one on without a gap."""
        return next(n for n in range(len(self._kept) + 1) if n not in self._kept)

    def run(self, trial: Any, fits: Callable[[Tell], None], tell: Tell) -> None:
        """Go through a trial that is kept, or run it and note its steps."""
        kept = self._kept.get(trial.number)
        if kept is not None and (kept.trial.params, kept.trial.distributions) != (trial.params, trial.distributions):
            # Of a program or a machine whose digits differ: this one and those after it are run.
            self._kept = {number: one for number, one in self._kept.items() if number < trial.number}
            kept = None
        self._steps = []
        if kept is None:
            fits(lambda step: self._noted(step, tell))
            return
        for step in kept.steps:
            if tell(Step(*step)):
                return
        if kept.error:
            raise SkprefError(kept.error)

    def _noted(self, step: Step, tell: Tell) -> bool:
        self._steps.append([step.fold, step.loss, step.done])
        return tell(step)

    def ended(self, trial: Any, record: TrialRecord) -> TrialRecord:
        """Keep a trial that ended, or tell what is kept of it."""
        kept = self._kept.get(record.number)
        if kept is not None:
            return replace(record, seconds=kept.seconds, bounds=tuple(kept.bounds), error=kept.error)
        if self._study is not None:
            found = Kept(None, record.number, self._steps, record.seconds, list(record.bounds), record.error)
            entry = copy.copy(trial)
            entry.user_attrs = {**trial.user_attrs, _KEPT: json.dumps(dict(list(found._asdict().items())[1:]))}
            self._add(entry)
        return record

    def _add(self, trial: Any) -> None:
        try:
            with quietly():
                self._study.add_trial(trial)
        except Exception as error:  # noqa: BLE001 - databases have their own; none is worth a search
            self._study = None
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            msg = f"trials can no longer be kept; a search that is killed will not go on from here: {reason[:300]}"
            warnings.warn(msg, DataWarning, stacklevel=2)


def _check_journal(path: Path) -> None:
    """Refuse other files, and cut off a last line that a full disk left without an end: none could follow it."""
    if not path.is_file() or not path.stat().st_size:
        return
    with path.open("rb+") as file:
        if b'"op_code"' not in file.readline(1000):
            raise DataError(f"storage {path} is a file, but no journal of a search; name another one")
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        whole = file.read().rfind(b"\n") + 1
        if whole < size:
            file.truncate(whole)


def study_name(space: Space, first: list[Settings], facts: Mapping[str, Any]) -> str:
    """Return a name that is another one as soon as anything is another that trials depend on."""
    optuna = require_optuna()
    asked: dict[str, str] = {}
    with quietly():
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        for _ in range(_DRAWS):
            trial = study.ask()
            space.suggest(trial)
            for name, distribution in trial.distributions.items():
                asked[name] = optuna.distributions.distribution_to_json(distribution)
    text = json.dumps([asked, first, {**facts, "optuna": optuna.__version__}], sort_keys=True, default=repr)
    return f"skpref-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
