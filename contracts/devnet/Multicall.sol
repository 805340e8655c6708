// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice Makes several calls in one call. The contract has the function `aggregate3` of Multicall3,
/// which clients call at an address that is compiled into them.
/// @dev The contract is for development chains. `gridstead devnet init` writes its code to that
/// address, so the contract has no constructor and no storage.
/// Warning: The callee sees this contract as the caller. Use it for reads only, and never give it
/// credits or rights.
contract Multicall {
    /// @param allowFailure Whether the other calls are also made if this call reverts.
    struct Call {
        address target;
        bool allowFailure;
        bytes callData;
    }

    /// @param success False if the call reverted.
    /// @param returnData The return values of the call or, if it reverted, the encoded error.
    struct Result {
        bool success;
        bytes returnData;
    }

    /// @notice Makes the calls in their order, without value. A call to an address without code
    /// succeeds and returns no data.
    /// @return results One result for each call, in the order of the calls.
    function aggregate3(Call[] calldata calls) external payable returns (Result[] memory results) {
        results = new Result[](calls.length);
        for (uint256 i = 0; i < calls.length; ++i) {
            Call calldata entry = calls[i];
            (bool success, bytes memory returnData) = entry.target.call(entry.callData);
            // Clients of Multicall3 may compare the text.
            require(success || entry.allowFailure, "Multicall3: call failed");
            results[i] = Result({success: success, returnData: returnData});
        }
    }
}
