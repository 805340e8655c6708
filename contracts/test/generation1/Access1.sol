// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice Owners and roles as in the contracts of DeepSquare 1.2.
abstract contract Owned1 {
    address public owner = msg.sender;

    event OwnershipTransferred(address indexed previousOwner, address indexed newOwner);

    modifier onlyOwner() {
        require(msg.sender == owner, "Ownable: caller is not the owner");
        _;
    }

    function transferOwnership(address newOwner) external onlyOwner {
        require(newOwner != address(0), "Ownable: new owner is the zero address");
        emit OwnershipTransferred(owner, newOwner);
        owner = newOwner;
    }
}

abstract contract Roles1 {
    bytes32 public constant DEFAULT_ADMIN_ROLE = 0;

    mapping(bytes32 role => mapping(address account => bool)) public hasRole;

    event RoleGranted(bytes32 indexed role, address indexed account, address indexed sender);
    event RoleRevoked(bytes32 indexed role, address indexed account, address indexed sender);

    modifier onlyRole(bytes32 role) {
        _checkRole(role);
        _;
    }

    constructor() {
        hasRole[DEFAULT_ADMIN_ROLE][msg.sender] = true;
        emit RoleGranted(DEFAULT_ADMIN_ROLE, msg.sender, msg.sender);
    }

    function grantRole(bytes32 role, address account) external onlyRole(DEFAULT_ADMIN_ROLE) {
        if (hasRole[role][account]) return;
        hasRole[role][account] = true;
        emit RoleGranted(role, account, msg.sender);
    }

    function revokeRole(bytes32 role, address account) external onlyRole(DEFAULT_ADMIN_ROLE) {
        if (!hasRole[role][account]) return;
        hasRole[role][account] = false;
        emit RoleRevoked(role, account, msg.sender);
    }

    function _checkRole(bytes32 role) internal view {
        // Clients print this error text but do not parse it. Therefore, this test contract omits
        // the addresses that DeepSquare's contracts include in the text.
        require(hasRole[role][msg.sender], "AccessControl: account is missing role");
    }
}
