"""The exercises, one module a chapter: the right answer, and a hint for each slip."""
