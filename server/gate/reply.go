package gate

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
)

// malformedReplyError says that the script answered what it never answers.
type malformedReplyError struct{ size, asks int }

func (e *malformedReplyError) Error() string {
	return fmt.Sprintf("gate script: malformed reply of %d bytes to %d asks", e.size, e.asks)
}

func malformed(reply string, asks []*ask) error {
	return &malformedReplyError{size: len(reply), asks: len(asks)}
}

// readVerdicts reads what the check operation answered about asks: the records of the keys that are valid, then what each
// key was granted, then the buckets of the addresses. Keys and addresses keep their order among themselves.
func readVerdicts(reply string, asks []*ask) error {
	addresses := 0
	for _, a := range asks {
		if a.subject.address {
			addresses++
		}
	}
	bucketsAt := len(reply) - addresses*bucketSize
	grantsAt := bucketsAt - (len(asks)-addresses)*grantSize
	if grantsAt < 0 {
		return malformed(reply, asks)
	}
	raw := unsafe.Slice(unsafe.StringData(reply), len(reply)) //nolint:gosec // only read, below
	records, grants, buckets := raw[:grantsAt], raw[grantsAt:bucketsAt], raw[bucketsAt:]
	for _, a := range asks {
		v := &a.outcome.verdict
		if a.subject.address {
			*v = verdict{
				status: answerAddress, granted: int(binary.LittleEndian.Uint16(buckets)),
				level: math.Float64frombits(binary.LittleEndian.Uint64(buckets[2:])),
			}
			buckets = buckets[bucketSize:]
			continue
		}
		if v.grant(binary.LittleEndian.Uint16(grants)) {
			if len(records) < recordSize {
				return malformed(reply, asks)
			}
			v.readRecord(records)
			records = records[recordSize:]
		}
		grants = grants[grantSize:]
	}
	if len(records) > 0 {
		return malformed(reply, asks)
	}
	return nil
}

// grant notes what the script granted to a key, and says whether that is a number of tokens.
func (v *verdict) grant(answer uint16) bool {
	switch answer {
	case grantUnverified:
		*v = verdict{status: answerUnverified}
	case grantRevoked:
		*v = verdict{status: statusRevoked}
	case grantAbsent:
		*v = verdict{status: statusAbsent}
	default:
		v.status, v.granted = statusActive, int(answer)
		return true
	}
	return false
}

// readRecord reads the record of a valid key.
func (v *verdict) readRecord(raw []byte) {
	raw = raw[:recordSize]
	v.level = math.Float64frombits(binary.LittleEndian.Uint64(raw[8:]))
	v.rate = rate{
		period:   math.Float64frombits(binary.LittleEndian.Uint64(raw[28:])),
		requests: binary.LittleEndian.Uint32(raw[36:]),
		burst:    binary.LittleEndian.Uint32(raw[40:]),
		scale:    binary.LittleEndian.Uint32(raw[52:]),
	}
	v.identity = keys.Identity{
		KeyID: uuid.UUID(raw[56:72]), FamilyID: uuid.UUID(raw[72:88]), AccountID: uuid.UUID(raw[88:104]),
	}
}
