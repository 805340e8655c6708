// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Grid} from "./Grid.sol";

/// @notice Tests of the contracts Credit and Constants, and of owners and roles.
contract BasicsTest is Grid {
    bytes32 private constant ROLE = keccak256("METASCHEDULER_ROLE");

    // Credit

    function test_only_the_owner_mints() public {
        expectString("Ownable: caller is not the owner");
        vm.prank(ALICE);
        credit.mint(ALICE, 1);
        expectString("ERC20: mint to the zero address");
        credit.mint(address(0), 1);

        credit.mint(ALICE, 1);

        assertEq(credit.balanceOf(ALICE), FUNDS + 1, "balance");
        assertEq(credit.totalSupply(), 4 * FUNDS + 1, "supply");
    }

    function test_transfers_and_approvals_of_the_zero_address_are_refused() public {
        vm.startPrank(ALICE);
        expectString("ERC20: transfer to the zero address");
        credit.transfer(address(0), 1);
        expectString("ERC20: approve to the zero address");
        credit.approve(address(0), 1);
        expectString("ERC20: transfer amount exceeds balance");
        credit.transfer(BOB, FUNDS + 1);
    }

    function test_transfers_from_the_zero_address_are_refused() public {
        vm.startPrank(address(0));
        expectString("ERC20: transfer from the zero address");
        credit.transfer(BOB, 0);
        expectString("ERC20: approve from the zero address");
        credit.approve(BOB, 0);
    }

    function test_an_allowance_is_spent_unless_it_is_unlimited() public {
        vm.prank(ALICE);
        credit.approve(BOB, 5);
        vm.startPrank(BOB);
        credit.transferFrom(ALICE, BOB, 5);
        expectString("ERC20: insufficient allowance");
        credit.transferFrom(ALICE, BOB, 1);
        vm.stopPrank();

        vm.prank(address(meta));
        credit.transferFrom(ALICE, BOB, 1);

        assertEq(credit.allowance(ALICE, address(meta)), type(uint256).max, "unlimited allowance");
        assertEq(credit.balanceOf(BOB), FUNDS + 6, "balance");
    }

    function test_an_allowance_is_raised_and_lowered() public {
        vm.startPrank(ALICE);
        credit.increaseAllowance(BOB, 5);
        credit.decreaseAllowance(BOB, 2);
        assertEq(credit.allowance(ALICE, BOB), 3, "allowance");

        expectString("ERC20: decreased allowance below zero");
        credit.decreaseAllowance(BOB, 4);
    }

    function test_an_expired_forged_or_malleable_permit_is_refused() public {
        expectString("ERC20Permit: expired deadline");
        credit.permit(ALICE, BOB, 1, block.timestamp - 1, 27, "r", "s");
        expectString("ERC20Permit: invalid signature");
        credit.permit(ALICE, BOB, 1, block.timestamp, 27, "r", bytes32(uint256(1)));
        expectString("ECDSA: invalid signature 's' value");
        credit.permit(ALICE, BOB, 1, block.timestamp, 27, "r", bytes32(type(uint256).max));
    }

    function testFuzz_a_transfer_does_not_change_the_total(uint256 amount) public {
        amount = bound(amount, 0, FUNDS);

        vm.prank(ALICE);
        credit.transfer(BOB, amount);

        assertEq(credit.balanceOf(ALICE) + credit.balanceOf(BOB), 2 * FUNDS, "sum");
    }

    // Constants

    function test_the_constants_start_with_the_published_values() public view {
        assertEq(constants.minimumAmount(), 100e18, "minimum");
        assertEq(constants.cancellationFeeMinute(), 5, "cancellation fee");
        assertEq(constants.billDurationDeltaMinute(), 15, "bill duration delta");
        assertEq(constants.claimJobTimeout(), 10, "claim timeout");
        assertEq(constants.topUpSliceDurationMin(), 30, "slice");
        assertEq(constants.deepsquareCut(), 20, "cut");
        assertEq(constants.startTimeout(), 7 days, "start timeout");
        assertEq(constants.settleGrace(), 7 days, "grace");
    }

    function test_only_the_owner_sets_a_constant() public {
        expectString("Ownable: caller is not the owner");
        vm.prank(ALICE);
        constants.setDeepsquareCut(0);
    }

    function test_every_constant_has_bounds() public {
        _expectBounds(constants.setMinimumAmount.selector, 1, type(uint128).max);
        _expectBounds(constants.setCancellationFeeMinute.selector, 0, 5_256_000);
        _expectBounds(constants.setBillDurationDeltaMinute.selector, 0, 5_256_000);
        _expectBounds(constants.setClaimJobTimeout.selector, 1, 1_000_000);
        _expectBounds(constants.setTopUpSliceDurationMin.selector, 1, 5_256_000);
        _expectBounds(constants.setDeepsquareCut.selector, 0, 100);
        _expectBounds(constants.setStartTimeout.selector, 4 days, 90 days);
        _expectBounds(constants.setSettleGrace.selector, 4 days, 30 days);
    }

    // Owners and roles

    function test_only_the_owner_transfers_or_renounces_ownership() public {
        vm.startPrank(ALICE);
        expectString("Ownable: caller is not the owner");
        constants.transferOwnership(ALICE);
        expectString("Ownable: caller is not the owner");
        constants.renounceOwnership();
    }

    function test_only_the_owner_offers_ownership() public {
        expectString("Ownable: caller is not the owner");
        vm.prank(ALICE);
        constants.offerOwnership(ALICE);
    }

    function test_only_the_pending_owner_accepts_ownership() public {
        constants.offerOwnership(ALICE);

        expectString("Ownable2Step: caller is not the new owner");
        vm.prank(BOB);
        constants.acceptOwnership();
        expectString("Ownable2Step: caller is not the new owner");
        constants.acceptOwnership();
    }

    function test_an_offer_ends_with_a_new_offer_or_owner() public {
        constants.offerOwnership(ALICE);
        constants.offerOwnership(BOB);
        _expectNoOffer(ALICE);
        constants.offerOwnership(address(0));
        _expectNoOffer(BOB);
        constants.offerOwnership(BOB);
        constants.transferOwnership(ALICE);
        _expectNoOffer(BOB);
        vm.startPrank(ALICE);
        constants.offerOwnership(BOB);
        constants.renounceOwnership();
        vm.stopPrank();
        _expectNoOffer(BOB);

        assertEq(constants.owner(), address(0), "no owner");
    }

    function test_an_offered_contract_is_accepted_by_the_new_owner() public {
        constants.offerOwnership(ALICE);
        assertEq(constants.pendingOwner(), ALICE, "offered");
        assertEq(constants.owner(), address(this), "still the old owner");

        vm.prank(ALICE);
        constants.acceptOwnership();

        assertEq(constants.owner(), ALICE, "new owner");
        assertEq(constants.pendingOwner(), address(0), "no offer");
    }

    function test_only_the_admin_grants_and_revokes_roles() public {
        vm.startPrank(ALICE);
        (bool isGranted,) = address(meta).call(abi.encodeCall(meta.grantRole, (ROLE, ALICE)));
        (bool isRevoked,) = address(meta).call(abi.encodeCall(meta.revokeRole, (ROLE, MATCHER)));

        assertTrue(!isGranted && !isRevoked, "refused");
    }

    function test_an_owner_transfers_and_renounces_ownership() public {
        expectString("Ownable: new owner is the zero address");
        constants.transferOwnership(address(0));

        constants.transferOwnership(ALICE);
        assertEq(constants.owner(), ALICE, "new owner");

        vm.prank(ALICE);
        constants.renounceOwnership();
        assertEq(constants.owner(), address(0), "no owner");
    }

    function test_a_role_is_granted_revoked_and_renounced() public {
        meta.grantRole(ROLE, ALICE);
        meta.grantRole(ROLE, ALICE);
        assertTrue(meta.hasRole(ROLE, ALICE), "granted");
        meta.revokeRole(ROLE, ALICE);
        meta.revokeRole(ROLE, ALICE);
        assertTrue(!meta.hasRole(ROLE, ALICE), "revoked");

        expectString("AccessControl: can only renounce roles for self");
        meta.renounceRole(0, ALICE);
        meta.renounceRole(0, address(this));
        assertTrue(!meta.hasRole(0, address(this)), "renounced");
    }

    function test_the_role_views_return_what_clients_expect() public view {
        assertEq(meta.getRoleAdmin(ROLE), 0, "admin of roles");
        assertTrue(meta.supportsInterface(0x7965db0b), "access control");
        assertTrue(meta.supportsInterface(0x01ffc9a7), "ERC-165");
        assertTrue(!meta.supportsInterface(0xffffffff), "no other interface");
        assertTrue(
            !meta.hasRole(meta.METASCHEDULER_ROLE(), address(this)),
            "the deployer does not have the role"
        );
    }

    function test_the_contracts_return_their_addresses_and_version() public view {
        assertEq(address(meta.credit()), address(credit), "credit");
        assertEq(address(meta.constants()), address(constants), "constants");
        assertEq(address(meta.providerManager()), address(providers), "providers");
        assertEq(address(meta.providerJobQueues()), address(queues), "queues");
        assertEq(address(meta.jobs()), address(jobs), "jobs");
        assertEq(address(queues.jobs()), address(jobs), "jobs of the queues");
        assertEq(meta.version(), "3.0.0", "version");
    }

    function _expectNoOffer(address account) private {
        expectString("Ownable2Step: caller is not the new owner");
        vm.prank(account);
        constants.acceptOwnership();
    }

    /// @dev Values from `minimum` to `maximum` are allowed, other values are refused.
    function _expectBounds(bytes4 setter, uint256 minimum, uint256 maximum) private {
        if (minimum != 0) _expectSet(setter, minimum - 1, false);
        _expectSet(setter, minimum, true);
        _expectSet(setter, maximum, true);
        _expectSet(setter, maximum + 1, false);
    }

    function _expectSet(bytes4 setter, uint256 value, bool isAllowed) private {
        (bool ok,) = address(constants).call(abi.encodeWithSelector(setter, value));
        assertTrue(ok == isAllowed, "bound");
    }
}
