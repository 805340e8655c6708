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

/// @notice Tests with hostile tokens: a caller gains no credits by a reentrant call, and loses no
/// credits by a refused transfer.
contract TokensTest is Grid {
    CallingToken private token;
    Customer private customer;

    function setUp() public override {
        vm.warp(START_TIME);
        token = new CallingToken();
        jobs = new JobRepository(address(this));
        providers = new ProviderManager(address(this));
        queues = new ProviderJobQueues(address(this), jobs);
        constants = new Constants(address(this));
        meta = new MetaScheduler(
            address(this), ICredit(address(token)), constants, providers, queues, jobs
        );
        jobs.grantRole(jobs.METASCHEDULER_ROLE(), address(meta));
        providers.grantRole(providers.METASCHEDULER_CONTRACT_ROLE(), address(meta));
        queues.transferOwnership(address(meta));
        meta.grantRole(meta.METASCHEDULER_ROLE(), MATCHER);
        join(PROVIDER, prices());
        customer = new Customer(meta);
        token.mint(address(customer), 10 * ESCROW);
        token.mint(ALICE, ESCROW);
        request(ALICE, ESCROW); // These credits of another customer must not move.
    }

    function test_a_refused_pull_creates_no_job() public {
        token.setRefusing(true);

        expectString("SafeERC20: ERC20 operation did not succeed");
        customer.request(definition(), ESCROW);
    }

    function test_a_refused_payment_leaves_the_job_unchanged() public {
        JobId jobId = customer.request(definition(), ESCROW);
        token.setRefusing(true);

        expectString("SafeERC20: ERC20 operation did not succeed");
        customer.cancel(jobId);

        assertStatus(jobId, JobStatus.PENDING);
    }

    function test_a_reentrant_cancel_during_a_refund_gains_nothing() public {
        JobId jobId = customer.request(definition(), ESCROW);
        token.callDuringNextTransfer(address(customer), abi.encodeCall(customer.cancel, (jobId)));

        customer.cancel(jobId);

        assertTrue(!token.callSucceeded(), "refused");
        _assertShares(10 * ESCROW, ESCROW);
    }

    function test_a_reentrant_cancel_during_a_request_gains_nothing() public {
        // The request creates job 2, because ALICE has job 1.
        token.callDuringNextTransfer(
            address(customer), abi.encodeCall(customer.cancel, (JobId.wrap(bytes32(uint256(2)))))
        );

        JobId jobId = customer.request(definition(), ESCROW);

        assertTrue(token.callSucceeded(), "cancelled");
        assertStatus(jobId, JobStatus.CANCELLED);
        _assertShares(10 * ESCROW, ESCROW);
    }

    function test_a_reentrant_request_during_a_refund_holds_its_escrow() public {
        JobId jobId = customer.request(definition(), ESCROW);
        token.callDuringNextTransfer(
            address(customer), abi.encodeCall(customer.request, (definition(), 2 * ESCROW))
        );

        customer.cancel(jobId);

        // The grid holds 2 * ESCROW for the new job, and ESCROW for ALICE's job.
        assertTrue(token.callSucceeded(), "requested");
        _assertShares(8 * ESCROW, 3 * ESCROW);
    }

    /// @dev Asserts the credits of the customer, and the credits that the grid holds in escrow.
    function _assertShares(uint256 customerCredits, uint256 escrow) private view {
        assertEq(token.balanceOf(address(customer)), customerCredits, "customer");
        assertEq(token.balanceOf(address(meta)), escrow, "escrow");
    }
}
