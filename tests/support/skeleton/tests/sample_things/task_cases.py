"""What tests/worker/test_fault_injection.py leaves to the tests of this folder, because no node is called."""

KINDS_TESTED_HERE = {"sample_thing_apply"}
