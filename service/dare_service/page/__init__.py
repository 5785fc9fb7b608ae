"""`GET /`: the report of the runs that this process sees, live."""
