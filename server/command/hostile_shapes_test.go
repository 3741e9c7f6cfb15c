package command

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
)

// hostileShape is a hostile client's behaviour on one connection. Its text has all that chance chose.
type hostileShape struct {
	address   int    // of the client: 127.0.0.N
	operation string // the last part of the path
	key       string // valid, wrong or none
	body      string // a name of hostileBodies
	size      int    // of the body, in bytes
	framing   string // length, chunked or expect
	conduct   string // what the client does
	pipelined int    // how many requests it sends at once
}

func (s hostileShape) String() string {
	return fmt.Sprintf("%s: %d × POST %s of %d bytes of %s by %s, key %s, from 127.0.0.%d",
		s.conduct, s.pipelined, s.operation, s.size, s.body, s.framing, s.key, s.address)
}

// The conducts of hostile clients.
const (
	reads      = "reads"                   // sends all and reads the answers
	ignores    = "does not read"           // sends all, has a small receive buffer, and stays
	stalls     = "lacks the last byte"     // and stays
	halfOpen   = "closes its sending half" // in the middle of the request, and stays
	resets     = "resets"                  // in the middle of the request
	silent     = "sends nothing"           // and stays
	oneByte    = "sends one byte"          // and stays
	halfHeader = "sends half a header"     // and stays
)

// pick returns one of several values. A value that is named twice comes twice as often.
func pick[V any](chance *rand.Rand, values ...V) V { return values[chance.IntN(len(values))] }

// hostileBodies make a body of about a size. attempt is the id of an attempt of the client.
var hostileBodies = map[string]func(size int, attempt string) []byte{
	"names": func(size int, _ string) []byte {
		return manyMembers(size, `{"paper_id":"`+hostilePaper+`"`, `,"%s":0`, "}")
	},
	"a long name": func(size int, _ string) []byte {
		return []byte(`{"` + strings.Repeat("\x7f", size) + `":1}`)
	},
	"a long name twice": func(size int, _ string) []byte {
		name := strings.Repeat("\u200b", size/6)
		return []byte(`{"` + name + `":1,"` + name + `":1}`)
	},
	"depth": func(size int, _ string) []byte {
		return []byte(`{"answers":` + strings.Repeat("[", size/2) + strings.Repeat("]", size/2) + "}")
	},
	"depth of objects": func(size int, attempt string) []byte {
		const level = `{"a":`
		return []byte(`{"attempt_id":"` + attempt + `","answers":` + strings.Repeat(level, 30) + "0" + strings.Repeat("}", 30) + `,"b":[` +
			strings.Repeat(`[{"":[]}],`, size/10) + "0]}")
	},
	"width": func(size int, attempt string) []byte {
		return []byte(`{"attempt_id":"` + attempt + `","answers":[` + strings.Repeat("0,", size/2) + "0]}")
	},
	"escapes": func(size int, _ string) []byte {
		return []byte(`{"paper_id":"` + hostilePaper + `","learner_id":"` + strings.Repeat(`\u0001`, size/6) + `"}`)
	},
	"answers": func(size int, attempt string) []byte {
		return manyMembers(size, `{"attempt_id":"`+attempt+`","answers":{"1:1":"A"`, `,"%s":"B"`, "}}")
	},
	"an answer's long key": func(size int, attempt string) []byte {
		return []byte(`{"attempt_id":"` + attempt + `","answers":{"` + strings.Repeat("\x7f", size) + `":1}}`)
	},
	"a long answer": func(size int, attempt string) []byte {
		return []byte(`{"attempt_id":"` + attempt + `","answers":{"1:1":"` + strings.Repeat("\u00ad", size/2) + `"}}`)
	},
	"digits": func(size int, _ string) []byte {
		return []byte(`{"paper_id":"` + hostilePaper + `","question_limit":1e` + strings.Repeat("9", size) + `}`)
	},
	"blanks": func(size int, _ string) []byte {
		return append(bytes.Repeat([]byte{' '}, size), `{"paper_id":"`+hostilePaper+`"}`...)
	},
	"noise": func(size int, _ string) []byte { return bytes.Repeat([]byte("\xff\x00{[\""), size/5) },
	"what is valid": func(_ int, attempt string) []byte {
		return []byte(`{"paper_id":"` + hostilePaper + `","question_limit":20,"attempt_id":"` + attempt + `","answers":{"1:1":"A","1:2":"B"}}`)
	},
}

// hostileBodyNames are the names of hostileBodies in an order, so that a seed chooses the same ones each time.
var hostileBodyNames = []string{
	"names", "names", "a long name", "a long name twice", "depth", "depth of objects", "width", "escapes", "answers", "answers",
	"an answer's long key", "a long answer", "digits", "blanks", "noise", "what is valid", "what is valid", "what is valid",
}

// hostileBodyCache has the bodies of the last waves. To make one takes as long as the pod takes to read it, and healthy clients
// share the processors of the hostile ones.
type hostileBodyCache struct {
	mu   sync.Mutex
	made map[hostileBody][]byte
}

// hostileBody is what a body of one attempt depends on.
type hostileBody struct {
	name string
	size int
}

// of returns the body of a shape. It makes each body once while at most 32 are kept.
func (c *hostileBodyCache) of(shape hostileShape, attempt string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := hostileBody{name: shape.body, size: shape.size}
	body, isMade := c.made[wanted]
	if !isMade {
		if len(c.made) == 32 || c.made == nil {
			c.made = make(map[hostileBody][]byte)
		}
		body = hostileBodies[shape.body](shape.size, attempt)
		c.made[wanted] = body
	}
	return body
}

// manyMembers returns as many members as fit, each of a short name of its own.
func manyMembers(size int, head, member, tail string) []byte {
	body := []byte(head)
	for i := 0; len(body) < size; i++ {
		body = fmt.Appendf(body, member, strconv.FormatInt(int64(i), 36))
	}
	return append(body, tail...)
}

// chooseShape chooses a shape. Its size has any magnitude, or is close to a limit.
func chooseShape(chance *rand.Rand) hostileShape {
	s := hostileShape{
		address:   1 + chance.IntN(4),
		operation: pick(chance, "open", "questions", "submit", "submit"),
		key:       pick(chance, "valid", "valid", "valid", "wrong", "none"),
		body:      pick(chance, hostileBodyNames...),
		framing:   pick(chance, "length", "length", "chunked", "expect"),
		conduct:   pick(chance, reads, reads, reads, ignores, stalls, stalls, halfOpen, resets, silent, oneByte, halfHeader),
		pipelined: 1,
	}
	limit := 16 << 10
	if s.operation == "submit" {
		limit = 1 << 20
	}
	switch chance.IntN(3) {
	case 0:
		s.size = 1 << chance.IntN(21)
	case 1:
		s.size = chance.IntN(limit)
	default:
		s.size = limit + pick(chance, -64, -1, 0, 1) - pick(chance, 0, 64, 128)
	}
	if chance.IntN(4) == 0 {
		s.pipelined += chance.IntN(30)
		s.size = min(s.size, 4<<10) // many small ones
	}
	return s
}

// of returns what the wave does, with the client's own address and key.
func (s hostileShape) of(wave hostileShape) hostileShape {
	wave.address, wave.key = s.address, s.key
	return wave
}

// waveShape chooses what most attackers do in a wave. Half of all waves send bodies of 1 MiB.
func waveShape(seed uint64, wave int64) hostileShape {
	chance := rand.New(rand.NewPCG(seed, 1<<32+uint64(wave)))
	s := chooseShape(chance)
	if chance.IntN(2) == 0 {
		s.operation, s.pipelined, s.size = "submit", 1, 1<<20-256
	}
	return s
}

// write writes the requests of a shape, up to the point where its conduct ends them.
func (s hostileShape) write(to io.Writer, bodies *hostileBodyCache, key, attempt string) error {
	if s.conduct == silent {
		return nil
	}
	if s.conduct == oneByte {
		_, err := io.WriteString(to, "P")
		return err
	}
	head := "POST /v1/exam-prep/" + hostileExam + "/mock-exams/" + s.operation + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	switch s.key {
	case "valid":
		head += "Authorization: Bearer " + key + "\r\n"
	case "wrong":
		unknown := fmt.Sprintf("service_%040x", s.size)
		head += fmt.Sprintf("Authorization: Bearer %s%08x\r\n", unknown, crc32.ChecksumIEEE([]byte(unknown)))
	}
	if s.conduct == halfHeader {
		_, err := io.WriteString(to, head)
		return err
	}
	body := bodies.of(s, attempt)
	var request []byte
	switch s.framing {
	case "chunked":
		request = []byte(head + "Transfer-Encoding: chunked\r\n\r\n")
		for piece := range chunksOf(body) {
			request = fmt.Appendf(request, "%x\r\n%s\r\n", len(piece), piece)
		}
		request = append(request, "0\r\n\r\n"...)
	case "expect":
		head += "Expect: 100-continue\r\n"
		fallthrough
	default:
		request = append(fmt.Appendf(nil, "%sContent-Length: %d\r\n\r\n", head, len(body)), body...)
	}
	all := bytes.Repeat(request, s.pipelined)
	switch s.conduct {
	case stalls:
		all = all[:len(all)-1]
	case halfOpen, resets:
		all = all[:len(all)-len(request)/2]
	}
	_, err := to.Write(all)
	return err
}

// chunksOf divides a body into 40 chunks of one byte and one of the rest.
func chunksOf(body []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		single := min(len(body), 40)
		for i := range single {
			if !yield(body[i : i+1]) {
				return
			}
		}
		if len(body) > single {
			yield(body[single:])
		}
	}
}
