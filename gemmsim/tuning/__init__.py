"""Tuning: a search whose objective is the bench, recorded rows or the model; many shapes, many workers, finalists.

Needs the extra `tune`: pip install 'gemmsim[tune]'.
"""
