"""What reads traces in these tests."""

from tests.support.peers.trace_processor import trace_processor

__all__ = ["trace_processor"]
