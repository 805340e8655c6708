// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Constants} from "../../src/Constants.sol";
import {ICredit} from "../../src/interfaces/ICredit.sol";
import {IJobRepository} from "../../src/interfaces/IJobRepository.sol";
import {JobRepository} from "../../src/JobRepository.sol";
import {MetaScheduler} from "../../src/MetaScheduler.sol";
import {ProviderJobQueues} from "../../src/ProviderJobQueues.sol";
import {ProviderManager} from "../../src/ProviderManager.sol";
import {
    JobDefinition,
    JobId,
    JobStatus,
    Label,
    ProviderHardware,
    ProviderPrices
} from "../../src/Types.sol";
import {Base} from "../Base.sol";
import {HostileToken, IInterrupter} from "./HostileToken.sol";
import {Witness} from "./Witness.sol";

/// @notice An account with its own address that makes the calls of the campaign.
contract Actor {
    function act(address target, bytes calldata call) external returns (bool, bytes memory) {
        return target.call(call);
    }
}

/// @notice The contracts, the accounts and the witness of a campaign, and the checks of each call.
abstract contract World is Base, IInterrupter {
    uint256 internal constant FUNDS = 1_000_000e18;
    uint256 internal constant MAX_JOBS = 20;
    bytes4 private constant PANIC = bytes4(keccak256("Panic(uint256)"));
    uint256 private constant NO_SUCH_STATUS = 0x21;

    HostileToken public token = new HostileToken();
    Constants public constants = new Constants();
    ProviderManager public manager = new ProviderManager();
    JobRepository public repository = new JobRepository();
    Witness public witness = new Witness(repository, constants);
    ProviderJobQueues public queues = new ProviderJobQueues(repository);
    MetaScheduler public meta;

    address[3] public customers;
    address[3] public providers;
    address public matcher = address(new Actor());
    address public outsider = address(new Actor());

    uint256 public withdrawn;
    uint256 public attempts;
    uint256 public successes;
    string public violation;
    mapping(string what => uint256) public seen;

    bool internal _isInterrupted;
    bool internal _isHonest;
    uint256 private _interruption;

    /// @dev Runs an action with a token that is hostile in three of eight cases.
    modifier withHostileToken(uint256 seed) {
        uint256 mood = _part(seed, "mood") % 8;
        _isHonest = mood == 0 || mood > 3;
        _interruption = _part(seed, "interruption");
        if (!_isHonest) token.plan(HostileToken.Mood(mood), _part(seed, "patience") % 2);
        _;
        token.plan(HostileToken.Mood.HONEST, 0);
    }

    constructor() {
        IJobRepository books = IJobRepository(address(witness));
        meta = new MetaScheduler(ICredit(address(token)), constants, manager, queues, books);
        repository.grantRole(repository.METASCHEDULER_ROLE(), address(witness));
        manager.grantRole(manager.METASCHEDULER_CONTRACT_ROLE(), address(meta));
        queues.transferOwnership(address(meta));
        meta.grantRole(meta.METASCHEDULER_ROLE(), matcher);
        token.watch(address(meta));
        for (uint256 i = 0; i < 3; ++i) {
            customers[i] = address(new Actor());
            providers[i] = address(new Actor());
            _join(
                providers[i],
                ProviderPrices({gpuPricePerMin: 1e18, cpuPricePerMin: 1e17, memPricePerMin: i})
            );
            _fund(customers[i]);
        }
        _fund(outsider);
    }

    /// @inheritdoc IInterrupter
    function interrupt() external {
        if (_isInterrupted) return;
        _isInterrupted = true;
        _interrupt(_interruption);
        _isInterrupted = false;
    }

    /// @dev The reentrant call during a transfer of credits.
    function _interrupt(uint256 seed) internal virtual;

    // Calls.

    /// @dev A failing call must have a reason, which clients decode, and must not fail by
    /// arithmetic.
    function _by(address who, address target, bytes memory call) internal returns (bool ok) {
        bytes memory answer;
        (ok, answer) = Actor(who).act(target, call);
        ++attempts;
        if (ok) {
            ++successes;
            return true;
        }
        _expect(answer.length >= 4, "a failure has revert data");
        if (bytes4(answer) != PANIC) return false;
        uint256 code;
        assembly ("memory-safe") {
            code := mload(add(answer, 36))
        }
        _expect(code == NO_SUCH_STATUS, "no failure by arithmetic");
    }

    function _by(address who, bytes memory call) internal returns (bool) {
        return _by(who, address(meta), call);
    }

    /// @dev Records a broken rule. It does not revert, because an action may run inside a call that
    /// ignores a revert.
    function _expect(bool holds, string memory name) internal {
        if (!holds) violation = name;
    }

    function _saw(bool happened, string memory what) internal {
        if (happened) ++seen[what];
    }

    // Choices.

    function _part(uint256 seed, string memory name) internal pure returns (uint256) {
        return uint256(keccak256(abi.encode(seed, name)));
    }

    /// @dev In seven of eight cases a job in that state, if one exists; else any id, also of a job
    /// that does not exist.
    function _job(uint256 seed, JobStatus wanted)
        internal
        view
        returns (JobId, Witness.Book memory)
    {
        uint256 count = witness.count();
        uint256 any = _part(seed, "job") % (count + 2);
        if (_part(seed, "blind") % 8 != 0) {
            for (uint256 i = 0; i < count; ++i) {
                uint256 id = 1 + (any + i) % count;
                Witness.Book memory b = witness.book(id);
                if (b.status == wanted) return (JobId.wrap(bytes32(id)), b);
            }
        }
        return (JobId.wrap(bytes32(any)), witness.book(any));
    }

    /// @dev In three of four cases the authorised account, else any account.
    function _who(uint256 seed, address rightful) internal view returns (address) {
        uint256 pick = _part(seed, "who") % 16;
        if (pick < 12 && rightful != address(0)) return rightful;
        if (pick % 4 == 0) return customers[pick / 4 % 3];
        if (pick % 4 == 1) return providers[pick / 4 % 3];
        return pick % 4 == 2 ? matcher : outsider;
    }

    function _prices(uint256 seed) internal pure returns (ProviderPrices memory) {
        uint256 kind = _part(seed, "prices") % 8;
        if (kind == 0) return ProviderPrices(0, 0, 0);
        if (kind == 1) return ProviderPrices(1, 1, 1);
        if (kind == 2) return ProviderPrices(type(uint72).max, type(uint72).max, type(uint56).max);
        return ProviderPrices(kind * 1e18, kind * 1e17 + 7, kind * 1e13 + 3);
    }

    function _definition(uint256 seed) internal pure returns (JobDefinition memory result) {
        result.gpus = uint64(_part(seed, "gpus") % 3);
        result.memPerCpu = uint64(_part(seed, "memory") % 1000);
        result.cpusPerTask = uint64(1 + _part(seed, "cpus") % 4);
        result.ntasks = uint64(1 + _part(seed, "tasks") % 3);
        result.batchLocationHash = "abcdefghijklmnopqrstuv";
    }

    // Set-up.

    function _fund(address customer) private {
        token.mint(customer, FUNDS);
        _by(
            customer,
            address(token),
            abi.encodeCall(token.approve, (address(meta), type(uint256).max))
        );
    }

    function _join(address provider, ProviderPrices memory prices) internal {
        _by(
            provider,
            address(manager),
            abi.encodeCall(manager.register, (_hardware(), prices, new Label[](0)))
        );
        if (manager.isWaitingForApproval(provider)) manager.approve(provider);
    }

    function _hardware() private pure returns (ProviderHardware memory result) {
        result.nodes = 1;
        result.gpusPerNode = new uint64[](1);
        result.cpusPerNode = new uint64[](1);
        result.memPerNode = new uint64[](1);
        (result.cpusPerNode[0], result.memPerNode[0]) = (64, 64_000);
    }
}
