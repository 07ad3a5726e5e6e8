"""Renderers: pure functions that turn a Report into text."""
