"""Groups that arrive one rollout at a time. The only part of the service that keeps state between requests."""
