"""The file format of a captured run; numpy only."""
