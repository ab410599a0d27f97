# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

"""What the example bots share: a shop, local services, and a page that shows the turns."""
