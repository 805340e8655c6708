// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Constants} from "../src/Constants.sol";
import {ICredit} from "../src/interfaces/ICredit.sol";
import {JobRepository} from "../src/JobRepository.sol";
import {MetaScheduler} from "../src/MetaScheduler.sol";
import {ProviderJobQueues} from "../src/ProviderJobQueues.sol";
import {ProviderManager} from "../src/ProviderManager.sol";
import {JobId, JobStatus} from "../src/Types.sol";
import {CallingToken, Customer} from "./Doubles.sol";
import {Grid} from "./Grid.sol";

/// @notice Tokens that misbehave: no credit is gained by calling back, and none is lost by a refusal.
contract TokensTest is Grid {
    CallingToken private token;
    Customer private customer;

    function setUp() public override {
        vm.warp(T0);
        token = new CallingToken();
        jobs = new JobRepository();
        providers = new ProviderManager();
        queues = new ProviderJobQueues(jobs);
        meta = new MetaScheduler(ICredit(address(token)), new Constants(), providers, queues, jobs);
        jobs.grantRole(jobs.METASCHEDULER_ROLE(), address(meta));
        providers.grantRole(providers.METASCHEDULER_CONTRACT_ROLE(), address(meta));
        queues.transferOwnership(address(meta));
        meta.grantRole(meta.METASCHEDULER_ROLE(), MATCHER);
        join(PROVIDER, prices());
        customer = new Customer(meta);
        token.mint(address(customer), 10 * LOCK);
        token.mint(ALICE, LOCK);
        request(ALICE, LOCK); // Somebody else's credits, which must stay.
    }

    function test_a_token_that_refuses_a_pull_makes_no_job() public {
        token.refuse(true);

        expectString("MetaScheduler: credits not received");
        customer.request(definition(), LOCK);
    }

    function test_a_token_that_refuses_a_payment_leaves_the_job_as_it_was() public {
        JobId jobId = customer.request(definition(), LOCK);
        token.refuse(true);

        expectString("MetaScheduler: credits not sent");
        customer.cancel(jobId);

        assertStatus(jobId, JobStatus.PENDING);
    }

    function test_cancelling_again_from_within_a_refund_gains_nothing() public {
        JobId jobId = customer.request(definition(), LOCK);
        token.arm(address(customer), abi.encodeCall(customer.cancel, (jobId)));

        customer.cancel(jobId);

        assertTrue(!token.succeeded(), "refused");
        _assertShares(10 * LOCK, LOCK);
    }

    function test_cancelling_from_within_ones_own_request_gains_nothing() public {
        token.arm(address(customer), abi.encodeCall(customer.cancel, (JobId.wrap(bytes32(uint256(2))))));

        JobId jobId = customer.request(definition(), LOCK);

        assertTrue(token.succeeded(), "cancelled");
        assertStatus(jobId, JobStatus.CANCELLED);
        _assertShares(10 * LOCK, LOCK);
    }

    function test_requesting_again_from_within_a_refund_locks_what_it_says() public {
        JobId jobId = customer.request(definition(), LOCK);
        token.arm(address(customer), abi.encodeCall(customer.request, (definition(), 2 * LOCK)));

        customer.cancel(jobId);

        assertTrue(token.succeeded(), "requested");
        _assertShares(8 * LOCK, 3 * LOCK);
    }

    function _assertShares(uint256 ofCustomer, uint256 ofEscrow) private view {
        assertEq(token.balanceOf(address(customer)), ofCustomer, "customer");
        assertEq(token.balanceOf(address(meta)), ofEscrow, "escrow");
    }
}
