"""Task kinds without node calls, which the tests of this folder cover instead of the fault injection tests."""

KINDS_TESTED_HERE = {"sample_thing_apply"}
