"""Shards on a Ray cluster: `executor` connects, `pool` hands shards out, `worker` computes one.

Only shards and counts of images go through Ray. Ray Data is not used: a shard that kills its worker each
time would end its whole run without the shard's name, and it tells of whole shards, not of images.
"""

from midfea.extras import require

require("ray", "midfea.scale.cluster")
