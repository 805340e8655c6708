// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Constants} from "../../src/Constants.sol";
import {JobRepository} from "../../src/JobRepository.sol";
import {Job, JobId, JobStatus} from "../../src/Types.sol";

/// @notice A proxy between MetaScheduler and JobRepository. It sees every write that takes effect,
/// records every job, and checks rules. The rules are written independently of the contracts.
/// @dev The proxy records a broken rule and does not revert: the contracts would handle a revert as
/// a failed call, and the revert would discard the record.
contract Witness {
    struct JobRecord {
        address customer;
        address provider;
        JobStatus status;
        uint256 price;
        uint256 locked; // The escrow, including all top-ups.
        uint256 notified; // The part of the escrow that the provider has been notified of.
        uint256 claimedAt;
        uint256 startedAt;
        bool isCancelRequested;
        uint256 billUntil; // The time of a request to cancel before the start. 0 without one.
        uint256 paid;
        uint256 fee;
        uint256 refunded;
        bytes32 hashAtEnd; // The result of hashOf when the job ended.
    }

    /// @dev The table of legal transitions, as in the specification: bit `to` of element `from` is
    /// set if a job may change from `from` to `to`. For example, the first element, 0x112, allows a
    /// PENDING job to become META_SCHEDULED (bit 1), CANCELLED (bit 4) or PANICKED (bit 8).
    uint16[9] private LEGAL_TRANSITIONS = [0x112, 0x115, 0x159, 0x1F0, 0, 0, 0, 0, 0];
    uint256 private constant SECONDS_PER_MINUTE = 60;

    JobRepository private immutable REPOSITORY;
    Constants private immutable CONSTANTS;

    uint256 public count;
    uint256 public lockedEver;
    uint256 public feesEver;
    mapping(uint256 id => JobRecord) private _jobRecords;
    /// @notice The sum of all pay and refunds that were ever due to each account, in wei.
    mapping(address account => uint256) public owedEver;
    mapping(address provider => uint256) public matchesByProvider;
    mapping(uint256 from => mapping(uint256 to => uint256)) public transitions;
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
        _recordWrite(msg.sig, input, answer);
    }

    function jobRecord(uint256 id) external view returns (JobRecord memory) {
        return _jobRecords[id];
    }

    /// @notice The records of all jobs; the index of a record is the job's id minus 1.
    function jobRecords() external view returns (JobRecord[] memory all) {
        all = new JobRecord[](count);
        for (uint256 i = 0; i < all.length; ++i) {
            all[i] = _jobRecords[i + 1];
        }
    }

    function isLegal(uint256 from, uint256 to) public view returns (bool) {
        return LEGAL_TRANSITIONS[from] >> to & 1 == 1;
    }

    /// @notice A hash of all fields of a job in JobRepository, except for the flag
    /// delegateSpendingAuthority. The hash must not change after the job has ended. The flag may
    /// still change, because it has no effect on an ended job.
    function hashOf(uint256 id) public view returns (bytes32) {
        Job memory job = REPOSITORY.get(JobId.wrap(bytes32(id)));
        job.cost.delegateSpendingAuthority = false;
        return keccak256(abi.encode(job));
    }

    function _recordWrite(bytes4 selector, bytes calldata input, bytes memory answer) private {
        if (selector == JobRepository.create.selector) {
            return _recordCreation(
                uint256(bytes32(answer)), address(uint160(_word(input, 0))), _word(input, 2)
            );
        }
        if (input.length < 36) return; // A call without arguments writes no job.
        JobRecord storage record = _jobRecords[_word(input, 0)];
        if (selector == JobRepository.setMatched.selector) {
            _changeStatus(record, JobStatus.META_SCHEDULED);
            (record.provider, record.price) = (address(uint160(_word(input, 1))), _word(input, 2));
            ++matchesByProvider[record.provider];
        } else if (selector == JobRepository.setUnmatched.selector) {
            _changeStatus(record, JobStatus.PENDING);
            _checkRule(!record.isCancelRequested, "no match after a request to cancel");
            (record.provider, record.price, record.claimedAt) = (address(0), 0, 0);
        } else if (selector == JobRepository.setClaimed.selector) {
            _changeStatus(record, JobStatus.SCHEDULED);
            (record.notified, record.claimedAt) = (record.locked, block.timestamp);
        } else if (selector == JobRepository.setRunning.selector) {
            _changeStatus(record, JobStatus.RUNNING);
            record.startedAt = _word(input, 1);
            _checkRule(
                record.claimedAt <= record.startedAt && record.startedAt <= block.timestamp,
                "start between claim and now"
            );
        } else if (selector == JobRepository.setCancelRequested.selector) {
            _checkRule(!record.isCancelRequested, "a job has one request to cancel");
            record.isCancelRequested = true;
            if (record.status != JobStatus.RUNNING) record.billUntil = block.timestamp;
        } else if (selector == JobRepository.setEnded.selector) {
            _recordEnd(record, JobStatus(_word(input, 1)), _word(input, 2));
            record.hashAtEnd = hashOf(_word(input, 0));
        } else if (selector == JobRepository.addTopUp.selector) {
            _checkRule(
                record.status == JobStatus.SCHEDULED || record.status == JobStatus.RUNNING,
                "top-up of a claimed job"
            );
            record.locked += _word(input, 1);
            lockedEver += _word(input, 1);
        } else if (selector == JobRepository.takeTopUp.selector) {
            (uint256 costBefore, uint256 costAfter) = abi.decode(answer, (uint256, uint256));
            _checkRule(
                costBefore == record.notified && costAfter == record.locked,
                "every credit is emitted once"
            );
            record.notified = record.locked;
        }
    }

    function _recordCreation(uint256 id, address customer, uint256 escrow) private {
        _checkRule(id == ++count, "ids are consecutive");
        JobRecord storage record = _jobRecords[id];
        (record.customer, record.locked) = (customer, escrow);
        lockedEver += escrow;
    }

    function _recordEnd(JobRecord storage record, JobStatus to, uint256 cost) private {
        bool isBillable = record.status == JobStatus.RUNNING && to != JobStatus.PANICKED;
        _changeStatus(record, to);
        if (cost != 0) {
            _checkRule(isBillable, "no pay without a run or for a panic");
            _checkRule(record.claimedAt != 0, "no pay without a claim");
            uint256 end = record.billUntil == 0 ? block.timestamp : record.billUntil;
            _checkRule(end > record.startedAt, "no pay for a start after the request to cancel");
            _checkRule(
                cost * SECONDS_PER_MINUTE <= (end - record.startedAt) * record.price,
                "cost within the time since the start, until a request before the start"
            );
        }
        _checkRule(cost <= record.locked, "cost within the escrow");
        record.fee = cost * CONSTANTS.deepsquareCut() / 100;
        record.paid = cost - record.fee;
        record.refunded = record.locked - cost;
        feesEver += record.fee;
        owedEver[record.provider] += record.paid;
        owedEver[record.customer] += record.refunded;
    }

    function _changeStatus(JobRecord storage record, JobStatus to) private {
        (uint256 from, uint256 next) = (uint256(record.status), uint256(to));
        _checkRule(isLegal(from, next), "legal transition");
        ++transitions[from][next];
        record.status = to;
    }

    function _checkRule(bool holds, string memory rule) private {
        if (!holds) violation = rule;
    }

    function _word(bytes calldata input, uint256 index) private pure returns (uint256) {
        return uint256(bytes32(input[4 + 32 * index:36 + 32 * index]));
    }
}
