"""The operators, a file a family.  See `ir/op.py` for what one is."""
