"""Values and expressions: from tokens to exact numbers and to keys that are equal where the values are."""
