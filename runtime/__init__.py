"""Loading and running artifacts. Imports nothing of ir, passes, compiler or frontends."""
