"""From happens-before facts to rules: what a race or a misuse is called, and who is to blame."""
