"""Flash: a chip that behaves like one, its server, the layout of its images, and their packager."""
