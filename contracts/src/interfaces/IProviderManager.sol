// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Label, Provider, ProviderHardware, ProviderPrices} from "../Types.sol";

/// @notice The records of the providers, with their hardware, prices and labels. A provider
/// registers its record. The record becomes active when the admin or an account with
/// METASCHEDULER_ROLE approves it. A change of hardware or labels requires a new registration and
/// approval. Until the approval, the old record remains active. A joined provider is one that is
/// approved and not banned. A draining provider is one that has stopped matches of new jobs to
/// itself.
/// @dev No view reverts for an unknown address. The views return a record of zeros.
interface IProviderManager {
    event ProviderWaitingForApproval(address addr);
    event ProviderApproved(address addr);
    event ProviderRemoved(address addr);
    event ProviderBanChanged(address addr, bool status);
    event ProviderPricesChanged(
        address indexed provider,
        uint256 gpuPricePerMin,
        uint256 cpuPricePerMin,
        uint256 memPricePerMin
    );
    event ProviderDrainingChanged(address indexed provider, bool draining);

    error AlreadyDone();
    error ArrayLengthMismatch();
    error Banned();
    error InvalidNodesCount();
    error InvalidTotalCpus();
    error InvalidTotalMem();
    error NoProvider();
    error WaitingApprovalOnly();
    /// @notice The waiting record is not the one that was to be approved. DeepSquare 1.2 does not
    /// have this error.
    error RecordChanged(bytes32 currentHash);

    /// @notice Requests the approval of the caller's hardware, prices and labels. Replaces an
    /// earlier request. A provider has at most 64 labels. A key or a value has at most 64 bytes.
    function register(
        ProviderHardware calldata hardware,
        ProviderPrices calldata prices,
        Label[] calldata labels
    ) external;

    /// @notice Changes the caller's prices for future matches. Only joined providers may call this.
    function setPrices(ProviderPrices calldata prices) external;

    /// @notice Stops or resumes matches of new jobs to the caller. Only joined providers may call
    /// this.
    function setDraining(bool draining) external;

    /// @notice Makes the waiting record of `provider` the active one.
    /// Warning: the provider may replace the record before the call is mined. Use approveRecord.
    function approve(address provider) external;

    /// @notice Does the same as approve, but reverts with RecordChanged if the waiting record is not
    /// the one with this hash. DeepSquare 1.2 does not have this function.
    /// @param recordHash The keccak-256 hash of the data that getWaitingForApprovalProvider returns.
    function approveRecord(address provider, bytes32 recordHash) external;

    /// @notice Removes a provider. The provider gets no new jobs, but may end its existing jobs.
    function remove(address provider) external;

    /// @notice Bans a provider. The provider gets no new jobs and cannot register again, but may
    /// end its existing jobs.
    function ban(address provider) external;

    /// @notice Lifts a ban.
    function unban(address provider) external;

    /// @notice Counts a started job. Only an account with METASCHEDULER_CONTRACT_ROLE may call this
    /// function.
    function incJobCount(address provider) external;

    /// @notice The active record.
    function getProvider(address provider) external view returns (Provider memory);

    /// @notice The record that waits for approval.
    function getWaitingForApprovalProvider(address provider) external view returns (Provider memory);

    /// @notice Whether a provider is approved and not banned. Only such a provider may claim jobs.
    function isJoined(address provider) external view returns (bool);

    /// @notice Whether a provider is draining.
    function isDraining(address provider) external view returns (bool);

    /// @notice Whether a provider is joined and not draining. Jobs are matched only to such a
    /// provider.
    function isValidForScheduling(address provider) external view returns (bool);

    /// @notice For each price of the active record, the lowest value since PRICE_NOTICE seconds
    /// before now or earlier. DeepSquare 1.2 does not have this function.
    function recentPrices(address provider) external view returns (ProviderPrices memory);

    /// @notice The results of isValidForScheduling and getProviderPrices, in one call.
    function schedulingTerms(address provider)
        external
        view
        returns (bool valid, ProviderPrices memory prices);
}
