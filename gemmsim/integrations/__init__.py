"""Picks as files that other tools read: text in, text out, nothing of theirs is imported."""
