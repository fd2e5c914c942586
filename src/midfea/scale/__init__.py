"""Many images: a list of them, and their features in files that are written whole.

`sources` says what can hold images, `manifest` lists them, `extract` computes features shard by shard
and goes on where it stopped. `worker` does one shard; `local` runs workers in processes of this machine,
`cluster` on the machines of a Ray cluster.
"""

from midfea.extras import require

require("scale", "midfea.scale")
