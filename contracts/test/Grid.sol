// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Constants} from "../src/Constants.sol";
import {Credit} from "../src/Credit.sol";
import {JobRepository} from "../src/JobRepository.sol";
import {MetaScheduler} from "../src/MetaScheduler.sol";
import {ProviderJobQueues} from "../src/ProviderJobQueues.sol";
import {ProviderManager} from "../src/ProviderManager.sol";
import {
    Affinity,
    Job,
    JobDefinition,
    JobId,
    JobStatus,
    Label,
    ProviderHardware,
    ProviderPrices
} from "../src/Types.sol";
import {Base} from "./Base.sol";

/// @notice Base of tests that need all contracts of a grid. It deploys the contracts, and has two
/// customers and two approved providers. Its functions call the contracts with these accounts.
abstract contract Grid is Base {
    address internal constant ALICE = address(0xA11CE);
    address internal constant BOB = address(0xB0B);
    address internal constant PROVIDER = address(0xC105);
    address internal constant OTHER_PROVIDER = address(0xC106);
    address internal constant MATCHER = address(0x3A7C);
    address internal constant OUTSIDER = address(0x57A9);

    uint256 internal constant ESCROW = 1000e18;
    uint256 internal constant FUNDS = 1_000_000e18;
    uint256 internal constant START_TIME = 1_800_000_000;
    // The price per minute of a job with definition() at prices(), in wei. The job has 3 tasks, 2
    // CPUs per task, 100 MB per CPU, and 1 GPU.
    uint256 internal constant PRICE = 14_248e15;

    Credit internal credit;
    Constants internal constants;
    ProviderManager internal providers;
    JobRepository internal jobs;
    ProviderJobQueues internal queues;
    MetaScheduler internal meta;

    function setUp() public virtual {
        vm.warp(START_TIME);
        vm.roll(1000);
        credit = new Credit(address(this), address(this), 4 * FUNDS);
        constants = new Constants(address(this));
        providers = new ProviderManager(address(this));
        jobs = new JobRepository(address(this));
        queues = new ProviderJobQueues(address(this), jobs);
        meta = new MetaScheduler(address(this), credit, constants, providers, queues, jobs);
        jobs.grantRole(jobs.METASCHEDULER_ROLE(), address(meta));
        providers.grantRole(providers.METASCHEDULER_CONTRACT_ROLE(), address(meta));
        queues.transferOwnership(address(meta));
        meta.grantRole(meta.METASCHEDULER_ROLE(), MATCHER);
        join(PROVIDER, prices());
        join(OTHER_PROVIDER, prices());
        fund(ALICE);
        fund(BOB);
    }

    // Values.

    function prices() internal pure returns (ProviderPrices memory) {
        return ProviderPrices({gpuPricePerMin: 85e17, cpuPricePerMin: 95e16, memPricePerMin: 8e13});
    }

    function hardware() internal pure returns (ProviderHardware memory result) {
        result.nodes = 2;
        result.gpusPerNode = new uint64[](2);
        result.cpusPerNode = new uint64[](2);
        result.memPerNode = new uint64[](2);
        (result.gpusPerNode[0], result.cpusPerNode[0], result.memPerNode[0]) = (1, 16, 64_000);
        (result.gpusPerNode[1], result.cpusPerNode[1], result.memPerNode[1]) = (0, 32, 128_000);
    }

    function labels() internal pure returns (Label[] memory result) {
        result = new Label[](1);
        result[0] = Label({key: "os", value: "linux"});
    }

    function definition() internal pure returns (JobDefinition memory result) {
        result.gpus = 1;
        result.memPerCpu = 100;
        result.cpusPerTask = 2;
        result.ntasks = 3;
        result.batchLocationHash = "abcdefghijklmnopqrstuv";
        result.storageType = 4;
    }

    function labelledDefinition() internal pure returns (JobDefinition memory result) {
        result = definition();
        result.uses = labels();
        result.affinity = new Affinity[](1);
        result.affinity[0] = Affinity({label: labels()[0], op: "=="});
    }

    // Calls of customers and providers.

    function join(address provider, ProviderPrices memory prices_) internal {
        vm.prank(provider);
        providers.register(hardware(), prices_, labels());
        providers.approve(provider);
    }

    function fund(address customer) internal {
        credit.transfer(customer, FUNDS);
        vm.prank(customer);
        credit.approve(address(meta), type(uint256).max);
    }

    function request(address customer, uint256 escrow) internal returns (JobId) {
        vm.prank(customer);
        return meta.requestNewJob(definition(), escrow, "job", false);
    }

    function matchedJob(uint256 escrow) internal returns (JobId jobId) {
        jobId = request(ALICE, escrow);
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, PROVIDER);
    }

    function claimedJob(uint256 escrow) internal returns (JobId jobId) {
        jobId = matchedJob(escrow);
        vm.prank(PROVIDER);
        meta.claimNextJob();
    }

    function runningJob(uint256 escrow) internal returns (JobId jobId) {
        jobId = claimedJob(escrow);
        vm.prank(PROVIDER);
        meta.setJobRunning(jobId, uint64(block.timestamp));
    }

    function settle(JobId jobId, JobStatus status, uint64 time) internal {
        vm.prank(PROVIDER);
        meta.settleJob(jobId, uint8(status), time, 0, "", bytes32(0));
    }

    function passTime(uint256 time) internal {
        vm.warp(block.timestamp + time);
    }

    // Views and assertions.

    function statusOf(JobId jobId) internal view returns (uint256) {
        return uint256(jobs.terms(jobId).status);
    }

    function assertStatus(JobId jobId, JobStatus expected) internal view {
        assertEq(statusOf(jobId), uint256(expected), "status");
    }

    function jobOf(JobId jobId) internal view returns (Job memory) {
        return jobs.get(jobId);
    }

    /// @dev The contract's balance must be exactly the escrow of the jobs that have not ended,
    /// plus the fees.
    function assertConserved() internal view {
        uint256 locked = 0;
        for (uint256 id = 1; id <= jobs.jobIdCounter(); ++id) {
            Job memory job = jobs.get(JobId.wrap(bytes32(id)));
            if (job.status < JobStatus.CANCELLED) locked += job.cost.maxCost;
        }
        assertEq(credit.balanceOf(address(meta)), locked + meta.accruedFees(), "escrow and fees");
    }
}
