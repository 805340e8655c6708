// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Roles} from "./access/Roles.sol";
import {IProviderManager} from "./interfaces/IProviderManager.sol";
import {Definitions} from "./libraries/Definitions.sol";
import {ProviderList} from "./ProviderList.sol";
import {Label, Provider, ProviderHardware, ProviderPrices} from "./Types.sol";

/// @notice Implements IProviderManager; the documentation is in the interface.
contract ProviderManager is IProviderManager, ProviderList, Roles {
    bytes32 public constant METASCHEDULER_ROLE = keccak256("METASCHEDULER_ROLE");
    bytes32 public constant METASCHEDULER_CONTRACT_ROLE = keccak256("METASCHEDULER_CONTRACT_ROLE");
    /// @notice Retained for existing clients. Registration is free.
    uint256 public constant PROVIDER_REGISTRATION_TAX = 0;
    /// @notice How long recentPrices returns a price from before a rise, in seconds.
    uint256 public constant PRICE_NOTICE = 10 minutes;
    uint256 private constant MAX_LABELS = 64;

    /// @dev The values that a match and a claim read. They share one slot.
    struct Standing {
        uint72 gpuPrice;
        uint72 cpuPrice;
        uint56 memPrice;
        uint32 jobCount;
        bool isApproved;
        bool isBanned;
        bool isDraining;
    }

    /// @dev The values that require an approval. If the number of nodes is 0, there is no profile.
    struct Profile {
        ProviderHardware hardware;
        Label[] labels;
    }

    /// @dev The prices before a rise, and its time. 0 means that no price was ever raised.
    struct EarlierPrices {
        uint72 gpuPrice;
        uint72 cpuPrice;
        uint56 memPrice;
        uint40 raisedAt;
    }

    mapping(address provider => Standing) private _standings;
    mapping(address provider => EarlierPrices) private _earlierPrices;
    mapping(address provider => Profile) private _active;
    mapping(address provider => Profile) private _waiting;
    mapping(address provider => ProviderPrices) private _waitingPrices;

    modifier onlyOperator() {
        if (!hasRole(DEFAULT_ADMIN_ROLE, msg.sender)) _checkRole(METASCHEDULER_ROLE);
        _;
    }

    // Functions for providers.

    /// @inheritdoc IProviderManager
    function register(
        ProviderHardware calldata hardware,
        ProviderPrices calldata prices,
        Label[] calldata labels
    ) external {
        if (_standings[msg.sender].isBanned) revert Banned();
        _checkHardware(hardware);
        _checkPrices(prices);
        require(_areBounded(labels), "ProviderManager: too many or too long labels");
        Profile storage profile = _waiting[msg.sender];
        profile.hardware = hardware;
        delete profile.labels;
        for (uint256 i = 0; i < labels.length; ++i) {
            profile.labels.push(labels[i]);
        }
        _waitingPrices[msg.sender] = prices;
        emit ProviderWaitingForApproval(msg.sender);
    }

    /// @inheritdoc IProviderManager
    function setPrices(ProviderPrices calldata prices) external {
        if (!isJoined(msg.sender)) revert NoProvider();
        _checkPrices(prices);
        // The approval of a waiting request must not restore the old prices.
        if (isWaitingForApproval(msg.sender)) _waitingPrices[msg.sender] = prices;
        _activatePrices(msg.sender, prices);
        emit ProviderPricesChanged(
            msg.sender, prices.gpuPricePerMin, prices.cpuPricePerMin, prices.memPricePerMin
        );
    }

    /// @inheritdoc IProviderManager
    function setDraining(bool draining) external {
        if (!isJoined(msg.sender)) revert NoProvider();
        _standings[msg.sender].isDraining = draining;
        emit ProviderDrainingChanged(msg.sender, draining);
    }

    // Functions for METASCHEDULER_ROLE and the admin.

    /// @inheritdoc IProviderManager
    function approve(address provider) external onlyOperator {
        _approve(provider);
    }

    /// @inheritdoc IProviderManager
    function approveRecord(address provider, bytes32 recordHash) external onlyOperator {
        bytes32 currentHash =
            keccak256(abi.encode(_view(provider, _waiting[provider], _waitingPrices[provider])));
        if (currentHash != recordHash) revert RecordChanged(currentHash);
        _approve(provider);
    }

    /// @inheritdoc IProviderManager
    function remove(address provider) external onlyOperator {
        Standing storage standing = _standings[provider];
        if (!standing.isApproved) revert NoProvider();
        standing.isApproved = false;
        standing.isDraining = false;
        delete _active[provider];
        delete _earlierPrices[provider];
        _removeFromList(provider);
        emit ProviderRemoved(provider);
    }

    /// @inheritdoc IProviderManager
    function ban(address provider) external onlyOperator {
        Standing storage standing = _standings[provider];
        if (standing.isBanned) revert AlreadyDone();
        if (!standing.isApproved && !isWaitingForApproval(provider)) revert NoProvider();
        standing.isBanned = true;
        emit ProviderBanChanged(provider, true);
    }

    /// @inheritdoc IProviderManager
    function unban(address provider) external onlyOperator {
        Standing storage standing = _standings[provider];
        if (!standing.isBanned) revert AlreadyDone();
        standing.isBanned = false;
        emit ProviderBanChanged(provider, false);
    }

    // Functions for MetaScheduler.

    /// @inheritdoc IProviderManager
    function incJobCount(address provider) external onlyRole(METASCHEDULER_CONTRACT_ROLE) {
        ++_standings[provider].jobCount;
    }

    // Views.

    /// @inheritdoc IProviderManager
    function getProvider(address provider) external view returns (Provider memory) {
        Profile storage profile = _active[provider];
        return _view(provider, profile, getProviderPrices(provider));
    }

    /// @inheritdoc IProviderManager
    function getWaitingForApprovalProvider(address provider)
        external
        view
        returns (Provider memory)
    {
        return _view(provider, _waiting[provider], _waitingPrices[provider]);
    }

    /// @notice The active record without its labels.
    function providers(address provider)
        external
        view
        returns (
            address addr,
            ProviderHardware memory providerHardware,
            ProviderPrices memory providerPrices,
            bool isBanned_
        )
    {
        Provider memory record = _view(provider, _active[provider], getProviderPrices(provider));
        return (record.addr, record.providerHardware, record.providerPrices, record.isBanned);
    }

    /// @notice The record that waits for approval, without its labels.
    function waitingApprovalProviders(address provider)
        external
        view
        returns (
            address addr,
            ProviderHardware memory providerHardware,
            ProviderPrices memory providerPrices,
            bool isBanned_
        )
    {
        Provider memory record = _view(provider, _waiting[provider], _waitingPrices[provider]);
        return (record.addr, record.providerHardware, record.providerPrices, record.isBanned);
    }

    /// @notice The hardware of the active record.
    function getProviderHardware(address provider) external view returns (ProviderHardware memory) {
        return _active[provider].hardware;
    }

    /// @notice The labels of the active record.
    function getLabels(address provider) external view returns (Label[] memory) {
        return _active[provider].labels;
    }

    /// @notice The number of jobs that the provider has ever started.
    function getJobCount(address provider) external view returns (uint64) {
        return _standings[provider].jobCount;
    }

    /// @notice The number of jobs that the provider has ever started.
    function jobCountByProvider(address provider) external view returns (uint64) {
        return _standings[provider].jobCount;
    }

    /// @notice Whether the provider is banned.
    function isBanned(address provider) external view returns (bool) {
        return _standings[provider].isBanned;
    }

    /// @inheritdoc IProviderManager
    function isDraining(address provider) external view returns (bool) {
        return _standings[provider].isDraining;
    }

    /// @inheritdoc IProviderManager
    function schedulingTerms(address provider)
        external
        view
        returns (bool valid, ProviderPrices memory prices)
    {
        return (isValidForScheduling(provider), getProviderPrices(provider));
    }

    /// @notice Whether a record of the provider waits for approval.
    function isWaitingForApproval(address provider) public view returns (bool) {
        return _waiting[provider].hardware.nodes != 0;
    }

    /// @inheritdoc IProviderManager
    function isJoined(address provider) public view returns (bool) {
        Standing storage standing = _standings[provider];
        return standing.isApproved && !standing.isBanned;
    }

    /// @inheritdoc IProviderManager
    function isValidForScheduling(address provider) public view returns (bool) {
        return isJoined(provider) && !_standings[provider].isDraining;
    }

    /// @notice The prices of the active record.
    function getProviderPrices(address provider) public view returns (ProviderPrices memory) {
        Standing storage standing = _standings[provider];
        if (!standing.isApproved) return ProviderPrices(0, 0, 0);
        return ProviderPrices({
            gpuPricePerMin: standing.gpuPrice,
            cpuPricePerMin: standing.cpuPrice,
            memPricePerMin: standing.memPrice
        });
    }

    /// @inheritdoc IProviderManager
    function recentPrices(address provider) public view returns (ProviderPrices memory prices) {
        prices = getProviderPrices(provider);
        EarlierPrices storage earlier = _earlierPrices[provider];
        if (block.timestamp > earlier.raisedAt + PRICE_NOTICE) return prices;
        prices.gpuPricePerMin = _lower(prices.gpuPricePerMin, earlier.gpuPrice);
        prices.cpuPricePerMin = _lower(prices.cpuPricePerMin, earlier.cpuPrice);
        prices.memPricePerMin = _lower(prices.memPricePerMin, earlier.memPrice);
    }

    // Internal functions.

    function _approve(address provider) private {
        Standing storage standing = _standings[provider];
        if (standing.isBanned) revert Banned();
        if (!isWaitingForApproval(provider)) {
            if (standing.isApproved) revert AlreadyDone();
            revert WaitingApprovalOnly();
        }
        _active[provider] = _waiting[provider];
        _activatePrices(provider, _waitingPrices[provider]);
        delete _waiting[provider];
        delete _waitingPrices[provider];
        if (!standing.isApproved) {
            standing.isApproved = true;
            _append(provider);
        }
        emit ProviderApproved(provider);
    }

    /// @dev The casts are safe: setPrices or register has checked the prices.
    function _activatePrices(address provider, ProviderPrices memory prices) private {
        Standing storage standing = _standings[provider];
        if (standing.isApproved && _isRise(standing, prices)) _storeEarlierPrices(provider);
        standing.gpuPrice = uint72(prices.gpuPricePerMin);
        standing.cpuPrice = uint72(prices.cpuPricePerMin);
        standing.memPrice = uint56(prices.memPricePerMin);
    }

    function _isRise(Standing storage standing, ProviderPrices memory prices)
        private
        view
        returns (bool)
    {
        return prices.gpuPricePerMin > standing.gpuPrice
            || prices.cpuPricePerMin > standing.cpuPrice
            || prices.memPricePerMin > standing.memPrice;
    }

    /// @dev After two rises in a short time, the lowest prices remain those before the first rise.
    function _storeEarlierPrices(address provider) private {
        ProviderPrices memory lowest = recentPrices(provider);
        _earlierPrices[provider] = EarlierPrices({
            gpuPrice: uint72(lowest.gpuPricePerMin),
            cpuPrice: uint72(lowest.cpuPricePerMin),
            memPrice: uint56(lowest.memPricePerMin),
            raisedAt: uint40(block.timestamp)
        });
    }

    function _lower(uint256 one, uint256 other) private pure returns (uint256) {
        return one < other ? one : other;
    }

    function _areBounded(Label[] calldata labels) private pure returns (bool) {
        if (labels.length > MAX_LABELS) return false;
        for (uint256 i = 0; i < labels.length; ++i) {
            if (!Definitions.isShort(labels[i])) return false;
        }
        return true;
    }

    function _view(address provider, Profile storage profile, ProviderPrices memory prices)
        private
        view
        returns (Provider memory record)
    {
        record.isBanned = _standings[provider].isBanned;
        if (profile.hardware.nodes == 0) return record;
        record.addr = provider;
        record.providerHardware = profile.hardware;
        record.providerPrices = prices;
        record.labels = profile.labels;
    }

    function _checkHardware(ProviderHardware calldata hardware) private pure {
        uint256 nodes = hardware.nodes;
        if (nodes == 0) revert InvalidNodesCount();
        if (
            hardware.gpusPerNode.length != nodes || hardware.cpusPerNode.length != nodes
                || hardware.memPerNode.length != nodes
        ) revert ArrayLengthMismatch();
        if (_sum(hardware.cpusPerNode) == 0) revert InvalidTotalCpus();
        if (_sum(hardware.memPerNode) == 0) revert InvalidTotalMem();
    }

    /// @dev Reverts with a string, because the published ABI has no error for invalid prices.
    function _checkPrices(ProviderPrices calldata prices) private pure {
        require(Definitions.isBounded(prices), "ProviderManager: price above bound");
    }

    function _sum(uint64[] calldata numbers) private pure returns (uint256 total) {
        for (uint256 i = 0; i < numbers.length; ++i) {
            total += numbers[i];
        }
    }
}
