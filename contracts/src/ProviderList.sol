// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice A doubly linked list of the approved providers, oldest first. Clients read the list in
/// pages. In each object, `data` contains the right-aligned address of the provider.
abstract contract ProviderList {
    struct Object {
        uint256 id;
        uint256 next;
        uint256 prev;
        bytes32 data;
    }

    uint256 public head;
    uint256 public tail;
    /// @notice The id of the next object. Ids start at 1; 0 means no object.
    uint256 public idCounter = 1;
    uint256 public elementCount;
    mapping(uint256 id => Object) public objects;
    mapping(address provider => uint256 id) private _idByProvider;

    event ObjectCreated(uint256 id, bytes32 data);
    event ObjectRemoved(uint256 id);
    event ObjectsLinked(uint256 prev, uint256 next);
    event NewHead(uint256 id);
    event NewTail(uint256 id);

    /// @notice At most `howMany` entries, starting with the object `cursor` (0: the first object).
    /// @return data An array of at most `howMany` elements, filled from the start.
    /// @return actualLength The number of returned entries.
    /// @return newCursor The object after the last entry, or 0 at the end of the list.
    function fetchPage(uint256 cursor, uint256 howMany)
        external
        view
        returns (bytes32[] memory data, uint256 actualLength, uint256 newCursor)
    {
        if (howMany > elementCount) howMany = elementCount;
        data = new bytes32[](howMany);
        newCursor = cursor == 0 ? head : cursor;
        while (newCursor != 0 && actualLength < howMany) {
            data[actualLength++] = objects[newCursor].data;
            newCursor = objects[newCursor].next;
        }
    }

    /// @notice The id of the first object at or after `_from` (0: the first object) that contains
    /// `_hash`, or 0.
    function findIdForDataFrom(bytes32 _hash, uint256 _from) external view returns (uint256) {
        uint256 id = _from == 0 ? head : _from;
        while (id != 0 && objects[id].data != _hash) {
            id = objects[id].next;
        }
        return id;
    }

    /// @notice The fields of an object. All fields are zero if the object does not exist.
    function get(uint256 _id) external view returns (uint256, uint256, uint256, bytes32) {
        Object storage object = objects[_id];
        return (object.id, object.next, object.prev, object.data);
    }

    function _append(address provider) internal {
        uint256 id = idCounter++;
        uint256 last = tail;
        bytes32 data = bytes32(uint256(uint160(provider)));
        objects[id] = Object({id: id, next: 0, prev: last, data: data});
        _idByProvider[provider] = id;
        ++elementCount;
        emit ObjectCreated(id, data);
        _link(last, id);
        tail = id;
        emit NewTail(id);
    }

    function _removeFromList(address provider) internal {
        uint256 id = _idByProvider[provider];
        (uint256 prev, uint256 next) = (objects[id].prev, objects[id].next);
        delete objects[id];
        delete _idByProvider[provider];
        --elementCount;
        _link(prev, next);
        if (next == 0) {
            tail = prev;
            emit NewTail(prev);
        }
        emit ObjectRemoved(id);
    }

    /// @dev Links two objects. An id of 0 means the start or the end of the list.
    function _link(uint256 prev, uint256 next) private {
        if (next != 0) objects[next].prev = prev;
        if (prev == 0) {
            head = next;
            emit NewHead(next);
        } else {
            objects[prev].next = next;
        }
        if (prev != 0 && next != 0) emit ObjectsLinked(prev, next);
    }
}
