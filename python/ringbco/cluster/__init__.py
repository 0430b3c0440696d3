"""The cluster: its servers, its network, and clusters that somebody published.

A cluster never changes once it is made, and a server is known by its index, whatever its name:

    Cluster.parse("2x8").server_gpus  # 8 GPUs on server 0, 8 on server 1
"""
