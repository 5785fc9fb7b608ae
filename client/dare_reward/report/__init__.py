"""What a run looks like: totals by step, a verdict by named rules, the groups worth reading, and one HTML file of it.

book = RunBook()
for line in read_run("runs/exp1"):
    book.add(line)
html = document({"title": "exp1", **view(book)})

A line is one scored group as the run log writes it. Labels are shown and never decide what the verdict on a run is.
"""
