// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice The id of a job. The jobs of a JobRepository are numbered from 1.
type JobId is bytes32;

/// @notice The states of a job. The first four are called hot: the job has not ended, and its
/// escrow is held. The last five are called cold: the job has ended, and its escrow is paid out.
enum JobStatus {
    PENDING,
    META_SCHEDULED,
    SCHEDULED,
    RUNNING,
    CANCELLED,
    FINISHED,
    FAILED,
    OUT_OF_CREDITS,
    PANICKED
}

/// @notice A key and a value. Providers have labels, and jobs require them.
struct Label {
    string key;
    string value;
}

/// @notice A condition on a provider's label.
struct Affinity {
    Label label;
    bytes2 op;
}

/// @notice The resources of a job and the location of its script.
/// @dev `gpus` is for the whole job. `memPerCpu` is in MB. `storageType` is a number from 0 to 4.
/// It is not an enum, because a call with an invalid enum would revert without data. An invalid
/// number reverts with InvalidJobDefinition.
struct JobDefinition {
    uint64 gpus;
    uint64 memPerCpu;
    uint64 cpusPerTask;
    uint64 ntasks;
    string batchLocationHash;
    uint8 storageType;
    Label[] uses;
    Affinity[] affinity;
}

/// @notice The amounts of a job, in wei of Credit. `maxCost` is its escrow with all top-ups.
struct JobCost {
    uint256 maxCost;
    uint256 finalCost;
    uint256 pendingTopUp;
    bool delegateSpendingAuthority;
}

/// @notice The times of a job, in seconds since 1970, and the block of its last transition.
/// @dev If a job ended without a start, `start` equals `end`, as in DeepSquare 1.2. Clients that
/// must know whether the job started read JobTerms.
struct JobTime {
    uint256 submit;
    uint256 start;
    uint256 end;
    uint256 cancelRequestTimestamp;
    uint256 blockNumberStateChange;
    uint256 panicTimestamp;
}

/// @notice A job, as returned by the views.
struct Job {
    JobId jobId;
    JobStatus status;
    address customerAddr;
    address providerAddr;
    JobDefinition definition;
    JobCost cost;
    JobTime time;
    bytes32 jobName;
    bool hasCancelRequest;
    string lastError;
    int64 exitCode;
}

/// @notice The fields of a job that the contracts need for their decisions.
/// @dev `pricePerMinute` is the price for all resources of the job together, fixed at the match.
/// Times are seconds since 1970. `startTime` is 0 for a job that has not started.
struct JobTerms {
    JobStatus status;
    address customer;
    address provider;
    uint256 pricePerMinute;
    uint256 maxCost;
    uint256 claimTime;
    uint256 startTime;
    uint256 stateBlock;
    bool delegateSpendingAuthority;
    bool hasCancelRequest;
}

/// @notice The hardware of a provider. Each array has one entry per node. Memory is in MB.
struct ProviderHardware {
    uint64 nodes;
    uint64[] gpusPerNode;
    uint64[] cpusPerNode;
    uint64[] memPerNode;
}

/// @notice The prices of a provider, in wei of Credit per unit and minute. The unit of memory is
/// one MB.
struct ProviderPrices {
    uint256 gpuPricePerMin;
    uint256 cpuPricePerMin;
    uint256 memPricePerMin;
}

/// @notice A provider, as returned by the views.
struct Provider {
    address addr;
    ProviderHardware providerHardware;
    ProviderPrices providerPrices;
    Label[] labels;
    bool isBanned;
}

/// @notice An element of a batch of matches. `maxPricePerMinute` is the maximum price for all
/// resources of the job together.
struct Match {
    JobId jobId;
    address provider;
    uint256 maxPricePerMinute;
}

/// @notice An element of a batch of starts.
struct Start {
    JobId jobId;
    uint64 startTime;
}

/// @notice An element of a batch of settlements.
/// @dev `status` is a number, not an enum, so that an element with an invalid status does not
/// revert the whole batch.
struct Settlement {
    JobId jobId;
    uint8 status;
    uint64 billedSeconds;
    int64 exitCode;
    string lastError;
    bytes32 evidence;
}
