// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {
    Affinity,
    Job,
    JobCost,
    JobDefinition,
    JobId,
    JobStatus,
    JobTerms,
    JobTime,
    Label
} from "../Types.sol";

/// @notice The storage layout of a job.
/// @dev Values that are written together share a slot. For example, every transition writes slot 0,
/// and a match also writes slot 1.
struct Record {
    // Slot 0: written by every transition.
    address customer;
    JobStatus status;
    uint40 submitTime;
    uint32 stateBlock;
    bool delegateSpendingAuthority;
    bool hasCancelRequest;
    // Slot 1: written by a match.
    address provider;
    uint96 pricePerMinute;
    // Slot 2: written by the request and by top-ups.
    uint128 maxCost;
    uint40 memPerCpu;
    uint24 gpus;
    uint24 cpusPerTask;
    uint24 ntasks;
    uint8 storageType;
    bool hasLabels;
    // Slot 3: written by claim, start and end.
    uint128 finalCost;
    uint40 claimTime;
    uint40 startTime;
    uint40 endTime;
    bool hasExitCode; // An earlier report contained an exit code.
    // Slot 4: written by top-ups, cancellations and failures.
    uint128 pendingTopUp;
    int64 exitCode;
    uint40 cancelRequestTime;
    bool isCancelledUnstarted; // The request was made before the start was recorded.
    // Each of these values has its own slot. A string of up to 31 bytes needs no second slot.
    bytes32 name;
    string batchLocationHash;
    string lastError;
    Label[] uses;
    Affinity[] affinity;
}

/// @notice Conversions between a stored job and the structs that views return.
library Records {
    /// @notice Stores a definition in a new record. The casts are safe within the bounds of
    /// Definitions.sol.
    function setDefinition(Record storage record, JobDefinition calldata definition) internal {
        record.gpus = uint24(definition.gpus);
        record.memPerCpu = uint40(definition.memPerCpu);
        record.cpusPerTask = uint24(definition.cpusPerTask);
        record.ntasks = uint24(definition.ntasks);
        record.storageType = definition.storageType;
        record.batchLocationHash = definition.batchLocationHash;
        uint256 uses = definition.uses.length;
        uint256 affinities = definition.affinity.length;
        if (uses + affinities == 0) return;
        record.hasLabels = true;
        for (uint256 i = 0; i < uses; ++i) {
            record.uses.push(definition.uses[i]);
        }
        for (uint256 i = 0; i < affinities; ++i) {
            record.affinity.push(definition.affinity[i]);
        }
    }

    /// @notice The definition from the job request.
    function toDefinition(Record storage record)
        internal
        view
        returns (JobDefinition memory definition)
    {
        definition.gpus = record.gpus;
        definition.memPerCpu = record.memPerCpu;
        definition.cpusPerTask = record.cpusPerTask;
        definition.ntasks = record.ntasks;
        definition.storageType = record.storageType;
        definition.batchLocationHash = record.batchLocationHash;
        if (record.hasLabels) {
            definition.uses = record.uses;
            definition.affinity = record.affinity;
        }
    }

    /// @notice Converts the record to the struct that the views return.
    function toJob(Record storage record, JobId jobId) internal view returns (Job memory job) {
        job.jobId = jobId;
        job.status = record.status;
        job.customerAddr = record.customer;
        job.providerAddr = record.provider;
        job.definition = toDefinition(record);
        job.cost = JobCost({
            maxCost: record.maxCost,
            finalCost: record.finalCost,
            pendingTopUp: record.pendingTopUp,
            delegateSpendingAuthority: record.delegateSpendingAuthority
        });
        job.time = JobTime({
            submit: record.submitTime,
            start: _shownStart(record),
            end: record.endTime,
            cancelRequestTimestamp: record.hasCancelRequest
                ? record.cancelRequestTime
                : record.submitTime,
            blockNumberStateChange: record.stateBlock,
            panicTimestamp: record.status == JobStatus.PANICKED ? record.endTime : 0
        });
        job.jobName = record.name;
        job.hasCancelRequest = record.hasCancelRequest;
        job.lastError = record.lastError;
        job.exitCode = record.exitCode;
    }

    /// @dev For a job that ended without a start, the time of its end. Existing clients show the end
    /// minus the start as the run time. `toTerms` has the start as stored: 0 for such a job.
    function _shownStart(Record storage record) private view returns (uint256) {
        return record.startTime == 0 ? record.endTime : record.startTime;
    }

    /// @notice The record without its strings.
    function toTerms(Record storage record) internal view returns (JobTerms memory) {
        return JobTerms({
            status: record.status,
            customer: record.customer,
            provider: record.provider,
            pricePerMinute: record.pricePerMinute,
            maxCost: record.maxCost,
            claimTime: record.claimTime,
            startTime: record.startTime,
            stateBlock: record.stateBlock,
            delegateSpendingAuthority: record.delegateSpendingAuthority,
            hasCancelRequest: record.hasCancelRequest
        });
    }
}
