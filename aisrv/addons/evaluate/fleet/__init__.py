"""Runs on many machines: shards as tasks of Dask, parts in a folder that all of them share."""
