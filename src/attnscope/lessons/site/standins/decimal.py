"""`fractions` asks whether a number is a Decimal; none is."""


class Decimal:
    """Nothing is one."""
