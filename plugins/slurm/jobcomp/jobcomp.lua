-- SPDX-License-Identifier: Apache-2.0
--
-- Job completion: append one line of JSON per record to the spool and return.
--
-- slurmctld calls slurm_jobcomp_log_record while it holds its job lock, so the
-- function only appends one line. It writes a record for every job, and the reader
-- ignores jobs that are not from the grid. A record is a hint: it may occur twice
-- (after a requeue or a crash) or be missing, and the accounting database decides.
-- A line is ASCII JSON of limited length, even if a user chooses hostile names.

local SPOOL = "/var/spool/gridstead/jobcomp.jsonl"
local FORMAT_VERSION = 1

-- Maximum lengths in bytes before escaping. An escaped byte has at most six bytes.
local TEXT_BYTES_MAX = 256
local NODES_BYTES_MAX = 1024

local JOB_STATE_BASE = 0x100 -- lower bits: the state; higher bits: flags
local NO_VALUE = 0xfffffffe -- Slurm's NO_VAL: the number is not set
local ASCII_END = 0x80

-- Whether the last append may be incomplete. Then the next append starts with a newline.
local is_last_line_partial = false

local function json_number(value)
   if type(value) ~= "number" or value == NO_VALUE then
      return "null"
   end
   return string.format("%.0f", value)
end

local function escape_character(character)
   local code = string.byte(character)
   if code < ASCII_END then
      return string.format("\\u%04x", code)
   end
   return "\\ufffd"
end

-- Return the text as JSON, and whether it was cut. Bytes outside of ASCII are replaced, because
-- all texts of the grid are ASCII.
local function json_text(value, length_max)
   if value == nil then
      return "null", false
   end
   local text = string.sub(value, 1, length_max)
   text = string.gsub(text, '[\1-\31"\\\127-\255]', escape_character)
   return '"' .. text .. '"', #value > length_max
end

local function json_line(job)
   local state = assert(job.job_state, "the record has no state")
   local name, name_cut = json_text(job.name, TEXT_BYTES_MAX)
   local comment, comment_cut = json_text(job.admin_comment, TEXT_BYTES_MAX)
   local partition, partition_cut = json_text(job.partition, TEXT_BYTES_MAX)
   local nodes, nodes_cut = json_text(job.nodes, NODES_BYTES_MAX)
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

-- Append the line. Without a buffer the whole line is one write.
local function append(line)
   local file = assert(io.open(SPOOL, "a"))
   file:setvbuf("no")
   if is_last_line_partial then
      line = "\n" .. line
   end
   local written, write_error = file:write(line)
   local closed, close_error = file:close()
   is_last_line_partial = not (written and closed)
   assert(written, write_error)
   assert(closed, close_error)
end

local function write_record(job)
   append(json_line(job))
end

local function log_error(message)
   slurm.log_error("%s", "gridstead: jobcomp: couldn't write a record: " .. tostring(message))
end

function slurm_jobcomp_log_record(job)
   local is_written, message = pcall(write_record, job)
   if not is_written then
      pcall(log_error, message)
   end
   return slurm.SUCCESS
end
