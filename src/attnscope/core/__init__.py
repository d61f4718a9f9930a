"""Exact attention and its statistics: the numeric heart."""
