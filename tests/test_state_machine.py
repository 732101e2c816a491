"""A state is a value through any history, with every index: drawn histories against the reference."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from sparsam.engines.native.core import native
from tests.state_machine import machines

pytestmark = pytest.mark.skipif(native is None, reason="the native engine is not built here")
FEW = settings(max_examples=8, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("kind", machines())
def test_states_through_any_history(kind):
    run_state_machine_as_test(machines()[kind], settings=FEW)
