package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxRestName bounds the part of a limit's name in the name of a rest file.
const maxRestName = 64

// restName is the default name of the file for lines that were read but not released.
func restName(limit string, pid int) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, limit)
	if len(safe) > maxRestName {
		safe = safe[:maxRestName]
	}
	return fmt.Sprintf("shardlimit-pace-%s-%d.rest", safe, pid)
}

// checkRest makes sure, before anything is read, that the file can probably be
// made at the end, and that it would not replace another.
func checkRest(path string) error {
	if path == "" {
		return errors.New("the name of the file is empty")
	}
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s exists already; it may hold lines of an earlier run: use or remove it, or choose "+
			"another name", path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	if !dir.IsDir() {
		return fmt.Errorf("%s is not a directory", filepath.Dir(path))
	}
	return nil
}

// saveRest writes a new file and makes sure it is on the disk. If that is not
// possible at path, it tries a new name next to it, then the directory for
// temporary files. It returns where the bytes are; the error is nil if they
// are anywhere.
func saveRest(path string, rest []byte) (string, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		if err = fill(f, rest); err == nil {
			return path, nil
		}
	}
	errs := []error{err}
	for _, dir := range []string{filepath.Dir(path), os.TempDir()} {
		f, err := os.CreateTemp(dir, filepath.Base(path)+".*")
		if err == nil {
			if err = fill(f, rest); err == nil {
				return f.Name(), nil
			}
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// fill writes everything to f and closes it; if it cannot, the file is removed.
func fill(f *os.File, rest []byte) error {
	_, err := f.Write(rest)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
