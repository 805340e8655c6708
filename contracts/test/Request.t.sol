// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IJobRepository} from "../src/interfaces/IJobRepository.sol";
import {IMetaScheduler} from "../src/interfaces/IMetaScheduler.sol";
import {Job, JobDefinition, JobId, JobStatus} from "../src/Types.sol";
import {Grid} from "./Grid.sol";

/// @notice Requests of jobs, with and without a permit, and the list of a customer's jobs.
/// The admin can close the set of contracts. A closed set accepts no new jobs.
contract RequestTest is Grid {
    function test_a_closed_set_accepts_no_new_job() public {
        meta.setEnableRequestNewJob(false);

        expectError(IMetaScheduler.NewJobRequestDisabled.selector);
        request(ALICE, ESCROW);
    }

    function test_a_closed_set_continues_its_jobs() public {
        JobId jobId = matchedJob(ESCROW);
        meta.setEnableRequestNewJob(false);
        vm.startPrank(PROVIDER);
        meta.claimNextJob();
        meta.setJobRunning(jobId, uint64(block.timestamp));
        vm.stopPrank();
        passTime(60);

        settle(jobId, JobStatus.FINISHED, 60);

        assertEq(credit.balanceOf(address(meta)), meta.accruedFees(), "only fees are left");
    }

    function test_the_cancel_time_of_a_new_job_is_its_request_time() public {
        JobId jobId = request(ALICE, ESCROW);
        passTime(60);

        assertEq(jobOf(jobId).time.cancelRequestTimestamp, START_TIME, "as in version 1.2");
        assertTrue(!jobOf(jobId).hasCancelRequest, "no request");
    }

    function test_an_escrow_below_the_minimum_is_refused_with_both_amounts() public {
        vm.expectRevert(
            abi.encodeWithSelector(IMetaScheduler.InsufficientFunds.selector, 100e18 - 1, 100e18)
        );
        request(ALICE, 100e18 - 1);
    }

    function test_an_escrow_too_large_for_the_record_is_refused() public {
        expectError(IJobRepository.InvalidJob.selector);
        request(ALICE, 1 << 128);
    }

    function test_an_invalid_definition_is_refused() public {
        JobDefinition memory empty;

        expectError(IMetaScheduler.InvalidJobDefinition.selector);
        vm.prank(ALICE);
        meta.requestNewJob(empty, ESCROW, "job", false);
    }

    function test_a_request_without_allowance_fails_with_the_tokens_error() public {
        vm.prank(ALICE);
        credit.approve(address(meta), 0);

        expectString("ERC20: insufficient allowance");
        request(ALICE, ESCROW);
    }

    function test_a_request_without_credits_fails_with_the_tokens_error() public {
        expectString("ERC20: transfer amount exceeds balance");
        request(ALICE, FUNDS + 1);
    }

    function test_a_request_holds_the_credits_and_stores_the_job() public {
        vm.prank(ALICE);
        JobId jobId = meta.requestNewJob(labelledDefinition(), ESCROW, "my job", true);

        Job memory job = jobOf(jobId);
        assertEq(uint256(JobId.unwrap(jobId)), 1, "first id");
        assertEq(job.customerAddr, ALICE, "customer");
        assertEq(job.providerAddr, address(0), "provider");
        assertEq(
            keccak256(abi.encode(job.definition)),
            keccak256(abi.encode(labelledDefinition())),
            "definition"
        );
        assertEq(job.cost.maxCost, ESCROW, "escrow");
        assertTrue(job.cost.delegateSpendingAuthority, "delegate");
        assertEq(job.time.submit, START_TIME, "submit");
        assertEq(job.time.blockNumberStateChange, 1000, "block");
        assertEq(job.jobName, "my job", "name");
        assertEq(credit.balanceOf(ALICE), FUNDS - ESCROW, "customer's credits");
        assertConserved();
    }

    function test_a_hash_longer_than_a_slot_is_stored_completely() public {
        JobDefinition memory longHash = definition();
        longHash.batchLocationHash = "https://example.org/a/rather/long/place/for/a/script.json";

        vm.prank(ALICE);
        JobId jobId = meta.requestNewJob(longHash, ESCROW, "job", false);

        assertEq(jobOf(jobId).definition.batchLocationHash, longHash.batchLocationHash, "hash");
    }

    function test_a_permit_replaces_the_approval() public {
        uint256 key = 0xCAFE;
        address customer = vm.addr(key);
        credit.transfer(customer, ESCROW);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, _permit(customer, ESCROW, 0));

        vm.prank(customer);
        meta.requestNewJobWithPermit(definition(), ESCROW, "job", false, block.timestamp, v, r, s);

        assertEq(credit.balanceOf(customer), 0, "credits of the customer");
        assertConserved();
    }

    function test_a_used_permit_is_ignored_when_the_allowance_suffices() public {
        uint256 key = 0xCAFE;
        address customer = vm.addr(key);
        credit.transfer(customer, ESCROW);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, _permit(customer, ESCROW, 0));
        credit.permit(customer, address(meta), ESCROW, block.timestamp, v, r, s);

        vm.prank(customer);
        meta.requestNewJobWithPermit(definition(), ESCROW, "job", false, block.timestamp, v, r, s);

        assertEq(credit.balanceOf(customer), 0, "credits of the customer");
    }

    function test_a_forged_permit_without_allowance_fails_with_the_tokens_error() public {
        vm.startPrank(ALICE);
        credit.approve(address(meta), ESCROW - 1);

        expectString("ERC20: insufficient allowance");
        meta.requestNewJobWithPermit(
            definition(), ESCROW, "job", false, block.timestamp, 27, "r", "s"
        );
    }

    function test_the_jobs_of_a_customer_are_listed_in_order_and_in_pages() public {
        for (uint256 i = 0; i < 7; ++i) {
            request(i % 2 == 0 ? ALICE : BOB, ESCROW);
        }

        JobId[] memory all = jobs.getByCustomer(ALICE);
        (JobId[] memory page, uint256 cursor) = jobs.getByCustomerPage(ALICE, 1, 2);
        (JobId[] memory none, uint256 unchangedCursor) = jobs.getByCustomerPage(ALICE, 9, 2);

        assertEq(all.length, 4, "count");
        assertEq(jobs.jobCountByCustomer(ALICE), 4, "count of the getter");
        assertEq(JobId.unwrap(all[3]), bytes32(uint256(7)), "newest last");
        assertEq(JobId.unwrap(jobs.jobIdByCustomer(ALICE, 1)), bytes32(uint256(3)), "second");
        assertEq(page.length, 2, "page");
        assertEq(JobId.unwrap(page[0]), bytes32(uint256(3)), "page starts at its cursor");
        assertEq(cursor, 3, "cursor");
        assertEq(none.length, 0, "no job after the end");
        assertEq(unchangedCursor, 9, "cursor after the end");
    }

    function _permit(address customer, uint256 value, uint256 nonce)
        private
        view
        returns (bytes32)
    {
        bytes32 typeHash = keccak256(
            "Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)"
        );
        bytes32 message =
            keccak256(abi.encode(typeHash, customer, address(meta), value, nonce, block.timestamp));
        return keccak256(abi.encodePacked("\x19\x01", credit.DOMAIN_SEPARATOR(), message));
    }
}
