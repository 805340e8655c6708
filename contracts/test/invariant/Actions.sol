// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {JobId, JobStatus, Settlement} from "../../src/Types.sol";
import {Witness} from "./Witness.sol";
import {World} from "./World.sol";

/// @notice The actions of customers, providers and services, valid and invalid, which can also run
/// inside a transfer. An action derives all its choices from one number, so that a failing sequence
/// is short.
abstract contract Actions is World {
    uint256 private constant DEEDS = 11;

    function _interrupt(uint256 seed) internal override {
        uint256 before = successes;
        uint256 what = seed % DEEDS;
        if (what == 0) _request(seed);
        else if (what == 1 || what == 2) _cancel(seed);
        else if (what == 3) _topUp(seed);
        else if (what == 4) _topUpDelegated(seed);
        else if (what == 5) _claim(seed);
        else if (what == 6 || what == 7) _settle(seed);
        else if (what == 8) _settleMany(seed);
        else if (what == 9) _refuse(seed);
        else _withdraw(seed);
        _saw(true, "call during a transfer");
        _saw(successes > before, "successful call during a transfer");
    }

    function _request(uint256 seed) internal {
        if (witness.count() >= MAX_JOBS) return;
        uint256 escrow = 100e18 + _part(seed, "escrow") % 900e18;
        uint256 kind = _part(seed, "kind") % 16;
        if (kind == 0) escrow = 100e18 - 1;
        if (kind == 1) escrow = _part(seed, "absurd");
        address who = customers[seed % 3];
        bytes memory call = kind < 8
            ? abi.encodeCall(
                meta.requestNewJobWithPermit,
                (_definition(seed), escrow, "job", seed % 2 == 0, block.timestamp, 27, "r", "s")
            )
            : abi.encodeCall(meta.requestNewJob, (_definition(seed), escrow, "job", seed % 2 == 0));
        bool ok = _by(who, call);
        _expect(!ok || escrow >= 100e18, "no escrow below the minimum");
    }

    function _cancel(uint256 seed) internal {
        (JobId id, Witness.Book memory b) = _job(seed, JobStatus(_part(seed, "state") % 4));
        address who = _who(seed, b.customer);
        bool ok = _by(who, abi.encodeCall(meta.cancelJob, (id)));
        _expect(!ok || who == b.customer, "only its customer cancels a job");
        bool isDue =
            _isHonest && b.status < JobStatus.CANCELLED && b.locked != 0 && who == b.customer;
        _expect(ok || !isDue, "a customer cancels a hot job");
        _saw(ok && b.status == JobStatus.RUNNING, "request to cancel a run");
    }

    function _topUp(uint256 seed) internal {
        (JobId id,) = _job(seed, seed % 2 == 0 ? JobStatus.SCHEDULED : JobStatus.RUNNING);
        uint256 kind = _part(seed, "kind") % 8;
        uint256 amount =
            kind == 0 ? 0 : kind == 1 ? _part(seed, "absurd") : _part(seed, "amount") % 50e18;
        address payer = _who(seed, customers[seed % 3]);
        _saw(_by(payer, abi.encodeCall(meta.topUpJob, (id, amount))) && amount != 0, "top-up");
    }

    function _topUpDelegated(uint256 seed) internal {
        (JobId id, Witness.Book memory b) =
            _job(seed, seed % 2 == 0 ? JobStatus.SCHEDULED : JobStatus.RUNNING);
        address who = _who(seed, _part(seed, "role") % 2 == 0 ? b.provider : matcher);
        uint256 before = token.balanceOf(who);
        bool cancelled = b.customer != address(0) && repository.terms(id).hasCancelRequest;
        bool ok = _by(who, abi.encodeCall(meta.topUpJobDelegate, (id)));
        _expect(
            !ok || who == b.customer || who == b.provider || who == matcher,
            "who tops up for another"
        );
        _expect(!ok || !cancelled || _isInterrupted, "no delegated top-up of a cancelled job");
        bool isQuiet = _isHonest && !_isInterrupted;
        _expect(
            !isQuiet || who == b.customer || token.balanceOf(who) == before, "the customer pays"
        );
        _saw(ok, "delegated top-up");
    }

    function _claim(uint256 seed) internal {
        address who = _who(seed, providers[seed % 3]);
        (int128 first,) = queues.providerClaimableJobsQueues(who);
        uint256 claims = witness.moves(1, 2);
        bool ok = _part(seed, "many") % 2 == 0
            ? _by(who, abi.encodeCall(meta.claimNextJob, ()))
            : _by(who, abi.encodeCall(meta.claimJobs, (1 + seed % 4)));
        (int128 next,) = queues.providerClaimableJobsQueues(who);
        _expect(!ok || manager.isJoined(who), "only a joined provider claims");
        _saw(uint128(next - first) > witness.moves(1, 2) - claims, "stale entry skipped");
    }

    function _settle(uint256 seed) internal {
        (JobId id, Witness.Book memory b) =
            _job(seed, seed % 8 == 0 ? JobStatus.SCHEDULED : JobStatus.RUNNING);
        address who = _who(seed, b.provider);
        (uint8 status, uint64 time) = _report(seed, b);
        bool ok = _part(seed, "old") % 3 == 0
            ? _by(
                who, abi.encodeCall(meta.providerSetJobStatus, (id, status, time / 60, "end", -1))
            )
            : _by(who, abi.encodeCall(meta.settleJob, (id, status, time, -1, "end", "evidence")));
        _expect(!ok || who == b.provider, "only its provider settles a job");
        bool isDue = who == b.provider && b.status == JobStatus.RUNNING && status > 3 && status < 9;
        _expect(ok || !isDue || !_isHonest, "the provider of a running job settles it");
        bool isRun = ok && b.status == JobStatus.RUNNING && status != uint8(JobStatus.PANICKED);
        _saw(isRun && time > block.timestamp - b.startedAt, "bill above the time since the start");
        _saw(isRun && !manager.isJoined(who), "settlement by a removed provider");
        _saw(!ok && !_isHonest && isDue, "payment refused");
    }

    /// @dev Two jobs, one of them twice.
    function _settleMany(uint256 seed) internal {
        (JobId id, Witness.Book memory b) = _job(seed, JobStatus.RUNNING);
        (JobId other, Witness.Book memory c) = _job(_part(seed, "other"), JobStatus.RUNNING);
        (uint8 status, uint64 time) = _report(seed, b);
        Settlement[] memory all = new Settlement[](3);
        all[0] = Settlement(id, status, time, 0, "", bytes32(seed));
        all[1] = Settlement(other, uint8(JobStatus.FINISHED), time, 0, "", bytes32(seed));
        all[2] = all[0];
        bool ok = _by(_who(seed, b.provider), abi.encodeCall(meta.settleMany, (all)));
        _expect(ok, "a batch of settlements does not revert");
        Witness.Book memory later = witness.book(uint256(JobId.unwrap(other)));
        _saw(later.status != c.status && status > 8, "valid element next to an invalid one");
    }

    /// @dev A state and a time that a provider may report falsely; in half of the cases the time is
    /// nearly true.
    function _report(uint256 seed, Witness.Book memory b)
        private
        view
        returns (uint8 status, uint64 time)
    {
        status = uint8(4 + _part(seed, "status") % 5);
        if (_part(seed, "wrong") % 8 == 0) status = uint8(_part(seed, "any"));
        time = uint64(_part(seed, "reported") >> (_part(seed, "size") % 4 * 48));
        uint256 elapsed = block.timestamp - (b.startedAt == 0 ? block.timestamp : b.startedAt);
        if (_part(seed, "near") % 2 == 0) time = uint64(_part(seed, "reported") % (elapsed + 60));
    }

    function _refuse(uint256 seed) internal {
        (JobId id, Witness.Book memory b) =
            _job(seed, seed % 2 == 0 ? JobStatus.META_SCHEDULED : JobStatus.SCHEDULED);
        address who = _who(seed, b.provider);
        JobId[] memory ids = new JobId[](2);
        (ids[0], ids[1]) = (id, id);
        bool ok = seed % 3 == 0
            ? _by(who, abi.encodeCall(meta.refuseMany, (ids))) && false
            : _by(who, abi.encodeCall(meta.refuseJob, (id)));
        _expect(!ok || who == b.provider, "only its provider refuses a job");
    }

    function _withdraw(uint256 seed) internal {
        address who = _who(seed, address(this));
        uint256 fees = meta.accruedFees();
        uint256 amount = seed % 4 == 0 ? fees + 1 : _part(seed, "amount") % (fees + 1);
        if (who != address(this)) {
            _expect(
                !_by(who, abi.encodeCall(meta.withdrawAdmin, (amount))), "only the admin withdraws"
            );
            return;
        }
        (bool ok,) = address(meta).call(abi.encodeCall(meta.withdrawAdmin, (amount)));
        _expect(!ok || amount <= fees, "no more than the fees");
        if (ok) withdrawn += amount;
        _saw(ok && amount != 0, "fees withdrawn");
    }

    function _expire(uint256 seed) internal {
        (JobId id, Witness.Book memory b) = _job(seed, JobStatus(1 + _part(seed, "state") % 3));
        bool ok = _by(_who(seed, outsider), abi.encodeCall(meta.expireJob, (id)));
        _saw(ok && b.status == JobStatus.META_SCHEDULED, "match expired");
        _saw(ok && b.status == JobStatus.SCHEDULED, "claim expired");
        _saw(ok && b.status == JobStatus.RUNNING, "run expired");
    }
}
