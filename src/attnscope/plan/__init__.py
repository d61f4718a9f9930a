"""What attention costs: bytes and FLOPs of any config; standard library only."""
