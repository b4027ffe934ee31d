"""From a model file to a relocatable image: record its kernels, write C, compile, link, pack."""
