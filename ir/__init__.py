"""The intermediate representations: dims, facts, types, graph, loops, ops, parser, printer and verifier."""
