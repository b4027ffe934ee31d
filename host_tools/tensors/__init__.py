"""Tensors in files, and pictures as tensors."""
