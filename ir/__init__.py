"""The intermediate representations: dims and facts, types, graph, loops, the op registry, parser, printer and verifier."""
