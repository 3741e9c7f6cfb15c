package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/exec"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	examKey = "bench-exam"
	paperID = examKey + "-0000"
	account = "bench"
	// tier is one that the load never reaches; fewTier allows fewRequests a minute.
	tier        = "bench"
	fewTier     = "bench-few"
	fewRequests = 5
	// slowTier gives a token back in ten minutes, so its buckets stay in Redis: full ones are deleted.
	slowTier = "bench-slow"
	// keyCount is how many keys take turns.
	keyCount = 1000
	// keyChunk is how many keys one statement writes.
	keyChunk = 10_000
)

// copyKeys writes keys; its comment says how.
//
//go:embed keys.sql
var copyKeys string

// The form of an API key: keyScheme, 40 hexadecimal digits, and the CRC-32 of all that as 8 more. Its prefix is public.
const (
	keyScheme    = "service_"
	keyLength    = 56
	prefixLength = 16
)

// forgeKey returns the text of a key. Its prefix has the number, so keys of different numbers have different prefixes.
func forgeKey(number uint32, random [2]uint64) string {
	body := fmt.Sprintf("%s%08x%016x%016x", keyScheme, number, random[0], random[1])
	return fmt.Sprintf("%s%08x", body, crc32.ChecksumIEEE([]byte(body)))
}

// wellFormed reports whether a text has the form of a key.
func wellFormed(key string) bool {
	if len(key) != keyLength || key[:len(keyScheme)] != keyScheme {
		return false
	}
	if _, err := hex.DecodeString(key[len(keyScheme):]); err != nil {
		return false
	}
	at := keyLength - 8
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(key[:at]))) == key[at:]
}

// program is examprep and the database that it works on.
type program struct {
	stack       *stack
	databaseURL string
}

func (s *stack) program(databaseURL string) program { return program{s, databaseURL} }

// run runs one of its commands and returns what that printed.
func (p program) run(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.stack.binary, args...)
	cmd.Env = append(append(os.Environ(), p.stack.environment()...), "DATABASE_URL="+p.databaseURL)
	out, err := cmd.Output()
	if failed, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Output returns it unwrapped
		return nil, fmt.Errorf("examprep %s: %w\n%s", args[0], err, failed.Stderr)
	}
	return out, err
}

// migrate brings the database up to date.
func (p program) migrate(ctx context.Context) error {
	_, err := p.run(ctx, "migrate")
	return err
}

// createKey creates a key of the bench's account.
func (p program) createKey(ctx context.Context, tier string) (string, error) {
	out, err := p.run(ctx, "keys", "create", "--account", account, "--tier", tier, "-o", "json")
	if err != nil {
		return "", err
	}
	var issued struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(out, &issued); err != nil || !wellFormed(issued.Key) {
		return "", fmt.Errorf("keys create printed %q: %w", out, err)
	}
	return issued.Key, nil
}

// publishExam publishes the exam that most parts ask for.
func (p program) publishExam(ctx context.Context) error {
	text, err := encodeContent(withRules(examContent(examKey, 0, 1, questionsPerPaper)))
	if err != nil {
		return err
	}
	if err := p.stack.dir.WriteFile("exam.yaml", text, 0o644); err != nil { // JSON is YAML
		return err
	}
	_, err = p.run(ctx, "content", "publish", p.stack.dir.Path("exam.yaml"))
	return err
}

// seed writes the tiers, the exam and so many keys.
func (p program) seed(ctx context.Context, pool *pgxpool.Pool, count int) (keySet, error) {
	if err := applyTiers(ctx, pool); err != nil {
		return keySet{}, err
	}
	if err := p.publishExam(ctx); err != nil {
		return keySet{}, err
	}
	first, err := p.createKey(ctx, tier)
	if err != nil {
		return keySet{}, err
	}
	set, err := insertKeys(ctx, pool, first, count-1)
	set.text = append([]byte(first), set.text...)
	return set, err
}

// applyTiers writes the tiers. Only the operator writes tiers, so there is no command for it.
func applyTiers(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, `INSERT INTO rate_tiers (name, requests, period_seconds, burst)
		VALUES ($1, 1000000, 1, 1000000), ($2, $3, 60, $3), ($4, 1, 600, 1000000)`, tier, fewTier, fewRequests, slowTier)
	if err != nil {
		return fmt.Errorf("write tiers: %w", err)
	}
	return nil
}

// ensureAccount returns the id of an account, which it makes if there is none of that name.
func ensureAccount(ctx context.Context, pool *pgxpool.Pool, name string) (id uuid.UUID, err error) {
	err = pool.QueryRow(ctx, `INSERT INTO accounts (id, name) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id`, uuid.Must(uuid.NewV7()), name).Scan(&id)
	if err != nil {
		return id, fmt.Errorf("make an account: %w", err)
	}
	return id, nil
}

// insertKeys copies the row of a key that keys create made, with other ids and other texts: creating each key by a command
// would take hours.
func insertKeys(ctx context.Context, pool *pgxpool.Pool, like string, count int) (keySet, error) {
	rows, err := pool.Query(ctx, "SELECT prefix FROM api_keys")
	if err != nil {
		return keySet{}, fmt.Errorf("read keys: %w", err)
	}
	used, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return keySet{}, fmt.Errorf("read keys: %w", err)
	}
	taken := make(map[string]bool, len(used))
	for _, prefix := range used {
		taken[prefix] = true
	}
	set := keySet{text: make([]byte, 0, count*keyLength)}
	chance := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	for number := chance.Uint32(); set.count() < count; {
		var ids []uuid.UUID
		var prefixes, hashes []string
		for len(ids) < min(keyChunk, count-set.count()+len(ids)) {
			number += 0x9E3779B1 // odd: no number comes twice, and neighbours are far apart
			text := forgeKey(number, [2]uint64{chance.Uint64(), chance.Uint64()})
			if taken[text[:prefixLength]] {
				continue
			}
			hash := sha256.Sum256([]byte(text))
			set.text = append(set.text, text...)
			ids, prefixes = append(ids, uuid.Must(uuid.NewV7())), append(prefixes, text[:prefixLength])
			hashes = append(hashes, `\x`+hex.EncodeToString(hash[:]))
		}
		if _, err := pool.Exec(ctx, copyKeys, like[:prefixLength], ids, prefixes, hashes); err != nil {
			return keySet{}, fmt.Errorf("copy keys: %w", err)
		}
	}
	for _, statement := range []string{"VACUUM (ANALYZE) api_keys", "CHECKPOINT"} { // now, not while something is measured
		if _, err := pool.Exec(ctx, statement); err != nil {
			return keySet{}, fmt.Errorf("tidy up after copying keys: %w", err)
		}
	}
	return set, nil
}
