"""What can be told of a model without running a device: profiles, plans, comparisons."""
