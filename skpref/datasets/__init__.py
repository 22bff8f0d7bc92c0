"""Data sets: real data, and data simulated from the models."""

from skpref.datasets._arena import make_arena
from skpref.datasets._choices import make_choices
from skpref.datasets._crowd import make_crowd
from skpref.datasets._modechoice import load_modechoice
from skpref.datasets._simulated import make_pairwise

__all__ = ["load_modechoice", "make_arena", "make_choices", "make_crowd", "make_pairwise"]
