"""``skpref elicit``: questions on the terminal, and what was learnt from the answers."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from sklearn.pipeline import Pipeline

from skpref._estimator import last_step
from skpref._text import is_number
from skpref._typing import AnyArray
from skpref.cli.files import counted
from skpref.cli.ids import by_text
from skpref.cli.options import Elicit
from skpref.cli.output import check_file
from skpref.cli.predict import MACHINES
from skpref.cli.report import cut, print_json, titled_table
from skpref.data import OneHotDesign
from skpref.elicitation import Estimates, Session
from skpref.exceptions import DataError
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.pairwise import GPPLClassifier
from skpref.persistence import load, save

_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_MORE: Final = "s = skip, u = undo the last answer, q = quit"


def elicit(options: Elicit) -> int:
    """Ask a person, and print what was learnt."""
    check_file(options.out, options.model, options.session)
    model = load(options.model)
    if sys.stdin is None:
        raise DataError("the standard input is closed; answers may come from a file, by < FILE")
    asker = _asker(model, options)
    try:
        asker.run(options.questions)
    except KeyboardInterrupt:
        asker.ended = "interrupted"
        asker.say("")
    if options.session is not None:
        asker.session.save(options.session)
    if options.out is not None:
        save(asker.session.model_, options.out)
    if options.json:
        print_json(asker.findings())
    else:
        print(asker.text(options.top))
    return 130 if asker.ended == "interrupted" else 0


def _asker(model: Any, options: Elicit) -> _Asker:
    last = last_step(model)
    if not hasattr(last, "posterior_"):
        raise DataError(f"{options.model}: holds a {type(last).__name__} that is not fitted")
    machine = isinstance(last, MACHINES)
    if machine and not (isinstance(model, Pipeline) and isinstance(model.steps[0][1], OneHotDesign)):
        why = "has no ids of users and items; save a Pipeline of OneHotDesign and the machine"
        raise DataError(f"{options.model}: a {type(last).__name__} alone {why}")
    trained = model.steps[0][1] if machine else model
    pairs, user = isinstance(last, GPPLClassifier | CrowdGPPL), options.user
    if user is not None and hasattr(trained, "user_ids_"):
        user = _id_of(user, trained.user_ids_)
    if not hasattr(trained, "item_ids_"):
        raise DataError(f"{options.model}: a {type(last).__name__} has no items to ask for")
    if options.session is not None and options.session.exists():
        session = Session.load(options.session, model)
    else:
        session = Session(model, strategy=options.strategy, user=user, random_state=options.seed)
    return _Asker(session, type(last).__name__, user, pairs=pairs, out=sys.stderr if options.json else sys.stdout)


def _id_of(text: str, users: AnyArray) -> Any:
    """Return the id of this text, or a new id of the same type."""
    texts = by_text(users)
    whole = texts and all(isinstance(user, int) for user in users.tolist()) and _WHOLE_NUMBER.fullmatch(text.strip())
    return texts.get(text, int(text) if whole else text)


@dataclass
class _Asker:
    """A session at a terminal."""

    session: Session
    model: str
    user: Any
    pairs: bool
    out: Any
    skipped: list[int] = field(default_factory=list)
    ended: str = "all asked"

    def say(self, text: str, end: str = "\n") -> None:
        """Print to the person."""
        print(text, end=end, file=self.out, flush=True)

    def run(self, n: int) -> None:
        """Ask at most n questions."""
        self.say(f"{self.model}: {self._how()}; {_MORE}.")
        for number in range(1, n + 1):
            try:
                row = int(self.session.ask()[0])
            except DataError as error:
                if "no candidate left" in str(error):
                    return
                raise
            answer = self._answer(f"[{number}] {self._question(row)} ")
            if answer is None:
                self.ended = "quit"
                return
            if answer == "skip":
                self.skipped.append(row)
            elif answer == "undo":
                self.session.undo()
            else:
                self.session.tell({row: answer})
        self.ended = "enough asked"

    def _how(self) -> str:
        labels = self.session.labels_
        if self.pairs and labels[0] < 0.0:
            return f"how much better is the first? {', '.join(f'{label:g}' for label in reversed(labels))}"
        if self.pairs:
            whole = len(labels) if isinstance(labels[0], int) else 0  # positions
            return f"which one? 1 to {whole}" if whole else "which one? 1 or 2, = for a tie"
        if not labels:
            return "a number"
        if len(labels) == 2:
            return f"y = {cut(labels[1])}, n = {cut(labels[0])}"
        return f"one of {', '.join(cut(label) for label in labels)}"

    def _question(self, row: int) -> str:
        asked = self.session.candidates_[row]
        if self.pairs and self.session.labels_[0] < 0.0:
            return f"{cut(asked[0])} (above 0) or {cut(asked[1])} (below 0)?"
        numbered = (f"{place} {cut(item)}" for place, item in enumerate(asked, 1)) if self.pairs else [cut(asked)]
        return f"{'   '.join(numbered)}?"

    def _answer(self, question: str) -> Any:
        """Return an answer, "skip", "undo", or None to quit; ask again until it can be read."""
        while True:
            self.say(question, end="")
            try:
                line = sys.stdin.readline()
            except UnicodeDecodeError:
                self.say(f"That is not text. Answer with {self._how()}; {_MORE}.")
                continue
            text = line.strip().lower()
            if not line or text in {"q", "quit"}:
                if not line:
                    self.say("")
                return None
            if text in {"s", "skip", ""}:
                return "skip"
            if text in {"u", "undo"} and self.session.answers_:
                return "undo"
            answer = self._meant(line.strip())
            if answer is not None:
                return answer
            self.say(f"{cut(line.strip())!r} is no answer. Answer with {self._how()}; {_MORE}.")

    def _meant(self, text: str) -> Any:
        """What a text stands for; None if for nothing."""
        labels = self.session.labels_
        if self.pairs and labels[0] < 0.0:
            return {f"{label:g}": label for label in labels}.get(text)
        if self.pairs:
            places: dict[str, float] = {str(place + 1): place for place in labels if isinstance(place, int)}
            return (places or {"1": 1.0, "2": 0.0, "=": 0.5}).get(text)
        if len(labels) == 2 and text.lower() in {"y", "yes", "n", "no"}:
            return labels[int(text.lower().startswith("y"))]
        for label in labels:
            if text in {str(label), cut(label)}:
                return label
        value = float(text) if is_number(text) else np.nan
        if labels or not np.isfinite(value):
            return next((label for label in labels if isinstance(label, int | float) and label == value), None)
        return value

    # ------------------------------------------------------------------------------------------------ what was learnt

    def _ranked(self, estimates: Estimates) -> list[int]:
        """Return rows of the estimates, the best first: items without an answer, or all items compared."""
        rows = np.argsort(-estimates.value, kind="stable").tolist()
        return rows if self.pairs else [row for row in rows if row not in self.session.answers_]

    def _next(self) -> Any:
        with suppress(DataError):  # no candidate is left
            return self.session.candidates_[int(self.session.ask()[0])]
        return None

    def findings(self) -> dict[str, Any]:
        """Return all that was learnt, as plain values."""
        estimates, candidates = self.session.estimates(), self.session.candidates_
        columns = (estimates.ids, estimates.value, estimates.low, estimates.high)
        rows = [[column[row] for column in columns] for row in np.argsort(-estimates.value, kind="stable").tolist()]
        answers = self.session.answers_.items()
        return {
            "model": self.model,
            "user": self.user,
            "ended": self.ended,
            "answers": [{"question": candidates[row], "answer": answer} for row, answer in answers],
            "skipped": [candidates[row] for row in self.skipped],
            "estimates": [dict(zip(("item", "estimate", "low", "high"), row, strict=True)) for row in rows],
            "recommended": [estimates.ids[row] for row in self._ranked(estimates)],
            "next_question": self._next(),
        }

    def text(self, top: int) -> str:
        """Return the same as text."""
        estimates, answered = self.session.estimates(), counted(len(self.session.answers_), "answers")
        ranked = self._ranked(estimates)
        skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        # Of probabilities near 0 the exponent says nothing.
        form = ".2f" if not self.pairs and len(self.session.labels_) == 2 else ".3g"
        forms = {
            "item": "{ids}",
            "estimate": f"{{value:{form}}}",
            "90 % between": f"{{low:{form}}} and {{high:{form}}}",
        }
        columns = {name: getattr(estimates, name) for name in ("ids", "value", "low", "high")}
        title = f"\nLearnt from {answered}{skipped}. {self._meaning()}:"
        lines = [titled_table(title, forms, columns, ranked[:top])]
        lines += [f"  ... and {len(ranked) - top} more (--top)"] if len(ranked) > top else []
        upcoming = self._next()
        if upcoming is not None:
            both = " or ".join(map(cut, upcoming)) if self.pairs else cut(upcoming)
            lines.append(f"Next I would ask: {both}")
        return "\n".join(lines)

    def _meaning(self) -> str:
        labels = self.session.labels_
        rated = f"Most probable {cut(labels[1])}" if len(labels) == 2 else "Recommended by expected rating"
        return "Best by utility, from the average" if self.pairs else rated
