"""Random programs, and what they mean in numpy, which owes nothing to the compiler, interpreter or references.

numbers     what numpy says a value is, and how near a correct program must come
drawing     the statements of one function, evaluated at every binding of the symbols while it grows
pointwise, shapes, reductions, indexing, products
            the statements: each picks operands, applies an operator, and says in numpy what it means
programs    whole modules: symbols and facts, weights, constants, functions, tuples, in-place parameters
calls       compiled programs called with arrays of every layout, compared, and with sizes that the facts forbid
"""
