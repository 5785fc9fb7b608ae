"""Four estimators that `dare-reward` finds by their entry points (`dare_reward.methods`)."""
