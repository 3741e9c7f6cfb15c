package gate

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"time"
	"unsafe"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
)

// The value of a key's record in Redis, 107 bytes. Numbers are little-endian unless noted; doubles hold whole numbers.
//
//	 0  8  the term in which the rest was verified (big-endian); or the ticket of a load under way, first byte 255; or
//	       zeros: neither
//	 8  4  version, big-endian
//	12  8  when the bucket was last written: µs of Redis TIME, double
//	20  8  the bucket's contents in 1/period tokens, double
//	28  4  when the record's time to live ends: seconds
//	32  1  status: 1 active, 3 revoked, 4 not in PostgreSQL; the latter two end here
//	33  6  expiry: ms since the epoch, 0 for never
//	39  8  period: µs, in lowest terms with requests, double
//	47  4  requests, in lowest terms
//	51  4  burst
//	55  4  what requests and period were divided by
//	59 48  key id, family id, account id
//
// A ticket alone (8 bytes) stands for a record that is being loaded. An address has 16 bytes: when, and contents.
// From byte 32 on the record is static: it changes with the version only.
const (
	statusActive  = 1
	statusRevoked = 3
	statusAbsent  = 4

	staticSize  = 75
	grantedSize = 1 + 2 + 8          // status, granted, contents
	policySize  = 8 + 4 + 4 + 4 + 48 // from period on
	termSize    = 8
)

// What the check operation answers for a key, beside the statuses above.
const (
	answerUnverified = 0
	answerAddress    = 2
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

// tag is the part of the name that decides the Cluster slot: 256 groups, spread evenly.
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

// appendName appends the Redis name: the hash as it is, not in digits, which saves 32 bytes a key and the time to hash
// and compare them.
func (s *subject) appendName(to []byte, prefix string) []byte {
	const digits = "0123456789abcdef"
	tag := s.tag()
	to = append(to, prefix...)
	to = append(to, "gate:{"...)
	to = append(to, digits[tag>>4], digits[tag&15])
	to = append(to, "}:"...)
	if s.address {
		to = append(to, "a:"...)
		return append(to, s.id[:16]...)
	}
	return append(to, s.id[:]...)
}

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
	to := append(make([]byte, 0, staticSize), statusActive)
	var expires uint64
	if !record.ExpiresAt.IsZero() {
		expires = uint64(max(record.ExpiresAt.UnixMilli(), 1))
	}
	var wide [8]byte
	binary.LittleEndian.PutUint64(wide[:], expires)
	to = append(to, wide[:6]...)
	to = binary.LittleEndian.AppendUint64(to, math.Float64bits(r.period))
	to = binary.LittleEndian.AppendUint32(to, r.requests)
	to = binary.LittleEndian.AppendUint32(to, r.burst)
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

// malformedReplyError says that the script answered what it never answers.
type malformedReplyError struct{ left int }

func (e *malformedReplyError) Error() string {
	return fmt.Sprintf("gate script: malformed reply, %d bytes before its end", e.left)
}

// readVerdict takes the first verdict off a reply of the check operation.
func readVerdict(reply string, v *verdict) (rest string, err error) {
	if reply == "" {
		return "", &malformedReplyError{}
	}
	v.status = reply[0]
	if v.status != statusActive && v.status != answerAddress {
		return reply[1:], nil
	}
	need := grantedSize
	if v.status == statusActive {
		need += policySize
	}
	if len(reply) < need {
		return "", &malformedReplyError{left: len(reply)}
	}
	raw := unsafe.Slice(unsafe.StringData(reply), need) //nolint:gosec // only read, below
	v.granted = int(binary.LittleEndian.Uint16(raw[1:]))
	v.level = math.Float64frombits(binary.LittleEndian.Uint64(raw[3:]))
	if v.status == statusActive {
		raw = raw[grantedSize:]
		v.rate = rate{
			period:   math.Float64frombits(binary.LittleEndian.Uint64(raw)),
			requests: binary.LittleEndian.Uint32(raw[8:]),
			burst:    binary.LittleEndian.Uint32(raw[12:]),
			scale:    binary.LittleEndian.Uint32(raw[16:]),
		}
		v.identity = keys.Identity{
			KeyID: uuid.UUID(raw[20:36]), FamilyID: uuid.UUID(raw[36:52]), AccountID: uuid.UUID(raw[52:68]),
		}
	}
	return reply[need:], nil
}
