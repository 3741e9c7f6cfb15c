package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/gofiber/fiber/v3"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

const (
	// connections is the size of the pool to Redis: as many as there are clients.
	connections = 64
	recordName  = "bench:fiber:"
	keyLength   = 56
	checkDigits = 8
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fiber:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("it wants an address and a file")
	}
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		return fmt.Errorf("REDIS_URL: %w", err)
	}
	options.PoolSize = connections
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	g := &gateway{client: client, limiter: redis_rate.NewLimiter(client)}
	if err := g.read(args[1]); err != nil {
		return err
	}
	uuid.EnableRandPool()                                    // a favour to this side: the API has no pool
	app := fiber.New(fiber.Config{WriteBufferSize: 8 << 10}) // as the API: head and body leave in one
	app.Get("/*", g.serve)
	return app.Listen(args[0], fiber.ListenConfig{DisableStartupMessage: true, GracefulContext: ctx})
}

// gateway is the handler and what it holds.
type gateway struct {
	client  *redis.Client
	limiter *redis_rate.Limiter
	headers [][2]string
	body    []byte
}

// read takes the document from its file. What each answer has anew is left out.
func (g *gateway) read(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, body, found := bytes.Cut(text, []byte("\n\n"))
	if !found {
		return fmt.Errorf("%s: no empty line ends the head", file)
	}
	for line := range strings.SplitSeq(string(head), "\n") {
		name, value, _ := strings.Cut(line, ": ")
		switch strings.ToLower(name) {
		case "content-length", "date", "x-request-id", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "ratelimit-policy":
		default:
			g.headers = append(g.headers, [2]string{name, value})
		}
	}
	g.body = body
	return nil
}

func (g *gateway) serve(c fiber.Ctx) error {
	c.Set("x-request-id", uuid.NewString())
	name, ok := nameOf(c.Get(fiber.HeaderAuthorization))
	if !ok {
		return refuse(c, fiber.StatusUnauthorized, "unauthorized")
	}
	limit, err := g.limitOf(c, name)
	if errors.Is(err, redis.Nil) {
		return refuse(c, fiber.StatusUnauthorized, "unauthorized")
	}
	if err != nil {
		return err
	}
	result, err := g.limiter.Allow(c, name, limit)
	if err != nil {
		return err
	}
	allowance := strconv.Itoa(limit.Rate)
	c.Set("RateLimit-Limit", allowance)
	c.Set("RateLimit-Remaining", strconv.Itoa(result.Remaining))
	c.Set("RateLimit-Reset", wholeSeconds(result.ResetAfter))
	c.Set("RateLimit-Policy", allowance+";w="+wholeSeconds(limit.Period))
	if result.Allowed == 0 {
		c.Set(fiber.HeaderRetryAfter, wholeSeconds(max(result.RetryAfter, time.Second)))
		return refuse(c, fiber.StatusTooManyRequests, "rate_limited")
	}
	for _, header := range g.headers {
		c.Set(header[0], header[1])
	}
	return c.Send(g.body)
}

// nameOf returns the name of a key's record, if the key has the right form.
func nameOf(authorization string) (string, bool) {
	key, found := strings.CutPrefix(authorization, "Bearer ")
	if !found || len(key) != keyLength || !strings.HasPrefix(key, "service_") {
		return "", false
	}
	var check [checkDigits / 2]byte
	if _, err := hex.Decode(check[:], []byte(key[keyLength-checkDigits:])); err != nil {
		return "", false
	}
	if crc32.ChecksumIEEE([]byte(key[:keyLength-checkDigits])) != binary.BigEndian.Uint32(check[:]) {
		return "", false
	}
	hash := sha256.Sum256([]byte(key))
	return recordName + hex.EncodeToString(hash[:]), true
}

// limitOf looks the key up.
func (g *gateway) limitOf(ctx context.Context, name string) (redis_rate.Limit, error) {
	record, err := g.client.Get(ctx, name).Result()
	if err != nil {
		return redis_rate.Limit{}, err
	}
	requests, seconds, _ := strings.Cut(record, "/")
	limit := redis_rate.Limit{}
	if limit.Rate, err = strconv.Atoi(requests); err != nil {
		return limit, err
	}
	period, err := strconv.Atoi(seconds)
	if err != nil {
		return limit, err
	}
	limit.Burst, limit.Period = limit.Rate, time.Duration(period)*time.Second
	return limit, nil
}

func refuse(c fiber.Ctx, status int, code string) error {
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Status(status).SendString(`{"error":{"code":"` + code + `"}}`)
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }
