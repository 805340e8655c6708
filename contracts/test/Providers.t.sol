// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProviderManager} from "../src/interfaces/IProviderManager.sol";
import {Label, Provider, ProviderHardware, ProviderPrices} from "../src/Types.sol";
import {Grid} from "./Grid.sol";

/// @notice Providers: registration, approval, removal, ban, prices, draining, and the list of
/// approved providers.
contract ProvidersTest is Grid {
    address private constant NEW_PROVIDER = address(0xC107);

    // register

    function test_a_banned_provider_cannot_register() public {
        providers.ban(PROVIDER);

        _expectRefused(hardware(), IProviderManager.Banned.selector, PROVIDER);
    }

    function test_invalid_hardware_is_refused() public {
        ProviderHardware memory noNodes;
        _expectRefused(noNodes, IProviderManager.InvalidNodesCount.selector, NEW_PROVIDER);
        ProviderHardware memory missingEntry = hardware();
        missingEntry.gpusPerNode = new uint64[](1);
        _expectRefused(missingEntry, IProviderManager.ArrayLengthMismatch.selector, NEW_PROVIDER);
        ProviderHardware memory noCpus = hardware();
        noCpus.cpusPerNode = new uint64[](2);
        _expectRefused(noCpus, IProviderManager.InvalidTotalCpus.selector, NEW_PROVIDER);
        ProviderHardware memory noMemory = hardware();
        noMemory.memPerNode = new uint64[](2);
        _expectRefused(noMemory, IProviderManager.InvalidTotalMem.selector, NEW_PROVIDER);
    }

    function test_a_price_above_its_bound_is_refused() public {
        expectString("ProviderManager: price above bound");
        vm.prank(NEW_PROVIDER);
        providers.register(hardware(), ProviderPrices(1 << 72, 0, 0), labels());
    }

    function test_labels_beyond_their_bounds_are_refused() public {
        Label[] memory many = new Label[](65);
        _expectLabelsRefused(many);
        Label[] memory long = labels();
        long[0].key = string(new bytes(65));
        _expectLabelsRefused(long);
        long[0] = Label({key: "os", value: string(new bytes(65))});
        _expectLabelsRefused(long);
    }

    function test_the_most_and_longest_labels_are_accepted() public {
        Label[] memory most = new Label[](64);
        for (uint256 i = 0; i < most.length; ++i) {
            most[i] = Label({key: string(new bytes(64)), value: string(new bytes(64))});
        }

        vm.prank(NEW_PROVIDER);
        providers.register(hardware(), prices(), most);
        providers.approve(NEW_PROVIDER);

        assertEq(providers.getLabels(NEW_PROVIDER).length, 64, "labels");
    }

    function test_a_new_provider_waits_for_approval_and_is_not_matched() public {
        _register(NEW_PROVIDER);

        Provider memory waiting = providers.getWaitingForApprovalProvider(NEW_PROVIDER);
        assertTrue(providers.isWaitingForApproval(NEW_PROVIDER), "waiting");
        assertTrue(!providers.isValidForScheduling(NEW_PROVIDER), "not valid");
        assertEq(waiting.addr, NEW_PROVIDER, "address");
        assertEq(waiting.providerPrices.cpuPricePerMin, 95e16, "price");
        assertEq(providers.getProvider(NEW_PROVIDER).addr, address(0), "no active record");
    }

    function test_a_new_registration_leaves_the_old_record_active() public {
        vm.prank(PROVIDER);
        providers.register(hardware(), ProviderPrices(1, 2, 3), new Label[](0));

        assertEq(providers.getProvider(PROVIDER).labels.length, 1, "labels");
        assertEq(providers.getProviderPrices(PROVIDER).gpuPricePerMin, 85e17, "price");
        assertTrue(providers.isValidForScheduling(PROVIDER), "valid");

        providers.approve(PROVIDER);

        assertEq(providers.getLabels(PROVIDER).length, 0, "labels");
        assertEq(providers.getProviderPrices(PROVIDER).gpuPricePerMin, 1, "price");
        assertEq(providers.elementCount(), 2, "the list has no second entry");
    }

    // approve, remove, ban, unban

    function test_only_operators_approve_remove_and_ban_providers() public {
        _register(NEW_PROVIDER);

        vm.startPrank(NEW_PROVIDER);
        for (uint256 i = 0; i < 4; ++i) {
            bytes4[4] memory calls = [
                providers.approve.selector,
                providers.remove.selector,
                providers.ban.selector,
                providers.unban.selector
            ];
            (bool ok,) = address(providers).call(abi.encodeWithSelector(calls[i], NEW_PROVIDER));
            assertTrue(!ok, "refused");
        }
    }

    function test_the_role_has_the_rights_of_the_admin_over_providers() public {
        providers.grantRole(providers.METASCHEDULER_ROLE(), MATCHER);
        _register(NEW_PROVIDER);

        vm.prank(MATCHER);
        providers.approve(NEW_PROVIDER);

        assertTrue(providers.isValidForScheduling(NEW_PROVIDER), "valid");
    }

    function test_a_provider_without_a_waiting_record_is_not_approved() public {
        expectError(IProviderManager.WaitingApprovalOnly.selector);
        providers.approve(NEW_PROVIDER);
        expectError(IProviderManager.AlreadyDone.selector);
        providers.approve(PROVIDER);
    }

    function test_only_operators_approve_a_record() public {
        _register(NEW_PROVIDER);
        bytes32 recordHash = _hashOfWaitingRecord(NEW_PROVIDER);

        vm.prank(NEW_PROVIDER);
        (bool ok,) = address(providers)
            .call(abi.encodeCall(providers.approveRecord, (NEW_PROVIDER, recordHash)));

        assertTrue(!ok, "refused");
    }

    function test_a_record_that_was_replaced_is_not_approved() public {
        _register(NEW_PROVIDER);
        bytes32 recordHash = _hashOfWaitingRecord(NEW_PROVIDER);
        vm.prank(NEW_PROVIDER);
        providers.register(hardware(), ProviderPrices(1, 2, 3), labels());

        vm.expectRevert(
            abi.encodeWithSelector(
                IProviderManager.RecordChanged.selector, _hashOfWaitingRecord(NEW_PROVIDER)
            )
        );
        providers.approveRecord(NEW_PROVIDER, recordHash);

        assertTrue(!providers.isJoined(NEW_PROVIDER), "not joined");
    }

    function test_a_record_is_approved_by_its_hash() public {
        _register(NEW_PROVIDER);

        providers.approveRecord(NEW_PROVIDER, _hashOfWaitingRecord(NEW_PROVIDER));

        assertTrue(providers.isJoined(NEW_PROVIDER), "joined");
        bytes32 hashOfNone = _hashOfWaitingRecord(NEW_PROVIDER);
        expectError(IProviderManager.AlreadyDone.selector);
        providers.approveRecord(NEW_PROVIDER, hashOfNone);
    }

    function test_a_provider_banned_while_waiting_is_not_approved() public {
        _register(NEW_PROVIDER);
        providers.ban(NEW_PROVIDER);

        expectError(IProviderManager.Banned.selector);
        providers.approve(NEW_PROVIDER);
    }

    function test_a_removed_provider_leaves_no_record() public {
        providers.remove(PROVIDER);

        assertTrue(!providers.isValidForScheduling(PROVIDER), "not valid");
        assertEq(providers.getProvider(PROVIDER).addr, address(0), "no record");
        assertEq(providers.elementCount(), 1, "one provider in the list");
        expectError(IProviderManager.NoProvider.selector);
        providers.remove(PROVIDER);
    }

    function test_a_ban_is_set_and_lifted_once() public {
        expectError(IProviderManager.NoProvider.selector);
        providers.ban(NEW_PROVIDER);
        expectError(IProviderManager.AlreadyDone.selector);
        providers.unban(PROVIDER);

        providers.ban(PROVIDER);

        assertTrue(providers.isBanned(PROVIDER) && !providers.isJoined(PROVIDER), "banned");
        assertTrue(providers.getProvider(PROVIDER).isBanned, "banned in the record");
        expectError(IProviderManager.AlreadyDone.selector);
        providers.ban(PROVIDER);

        providers.unban(PROVIDER);

        assertTrue(providers.isValidForScheduling(PROVIDER), "valid again");
    }

    // setPrices, setDraining

    function test_a_provider_that_is_not_joined_cannot_set_prices_or_draining() public {
        vm.startPrank(NEW_PROVIDER);
        expectError(IProviderManager.NoProvider.selector);
        providers.setPrices(prices());
        expectError(IProviderManager.NoProvider.selector);
        providers.setDraining(true);
    }

    function test_a_new_price_must_be_within_its_bound() public {
        expectString("ProviderManager: price above bound");
        vm.prank(PROVIDER);
        providers.setPrices(ProviderPrices(0, 0, 1 << 56));
    }

    function test_new_prices_need_no_approval_and_survive_a_waiting_request() public {
        vm.startPrank(PROVIDER);
        providers.register(hardware(), prices(), labels());
        providers.setPrices(ProviderPrices(1, 2, 3));
        vm.stopPrank();
        assertEq(
            providers.getProviderPrices(PROVIDER).memPricePerMin, 3, "new price before the approval"
        );

        providers.approve(PROVIDER);

        assertEq(
            providers.getProviderPrices(PROVIDER).memPricePerMin, 3, "new price after the approval"
        );
    }

    function test_a_draining_provider_finishes_its_queue() public {
        matchedJob(ESCROW);
        vm.startPrank(PROVIDER);
        providers.setDraining(true);

        assertTrue(providers.isDraining(PROVIDER), "draining");
        assertTrue(!providers.isValidForScheduling(PROVIDER), "not valid");
        assertEq(meta.claimJobs(1), 1, "claims its matched job");
    }

    // incJobCount

    function test_only_metascheduler_increments_the_job_count() public {
        (bool ok,) = address(providers).call(abi.encodeCall(providers.incJobCount, (PROVIDER)));

        assertTrue(!ok, "refused");
    }

    // Reads

    function test_an_unknown_address_has_an_empty_record() public view {
        address[2] memory unknown = [NEW_PROVIDER, address(0)];
        for (uint256 i = 0; i < 2; ++i) {
            Provider memory none;
            bytes32 zeros = keccak256(abi.encode(none));
            assertEq(keccak256(abi.encode(providers.getProvider(unknown[i]))), zeros, "active");
            assertEq(
                keccak256(abi.encode(providers.getWaitingForApprovalProvider(unknown[i]))),
                zeros,
                "waiting"
            );
            assertTrue(!providers.isWaitingForApproval(unknown[i]), "not waiting");
            assertTrue(!providers.isValidForScheduling(unknown[i]), "not valid");
            assertTrue(!providers.isBanned(unknown[i]), "not banned");
            assertEq(providers.getJobCount(unknown[i]), 0, "jobs");
            assertEq(providers.getProviderHardware(unknown[i]).nodes, 0, "nodes");
        }
    }

    function test_the_published_getters_return_the_same_records() public {
        (
            address addr,
            ProviderHardware memory storedHardware,
            ProviderPrices memory storedPrices,
            bool banned
        ) = providers.providers(PROVIDER);
        assertEq(addr, PROVIDER, "address");
        assertEq(
            keccak256(abi.encode(storedHardware)), keccak256(abi.encode(hardware())), "hardware"
        );
        assertEq(storedPrices.gpuPricePerMin, 85e17, "price");
        assertTrue(!banned, "not banned");

        _register(NEW_PROVIDER);
        (addr,, storedPrices,) = providers.waitingApprovalProviders(NEW_PROVIDER);
        assertEq(addr, NEW_PROVIDER, "waiting address");
        assertEq(storedPrices.gpuPricePerMin, 85e17, "waiting price");
    }

    function test_providers_are_listed_in_pages_oldest_first() public {
        _register(NEW_PROVIDER);
        providers.approve(NEW_PROVIDER);

        (bytes32[] memory first, uint256 count, uint256 cursor) = providers.fetchPage(0, 2);
        (bytes32[] memory second, uint256 rest, uint256 end) = providers.fetchPage(cursor, 2);

        assertEq(count, 2, "first page");
        assertEq(first[0], _word(PROVIDER), "oldest");
        assertEq(first[1], _word(OTHER_PROVIDER), "second");
        assertEq(rest, 1, "second page");
        assertEq(second[0], _word(NEW_PROVIDER), "newest");
        assertEq(end, 0, "end");

        (, uint256 all,) = providers.fetchPage(0, 99);
        assertEq(all, 3, "page larger than the list");
    }

    function test_the_list_has_no_gap_after_a_removal() public {
        _register(NEW_PROVIDER);
        providers.approve(NEW_PROVIDER);
        uint256 middle = providers.findIdForDataFrom(_word(OTHER_PROVIDER), 0);

        providers.remove(OTHER_PROVIDER);
        (, uint256 next,,) = providers.get(providers.head());
        assertEq(next, providers.tail(), "the neighbours are linked");
        (uint256 id,,,) = providers.get(middle);
        assertEq(id, 0, "removed object");

        providers.remove(NEW_PROVIDER);
        assertEq(providers.head(), providers.tail(), "tail");

        providers.remove(PROVIDER);
        assertEq(providers.head() + providers.tail() + providers.elementCount(), 0, "empty");
        assertEq(providers.findIdForDataFrom(_word(PROVIDER), 0), 0, "not found");
    }

    function _register(address provider) private {
        vm.prank(provider);
        providers.register(hardware(), prices(), labels());
    }

    function _expectRefused(ProviderHardware memory storedHardware, bytes4 error_, address provider)
        private
    {
        expectError(error_);
        vm.prank(provider);
        providers.register(storedHardware, prices(), labels());
    }

    function _expectLabelsRefused(Label[] memory labels_) private {
        expectString("ProviderManager: too many or too long labels");
        vm.prank(NEW_PROVIDER);
        providers.register(hardware(), prices(), labels_);
    }

    function _hashOfWaitingRecord(address provider) private view returns (bytes32) {
        return keccak256(abi.encode(providers.getWaitingForApprovalProvider(provider)));
    }

    function _word(address provider) private pure returns (bytes32) {
        return bytes32(uint256(uint160(provider)));
    }
}
