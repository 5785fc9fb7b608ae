"""What a rollout claims: the final answer in its text, as it is written there, or none.

Start with `final_answer.extract`, which asks the other modules in turn. Nothing here reads an answer or compares two.
"""
