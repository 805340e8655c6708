// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {JobId, JobStatus, Match, Start} from "../../src/Types.sol";
import {Actions} from "./Actions.sol";
import {Witness} from "./Witness.sol";

/// @notice The functions that forge calls in a campaign. Actions that can also run inside a
/// transfer are in Actions.sol.
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
        (this.pass.selector, this.match_.selector, this.claim.selector);
        (list[21], list[22], list[23]) =
        (this.start.selector, this.settle.selector, this.pass.selector);
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
        (JobId id, Witness.Book memory b) = _job(seed, JobStatus(seed % 4));
        bool flag = _part(seed, "flag") % 4 != 0;
        _by(_who(seed, b.customer), abi.encodeCall(meta.setDelegateSpendingAuthority, (id, flag)));
        uint256 allowance = flag ? type(uint256).max : _part(seed, "allowance") % 100e18;
        _by(
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
        (JobId id, Witness.Book memory b) = _job(seed, JobStatus.SCHEDULED);
        address who = _who(seed, b.provider);
        // In the past, in the far future, or absurd.
        uint64 reported = uint64(_part(seed, "reported") >> (_part(seed, "size") % 3 * 96));
        if (_part(seed, "now") % 2 == 0) {
            reported = uint64(block.timestamp - _part(seed, "ago") % 7200);
        }
        bool ok;
        if (seed % 3 == 0) {
            ok = _by(
                who,
                abi.encodeCall(
                    meta.providerSetJobStatus, (id, 3, 0, "", int64(uint64(seed >> 192)))
                )
            );
        } else if (seed % 3 == 1) {
            ok = _by(who, abi.encodeCall(meta.setJobRunning, (id, reported)));
        } else {
            Start[] memory starts = new Start[](2); // The second start is always invalid.
            (starts[0], starts[1]) = (Start(id, reported), Start(id, reported));
            _by(who, abi.encodeCall(meta.setRunningMany, (starts)));
        }
        _expect(!ok || who == b.provider, "only its provider starts a job");
        // A start is never refused because of its time, or because its provider was removed.
        bool isDue = seed % 3 != 2 && who == b.provider && b.status == JobStatus.SCHEDULED;
        _expect(ok || !isDue, "the provider of a claimed job starts it");
    }

    function settle(uint256 seed, uint256 tokenSeed) external withHostileToken(tokenSeed) {
        _settle(seed);
    }

    function settleMany(uint256 seed, uint256 tokenSeed) external withHostileToken(tokenSeed) {
        _settleMany(seed);
    }

    function refuse(uint256 seed) external {
        _refuse(seed);
    }

    function claimNotices(uint256 seed) external {
        address who = _who(seed, providers[seed % 3]);
        if (seed % 4 == 0) _by(who, abi.encodeCall(meta.claimNextCancellingJob, ()));
        if (seed % 4 == 1) _by(who, abi.encodeCall(meta.claimNextTopUpJob, ()));
        if (seed % 4 == 2) _by(who, abi.encodeCall(meta.claimCancellations, (seed % 5)));
        if (seed % 4 == 3) _by(who, abi.encodeCall(meta.claimTopUps, (seed % 5)));
    }

    function changeOffer(uint256 seed) external {
        address who = providers[seed % 3];
        if (_part(seed, "what") % 4 != 0) {
            _by(who, address(manager), abi.encodeCall(manager.setPrices, (_prices(seed))));
        } else {
            _by(who, address(manager), abi.encodeCall(manager.setDraining, (seed % 2 == 0)));
        }
    }

    // Actions of the matching service, the operator and the admin.

    function match_(uint256 seed) external {
        (JobId id, Witness.Book memory b) = _job(seed, JobStatus.PENDING);
        address who = _who(seed, matcher);
        address provider =
            _part(seed, "outsider") % 8 == 0 ? outsider : providers[_part(seed, "to") % 3];
        uint256 most =
            _part(seed, "most") % 4 == 0 ? _part(seed, "price") % 10e18 : type(uint256).max;
        bool isValid = manager.isValidForScheduling(provider);
        if (seed % 3 == 0) {
            bool ok = _by(who, abi.encodeCall(meta.metaSchedule, (id, provider)));
            _expect(
                !ok || (isValid && who == matcher),
                "only the matching service matches, to a valid provider"
            );
        } else {
            Match[] memory matches = new Match[](2);
            (matches[0], matches[1]) = (Match(id, provider, most), Match(id, outsider, most));
            _by(who, abi.encodeCall(meta.metaScheduleMany, (matches)));
        }
        Witness.Book memory later = witness.book(uint256(JobId.unwrap(id)));
        bool isMatched = b.status == JobStatus.PENDING && later.status == JobStatus.META_SCHEDULED;
        _expect(!isMatched || seed % 3 == 0 || later.price <= most, "no match above its price");
        _expect(!isMatched || later.price <= later.locked, "an escrow pays at least a minute");
        _saw(isMatched && later.price == 0, "match at price 0");
        _saw(!isMatched && !isValid, "match to an invalid provider refused");
        bool isAboveLimit = b.status == JobStatus.PENDING && !isMatched && isValid && who == matcher;
        _saw(isAboveLimit && most < type(uint256).max, "price above what the match accepts");
    }

    function panicOrTimeOut(uint256 seed, uint256 tokenSeed) external withHostileToken(tokenSeed) {
        (JobId id, Witness.Book memory b) = _job(seed, JobStatus(_part(seed, "state") % 4));
        address who = _who(seed, matcher);
        bool ok = seed % 2 == 0
            ? _by(who, abi.encodeCall(meta.panicJob, (id, "panic")))
            : _by(who, abi.encodeCall(meta.timeoutJob, (id)));
        _expect(!ok || who == matcher, "only the matching service panics and times out");
        _saw(ok && b.status == JobStatus.RUNNING, "panic of a running job");
    }

    function removeOrBan(uint256 seed) external {
        address provider = providers[seed % 3];
        uint256 what = _part(seed, "what") % 3;
        if (what == 0 && manager.isJoined(provider)) manager.remove(provider);
        else if (what == 1 && manager.isJoined(provider)) manager.ban(provider);
        else if (manager.isBanned(provider)) manager.unban(provider);
        else _join(provider, _prices(seed));
    }

    function changeConstants(uint256 seed) external {
        uint256 value = _part(seed, "value");
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

    function pass(uint256 seed) external {
        uint256 kind = seed % 4;
        uint256 most = kind == 0 ? 1 : kind == 1 ? 2 hours : kind == 2 ? 10 days : 120 days;
        vm.warp(block.timestamp + _part(seed, "time") % most);
        vm.roll(block.number + _part(seed, "blocks") % 15);
    }
}
