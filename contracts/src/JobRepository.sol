// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {AccessControl} from "@openzeppelin/contracts/access/AccessControl.sol";

import {IJobRepository} from "./interfaces/IJobRepository.sol";
import {Lifecycle} from "./libraries/Lifecycle.sol";
import {Record, Records} from "./libraries/Records.sol";
import {Job, JobCost, JobDefinition, JobId, JobStatus, JobTerms, JobTime} from "./Types.sol";

/// @notice Implements IJobRepository; the documentation is in the interface.
contract JobRepository is IJobRepository, AccessControl {
    using Records for Record;

    bytes32 public constant METASCHEDULER_ROLE = keccak256("METASCHEDULER_ROLE");

    uint256 public jobIdCounter;
    mapping(JobId => Record) private _records;
    mapping(address customer => uint64[]) private _idsByCustomer;

    constructor(address _admin) {
        _grantRole(DEFAULT_ADMIN_ROLE, _admin);
    }

    // Writes.

    /// @inheritdoc IJobRepository
    function create(
        address customer,
        JobDefinition calldata definition,
        uint256 maxCost,
        bytes32 jobName,
        bool delegateSpendingAuthority
    ) external onlyRole(METASCHEDULER_ROLE) returns (JobId jobId) {
        uint256 id = ++jobIdCounter;
        jobId = JobId.wrap(bytes32(id));
        _idsByCustomer[customer].push(uint64(id)); // The counter never reaches 2^64.

        Record storage record = _records[jobId];
        record.customer = customer;
        record.submitTime = uint40(block.timestamp);
        // With one block per second, 2^32 blocks are 136 years.
        record.stateBlock = uint32(block.number);
        record.delegateSpendingAuthority = delegateSpendingAuthority;
        record.maxCost = _toUint128(maxCost);
        record.setDefinition(definition);
        record.name = jobName;
        emit JobCreated(jobId);
    }

    /// @inheritdoc IJobRepository
    function setMatched(JobId jobId, address provider, uint256 price)
        external
        onlyRole(METASCHEDULER_ROLE)
    {
        Record storage record = _transition(jobId, JobStatus.META_SCHEDULED);
        record.provider = provider;
        record.pricePerMinute = uint96(price); // Below 2^96, see Definitions.sol.
    }

    /// @inheritdoc IJobRepository
    function setUnmatched(JobId jobId) external onlyRole(METASCHEDULER_ROLE) {
        Record storage record = _transition(jobId, JobStatus.PENDING);
        record.provider = address(0);
        record.pricePerMinute = 0;
        record.claimTime = 0;
        // The next claim emits the minutes of the whole escrow. They include the minutes of a
        // pending top-up, so the top-up must not be emitted again.
        if (record.pendingTopUp != 0) record.pendingTopUp = 0;
    }

    /// @inheritdoc IJobRepository
    function setClaimed(JobId jobId)
        external
        onlyRole(METASCHEDULER_ROLE)
        returns (address customer, uint256 maxCost, uint256 price, JobDefinition memory definition)
    {
        Record storage record = _transition(jobId, JobStatus.SCHEDULED);
        record.claimTime = uint40(block.timestamp);
        return (record.customer, record.maxCost, record.pricePerMinute, record.toDefinition());
    }

    /// @inheritdoc IJobRepository
    function setRunning(JobId jobId, uint256 startTime) external onlyRole(METASCHEDULER_ROLE) {
        _transition(jobId, JobStatus.RUNNING).startTime = uint40(startTime);
    }

    /// @inheritdoc IJobRepository
    function setReport(JobId jobId, int64 exitCode, string calldata lastError)
        external
        onlyRole(METASCHEDULER_ROLE)
    {
        Record storage record = _recordOf(jobId);
        (record.exitCode, record.hasExitCode) = (exitCode, exitCode != 0);
        if (bytes(lastError).length != 0) record.lastError = lastError;
    }

    /// @inheritdoc IJobRepository
    function setEnded(
        JobId jobId,
        JobStatus status,
        uint256 finalCost,
        int64 exitCode,
        string calldata lastError
    ) external onlyRole(METASCHEDULER_ROLE) {
        Record storage record = _transition(jobId, status);
        record.endTime = uint40(block.timestamp);
        record.finalCost = _toUint128(finalCost);
        if (exitCode != 0 || record.hasExitCode) record.exitCode = exitCode;
        if (bytes(lastError).length != 0) record.lastError = lastError;
    }

    /// @inheritdoc IJobRepository
    function setCancelRequested(JobId jobId) external onlyRole(METASCHEDULER_ROLE) {
        Record storage record = _recordOf(jobId);
        record.hasCancelRequest = true;
        record.cancelRequestTime = uint40(block.timestamp);
        record.isCancelledUnstarted = record.status != JobStatus.RUNNING;
    }

    /// @inheritdoc IJobRepository
    function setDelegateSpendingAuthority(JobId jobId, bool delegateSpendingAuthority)
        external
        onlyRole(METASCHEDULER_ROLE)
    {
        _recordOf(jobId).delegateSpendingAuthority = delegateSpendingAuthority;
    }

    /// @inheritdoc IJobRepository
    function addTopUp(JobId jobId, uint256 amount)
        external
        onlyRole(METASCHEDULER_ROLE)
        returns (bool isFirst)
    {
        Record storage record = _recordOf(jobId);
        isFirst = record.pendingTopUp == 0;
        uint256 maxCost = uint256(record.maxCost) + _toUint128(amount);
        record.maxCost = _toUint128(maxCost);
        record.pendingTopUp += uint128(amount); // The sum is at most maxCost.
    }

    /// @inheritdoc IJobRepository
    function takeTopUp(JobId jobId)
        external
        onlyRole(METASCHEDULER_ROLE)
        returns (uint256 costBefore, uint256 costAfter, uint256 price)
    {
        Record storage record = _recordOf(jobId);
        costAfter = record.maxCost;
        costBefore = costAfter - record.pendingTopUp;
        price = record.pricePerMinute;
        record.pendingTopUp = 0;
    }

    // Reads.

    /// @inheritdoc IJobRepository
    function get(JobId jobId) public view returns (Job memory) {
        return _recordOf(jobId).toJob(jobId);
    }

    /// @inheritdoc IJobRepository
    function getMany(JobId[] calldata jobIds) external view returns (Job[] memory result) {
        result = new Job[](jobIds.length);
        for (uint256 i = 0; i < jobIds.length; ++i) {
            result[i] = get(jobIds[i]);
        }
    }

    /// @notice The fields of a record. All fields are zero if the job does not exist.
    function jobs(JobId id)
        external
        view
        returns (
            JobId jobId,
            JobStatus status,
            address customerAddr,
            address providerAddr,
            JobDefinition memory definition,
            JobCost memory cost,
            JobTime memory time,
            bytes32 jobName,
            bool hasCancelRequest,
            string memory lastError,
            int64 exitCode
        )
    {
        Record storage record = _records[id];
        if (record.customer != address(0)) jobId = id;
        Job memory job = record.toJob(jobId);
        return (
            jobId,
            job.status,
            job.customerAddr,
            job.providerAddr,
            job.definition,
            job.cost,
            job.time,
            job.jobName,
            job.hasCancelRequest,
            job.lastError,
            job.exitCode
        );
    }

    /// @inheritdoc IJobRepository
    function terms(JobId jobId) public view returns (JobTerms memory) {
        return _recordOf(jobId).toTerms();
    }

    /// @inheritdoc IJobRepository
    function termsMany(JobId[] calldata jobIds) external view returns (JobTerms[] memory result) {
        result = new JobTerms[](jobIds.length);
        for (uint256 i = 0; i < jobIds.length; ++i) {
            result[i] = terms(jobIds[i]);
        }
    }

    /// @inheritdoc IJobRepository
    function billUntil(JobId jobId) public view returns (uint256) {
        Record storage record = _recordOf(jobId);
        return record.isCancelledUnstarted ? record.cancelRequestTime : type(uint256).max;
    }

    /// @inheritdoc IJobRepository
    function billUntilMany(JobId[] calldata jobIds)
        external
        view
        returns (uint256[] memory result)
    {
        result = new uint256[](jobIds.length);
        for (uint256 i = 0; i < jobIds.length; ++i) {
            result[i] = billUntil(jobIds[i]);
        }
    }

    /// @inheritdoc IJobRepository
    function resources(JobId jobId)
        external
        view
        returns (
            uint256 gpus,
            uint256 memPerCpu,
            uint256 cpusPerTask,
            uint256 ntasks,
            uint256 maxCost
        )
    {
        Record storage record = _recordOf(jobId);
        return (record.gpus, record.memPerCpu, record.cpusPerTask, record.ntasks, record.maxCost);
    }

    /// @inheritdoc IJobRepository
    function pricePerMinute(JobId jobId) external view returns (uint256) {
        return _recordOf(jobId).pricePerMinute;
    }

    /// @inheritdoc IJobRepository
    function getByCustomer(address customer) external view returns (JobId[] memory jobIds) {
        (jobIds,) = getByCustomerPage(customer, 0, type(uint256).max);
    }

    /// @inheritdoc IJobRepository
    function getByCustomerPage(address customer, uint256 cursor, uint256 howMany)
        public
        view
        returns (JobId[] memory jobIds, uint256 newCursor)
    {
        uint64[] storage ids = _idsByCustomer[customer];
        uint256 available = cursor < ids.length ? ids.length - cursor : 0;
        if (howMany > available) howMany = available;
        jobIds = new JobId[](howMany);
        for (uint256 i = 0; i < howMany; ++i) {
            jobIds[i] = JobId.wrap(bytes32(uint256(ids[cursor + i])));
        }
        newCursor = cursor + howMany;
    }

    /// @notice The job at a position of a customer's list. Panics (0x32) if the list has no such
    /// position.
    function jobIdByCustomer(address customer, uint256 index) external view returns (JobId) {
        return JobId.wrap(bytes32(uint256(_idsByCustomer[customer][index])));
    }

    /// @inheritdoc IJobRepository
    function jobCountByCustomer(address customer) external view returns (uint256) {
        return _idsByCustomer[customer].length;
    }

    /// @inheritdoc IJobRepository
    function isClaimable(JobId jobId, address provider) external view returns (bool) {
        Record storage record = _records[jobId];
        return record.status == JobStatus.META_SCHEDULED && record.provider == provider;
    }

    /// @inheritdoc IJobRepository
    function isCancelling(JobId jobId, address provider) external view returns (bool) {
        Record storage record = _records[jobId];
        JobStatus status = record.status;
        // A job that the customer or the matching service has ended may still be in the provider's
        // Slurm queue. Therefore the provider must also cancel such a job.
        bool awaitsCancellation = status == JobStatus.CANCELLED || status == JobStatus.PANICKED
            || (!Lifecycle.isCold(status) && record.hasCancelRequest);
        return awaitsCancellation && record.provider == provider;
    }

    /// @inheritdoc IJobRepository
    function isToppedUp(JobId jobId, address provider) external view returns (bool) {
        Record storage record = _records[jobId];
        return
            record.pendingTopUp != 0 && record.provider == provider
                && !Lifecycle.isCold(record.status);
    }

    // Internal functions.

    /// @dev Only this function changes the state of a job.
    function _transition(JobId jobId, JobStatus to) private returns (Record storage record) {
        record = _recordOf(jobId);
        JobStatus from = record.status;
        Lifecycle.check(from, to);
        record.status = to;
        record.stateBlock = uint32(block.number);
        emit JobTransitionEvent(jobId, from, to);
    }

    function _recordOf(JobId jobId) private view returns (Record storage record) {
        record = _records[jobId];
        if (record.customer == address(0)) revert InvalidJob();
    }

    function _toUint128(uint256 amount) private pure returns (uint128) {
        if (amount > type(uint128).max) revert InvalidJob();
        return uint128(amount);
    }
}
