package stage

import (
	"context"
	"encoding/json"
	"fmt"
)

// Keys that the script names. A group of exchanges has a key of its own, so that a request that is charged twice changes
// no other group.
var namedKeys = []struct{ name, tier string }{
	{"catalog", TierSteady},
	{"attempts", TierSteady},
	{"other", TierSteady},
	{"answers", TierSteady},
	{"history", TierSteady},
	{"pipeline", TierSteady},
	{"chunks", TierSteady},
	{"proxy", TierSteady},
	{"tiny", TierTiny},
	{"tiny-body", TierTiny},
	{"burst", TierBurst},
	{"default", TierDefault},
	{"revoked", TierDefault},
}

// prefixLength is how much of a key is its prefix.
const prefixLength = len("service_") + 8

func (s *Stage) createKeys(ctx context.Context) error {
	for _, key := range namedKeys {
		args := []string{"keys", "create", "--account", "record " + key.name, "--name", key.name, "-o", "json"}
		if key.tier != TierDefault {
			args = append(args, "--tier", key.tier)
		}
		text, err := s.run(ctx, args...)
		if err != nil {
			return err
		}
		var issued struct {
			Key string `json:"key"`
		}
		if err := json.Unmarshal(text, &issued); err != nil || len(issued.Key) < prefixLength {
			return fmt.Errorf("read the key of %q: %q", key.name, text)
		}
		s.Keys[key.name] = issued.Key
	}
	_, err := s.run(ctx, "keys", "revoke", s.Keys["revoked"][:prefixLength])
	return err
}
