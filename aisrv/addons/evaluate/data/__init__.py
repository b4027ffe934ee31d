"""Data sets: folders of classes, tables, arrays and sounds, all as one value."""
