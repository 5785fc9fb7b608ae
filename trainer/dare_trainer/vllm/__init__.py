"""What runs inside vLLM: exact token entropies from the sampler, and what can be had without them."""
