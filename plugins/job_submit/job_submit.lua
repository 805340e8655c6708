-- SPDX-License-Identifier: Apache-2.0
--
-- The guard of the queue: nothing runs that nobody pays for.
--
-- Rule 1. root and SlurmUser alone submit and modify. A wallet's own processes
--         find sbatch and scontrol on their node and are refused here.
-- Rule 2. They submit for a wallet, in the wallets' group, with the job key of the
--         paid job; or for an account listed in extra_accounts (benchmarks).
-- Rule 3. root gives the job key in the comment, because sbatch has no option for
--         an AdminComment; it is moved there, where no user can change it.
-- Rule 4. Slurm takes a Lua error or a missing number for "accepted". Therefore
--         each entry is one protected call, and all but a clear yes is an error.
--
-- The role writes the site's numbers in front of this text as gridstead_site.

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

-- <chain id>/0x<40 hex>/0x<64 hex>/<batch location hash>, hex in lower case: what the supervisor
-- can adopt.
local function is_proof(text)
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

-- Return ACCEPTED if the request carries its job key, which then is the AdminComment.
local function prove(request)
   if is_proof(request.admin_comment) then
      return ACCEPTED
   end
   if request.admin_comment == nil and is_proof(request.comment) then
      request.admin_comment = request.comment
      request.comment = ""
      return ACCEPTED
   end
   return refuse("a wallet's job must carry the job key <chain id>/<contract>/<job id>/<hash>")
end

local function judge_submission(request, caller_uid)
   local uid, gid = request.user_id, request.group_id
   if caller_uid ~= ROOT_UID and caller_uid ~= site.slurm_uid then
      return refuse("jobs reach this cluster through the grid only; submit a workflow instead")
   end
   if is_extra_account(uid, gid) then
      return ACCEPTED
   end
   if not is_wallet(uid) then
      return refuse(string.format("cannot submit for uid %d: it is not a wallet's", uid))
   end
   if gid ~= site.wallet_gid then
      return refuse(string.format("cannot submit for gid %d: it is not the wallets'", gid))
   end
   return prove(request)
end

local function judge_modification(caller_uid)
   if caller_uid ~= ROOT_UID and caller_uid ~= site.slurm_uid then
      return refuse("jobs of the grid cannot be modified")
   end
   return ACCEPTED
end

local function log_fault(fault)
   slurm.log_error("%s", "gridstead: job_submit: couldn't judge a request: " .. tostring(fault))
   slurm.log_user("gridstead: the request could not be judged and is refused")
end

local function answer(judged, verdict)
   if judged and verdict == ACCEPTED then
      return SUCCESS
   end
   return ERROR
end

function slurm_job_submit(request, _, caller_uid)
   return answer(xpcall(function()
      return judge_submission(request, caller_uid)
   end, log_fault))
end

function slurm_job_modify(_, _, _, caller_uid)
   return answer(xpcall(function()
      return judge_modification(caller_uid)
   end, log_fault))
end
