"""What reads traces in these tests."""

from tests.support.trace_processor import trace_processor

__all__ = ["trace_processor"]
