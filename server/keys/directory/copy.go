package directory

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"

	"github.com/google/uuid"
)

// copyLive is COPY of all live keys in PostgreSQL's binary format: one pass at the speed of the server. sqlc knows no COPY TO. The time is PostgreSQL's; keys that expire later are checked at each use.
const copyLive = "COPY (SELECT hash, id, family_id, account_id, prefix, tier, expires_at FROM api_keys WHERE revoked_at IS NULL" +
	" AND (expires_at IS NULL OR expires_at > now())%s) TO STDOUT (FORMAT binary)"

// copyAll is the statement for all keys, copySome for some. Hashes are written as hexadecimal digits.
func copyAll() string { return fmt.Sprintf(copyLive, "") }

func copySome(hashes [][]byte) string {
	var list strings.Builder
	for i, hash := range hashes {
		if i > 0 {
			list.WriteByte(',')
		}
		list.WriteString(`'\x` + hex.EncodeToString(hash) + `'`)
	}
	return fmt.Sprintf(copyLive, " AND hash IN ("+list.String()+")")
}

const (
	copyFields = 7
	// copyHeader is the length of the format's signature, flags and extension length, which is zero.
	copyHeader = 19
	// epochMicros is 2000-01-01, at which PostgreSQL's timestamps begin, in µs since 1970.
	epochMicros = 946_684_800_000_000
)

// CopyError reports a stream that is not PostgreSQL's binary COPY of the columns that were asked for.
type CopyError struct{ Detail string }

func (e *CopyError) Error() string { return "read keys: malformed COPY: " + e.Detail }

// copyReader gives each row of a binary COPY to a function. It is an io.Writer because pgx writes the stream.
type copyReader struct {
	rest   []byte
	header bool
	// row gets each row, with a [*RowError] if the row has the right form and unreadable values.
	row func(row, error)
}

func (r *copyReader) Write(p []byte) (int, error) {
	r.rest = append(r.rest, p...)
	at := 0
	if !r.header {
		if len(r.rest) < copyHeader {
			return len(p), nil
		}
		if !bytes.HasPrefix(r.rest, []byte("PGCOPY\n\xff\r\n\x00")) {
			return 0, &CopyError{Detail: "no signature"}
		}
		r.header, at = true, copyHeader
	}
	for {
		n, err := r.tuple(r.rest[at:])
		if err != nil {
			return 0, err
		}
		if n == 0 {
			r.rest = append(r.rest[:0], r.rest[at:]...)
			return len(p), nil
		}
		at += n
	}
}

// tuple reads a row and returns its length, 0 if it is not complete or the stream ends.
func (r *copyReader) tuple(b []byte) (int, error) {
	if len(b) < 2 {
		return 0, nil
	}
	count := int16(binary.BigEndian.Uint16(b))
	if count == -1 {
		return 0, nil
	}
	if count != copyFields {
		return 0, &CopyError{Detail: fmt.Sprintf("%d columns", count)}
	}
	at := 2
	var fields [copyFields][]byte
	for i := range fields {
		if len(b) < at+4 {
			return 0, nil
		}
		length := int(int32(binary.BigEndian.Uint32(b[at:])))
		at += 4
		if length < 0 {
			continue // NULL
		}
		if len(b) < at+length {
			return 0, nil
		}
		fields[i] = b[at : at+length : at+length]
		at += length
	}
	r.row(decode(&fields))
	return at, nil
}

func decode(fields *[copyFields][]byte) (key row, err error) {
	var errs [3]error
	key.key, errs[0] = uuid.FromBytes(fields[1])
	key.family, errs[1] = uuid.FromBytes(fields[2])
	key.account, errs[2] = uuid.FromBytes(fields[3])
	if errs != [3]error{} || len(fields[0]) == 0 || (fields[6] != nil && len(fields[6]) != 8) {
		return row{}, &RowError{Detail: fmt.Sprintf("key %x of account %x and family %x has a malformed column", fields[1], fields[3], fields[2])}
	}
	key.hash, key.prefix, key.tier = fields[0], fields[4], fields[5]
	if fields[6] != nil {
		// math.MaxInt64 is "infinity".
		if micros := int64(binary.BigEndian.Uint64(fields[6])); micros < math.MaxInt64-epochMicros {
			key.expiry = max(micros+epochMicros, 1)
		}
	}
	return key, nil
}
