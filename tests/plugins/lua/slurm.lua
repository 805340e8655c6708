-- SPDX-License-Identifier: Apache-2.0
-- A fake slurmctld for a Lua plugin: the global table "slurm" with the members that Slurm provides.
-- The log functions print each message on one line, so that a test can read the message.

slurm = { SUCCESS = 0, ERROR = -1 }

local function logger(kind)
   return function(format, ...)
      print(kind .. " " .. string.format(format, ...))
   end
end

slurm.log_error = logger("log_error")
slurm.log_user = logger("log_user")
