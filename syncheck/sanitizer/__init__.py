"""Classification of happens-before facts: which rule a race or a misuse violates, and which call is to blame."""
