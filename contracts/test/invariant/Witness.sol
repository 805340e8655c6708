// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Constants} from "../../src/Constants.sol";
import {JobRepository} from "../../src/JobRepository.sol";
import {Job, JobId, JobStatus} from "../../src/Types.sol";

/// @notice A proxy between MetaScheduler and JobRepository. It sees every write that takes effect,
/// records every job, and checks rules. The rules are a second, independent implementation.
/// @dev A broken rule is recorded and does not revert: the contracts would handle a revert as a
/// failed call and discard the record.
contract Witness {
    struct Book {
        address customer;
        address provider;
        JobStatus status;
        uint256 price;
        uint256 locked;
        uint256 notified;
        uint256 claimedAt;
        uint256 startedAt;
        uint256 paid;
        uint256 fee;
        uint256 refunded;
        bytes32 seal;
    }

    /// @dev Bit `to` of mask `from`: the table of legal transitions, as in the specification.
    uint16[9] private LEGAL = [0x112, 0x115, 0x159, 0x1F0, 0, 0, 0, 0, 0];
    uint256 private constant SECONDS_PER_MINUTE = 60;

    JobRepository private immutable REPOSITORY;
    Constants private immutable CONSTANTS;

    uint256 public count;
    uint256 public lockedEver;
    uint256 public feesEver;
    mapping(uint256 id => Book) private _books;
    /// @notice All credits that the escrow ever owed to an account.
    mapping(address account => uint256) public owed;
    mapping(address provider => uint256) public matchesOf;
    mapping(uint256 from => mapping(uint256 to => uint256)) public moves;
    string public violation;

    constructor(JobRepository repository, Constants constants) {
        (REPOSITORY, CONSTANTS) = (repository, constants);
    }

    // A receive function is not needed: no test sends coins.
    fallback(bytes calldata input) external returns (bytes memory answer) {
        bool ok;
        (ok, answer) = address(REPOSITORY).call(input);
        if (!ok) {
            assembly ("memory-safe") {
                revert(add(answer, 32), mload(answer))
            }
        }
        _note(msg.sig, input, answer);
    }

    function book(uint256 id) external view returns (Book memory) {
        return _books[id];
    }

    /// @notice All records of jobs; the index is the id minus 1.
    function books() external view returns (Book[] memory all) {
        all = new Book[](count);
        for (uint256 i = 0; i < all.length; ++i) {
            all[i] = _books[i + 1];
        }
    }

    function isLegal(uint256 from, uint256 to) public view returns (bool) {
        return LEGAL[from] >> to & 1 == 1;
    }

    /// @notice A hash of the record, which must not change after the job has ended. It excludes a
    /// flag that has no meaning then.
    function sealOf(uint256 id) public view returns (bytes32) {
        Job memory job = REPOSITORY.get(JobId.wrap(bytes32(id)));
        job.cost.delegateSpendingAuthority = false;
        return keccak256(abi.encode(job));
    }

    function _note(bytes4 call, bytes calldata input, bytes memory answer) private {
        if (call == JobRepository.create.selector) {
            return
                _created(
                    uint256(bytes32(answer)), address(uint160(_word(input, 0))), _word(input, 2)
                );
        }
        if (input.length < 36) return;
        Book storage b = _books[_word(input, 0)];
        if (call == JobRepository.setMatched.selector) {
            _move(b, JobStatus.META_SCHEDULED);
            (b.provider, b.price) = (address(uint160(_word(input, 1))), _word(input, 2));
            ++matchesOf[b.provider];
        } else if (call == JobRepository.setUnmatched.selector) {
            _move(b, JobStatus.PENDING);
            (b.provider, b.price, b.claimedAt) = (address(0), 0, 0);
        } else if (call == JobRepository.setClaimed.selector) {
            _move(b, JobStatus.SCHEDULED);
            (b.notified, b.claimedAt) = (b.locked, block.timestamp);
        } else if (call == JobRepository.setRunning.selector) {
            _move(b, JobStatus.RUNNING);
            b.startedAt = _word(input, 1);
            _rule(
                b.claimedAt <= b.startedAt && b.startedAt <= block.timestamp,
                "start between claim and now"
            );
        } else if (call == JobRepository.setEnded.selector) {
            _ended(b, JobStatus(_word(input, 1)), _word(input, 2));
            b.seal = sealOf(_word(input, 0));
        } else if (call == JobRepository.addTopUp.selector) {
            _rule(
                b.status == JobStatus.SCHEDULED || b.status == JobStatus.RUNNING,
                "top-up of a claimed job"
            );
            b.locked += _word(input, 1);
            lockedEver += _word(input, 1);
        } else if (call == JobRepository.takeTopUp.selector) {
            (uint256 before, uint256 later) = abi.decode(answer, (uint256, uint256));
            _rule(before == b.notified && later == b.locked, "every credit is emitted once");
            b.notified = b.locked;
        }
    }

    function _created(uint256 id, address customer, uint256 escrow) private {
        _rule(id == ++count, "ids are consecutive");
        Book storage b = _books[id];
        (b.customer, b.locked) = (customer, escrow);
        lockedEver += escrow;
    }

    function _ended(Book storage b, JobStatus to, uint256 cost) private {
        bool billed = b.status == JobStatus.RUNNING && to != JobStatus.PANICKED;
        _move(b, to);
        _rule(cost == 0 || billed, "no pay without a run or for a panic");
        _rule(cost == 0 || b.claimedAt != 0, "no pay without a claim");
        _rule(cost <= b.locked, "cost within the escrow");
        _rule(
            cost * SECONDS_PER_MINUTE <= (block.timestamp - b.startedAt) * b.price || cost == 0,
            "cost within the time since the start"
        );
        b.fee = cost * CONSTANTS.deepsquareCut() / 100;
        b.paid = cost - b.fee;
        b.refunded = b.locked - cost;
        feesEver += b.fee;
        owed[b.provider] += b.paid;
        owed[b.customer] += b.refunded;
    }

    function _move(Book storage b, JobStatus to) private {
        (uint256 from, uint256 next) = (uint256(b.status), uint256(to));
        _rule(isLegal(from, next), "legal transition");
        ++moves[from][next];
        b.status = to;
    }

    function _rule(bool holds, string memory name) private {
        if (!holds) violation = name;
    }

    function _word(bytes calldata input, uint256 index) private pure returns (uint256) {
        return uint256(bytes32(input[4 + 32 * index:36 + 32 * index]));
    }
}
