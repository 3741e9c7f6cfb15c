package gate

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"time"

	"examprep.dev/server/keys"
)

// The entry of a key in the hash of records: its field is the first 22 bytes of the key's hash, its value 104 bytes.
// Numbers are little-endian unless noted; doubles hold whole numbers.
//
//	 0  8  when the bucket was last written: µs of Redis TIME, double
//	 8  8  the bucket's contents in 1/period tokens, double
//	16  8  the term in which the rest was verified (big-endian); or the ticket of a load under way, first byte 255; or
//	       zeros: neither
//	24  4  version, big-endian
//	28  8  period: µs, in lowest terms with requests, double
//	36  4  requests, in lowest terms
//	40  4  burst
//	44  8  expiry: µs since the epoch, double; 2^53 for never
//	52  4  what requests and period were divided by
//	56 48  key id, family id, account id
//
// From byte 28 on it is static: it changes with the version only. Of a key that is revoked or not in PostgreSQL, one byte
// stands there instead, the status. A ticket that stands for no record ends at byte 24. An address has 16 bytes, under a
// name of its own: when, and contents.
//
// 22 bytes are more than a key has that is random (20), so no two keys that anybody was issued share a field, nor can a
// key be made up that shares one; and they are as much as costs Redis no more than 16 do.
const (
	statusActive  = 1
	statusRevoked = 3
	statusAbsent  = 4

	fieldSize   = 22
	staticStart = 28
	staticSize  = 76
	recordSize  = staticStart + staticSize
	grantSize   = 2     // of a key
	bucketSize  = 2 + 8 // granted and contents, of an address
	termSize    = 8
	versionSize = 4

	never = 1 << 53
)

// What a verdict says of a key beside the statuses above.
const (
	answerUnverified = 0
	answerAddress    = 2
)

// What the check operation answers in the place of how many tokens it granted.
const (
	grantAbsent     = 65533
	grantRevoked    = 65534
	grantUnverified = 65535
	// mostTokens is what one ask may ask for.
	mostTokens = 1<<15 - 1
)

// subject is whose bucket is asked: a key's, by its hash, or a client address's, by 16 bytes.
type subject struct {
	address bool
	id      keys.Hash
}

// addressSubject returns the subject of a client: an IPv4 address, or the /64 of an IPv6 address, since a client commands
// all of that.
func addressSubject(client netip.Addr) subject {
	s := subject{address: true}
	client = client.Unmap()
	bytes := client.As16()
	if client.Is6() {
		clear(bytes[8:])
	}
	copy(s.id[:], bytes[:])
	return s
}

// clusterHashes is how many hashes the records are spread over on a Cluster: a tag each, so that slots and masters share
// them evenly. Elsewhere there is one, since a call costs least where it finds all its records in one place.
const clusterHashes = 256

// tag is the part of the name that decides the Cluster slot.
func (s *subject) tag() byte {
	if !s.address {
		return s.id[0]
	}
	var fold byte
	for _, b := range s.id[:16] {
		fold = fold*31 + b
	}
	return fold
}

// field is where a key's entry is in its hash.
func (s *subject) field() string { return string(s.id[:fieldSize]) }

// recordsNames returns the names of the hashes of records.
func recordsNames(prefix string, cluster bool) []string {
	if !cluster {
		return []string{prefix + "gate:{keys}"}
	}
	names := make([]string, clusterHashes)
	for tag := range names {
		names[tag] = fmt.Sprintf("%sgate:{%02x}", prefix, tag)
	}
	return names
}

// appendName appends the name of an address's bucket.
func (s *subject) appendName(to []byte, prefix string) []byte {
	const digits = "0123456789abcdef"
	tag := s.tag()
	to = append(to, prefix...)
	to = append(to, "gate:{"...)
	to = append(to, digits[tag>>4], digits[tag&15])
	to = append(to, "}:a:"...)
	return append(to, s.id[:16]...)
}

// nameSize is what appendName appends beside the prefix.
const nameSize = len("gate:{00}:a:") + 16

// rate is a tier in the bucket's units.
type rate struct {
	period   float64 // µs, in lowest terms: also the units of one token
	requests uint32  // units that a µs brings
	burst    uint32
	scale    uint32 // requests and period were divided by it
}

func rateOf(t keys.Tier) rate {
	requests, period := t.Reduce()
	return rate{
		period: float64(period), requests: uint32(requests), burst: uint32(t.Burst),
		scale: uint32(int64(t.Requests) / requests),
	}
}

// capacity is what a full bucket holds.
func (r rate) capacity() float64 { return float64(r.burst) * r.period }

// until is how long a bucket takes to gain units.
func (r rate) until(units float64) time.Duration {
	if units <= 0 {
		return 0
	}
	return time.Duration(math.Ceil(units/float64(r.requests))) * time.Microsecond
}

// staticBytes returns the static part of a record.
func staticBytes(record keys.Record) []byte {
	if record.Revoked {
		return []byte{statusRevoked}
	}
	r := rateOf(record.Tier)
	expires := float64(never)
	if !record.ExpiresAt.IsZero() {
		expires = float64(min(max(record.ExpiresAt.UnixMicro(), 1), never))
	}
	to := make([]byte, 0, staticSize)
	to = binary.LittleEndian.AppendUint64(to, math.Float64bits(r.period))
	to = binary.LittleEndian.AppendUint32(to, r.requests)
	to = binary.LittleEndian.AppendUint32(to, r.burst)
	to = binary.LittleEndian.AppendUint64(to, math.Float64bits(expires))
	to = binary.LittleEndian.AppendUint32(to, r.scale)
	to = append(to, record.KeyID[:]...)
	to = append(to, record.FamilyID[:]...)
	return append(to, record.AccountID[:]...)
}

func versionBytes(version int64) []byte { return binary.BigEndian.AppendUint32(nil, uint32(version)) }

func termBytes(number int64) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(number)))
}

// verdict is what a store says of one subject.
type verdict struct {
	status   byte // answerUnverified, answerAddress or a status
	granted  int
	level    float64 // the bucket's contents after what was granted
	rate     rate
	identity keys.Identity
}
