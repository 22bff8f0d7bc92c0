"""Preference elicitation: which question to ask a user next, sessions of questions and answers, and replays.

See docs/maths section 10. A session never changes the model that it was started with.
"""

from skpref.elicitation._beliefs import Belief, Estimates, information_gain
from skpref.elicitation._people import Person
from skpref.elicitation._replay import Replay, replay
from skpref.elicitation._session import Session, select
from skpref.elicitation._strategies import STRATEGIES

__all__ = ["STRATEGIES", "Belief", "Estimates", "Person", "Replay", "Session", "information_gain", "replay", "select"]
