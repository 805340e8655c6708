// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Label, Provider, ProviderHardware, ProviderPrices} from "../../src/Types.sol";
import {Roles1} from "./Access1.sol";

/// @notice Providers of DeepSquare 1.2: prices have no bound. Every change needs a new approval.
/// The linked list of addresses is omitted, because our clients read events instead.
contract ProviderManager1 is Roles1 {
    bytes32 public constant METASCHEDULER_ROLE = keccak256("METASCHEDULER_ROLE");
    bytes32 public constant METASCHEDULER_CONTRACT_ROLE = keccak256("METASCHEDULER_CONTRACT_ROLE");

    mapping(address provider => Provider) private _joined;
    mapping(address provider => Provider) private _waiting;
    mapping(address provider => bool) public isBanned;
    mapping(address provider => uint64) public getJobCount;

    event ProviderApproved(address addr);
    event ProviderBanChanged(address addr, bool status);
    event ProviderRemoved(address addr);
    event ProviderWaitingForApproval(address addr);

    error AlreadyDone();
    error ArrayLengthMismatch();
    error Banned();
    error InvalidNodesCount();
    error InvalidTotalCpus();
    error InvalidTotalMem();
    error NoProvider();
    error WaitingApprovalOnly();

    modifier onlyOperator() {
        if (!hasRole[DEFAULT_ADMIN_ROLE][msg.sender]) _checkRole(METASCHEDULER_ROLE);
        _;
    }

    function register(
        ProviderHardware calldata _hardware,
        ProviderPrices calldata _prices,
        Label[] calldata _labels
    ) external {
        if (isBanned[msg.sender]) revert Banned();
        uint256 nodes = _hardware.nodes;
        if (nodes == 0) revert InvalidNodesCount();
        if (
            _hardware.gpusPerNode.length != nodes || _hardware.cpusPerNode.length != nodes
                || _hardware.memPerNode.length != nodes
        ) revert ArrayLengthMismatch();
        if (_sum(_hardware.cpusPerNode) == 0) revert InvalidTotalCpus();
        if (_sum(_hardware.memPerNode) == 0) revert InvalidTotalMem();
        delete _waiting[msg.sender];
        Provider storage record = _waiting[msg.sender];
        record.addr = msg.sender;
        record.providerHardware = _hardware;
        record.providerPrices = _prices;
        for (uint256 i = 0; i < _labels.length; ++i) {
            record.labels.push(_labels[i]);
        }
        emit ProviderWaitingForApproval(msg.sender);
    }

    function approve(address provider) external onlyOperator {
        if (!isWaitingForApproval(provider)) {
            if (_joined[provider].addr != address(0)) revert AlreadyDone();
            revert WaitingApprovalOnly();
        }
        _joined[provider] = _waiting[provider];
        delete _waiting[provider];
        emit ProviderApproved(provider);
    }

    function remove(address provider) external onlyOperator {
        if (_joined[provider].addr == address(0)) revert NoProvider();
        delete _joined[provider];
        emit ProviderRemoved(provider);
    }

    function ban(address provider) external onlyOperator {
        if (isBanned[provider]) revert AlreadyDone();
        isBanned[provider] = true;
        emit ProviderBanChanged(provider, true);
    }

    function unban(address provider) external onlyOperator {
        if (!isBanned[provider]) revert AlreadyDone();
        isBanned[provider] = false;
        emit ProviderBanChanged(provider, false);
    }

    function incJobCount(address provider) external onlyRole(METASCHEDULER_CONTRACT_ROLE) {
        ++getJobCount[provider];
    }

    function getProvider(address provider) external view returns (Provider memory record) {
        record = _joined[provider];
        record.isBanned = isBanned[provider];
    }

    function getWaitingForApprovalProvider(address provider)
        external
        view
        returns (Provider memory record)
    {
        record = _waiting[provider];
        record.isBanned = isBanned[provider];
    }

    function getProviderPrices(address provider) external view returns (ProviderPrices memory) {
        return _joined[provider].providerPrices;
    }

    function isWaitingForApproval(address provider) public view returns (bool) {
        return _waiting[provider].addr != address(0);
    }

    function isValidForScheduling(address provider) external view returns (bool) {
        return _joined[provider].addr != address(0) && !isBanned[provider];
    }

    function _sum(uint64[] calldata numbers) private pure returns (uint256 total) {
        for (uint256 i = 0; i < numbers.length; ++i) {
            total += numbers[i];
        }
    }
}
