// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {JobId, JobStatus, Match, Start} from "../../src/Types.sol";
import {Actions} from "./Actions.sol";
import {Witness} from "./Witness.sol";

/// @notice The functions that forge calls in a campaign, which is a random sequence of calls.
/// Actions.sol has the actions that can also run as a reentrant call during a transfer.
contract Handler is Actions {
    /// @notice The actions of a campaign. Actions that advance a job are listed twice, so that jobs
    /// reach late states.
    function actions() external pure returns (bytes4[] memory list) {
        list = new bytes4[](24);
        (list[0], list[1], list[2]) =
        (this.request.selector, this.cancel.selector, this.topUp.selector);
        (list[3], list[4], list[5]) =
        (this.topUpDelegated.selector, this.changeAuthority.selector, this.claim.selector);
        (list[6], list[7], list[8]) =
        (this.start.selector, this.settle.selector, this.settleMany.selector);
        (list[9], list[10], list[11]) =
        (this.refuse.selector, this.claimNotices.selector, this.changeOffer.selector);
        (list[12], list[13], list[14]) =
        (this.match_.selector, this.panicOrTimeOut.selector, this.removeOrBan.selector);
        (list[15], list[16], list[17]) =
        (this.changeConstants.selector, this.withdraw.selector, this.expire.selector);
        (list[18], list[19], list[20]) =
        (this.passTime.selector, this.match_.selector, this.claim.selector);
        (list[21], list[22], list[23]) =
        (this.start.selector, this.settle.selector, this.passTime.selector);
    }

    // Actions of customers.

    function request(uint256 seed, uint256 tokenSeed) external withHostileToken(tokenSeed) {
        _request(seed);
    }

    function cancel(uint256 seed, uint256 tokenSeed) external withHostileToken(tokenSeed) {
        _cancel(seed);
    }

    function topUp(uint256 seed, uint256 tokenSeed) external withHostileToken(tokenSeed) {
        _topUp(seed);
    }

    function topUpDelegated(uint256 seed, uint256 tokenSeed) external withHostileToken(tokenSeed) {
        _topUpDelegated(seed);
    }

    function changeAuthority(uint256 seed) external {
        (JobId id, Witness.JobRecord memory job) = _pickJob(seed, JobStatus(seed % 4));
        bool flag = _derive(seed, "flag") % 4 != 0;
        _callAs(
            _pickCaller(seed, job.customer),
            abi.encodeCall(meta.setDelegateSpendingAuthority, (id, flag))
        );
        uint256 allowance = flag ? type(uint256).max : _derive(seed, "allowance") % 100e18;
        _callAs(
            customers[seed % 3],
            address(token),
            abi.encodeCall(token.approve, (address(meta), allowance))
        );
    }

    // Actions of providers.

    function claim(uint256 seed) external {
        _claim(seed);
    }

    function start(uint256 seed) external {
        (JobId id, Witness.JobRecord memory job) = _pickJob(seed, JobStatus.SCHEDULED);
        address who = _pickCaller(seed, job.provider);
        // A quarter of the reported times lie within the last two hours, and a quarter are the time
        // of the claim. The others are 64 bits of a hash, at one of three offsets. Almost all of
        // them lie in the far future.
        uint64 reported = uint64(_derive(seed, "reported") >> (_derive(seed, "size") % 3 * 96));
        uint256 kind = _derive(seed, "recent") % 4;
        if (kind == 0) reported = uint64(block.timestamp - _derive(seed, "ago") % 7200);
        if (kind == 1) reported = uint64(job.claimedAt);
        bool ok;
        if (seed % 3 == 0) {
            ok = _callAs(
                who,
                abi.encodeCall(
                    meta.providerSetJobStatus, (id, 3, 0, "", int64(uint64(seed >> 192)))
                )
            );
        } else if (seed % 3 == 1) {
            ok = _callAs(who, abi.encodeCall(meta.setJobRunning, (id, reported)));
        } else {
            Start[] memory starts = new Start[](2); // The second start is always invalid.
            (starts[0], starts[1]) = (Start(id, reported), Start(id, reported));
            _callAs(who, abi.encodeCall(meta.setRunningMany, (starts)));
        }
        if (ok) _expect(who == job.provider, "only its provider starts a job");
        // A start is never refused because of its time, or because its provider was removed.
        bool isBatch = seed % 3 == 2;
        bool mustSucceed = who == job.provider && job.status == JobStatus.SCHEDULED && !isBatch;
        if (mustSucceed) _expect(ok, "the provider of a claimed job starts it");
    }

    function settle(uint256 seed, uint256 tokenSeed) external withHostileToken(tokenSeed) {
        _settle(seed);
    }

    function settleMany(uint256 seed, uint256 tokenSeed) external withHostileToken(tokenSeed) {
        _settleMany(seed);
    }

    function refuse(uint256 seed, uint256 tokenSeed) external withHostileToken(tokenSeed) {
        _refuse(seed);
    }

    function claimNotices(uint256 seed) external {
        address who = _pickCaller(seed, providers[seed % 3]);
        if (seed % 4 == 0) _callAs(who, abi.encodeCall(meta.claimNextCancellingJob, ()));
        if (seed % 4 == 1) _callAs(who, abi.encodeCall(meta.claimNextTopUpJob, ()));
        if (seed % 4 == 2) _callAs(who, abi.encodeCall(meta.claimCancellations, (seed % 5)));
        if (seed % 4 == 3) _callAs(who, abi.encodeCall(meta.claimTopUps, (seed % 5)));
    }

    function changeOffer(uint256 seed) external {
        address who = providers[seed % 3];
        if (_derive(seed, "what") % 4 != 0) {
            _callAs(who, address(manager), abi.encodeCall(manager.setPrices, (_prices(seed))));
        } else {
            _callAs(who, address(manager), abi.encodeCall(manager.setDraining, (seed % 2 == 0)));
        }
    }

    // Actions of the matching service, the operator and the admin.

    /// @dev The name ends with an underscore, because `match` is reserved in Solidity.
    function match_(uint256 seed) external {
        (JobId id, Witness.JobRecord memory job) = _pickJob(seed, JobStatus.PENDING);
        address who = _pickCaller(seed, matcher);
        address provider =
            _derive(seed, "outsider") % 8 == 0 ? outsider : providers[_derive(seed, "to") % 3];
        uint256 maxPrice = type(uint256).max;
        if (_derive(seed, "limit") % 4 == 0) maxPrice = _derive(seed, "price") % 10e18;
        bool isValid = manager.isValidForScheduling(provider);
        if (seed % 3 == 0) {
            bool ok = _callAs(who, abi.encodeCall(meta.metaSchedule, (id, provider)));
            if (ok) {
                _expect(who == matcher, "only the matching service matches a job");
                _expect(isValid, "a job is matched only to a valid provider");
            }
        } else {
            Match[] memory matches = new Match[](2);
            (matches[0], matches[1]) =
            (Match(id, provider, maxPrice), Match(id, outsider, maxPrice));
            _callAs(who, abi.encodeCall(meta.metaScheduleMany, (matches)));
        }
        Witness.JobRecord memory jobAfter = witness.jobRecord(uint256(JobId.unwrap(id)));
        bool wasPending = job.status == JobStatus.PENDING;
        bool isMatched = wasPending && jobAfter.status == JobStatus.META_SCHEDULED;
        if (isMatched) {
            bool hasLimit = seed % 3 != 0;
            if (hasLimit) _expect(jobAfter.price <= maxPrice, "no match above its maximum price");
            _expect(jobAfter.price <= jobAfter.locked, "an escrow pays for at least a minute");
        }
        _countIf(isMatched && jobAfter.price == 0, "match at price 0");
        _countIf(!isMatched && !isValid, "match to an invalid provider refused");
        bool isRefused = wasPending && !isMatched && isValid && who == matcher;
        _countIf(isRefused && maxPrice < type(uint256).max, "price above the maximum of the match");
    }

    function panicOrTimeOut(uint256 seed, uint256 tokenSeed) external withHostileToken(tokenSeed) {
        (JobId id, Witness.JobRecord memory job) =
            _pickJob(seed, JobStatus(_derive(seed, "state") % 4));
        address who = _pickCaller(seed, matcher);
        bool ok = seed % 2 == 0
            ? _callAs(who, abi.encodeCall(meta.panicJob, (id, "panic")))
            : _callAs(who, abi.encodeCall(meta.timeoutJob, (id)));
        if (ok) _expect(who == matcher, "only the matching service panics and times out");
        _countIf(ok && job.status == JobStatus.RUNNING, "panic of a running job");
    }

    function removeOrBan(uint256 seed) external {
        address provider = providers[seed % 3];
        uint256 choice = _derive(seed, "choice") % 3;
        if (choice == 0 && manager.isJoined(provider)) manager.remove(provider);
        else if (choice == 1 && manager.isJoined(provider)) manager.ban(provider);
        else if (manager.isBanned(provider)) manager.unban(provider);
        else _join(provider, _prices(seed));
    }

    function changeConstants(uint256 seed) external {
        uint256 value = _derive(seed, "value");
        if (seed % 5 == 0) constants.setDeepsquareCut(value % 101);
        if (seed % 5 == 1) constants.setSettleGrace(uint64(4 days + value % 26 days));
        if (seed % 5 == 2) constants.setStartTimeout(uint64(4 days + value % 86 days));
        if (seed % 5 == 3) constants.setClaimJobTimeout(uint64(1 + value % 20));
        if (seed % 5 == 4) constants.setTopUpSliceDurationMin(uint64(1 + value % 5_256_000));
    }

    function withdraw(uint256 seed, uint256 tokenSeed) external withHostileToken(tokenSeed) {
        _withdraw(seed);
    }

    // Actions of any account, and the passing of time.

    function expire(uint256 seed, uint256 tokenSeed) external withHostileToken(tokenSeed) {
        _expire(seed);
    }

    function passTime(uint256 seed) external {
        uint256 kind = seed % 4;
        uint256 maxTime = 120 days;
        if (kind == 0) maxTime = 1;
        if (kind == 1) maxTime = 2 hours;
        if (kind == 2) maxTime = 10 days;
        vm.warp(block.timestamp + _derive(seed, "time") % maxTime);
        vm.roll(block.number + _derive(seed, "blocks") % 15);
    }
}
