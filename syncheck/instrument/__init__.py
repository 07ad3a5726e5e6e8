"""What every capture backend needs: call sites, names of things, operator plans."""
