package sessions

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/accounts"
)

// claim is the value of a session's token.
type claim struct {
	ends   time.Time // the end of the session's lifetime, to the microsecond
	person personName
}

// personName identifies a person in few bytes, which tell nothing about the person: half of a SHA-256.
type personName [16]byte

const timeBytes = 8

func nameOf(person accounts.Person) personName {
	sum := sha256.Sum256([]byte(person.Name()))
	return personName(sum[:len(personName{})])
}

func (c claim) encode() []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(c.ends.UnixMicro())), c.person[:]...)
}

// decodeClaim reports false for a value that encode has not made.
func decodeClaim(value []byte) (made claim, ok bool) {
	if len(value) != timeBytes+len(made.person) {
		return made, false
	}
	made.ends = time.UnixMicro(int64(binary.BigEndian.Uint64(value)))
	copy(made.person[:], value[timeBytes:])
	return made, true
}

// Tenant returns the id that the session's requests count for where clients share something: the account, or the person if it works in
// none. It is zero for the zero Session.
func (s *Session) Tenant() uuid.UUID {
	if s.AccountID == uuid.Nil && s.Person != (accounts.Person{}) {
		return uuid.UUID(nameOf(s.Person))
	}
	return s.AccountID
}
