"""Which question to ask a person next, a session that asks and learns, and replays of people held out.

See docs/maths section 10. What a session learns about a person stays in the session: the model is not changed.
"""

from skpref.elicitation._beliefs import Belief, Estimates, information_gain
from skpref.elicitation._people import Person
from skpref.elicitation._replay import Replay, replay
from skpref.elicitation._session import Session, select
from skpref.elicitation._strategies import STRATEGIES

__all__ = ["STRATEGIES", "Belief", "Estimates", "Person", "Replay", "Session", "information_gain", "replay", "select"]
