"""The nodes of graphs, each a class; `aisrv.graph.nodes.node` is the interface, users' nodes included."""
