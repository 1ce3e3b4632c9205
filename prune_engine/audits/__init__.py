"""How often the strategies that guess are wrong, measured on a share of what they drop."""
