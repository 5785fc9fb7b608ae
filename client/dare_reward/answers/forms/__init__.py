"""What an answer can be beside one expression: lists, intervals, equations, quantities, dates, formulas, prose.

`structures.read` turns tokens into a `Reading` and calls the other modules for the forms that they know.
"""
