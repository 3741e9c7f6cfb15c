package state

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Dir is a directory for state.
type Dir string

// Path names a file in the directory.
func (d Dir) Path(elements ...string) string {
	return filepath.Join(append([]string{string(d)}, elements...)...)
}

// Make creates the directory. Others may pass through it, because a database server runs as another user when the
// developer is root; what is in it protects itself.
func (d Dir) Make() error {
	if err := os.MkdirAll(string(d), 0o755); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	return nil
}

// WriteFile replaces a file whole; readers see the old or the new content.
func (d Dir) WriteFile(name string, content []byte, mode os.FileMode) error {
	path := d.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".partial-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(file.Name()) // fails once it has been renamed
	_, err = file.Write(content)
	if err = errors.Join(err, file.Chmod(mode), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Secret returns the content of secrets/NAME. If there is none, it stores and returns the result of generate.
func (d Dir) Secret(name string, generate func() string) (string, error) {
	text, err := os.ReadFile(d.Path("secrets", name))
	if err == nil && len(text) > 0 {
		return strings.TrimSpace(string(text)), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read a secret: %w", err)
	}
	secret := generate()
	return secret, d.WriteFile(filepath.Join("secrets", name), []byte(secret+"\n"), 0o600)
}

// RandomHex is n random bytes in hexadecimal: a password that needs no escaping anywhere.
func RandomHex(n int) string { return hex.EncodeToString(random(n)) }

// RandomBase64 is n random bytes in base64.
func RandomBase64(n int) string { return base64.StdEncoding.EncodeToString(random(n)) }

func random(n int) []byte {
	secret := make([]byte, n)
	_, _ = rand.Read(secret) // never fails
	return secret
}
