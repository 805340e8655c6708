// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {JobId, JobStatus, Settlement} from "../../src/Types.sol";
import {Witness} from "./Witness.sol";
import {World} from "./World.sol";

/// @notice The actions that can also run as a reentrant call during a transfer. They are valid and
/// invalid calls of customers, providers and services. An action derives all its choices from one
/// seed. Therefore forge can print a failing sequence with one or two numbers per action.
abstract contract Actions is World {
    uint256 private constant ACTION_CHOICES = 11;

    function _interrupt(uint256 seed) internal override {
        uint256 successesBefore = successes;
        uint256 choice = seed % ACTION_CHOICES;
        if (choice == 0) _request(seed);
        else if (choice == 1 || choice == 2) _cancel(seed);
        else if (choice == 3) _topUp(seed);
        else if (choice == 4) _topUpDelegated(seed);
        else if (choice == 5) _claim(seed);
        else if (choice == 6 || choice == 7) _settle(seed);
        else if (choice == 8) _settleMany(seed);
        else if (choice == 9) _refuse(seed);
        else _withdraw(seed);
        _countIf(true, "call during a transfer");
        _countIf(successes > successesBefore, "successful call during a transfer");
    }

    function _request(uint256 seed) internal {
        if (witness.count() >= MAX_JOBS) return;
        uint256 escrow = 100e18 + _derive(seed, "escrow") % 900e18;
        uint256 kind = _derive(seed, "kind") % 16;
        if (kind == 0) escrow = 100e18 - 1;
        if (kind == 1) escrow = _derive(seed, "absurd");
        address who = customers[seed % 3];
        bytes memory call = kind < 8
            ? abi.encodeCall(
                meta.requestNewJobWithPermit,
                (_definition(seed), escrow, "job", seed % 2 == 0, block.timestamp, 27, "r", "s")
            )
            : abi.encodeCall(meta.requestNewJob, (_definition(seed), escrow, "job", seed % 2 == 0));
        bool ok = _callAs(who, call);
        if (ok) _expect(escrow >= 100e18, "no escrow below the minimum");
    }

    function _cancel(uint256 seed) internal {
        (JobId id, Witness.JobRecord memory job) =
            _pickJob(seed, JobStatus(_derive(seed, "state") % 4));
        address who = _pickCaller(seed, job.customer);
        bool ok = _callAs(who, abi.encodeCall(meta.cancelJob, (id)));
        if (ok) _expect(who == job.customer, "only its customer cancels a job");
        bool isHotJob = job.locked != 0 && job.status < JobStatus.CANCELLED;
        bool mustSucceed = isHotJob && who == job.customer && _isTokenHonest;
        if (mustSucceed) _expect(ok, "a customer cancels a hot job");
        _countIf(ok && job.status == JobStatus.RUNNING, "request to cancel a run");
        _countIf(ok && job.status == JobStatus.SCHEDULED, "request to cancel a claimed job");
    }

    function _topUp(uint256 seed) internal {
        (JobId id,) = _pickJob(seed, seed % 2 == 0 ? JobStatus.SCHEDULED : JobStatus.RUNNING);
        uint256 kind = _derive(seed, "kind") % 8;
        uint256 amount = _derive(seed, "amount") % 50e18;
        if (kind == 0) amount = 0;
        if (kind == 1) amount = _derive(seed, "absurd");
        address payer = _pickCaller(seed, customers[seed % 3]);
        bool ok = _callAs(payer, abi.encodeCall(meta.topUpJob, (id, amount)));
        _countIf(ok && amount != 0, "top-up");
    }

    function _topUpDelegated(uint256 seed) internal {
        (JobId id, Witness.JobRecord memory job) =
            _pickJob(seed, seed % 2 == 0 ? JobStatus.SCHEDULED : JobStatus.RUNNING);
        address who = _pickCaller(seed, _derive(seed, "role") % 2 == 0 ? job.provider : matcher);
        uint256 balanceBefore = token.balanceOf(who);
        bool isCancelled = job.customer != address(0) && repository.terms(id).hasCancelRequest;
        bool ok = _callAs(who, abi.encodeCall(meta.topUpJobDelegate, (id)));
        if (ok) {
            bool isAuthorised = who == job.customer || who == job.provider || who == matcher;
            _expect(isAuthorised, "only parties of a job make a delegated top-up");
        }
        // An action that runs inside a transfer is not checked.
        if (ok && !_isInterrupted) {
            _expect(!isCancelled, "no delegated top-up of a cancelled job");
        }
        if (_isTokenHonest && !_isInterrupted && who != job.customer) {
            _expect(token.balanceOf(who) == balanceBefore, "the customer pays");
        }
        _countIf(ok, "delegated top-up");
    }

    function _claim(uint256 seed) internal {
        address who = _pickCaller(seed, providers[seed % 3]);
        (int128 beginBefore,) = queues.providerClaimableJobsQueues(who);
        uint256 claimsBefore = _claimCount();
        bool ok = _derive(seed, "many") % 2 == 0
            ? _callAs(who, abi.encodeCall(meta.claimNextJob, ()))
            : _callAs(who, abi.encodeCall(meta.claimJobs, (1 + seed % 4)));
        (int128 beginAfter,) = queues.providerClaimableJobsQueues(who);
        if (ok) _expect(manager.isJoined(who), "only a joined provider claims");
        // A call that removes more entries than it claims jobs has skipped stale entries.
        uint256 removedEntries = uint128(beginAfter - beginBefore);
        _countIf(removedEntries > _claimCount() - claimsBefore, "stale entry skipped");
    }

    function _claimCount() private view returns (uint256) {
        return witness.transitions(uint256(JobStatus.META_SCHEDULED), uint256(JobStatus.SCHEDULED));
    }

    function _settle(uint256 seed) internal {
        (JobId id, Witness.JobRecord memory job) =
            _pickJob(seed, seed % 8 == 0 ? JobStatus.SCHEDULED : JobStatus.RUNNING);
        address who = _pickCaller(seed, job.provider);
        (uint8 status, uint64 time) = _report(seed, job);
        bool ok = _derive(seed, "old") % 3 == 0
            ? _callAs(
                who, abi.encodeCall(meta.providerSetJobStatus, (id, status, time / 60, "end", -1))
            )
            : _callAs(
                who, abi.encodeCall(meta.settleJob, (id, status, time, -1, "end", "evidence"))
            );
        if (ok) _expect(who == job.provider, "only its provider settles a job");
        bool isColdStatus = status > 3 && status < 9; // The cold states are 4 to 8.
        bool isValid = who == job.provider && job.status == JobStatus.RUNNING && isColdStatus;
        if (isValid && _isTokenHonest) _expect(ok, "the provider of a running job settles it");
        bool isBilled = ok && job.status == JobStatus.RUNNING && status != uint8(JobStatus.PANICKED);
        _countIf(
            isBilled && time > block.timestamp - job.startedAt,
            "bill above the time since the start"
        );
        _countIf(
            isBilled && job.billUntil > job.startedAt && time > job.billUntil - job.startedAt,
            "bill above the time until a request"
        );
        _countIf(isBilled && !manager.isJoined(who), "settlement by a removed provider");
        _countIf(!ok && !_isTokenHonest && isValid, "payment refused");
    }

    /// @dev Sends a batch of three settlements. The first and the last are for the same job.
    function _settleMany(uint256 seed) internal {
        (JobId id, Witness.JobRecord memory job) = _pickJob(seed, JobStatus.RUNNING);
        (JobId other, Witness.JobRecord memory otherJob) =
            _pickJob(_derive(seed, "other"), JobStatus.RUNNING);
        (uint8 status, uint64 time) = _report(seed, job);
        Settlement[] memory settlements = new Settlement[](3);
        settlements[0] = Settlement(id, status, time, 0, "", bytes32(seed));
        settlements[1] = Settlement(other, uint8(JobStatus.FINISHED), time, 0, "", bytes32(seed));
        settlements[2] = settlements[0];
        bool ok = _callAs(
            _pickCaller(seed, job.provider), abi.encodeCall(meta.settleMany, (settlements))
        );
        _expect(ok, "a batch of settlements does not revert");
        Witness.JobRecord memory otherAfter = witness.jobRecord(uint256(JobId.unwrap(other)));
        // No state has a number above 8, so the first and the last settlement are then invalid.
        _countIf(
            otherAfter.status != otherJob.status && status > 8,
            "valid element next to an invalid one"
        );
    }

    /// @dev A state and a time for a provider's report. The state, the time or both may be wrong.
    /// In half of the cases the time is at most a minute above the time since the start.
    function _report(uint256 seed, Witness.JobRecord memory job)
        private
        view
        returns (uint8 status, uint64 time)
    {
        status = uint8(4 + _derive(seed, "status") % 5);
        if (_derive(seed, "any status") % 8 == 0) status = uint8(_derive(seed, "any"));
        time = uint64(_derive(seed, "reported") >> (_derive(seed, "size") % 4 * 48));
        uint256 elapsed = block.timestamp - (job.startedAt == 0 ? block.timestamp : job.startedAt);
        if (_derive(seed, "plausible") % 2 == 0) {
            time = uint64(_derive(seed, "reported") % (elapsed + 60));
        }
    }

    function _refuse(uint256 seed) internal {
        (JobId id, Witness.JobRecord memory job) =
            _pickJob(seed, seed % 2 == 0 ? JobStatus.META_SCHEDULED : JobStatus.SCHEDULED);
        address who = _pickCaller(seed, job.provider);
        JobId[] memory ids = new JobId[](2);
        (ids[0], ids[1]) = (id, id);
        if (seed % 3 == 0) {
            // A batch succeeds for every caller, because it skips invalid elements.
            _callAs(who, abi.encodeCall(meta.refuseMany, (ids)));
            return;
        }
        bool ok = _callAs(who, abi.encodeCall(meta.refuseJob, (id)));
        if (ok) _expect(who == job.provider, "only its provider refuses a job");
        _countIf(ok && job.isCancelRequested, "refusal of a request to cancel");
    }

    function _withdraw(uint256 seed) internal {
        address who = _pickCaller(seed, address(this));
        uint256 fees = meta.accruedFees();
        uint256 amount = seed % 4 == 0 ? fees + 1 : _derive(seed, "amount") % (fees + 1);
        if (who != address(this)) {
            bool isAccepted = _callAs(who, abi.encodeCall(meta.withdrawAdmin, (amount)));
            _expect(!isAccepted, "only the admin withdraws");
            return;
        }
        (bool ok,) = address(meta).call(abi.encodeCall(meta.withdrawAdmin, (amount)));
        if (ok) _expect(amount <= fees, "no more than the fees is withdrawn");
        if (ok) withdrawnFees += amount;
        _countIf(ok && amount != 0, "fees withdrawn");
    }

    function _expire(uint256 seed) internal {
        (JobId id, Witness.JobRecord memory job) =
            _pickJob(seed, JobStatus(1 + _derive(seed, "state") % 3));
        bool ok = _callAs(_pickCaller(seed, outsider), abi.encodeCall(meta.expireJob, (id)));
        _countIf(ok && job.status == JobStatus.META_SCHEDULED, "match expired");
        bool isClaimed = job.status == JobStatus.SCHEDULED;
        _countIf(ok && isClaimed && !job.isCancelRequested, "claim expired");
        _countIf(ok && isClaimed && job.isCancelRequested, "request to cancel expired");
        _countIf(ok && job.status == JobStatus.RUNNING, "run expired");
    }
}
