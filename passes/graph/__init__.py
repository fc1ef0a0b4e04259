"""Passes over graphs: types, calls inlined, composites taken apart, values folded, shared and dropped."""
