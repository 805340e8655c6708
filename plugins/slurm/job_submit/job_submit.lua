-- SPDX-License-Identifier: Apache-2.0
--
-- The guard of the queue: accept only the paid jobs of the grid, and the jobs of the accounts
-- in extra_accounts.
--
-- Rule 1. Only root and SlurmUser may submit and modify jobs. A wallet's processes
--         can run sbatch and scontrol on their node; the guard refuses their requests.
--         An account of extra_accounts, for example that of the benchmarks, may submit
--         its own jobs.
-- Rule 2. root and SlurmUser may submit for a wallet, in the group of the wallets and with
--         the job key of the paid job. They may also submit for an account of
--         extra_accounts.
-- Rule 3. root passes the job key as the comment, because sbatch has no option for
--         AdminComment. The guard moves the job key to AdminComment, which no user
--         can change.
-- Rule 4. After a Lua error or without a return value, Slurm accepts the request.
--         Therefore each entry point is one protected call, and returns SUCCESS only
--         if the check returns ACCEPTED.
--
-- Role slurm_plugins writes the site's ids before this text, as the table gridstead_site.

local site = gridstead_site or {
   slurm_uid = 64030,
   wallet_uid_min = 200001,
   wallet_uid_max = 999999,
   wallet_gid = 100000,
   extra_accounts = {}, -- { uid = 61000, gid = 61000 }, ...
}

local ROOT_UID = 0
local ACCEPTED = "accepted"
local CHAIN_ID_DIGITS_MAX = 20
local ADDRESS_DIGITS = 40
local JOB_ID_DIGITS = 64
local HASH_LENGTH_MAX = 31

local SUCCESS = slurm.SUCCESS
local ERROR = slurm.ERROR

local function is_wallet(uid)
   return uid >= site.wallet_uid_min and uid <= site.wallet_uid_max
end

local function is_extra_account(uid, gid)
   for _, account in ipairs(site.extra_accounts) do
      if account.uid == uid and account.gid == gid then
         return true
      end
   end
   return false
end

-- Return whether the text is a job key that the supervisor accepts:
-- <chain id>/0x<40 hex>/0x<64 hex>/<batch location hash>, hex digits in lower case.
local function is_job_key(text)
   local chain_id, contract, job_id, hash =
      string.match(text or "", "^(%d+)/0x([0-9a-f]+)/0x([0-9a-f]+)/([A-Za-z0-9_-]+)$")
   return hash ~= nil
      and #chain_id <= CHAIN_ID_DIGITS_MAX
      and #contract == ADDRESS_DIGITS
      and #job_id == JOB_ID_DIGITS
      and #hash <= HASH_LENGTH_MAX
end

local function refuse(reason)
   slurm.log_user("gridstead: %s", reason)
   return reason
end

-- Return ACCEPTED if the request carries a job key, and move the job key to AdminComment.
local function require_job_key(request)
   if is_job_key(request.admin_comment) then
      return ACCEPTED
   end
   if request.admin_comment == nil and is_job_key(request.comment) then
      request.admin_comment = request.comment
      request.comment = ""
      return ACCEPTED
   end
   return refuse("a wallet's job must carry the job key <chain id>/<contract>/<job id>/<hash>")
end

local function check_submission(request, caller_uid)
   local uid, gid = request.user_id, request.group_id
   if caller_uid == uid and is_extra_account(uid, gid) then
      return ACCEPTED
   end
   if caller_uid ~= ROOT_UID and caller_uid ~= site.slurm_uid then
      return refuse("this cluster accepts jobs through the grid only; submit a workflow instead")
   end
   if is_extra_account(uid, gid) then
      return ACCEPTED
   end
   if not is_wallet(uid) then
      return refuse(string.format("cannot submit for uid %d: not the uid of a wallet", uid))
   end
   if gid ~= site.wallet_gid then
      return refuse(string.format("cannot submit for gid %d: not the group of the wallets", gid))
   end
   return require_job_key(request)
end

local function check_modification(caller_uid)
   if caller_uid ~= ROOT_UID and caller_uid ~= site.slurm_uid then
      return refuse("jobs of the grid cannot be modified")
   end
   return ACCEPTED
end

local function log_error(message)
   slurm.log_error("%s", "gridstead: job_submit: couldn't check a request: " .. tostring(message))
   slurm.log_user("gridstead: the request is refused, because it could not be checked")
end

-- Return Slurm's code for the result of a protected check.
local function return_code(completed, result)
   if completed and result == ACCEPTED then
      return SUCCESS
   end
   return ERROR
end

function slurm_job_submit(request, _, caller_uid)
   return return_code(xpcall(function()
      return check_submission(request, caller_uid)
   end, log_error))
end

function slurm_job_modify(_, _, _, caller_uid)
   return return_code(xpcall(function()
      return check_modification(caller_uid)
   end, log_error))
end
