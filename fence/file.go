//go:build unix

package fence

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// File runs write if no higher number than n was seen for the file at path. The
// number stands beside it in path.fence, which is locked (flock) meanwhile, and is
// on the disk before write runs. For local file systems: over NFS flock may be
// local to each host. path need not exist, its folder must.
//
// Errors: a *[StaleError] or *[NumberError], with nothing run; else those of write
// and of the file system.
func File(path string, n uint64, write func() error) (err error) {
	if err := Check(path, n); err != nil {
		return err
	}
	f, err := os.OpenFile(path+".fence", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }() // which unlocks
	if err := lock(f); err != nil {
		return err
	}
	highest, err := readNumber(f)
	switch {
	case err != nil:
		return err
	case n < highest:
		return &StaleError{Key: path, Fence: n, Highest: highest}
	case n > highest:
		// In place and of one length: renaming would leave the lock behind.
		if _, err := f.WriteAt(fmt.Appendf(nil, "%020d\n", n), 0); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return write()
}

// lock waits for the file's lock.
func lock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX) //nolint:gosec // a descriptor
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// readNumber is what stands in a number file; 0 in an empty one.
func readNumber(f *os.File) (uint64, error) {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 64))
	if err != nil || len(text) == 0 {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(string(text), "\n"), 10, 64)
	if err != nil || len(text) != 21 {
		return 0, fmt.Errorf("fence: %s: %.40q is no number, so nothing can be compared; "+
			"write there the highest number that a holder may have had, or a later one, as 20 digits", f.Name(), text)
	}
	return n, nil
}

// WriteFile is [File] with a write that replaces the file's content at once: a
// reader sees the old or the new, also after a crash.
func WriteFile(path string, n uint64, data []byte, perm os.FileMode) error {
	return File(path, n, func() (err error) {
		tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp*")
		if err != nil {
			return err
		}
		defer func() {
			if err != nil {
				_ = os.Remove(tmp.Name())
			}
		}()
		_, err = tmp.Write(data)
		if err = errors.Join(err, tmp.Chmod(perm), tmp.Sync(), tmp.Close()); err != nil {
			return err
		}
		return os.Rename(tmp.Name(), path)
	})
}
