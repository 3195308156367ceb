"""Equations that a page prints, read from their LaTeX and compared exactly."""
