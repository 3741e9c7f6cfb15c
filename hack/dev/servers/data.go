package servers

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// prepareData makes the data directory for its owner and returns where it is: in /var/tmp when a directory above the
// wanted place is closed to the owner. A directory that belongs to another user is refused.
func prepareData(dir string, owner *syscall.Credential) (string, error) {
	if owner != nil && !passable(filepath.Dir(dir)) {
		if err := moveData(dir, owner); err != nil {
			return "", fmt.Errorf("move PostgreSQL's directory to %s: %w", movedTo(dir), err)
		}
		dir = movedTo(dir)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", fmt.Errorf("make PostgreSQL's directory: %w", err)
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil && owner != nil {
		err = os.Chown(dir, int(owner.Uid), int(owner.Gid))
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("make PostgreSQL's directory: %w", err)
	}
	return dir, ownedBy(dir, owner)
}

// moveData notes, next to the wanted place, that the data are in /var/tmp. Data there without that note belong to a state
// directory that was deleted, and their password with it: moveData deletes them.
func moveData(wanted string, owner *syscall.Credential) error {
	if _, err := os.Stat(noteOf(wanted)); err == nil || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	moved := movedTo(wanted)
	if err := ownedBy(moved, owner); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.RemoveAll(moved); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(wanted), 0o755); err != nil {
		return err
	}
	return os.WriteFile(noteOf(wanted), []byte(moved+"\n"), 0o644)
}

// ownedBy returns an error unless dir is a directory of the owner; nil means the user of this process.
func ownedBy(dir string, owner *syscall.Credential) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("check PostgreSQL's directory: %w", err)
	}
	want := uint32(os.Geteuid())
	if owner != nil {
		want = owner.Uid
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || !ok || stat.Uid != want {
		return fmt.Errorf("%s is not a directory of user %d; remove it, or run as the user who made it", dir, want)
	}
	return nil
}

// movedTo returns where the data of dir are if its owner cannot reach it. The digest keeps /a-b and /a/b apart.
func movedTo(dir string) string {
	digest := sha256.Sum256([]byte(dir))
	return "/var/tmp/examprep" + strings.ReplaceAll(dir, string(filepath.Separator), "-") + "-" + hex.EncodeToString(digest[:4])
}

func noteOf(dir string) string { return dir + ".moved" }

// RemovePostgres deletes the data of a PostgreSQL that does not run, also those that moved to /var/tmp. Data that do not
// exist are not an error.
func RemovePostgres(dir string) error {
	paths := []string{dir, noteOf(dir)}
	if _, err := os.Stat(noteOf(dir)); err == nil {
		paths = append(paths, movedTo(dir))
	}
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove PostgreSQL's directory: %w", err)
		}
	}
	return nil
}

// passable reports whether all users can enter every directory from dir up to the root. A directory that does not exist
// yet will be made so.
func passable(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err == nil && info.Mode()&0o001 == 0 {
			return false
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}
