"""The nodes of graphs, each a class; `aisrv.addons.graph.nodes.node` is the interface of all, users' too."""
