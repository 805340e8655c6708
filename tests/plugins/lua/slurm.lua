-- SPDX-License-Identifier: Apache-2.0
-- Plays slurmctld for a Lua plugin: the global table "slurm" with what Slurm puts there.
-- Messages are printed, one per line, as the test's evidence.

slurm = { SUCCESS = 0, ERROR = -1 }

local function teller(kind)
   return function(format, ...)
      print(kind .. " " .. string.format(format, ...))
   end
end

slurm.log_error = teller("log_error")
slurm.log_user = teller("log_user")
