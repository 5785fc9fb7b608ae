"""From a request to its reply: what was sent is read, judged by its method, described and written."""
