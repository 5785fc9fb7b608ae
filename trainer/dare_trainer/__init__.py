"""The trainer side: groups inside OpenRLHF, entropies of vLLM, measurement, checks of a node."""
