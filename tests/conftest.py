# Copyright (c) 2026, pipecat-turn-acid contributors
#
# SPDX-License-Identifier: BSD-2-Clause

pytest_plugins = ["pipecat_turn_acid.testing.plugin"]
