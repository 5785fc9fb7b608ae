"""What a rollout claims: the final answer in its text. Nothing here knows what an answer is worth."""
