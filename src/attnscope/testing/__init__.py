"""Tools that tests of attention code need, shipped because others need them too."""
