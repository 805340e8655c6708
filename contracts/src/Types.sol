// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice Names one job of this contract set: a counter from 1 upwards, never used again.
type JobId is bytes32;

/// @notice Where a job stands. The first four are hot (escrow locked), the last five are cold (escrow paid out).
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

/// @notice A key and a value, by which providers describe themselves and jobs ask for providers.
struct Label {
    string key;
    string value;
}

/// @notice A condition on a provider's label.
struct Affinity {
    Label label;
    bytes2 op;
}

/// @notice What a job needs and where its script lies.
/// @dev `gpus` counts the whole job, `memPerCpu` is in MB. `storageType` (0 to 4) is a number here and not an
/// enum: the decoder would answer a wrong one with an empty revert, we answer InvalidJobDefinition.
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

/// @notice The money of a job, in wei of Credit. `maxCost` is everything ever locked for it.
struct JobCost {
    uint256 maxCost;
    uint256 finalCost;
    uint256 pendingTopUp;
    bool delegateSpendingAuthority;
}

/// @notice The times of a job, in seconds since 1970, but for the block of its last change of state.
struct JobTime {
    uint256 submit;
    uint256 start;
    uint256 end;
    uint256 cancelRequestTimestamp;
    uint256 blockNumberStateChange;
    uint256 panicTimestamp;
}

/// @notice A job as its readers see it.
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

/// @notice What a decision about a job needs to know, without its texts.
/// @dev `pricePerMinute` is the price of the whole job, fixed when it was matched. Times are seconds since 1970.
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

/// @notice The machines of a provider: one entry per node in each array, memory in MB.
struct ProviderHardware {
    uint64 nodes;
    uint64[] gpusPerNode;
    uint64[] cpusPerNode;
    uint64[] memPerNode;
}

/// @notice The prices of a provider, in wei of Credit per unit and minute. The unit of memory is one MB.
struct ProviderPrices {
    uint256 gpuPricePerMin;
    uint256 cpuPricePerMin;
    uint256 memPricePerMin;
}

/// @notice A provider as its readers see it.
struct Provider {
    address addr;
    ProviderHardware providerHardware;
    ProviderPrices providerPrices;
    Label[] labels;
    bool isBanned;
}

/// @notice One element of a batch of matches, with the highest price of the whole job per minute that it accepts.
struct Match {
    JobId jobId;
    address provider;
    uint256 maxPricePerMinute;
}

/// @notice One element of a batch of starts.
struct Start {
    JobId jobId;
    uint64 startTime;
}

/// @notice One element of a batch of settlements.
/// @dev `status` is a number for the reason told at JobDefinition: one bad element must not spoil the batch.
struct Settlement {
    JobId jobId;
    uint8 status;
    uint64 billedSeconds;
    int64 exitCode;
    string lastError;
    bytes32 evidence;
}
