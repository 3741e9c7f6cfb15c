package seals

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
)

// File is a file of trusted verifiers that is read again when it changed: a mounted ConfigMap or Secret is replaced
// while the operator runs, and a key that was taken out must not count until the next restart. It is looked at whenever
// a signature is to be verified, so nothing runs beside its callers. A change that cannot be used is logged once and
// leaves the last good keys in force; a file that cannot be read is tried again every time, for the reason may go without
// a trace on the file (too many open files, permissions). It is safe for concurrent use.
type File struct {
	path   string
	logger *slog.Logger

	mu  sync.Mutex
	set *Set
	// seen is the file as it was read last, usable or not; nil when it could not be read, which was told then.
	seen os.FileInfo
}

// Open reads the file at path. It fails with a *FileError, or with the file system's.
func Open(path string, logger *slog.Logger) (*File, error) {
	f := &File{path: path, logger: logger}
	info, set, err := f.read()
	if err != nil {
		return nil, err
	}
	f.seen, f.set = info, set
	return f, nil
}

// Verify is Set.Verify by the file as it is now.
func (f *File) Verify(statement Statement, signature string) error {
	return f.current().Verify(statement, signature)
}

// Identity is Set.Identity of the file as it is now.
func (f *File) Identity() string { return f.current().Identity() }

// current returns the keys in force.
func (f *File) current() *Set {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err == nil && f.seen != nil && same(f.seen, info) {
		return f.set
	}
	told := f.seen == nil
	read, set, err := f.read()
	f.seen = read
	if err != nil {
		if read != nil || !told {
			f.logger.Error("the trusted verifiers cannot be read; those that were read last stay in force", "error", err)
		}
		return f.set
	}
	f.logger.Info("the trusted verifiers were read again", "path", f.path, "keys", set.Len())
	f.set = set
	return set
}

func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// read returns what the file is beside what it says; nil when it cannot be read.
func (f *File) read() (os.FileInfo, *Set, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, nil, fmt.Errorf("trusted verifiers: %w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("trusted verifiers: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	if err != nil {
		return nil, nil, errors.Join(&FileError{Path: f.path, Detail: "cannot be read"}, err)
	}
	set, err := Parse(f.path, text)
	return info, set, err
}
