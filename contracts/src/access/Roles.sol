// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice Roles of accounts. The functions, events and errors are those of AccessControl in
/// OpenZeppelin 4, which existing clients can decode.
/// @dev DEFAULT_ADMIN_ROLE administers every role. The deployer initially has this role.
abstract contract Roles {
    bytes32 public constant DEFAULT_ADMIN_ROLE = 0x00;
    bytes4 private constant ERC165_ID = 0x01ffc9a7;
    bytes4 private constant ACCESS_CONTROL_ID = 0x7965db0b;
    bytes16 private constant HEX_DIGITS = "0123456789abcdef";

    mapping(bytes32 role => mapping(address account => bool)) private _members;

    event RoleAdminChanged(
        bytes32 indexed role, bytes32 indexed previousAdminRole, bytes32 indexed newAdminRole
    );
    event RoleGranted(bytes32 indexed role, address indexed account, address indexed sender);
    event RoleRevoked(bytes32 indexed role, address indexed account, address indexed sender);

    modifier onlyRole(bytes32 role) {
        _checkRole(role);
        _;
    }

    constructor() {
        _grant(DEFAULT_ADMIN_ROLE, msg.sender);
    }

    /// @notice Grants `role` to `account`. Has no effect if the account already has the role.
    function grantRole(bytes32 role, address account) external onlyRole(DEFAULT_ADMIN_ROLE) {
        _grant(role, account);
    }

    /// @notice Revokes `role` of `account`. Has no effect if the account does not have the role.
    function revokeRole(bytes32 role, address account) external onlyRole(DEFAULT_ADMIN_ROLE) {
        _revoke(role, account);
    }

    /// @notice Renounces a role of the caller.
    function renounceRole(bytes32 role, address account) external {
        require(account == msg.sender, "AccessControl: can only renounce roles for self");
        _revoke(role, account);
    }

    /// @notice The role that may grant and revoke a role: always DEFAULT_ADMIN_ROLE.
    function getRoleAdmin(bytes32) external pure returns (bytes32) {
        return DEFAULT_ADMIN_ROLE;
    }

    /// @notice Whether the contract supports an interface (ERC-165).
    function supportsInterface(bytes4 interfaceId) external pure returns (bool) {
        return interfaceId == ACCESS_CONTROL_ID || interfaceId == ERC165_ID;
    }

    /// @notice Whether `account` has `role`.
    function hasRole(bytes32 role, address account) public view returns (bool) {
        return _members[role][account];
    }

    function _checkRole(bytes32 role) internal view {
        if (!hasRole(role, msg.sender)) revert(_missingRoleMessage(msg.sender, role));
    }

    function _grant(bytes32 role, address account) private {
        if (hasRole(role, account)) return;
        _members[role][account] = true;
        emit RoleGranted(role, account, msg.sender);
    }

    function _revoke(bytes32 role, address account) private {
        if (!hasRole(role, account)) return;
        _members[role][account] = false;
        emit RoleRevoked(role, account, msg.sender);
    }

    function _missingRoleMessage(address account, bytes32 role)
        private
        pure
        returns (string memory)
    {
        return string.concat(
            "AccessControl: account ",
            _hex(uint256(uint160(account)), 40),
            " is missing role ",
            _hex(uint256(role), 64)
        );
    }

    function _hex(uint256 value, uint256 digits) private pure returns (string memory) {
        bytes memory text = new bytes(digits + 2);
        text[0] = "0";
        text[1] = "x";
        for (uint256 i = digits + 1; i > 1; --i) {
            text[i] = HEX_DIGITS[value & 15];
            value >>= 4;
        }
        return string(text);
    }
}
