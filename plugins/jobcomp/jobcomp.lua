-- SPDX-License-Identifier: Apache-2.0
--
-- Job completion: append one line of JSON per record to the spool, and return.
--
-- slurmctld calls slurm_jobcomp_log_record while it holds its job lock, so there
-- is one append and nothing else. Every job is written; whoever reads the spool
-- drops what is not its own. A record is a hint: it may come twice (a requeue, a
-- crash) or not at all, and accounting is the witness. The line is ASCII-safe
-- JSON of bounded length whatever a user has put into the names.

local SPOOL = "/var/spool/gridstead/jobcomp.jsonl"
local FORMAT_VERSION = 1

-- Lengths in bytes before escaping. An escaped byte takes six at most.
local TEXT_MAX = 256
local NODES_MAX = 1024

local JOB_STATE_BASE = 0x100 -- below it is the state, above are flags
local NO_VALUE = 0xfffffffe -- what Slurm says for "not set"
local ASCII_END = 0x80

-- After a torn append the next line begins on a line of its own.
local torn = false

local function json_number(value)
   if type(value) ~= "number" or value == NO_VALUE then
      return "null"
   end
   return string.format("%.0f", value)
end

local function escape_character(character)
   local code = string.byte(character)
   return code < ASCII_END and string.format("\\u%04x", code) or "\\ufffd"
end

-- What is ours is ASCII. Of anything else nobody needs more than that it was there.
local function json_text(value, length_max)
   if value == nil then
      return "null", false
   end
   local kept = string.sub(value, 1, length_max)
   kept = string.gsub(kept, '[\1-\31"\\\127-\255]', escape_character)
   return '"' .. kept .. '"', #value > length_max
end

local function line_of(job)
   local state = assert(job.job_state, "the record has no state")
   local name, name_cut = json_text(job.name, TEXT_MAX)
   local comment, comment_cut = json_text(job.admin_comment, TEXT_MAX)
   local partition, partition_cut = json_text(job.partition, TEXT_MAX)
   local nodes, nodes_cut = json_text(job.nodes, NODES_MAX)
   local cut = name_cut or comment_cut or partition_cut or nodes_cut
   local members = {
      '"version":' .. json_number(FORMAT_VERSION),
      '"slurm_job_id":' .. json_number(job.job_id),
      '"job_name":' .. name,
      '"admin_comment":' .. comment,
      '"uid":' .. json_number(job.user_id),
      '"gid":' .. json_number(job.group_id),
      '"state":' .. json_number(state % JOB_STATE_BASE),
      '"state_raw":' .. json_number(state),
      '"exit_code":' .. json_number(job.exit_code),
      '"derived_exit_code":' .. json_number(job.derived_ec),
      '"submit_s":' .. json_number(job.submit_time),
      '"start_s":' .. json_number(job.start_time),
      '"end_s":' .. json_number(job.end_time),
      '"nodes":' .. nodes,
      '"partition":' .. partition,
      '"restart_count":' .. json_number(job.restart_cnt),
      '"truncated":' .. tostring(cut),
   }
   return "{" .. table.concat(members, ",") .. "}\n"
end

-- Without a buffer the whole line is one write.
local function append(line)
   local file = assert(io.open(SPOOL, "a"))
   file:setvbuf("no")
   local written, write_fault = file:write(torn and "\n" .. line or line)
   local closed, close_fault = file:close()
   torn = not (written and closed)
   assert(written, write_fault)
   assert(closed, close_fault)
end

local function record(job)
   append(line_of(job))
end

local function log_fault(fault)
   slurm.log_error("%s", "gridstead: jobcomp: couldn't write a record: " .. tostring(fault))
end

function slurm_jobcomp_log_record(job)
   local done, fault = pcall(record, job)
   if not done then
      pcall(log_fault, fault)
   end
   return slurm.SUCCESS
end
