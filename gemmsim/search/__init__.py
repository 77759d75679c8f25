"""Measured search on Optuna: spaces, samplers, the loop, its replay over recorded rows. The objective is passed in.

Needs the extra `tune`: pip install 'gemmsim[tune]'.
"""
