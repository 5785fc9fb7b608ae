"""The process beside the service that writes the run log and adds up the page, so that a request waits for neither."""
