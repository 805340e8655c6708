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

/// @notice An account in a campaign (a long random sequence of calls). The account calls contracts
/// from its own address.
contract Actor {
    function act(address target, bytes calldata call) external returns (bool, bytes memory) {
        return target.call(call);
    }
}

/// @notice The contracts and the accounts of a campaign, its witness, and the checks of each call.
/// The witness forwards the writes of MetaScheduler to JobRepository, and keeps an independent
/// record of every job.
abstract contract World is Base, IInterrupter {
    uint256 internal constant FUNDS = 1_000_000e18;
    uint256 internal constant MAX_JOBS = 20;
    bytes4 private constant PANIC = bytes4(keccak256("Panic(uint256)"));
    uint256 private constant INVALID_ENUM_VALUE = 0x21;

    HostileToken public token = new HostileToken();
    Constants public constants = new Constants(address(this));
    ProviderManager public manager = new ProviderManager(address(this));
    JobRepository public repository = new JobRepository(address(this));
    Witness public witness = new Witness(repository, constants);
    ProviderJobQueues public queues = new ProviderJobQueues(address(this), repository);
    MetaScheduler public meta;

    address[3] public customers;
    address[3] public providers;
    address public matcher = address(new Actor());
    address public outsider = address(new Actor());

    uint256 public withdrawnFees;
    uint256 public attempts;
    uint256 public successes;
    string public violation;
    mapping(string situation => uint256) public occurrences;

    bool internal _isInterrupted;
    bool internal _isTokenHonest;
    uint256 private _interruptionSeed;

    /// @dev Runs an action with a token that is hostile in three of eight cases (moods 1 to 3).
    modifier withHostileToken(uint256 seed) {
        uint256 mood = _derive(seed, "mood") % 8;
        _isTokenHonest = mood == 0 || mood > 3;
        _interruptionSeed = _derive(seed, "interruption");
        if (!_isTokenHonest) {
            token.setMood(HostileToken.Mood(mood), _derive(seed, "honest transfers") % 2);
        }
        _;
        token.setMood(HostileToken.Mood.HONEST, 0);
    }

    constructor() {
        IJobRepository recorder = IJobRepository(address(witness));
        meta = new MetaScheduler(
            address(this), ICredit(address(token)), constants, manager, queues, recorder
        );
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
        _interrupt(_interruptionSeed);
        _isInterrupted = false;
    }

    /// @dev Makes the reentrant call during a transfer of credits.
    function _interrupt(uint256 seed) internal virtual;

    // Calls.

    /// @dev Calls a contract from an account. If the call fails, the revert data must contain a
    /// reason that clients can decode. The reason must not be an arithmetic error.
    function _callAs(address caller, address target, bytes memory call) internal returns (bool ok) {
        bytes memory answer;
        (ok, answer) = Actor(caller).act(target, call);
        ++attempts;
        if (ok) {
            ++successes;
            return true;
        }
        _expect(answer.length >= 4, "a failure has revert data");
        if (bytes4(answer) != PANIC) return false;
        uint256 code;
        assembly ("memory-safe") {
            code := mload(add(answer, 36)) // Skips the length (32 bytes) and the selector (4).
        }
        _expect(code == INVALID_ENUM_VALUE, "the only panic is that of an invalid status");
    }

    function _callAs(address caller, bytes memory call) internal returns (bool) {
        return _callAs(caller, address(meta), call);
    }

    /// @dev Records a rule that does not hold. This function does not revert, because an action may
    /// run inside a call that ignores a revert.
    function _expect(bool holds, string memory rule) internal {
        if (!holds) violation = rule;
    }

    /// @dev Counts a situation that campaigns must reach (see Reach.t.sol).
    function _countIf(bool happened, string memory situation) internal {
        if (happened) ++occurrences[situation];
    }

    // Choices.

    /// @dev A number that depends on the seed and on the name of the choice.
    function _derive(uint256 seed, string memory name) internal pure returns (uint256) {
        return uint256(keccak256(abi.encode(seed, name)));
    }

    /// @dev In seven of eight cases, returns a job in the wanted state, if such a job exists.
    /// Otherwise returns any id, even one without a job.
    function _pickJob(uint256 seed, JobStatus wanted)
        internal
        view
        returns (JobId, Witness.JobRecord memory)
    {
        uint256 count = witness.count();
        uint256 anyId = _derive(seed, "job") % (count + 2);
        if (_derive(seed, "any state") % 8 != 0) {
            for (uint256 i = 0; i < count; ++i) {
                uint256 id = 1 + (anyId + i) % count;
                Witness.JobRecord memory job = witness.jobRecord(id);
                if (job.status == wanted) return (JobId.wrap(bytes32(id)), job);
            }
        }
        return (JobId.wrap(bytes32(anyId)), witness.jobRecord(anyId));
    }

    /// @dev Returns the authorised account in three of four cases, otherwise any account.
    function _pickCaller(uint256 seed, address authorised) internal view returns (address) {
        uint256 pick = _derive(seed, "who") % 16;
        if (pick < 12 && authorised != address(0)) return authorised;
        if (pick % 4 == 0) return customers[pick / 4 % 3];
        if (pick % 4 == 1) return providers[pick / 4 % 3];
        if (pick % 4 == 2) return matcher;
        return outsider;
    }

    function _prices(uint256 seed) internal pure returns (ProviderPrices memory) {
        uint256 kind = _derive(seed, "prices") % 8;
        if (kind == 0) return ProviderPrices(0, 0, 0);
        if (kind == 1) return ProviderPrices(1, 1, 1);
        if (kind == 2) return ProviderPrices(type(uint72).max, type(uint72).max, type(uint56).max);
        return ProviderPrices(kind * 1e18, kind * 1e17 + 7, kind * 1e13 + 3);
    }

    function _definition(uint256 seed) internal pure returns (JobDefinition memory result) {
        result.gpus = uint64(_derive(seed, "gpus") % 3);
        result.memPerCpu = uint64(_derive(seed, "memory") % 1000);
        result.cpusPerTask = uint64(1 + _derive(seed, "cpus") % 4);
        result.ntasks = uint64(1 + _derive(seed, "tasks") % 3);
        result.batchLocationHash = "abcdefghijklmnopqrstuv";
    }

    // Set-up.

    function _fund(address customer) private {
        token.mint(customer, FUNDS);
        _callAs(
            customer,
            address(token),
            abi.encodeCall(token.approve, (address(meta), type(uint256).max))
        );
    }

    function _join(address provider, ProviderPrices memory prices) internal {
        _callAs(
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
