"""What is more, or other, than one expression: lists, intervals, units, dates, formulas and prose."""
