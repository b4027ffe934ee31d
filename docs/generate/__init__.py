"""The tables of the reference pages, made from the code: `python -m docs.generate` writes them into `docs/`.

A page marks the place of a table with two comments, `<!-- table: NAME -->` and `<!-- end of table -->`;
what is between them comes from `docs.generate.tables.TABLES`. A test compares the pages with the code.
"""
