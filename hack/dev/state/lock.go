package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	lockFile = "supervisor.pid"
	stopTime = 2 * time.Minute
	lockPoll = 50 * time.Millisecond
)

// HeldError says which process holds the directory.
type HeldError struct{ PID int }

// Error names the process.
func (e *HeldError) Error() string { return fmt.Sprintf("process %d holds it", e.PID) }

// Hold takes the directory for this process. The kernel releases it when the process ends, however it ends, so a process
// id in a file without a lock has no meaning.
func (d Dir) Hold() (release func(), err error) {
	if err := d.Make(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(d.Path(lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("hold %s: %w", d, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &HeldError{PID: readPID(file.Name())}
		}
		return nil, fmt.Errorf("hold %s: %w", d, err)
	}
	err = file.Truncate(0)
	if err == nil {
		_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("hold %s: %w", d, err)
	}
	return func() { _ = file.Close() }, nil
}

// Holder returns the id of the process that holds the directory, 0 if none does.
func (d Dir) Holder() (int, error) {
	file, err := os.Open(d.Path(lockFile))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look who holds %s: %w", d, err)
	}
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) // let go of again at Close
	switch {
	case err == nil:
		return 0, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return readPID(file.Name()), nil
	default:
		return 0, fmt.Errorf("look who holds %s: %w", d, err)
	}
}

// StopHolder asks the process that holds the directory to stop, and returns when it has let go. It reports whether there
// was one. The lock says which process that is: a process id in a file can have been given to another process.
func (d Dir) StopHolder(ctx context.Context) (bool, error) {
	pid, err := d.Holder()
	if err != nil || pid == 0 {
		return false, err
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return false, fmt.Errorf("ask process %d to stop: %w", pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for {
		if holder, err := d.Holder(); err != nil || holder != pid {
			return true, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return true, fmt.Errorf("process %d is still stopping: %w", pid, context.Cause(ctx))
		}
	}
}

// Lock takes an exclusive lock, which the kernel releases when the process ends. While another process has it, Lock calls
// waiting once and waits.
func (d Dir) Lock(ctx context.Context, name string, waiting func()) (unlock func(), err error) {
	if err := d.Make(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(d.Path(name), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open a lock: %w", err)
	}
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for first := true; ; first = false {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = file.Close()
			return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		if first {
			waiting()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("wait for the lock of %s: %w", file.Name(), context.Cause(ctx))
		}
	}
}

// readPID reads the process id in a file, 0 if there is none.
func readPID(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}
