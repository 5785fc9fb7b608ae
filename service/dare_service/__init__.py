"""HTTP for dare_reward: `POST /reward` and what an operator needs around it."""
