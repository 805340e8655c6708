// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Job, JobCost, JobId, JobStatus, JobTime} from "../../src/Types.sol";
import {Owned1, Roles1} from "./Access1.sol";
import {Tools1} from "./Tools1.sol";

/// @notice The records of DeepSquare 1.2, with one setter per field.
contract JobRepository1 is Roles1 {
    bytes32 public constant METASCHEDULER_ROLE = keccak256("METASCHEDULER_ROLE");

    uint256 public jobIdCounter;
    mapping(JobId jobId => Job) private _jobs;
    mapping(address customer => JobId[]) private _byCustomer;

    event JobCreated(JobId _jobId);
    event JobTransitionEvent(JobId _jobId, JobStatus _from, JobStatus _to);

    error InvalidJob();

    function create(Job calldata _job) external onlyRole(METASCHEDULER_ROLE) returns (JobId jobId) {
        jobId = JobId.wrap(bytes32(++jobIdCounter));
        Job storage job = _jobs[jobId];
        job.jobId = jobId;
        job.customerAddr = _job.customerAddr;
        job.cost = _job.cost;
        job.time = _job.time;
        job.jobName = _job.jobName;
        job.definition.gpus = _job.definition.gpus;
        job.definition.memPerCpu = _job.definition.memPerCpu;
        job.definition.cpusPerTask = _job.definition.cpusPerTask;
        job.definition.ntasks = _job.definition.ntasks;
        job.definition.batchLocationHash = _job.definition.batchLocationHash;
        job.definition.storageType = _job.definition.storageType;
        for (uint256 i = 0; i < _job.definition.uses.length; ++i) {
            job.definition.uses.push(_job.definition.uses[i]);
        }
        for (uint256 i = 0; i < _job.definition.affinity.length; ++i) {
            job.definition.affinity.push(_job.definition.affinity[i]);
        }
        _byCustomer[_job.customerAddr].push(jobId);
        emit JobCreated(jobId);
    }

    function setJobStatus(JobId _jobId, JobStatus _newStatus)
        external
        onlyRole(METASCHEDULER_ROLE)
    {
        Job storage job = _existing(_jobId);
        JobStatus current = job.status;
        Tools1.checkNewJobStatus(current, _newStatus);
        job.status = _newStatus;
        job.time.blockNumberStateChange = block.number;
        emit JobTransitionEvent(_jobId, current, _newStatus);
    }

    function setProviderAddr(JobId _jobId, address _providerAddr)
        external
        onlyRole(METASCHEDULER_ROLE)
    {
        _existing(_jobId).providerAddr = _providerAddr;
    }

    function setCost(JobId _jobId, JobCost calldata _cost) external onlyRole(METASCHEDULER_ROLE) {
        _existing(_jobId).cost = _cost;
    }

    function setTime(JobId _jobId, JobTime calldata _time) external onlyRole(METASCHEDULER_ROLE) {
        Job storage job = _existing(_jobId);
        uint256 stateChange = job.time.blockNumberStateChange;
        job.time = _time;
        job.time.blockNumberStateChange = stateChange;
    }

    function setHasCancelRequest(JobId _jobId, bool _hasCancelRequest)
        external
        onlyRole(METASCHEDULER_ROLE)
    {
        _existing(_jobId).hasCancelRequest = _hasCancelRequest;
    }

    function setLastError(JobId _jobId, string calldata _error)
        external
        onlyRole(METASCHEDULER_ROLE)
    {
        _existing(_jobId).lastError = _error;
    }

    function setExitCode(JobId _jobId, int64 _exitCode) external onlyRole(METASCHEDULER_ROLE) {
        _existing(_jobId).exitCode = _exitCode;
    }

    function get(JobId _jobId) external view returns (Job memory) {
        return _existing(_jobId);
    }

    function getByCustomer(address customerAddr) external view returns (JobId[] memory) {
        return _byCustomer[customerAddr];
    }

    function jobIdByCustomer(address customer, uint256 index) external view returns (JobId) {
        return _byCustomer[customer][index];
    }

    function _existing(JobId jobId) private view returns (Job storage job) {
        job = _jobs[jobId];
        if (job.customerAddr == address(0)) revert InvalidJob();
    }
}

/// @notice The queues of DeepSquare 1.2: first in, first out. A claim skips jobs that are not
/// META_SCHEDULED any more, but does not check the provider of the job.
contract ProviderJobQueues1 is Owned1 {
    struct Queue {
        uint256 first;
        JobId[] ids;
    }

    JobRepository1 public immutable jobs;
    mapping(address provider => Queue) private _claimable;
    mapping(address provider => Queue) private _cancelling;
    mapping(address provider => Queue) private _topUp;

    error NoJob();

    constructor(JobRepository1 _jobs) {
        jobs = _jobs;
    }

    function pushClaimableJob(address provider, JobId jobId) external onlyOwner {
        _claimable[provider].ids.push(jobId);
    }

    function pushCancellingJob(address provider, JobId jobId) external onlyOwner {
        _cancelling[provider].ids.push(jobId);
    }

    function pushTopUpJob(address provider, JobId jobId) external onlyOwner {
        _topUp[provider].ids.push(jobId);
    }

    function popNextClaimableJob(address provider) external onlyOwner returns (JobId) {
        _claimable[provider].first = _nextClaimable(provider);
        return _pop(_claimable[provider]);
    }

    function popNextCancellingJob(address provider) external onlyOwner returns (JobId) {
        return _pop(_cancelling[provider]);
    }

    function popNextTopUpJob(address provider) external onlyOwner returns (JobId) {
        return _pop(_topUp[provider]);
    }

    function hasNextClaimableJob(address provider) external view returns (bool) {
        return _nextClaimable(provider) < _claimable[provider].ids.length;
    }

    function hasCancellingJob(address provider) external view returns (bool) {
        return _size(_cancelling[provider]) > 0;
    }

    function hasTopUpJob(address provider) external view returns (bool) {
        return _size(_topUp[provider]) > 0;
    }

    function getClaimableJobQueueSize(address provider) external view returns (uint256) {
        return _size(_claimable[provider]);
    }

    function getCancellingJobQueueSize(address provider) external view returns (uint256) {
        return _size(_cancelling[provider]);
    }

    function getTopUpJobQueueSize(address provider) external view returns (uint256) {
        return _size(_topUp[provider]);
    }

    function _nextClaimable(address provider) private view returns (uint256 place) {
        Queue storage queue = _claimable[provider];
        for (place = queue.first; place < queue.ids.length; ++place) {
            if (jobs.get(queue.ids[place]).status == JobStatus.META_SCHEDULED) break;
        }
    }

    function _pop(Queue storage queue) private returns (JobId) {
        if (_size(queue) == 0) revert NoJob();
        return queue.ids[queue.first++];
    }

    function _size(Queue storage queue) private view returns (uint256) {
        return queue.ids.length - queue.first;
    }
}
