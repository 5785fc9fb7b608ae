"""TEST ONLY: the names that OpenRLHF imports of flash-attn and calls only with --ds.packing_samples."""
