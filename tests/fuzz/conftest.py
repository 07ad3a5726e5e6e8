"""How many inputs are tried: SYNCHECK_FUZZ_EXAMPLES of each kind, 30 if it is not set."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fuzz",
    max_examples=int(os.environ.get("SYNCHECK_FUZZ_EXAMPLES", "30")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
settings.load_profile("fuzz")
