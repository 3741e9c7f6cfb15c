package redisurl

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Parse reads REDIS_URL:
//
//	redis://[user:password@]host:port[/db]             one node; rediss:// for TLS
//	sentinel://[user:password@]host:port[,host:port…]/master[?db=N]
//	cluster://[user:password@]host:port[,host:port…]
//
// sentinel:// and cluster:// take `?tls=true`, sentinel:// also sentinel_username and sentinel_password.
func Parse(raw string) (*redis.UniversalOptions, error) {
	u, err := url.Parse(raw)
	if err != nil { // err can contain a part of the password, for example if that has a slash
		return nil, errors.New("REDIS_URL: not a URL: escape special characters of the password, such as / as %2F")
	}
	switch u.Scheme {
	case "redis", "rediss":
		return parseNode(raw)
	case "sentinel", "cluster":
	default:
		return nil, errors.New("REDIS_URL: the scheme must be redis, rediss, sentinel or cluster")
	}
	query := u.Query()
	options := &redis.UniversalOptions{Addrs: strings.Split(u.Host, ","), Username: u.User.Username()}
	options.Password, _ = u.User.Password()
	if query.Get("tls") == "true" {
		options.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if u.Scheme == "cluster" {
		options.IsClusterMode = true
		return options, nil
	}
	options.MasterName = strings.Trim(u.Path, "/")
	if options.MasterName == "" {
		return nil, errors.New("REDIS_URL: sentinel:// needs the master's name as its path")
	}
	options.SentinelUsername, options.SentinelPassword = query.Get("sentinel_username"), query.Get("sentinel_password")
	if db := query.Get("db"); db != "" {
		if options.DB, err = strconv.Atoi(db); err != nil {
			return nil, fmt.Errorf("REDIS_URL: db %q is not a number", db)
		}
	}
	return options, nil
}

func parseNode(raw string) (*redis.UniversalOptions, error) {
	node, err := redis.ParseURL(raw)
	if err != nil {
		return nil, errors.New("REDIS_URL: not of the form redis://[user:password@]host:port[/db]")
	}
	return &redis.UniversalOptions{
		Addrs: []string{node.Addr}, DB: node.DB, Username: node.Username, Password: node.Password,
		TLSConfig: node.TLSConfig, DialTimeout: node.DialTimeout, ReadTimeout: node.ReadTimeout,
		WriteTimeout: node.WriteTimeout, PoolSize: node.PoolSize,
	}, nil
}

// Open returns a client for url. adjust changes the options; it can be nil. Open does not wait for the server: while Redis
// is down, a process starts in degraded mode.
func Open(url string, adjust func(*redis.UniversalOptions)) (redis.UniversalClient, error) {
	options, err := Parse(url)
	if err != nil {
		return nil, err
	}
	// Hand-over notifications are one vendor's service; waiting for them has a data race in go-redis 9.23.
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if adjust != nil {
		adjust(options)
	}
	return redis.NewUniversalClient(options), nil
}
