"""Estimators that factorise tables of ratings."""
