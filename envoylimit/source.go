package envoylimit

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/envoylimit/rules"
)

// every is how often a configuration that is followed is looked at.
const every = time.Second

// Read reads the files of a configuration: a YAML file, or those of a folder that are named *.yaml
// or *.yml and do not begin with a dot. The error is of the operating system, or a *rules.Error if
// a folder has no such file. A file that goes meanwhile is one, too.
func Read(path string) ([]rules.File, error) {
	paths, err := pathsOf(path)
	if err != nil {
		return nil, err
	}
	files := make([]rules.File, len(paths))
	for i, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files[i] = rules.File{Name: path, Content: content}
	}
	return files, nil
}

// pathsOf are the files of a configuration.
func pathsOf(root string) (paths []string, err error) {
	info, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{root}, nil
	}
	entries, err := os.ReadDir(root) // sorted by name
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path, ext := filepath.Join(root, e.Name()), filepath.Ext(e.Name())
		if ext != ".yaml" && ext != ".yml" || e.Name()[0] == '.' {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() { // it may be a link to one
			continue
		}
		paths = append(paths, path)
	}
	if len(paths) == 0 {
		return nil, &rules.Error{File: root, What: "the folder has no file *.yaml", Do: "put one there"}
	}
	return paths, nil
}

// Load reads a configuration, as Read does, and applies it. If it cannot be read or is wrong, the
// former one stays in force, and the error says why: of the operating system, or a *rules.Error. It
// is not an error if limits could not be changed on Redis yet, see Apply.
func (s *Service) Load(ctx context.Context, path string) error { return s.use(ctx, path, look(path)) }

// use applies what was found, and remembers it.
func (s *Service) use(ctx context.Context, path string, found *reading) error {
	s.seen.Store(found)
	config, err := (*rules.Config)(nil), found.err
	if err == nil {
		config, err = rules.Parse(found.files)
	}
	if err != nil {
		s.meters.loaded(ctx, loadFailed, 1)
		s.o.Logger.Error("the configuration is not used; the former one stays in force", "path", path, "err", err)
		return err
	}
	s.meters.loaded(ctx, loadOK, 1)
	within, cancel := context.WithTimeout(ctx, enforceTime)
	defer cancel()
	if err := s.Apply(within, config); err != nil {
		s.o.Logger.Warn("limits could not be changed yet; each is when it is used", "path", path, "err", err)
	}
	s.o.Logger.Info("configuration in force", "path", path, "rules", len(config.Rules()))
	return nil
}

// Follow applies the configuration whenever it changes, until ctx ends. It looks at the content of
// the files once a second, so it does not matter how they are replaced. A configuration that cannot
// be used is reported once, in log and metrics, and the former one stays in force.
func (s *Service) Follow(ctx context.Context, path string) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if found := look(path); !found.same(s.seen.Load()) {
			_ = s.use(ctx, path, found) // log and metrics have the error
		}
	}
}

// reading is what was there when a configuration was looked at.
type reading struct {
	files []rules.File
	err   error
}

func look(path string) *reading {
	files, err := Read(path)
	return &reading{files, err}
}

// same reports whether two readings found the same; nil is none.
func (r *reading) same(o *reading) bool {
	return o != nil && fmt.Sprint(r.err) == fmt.Sprint(o.err) &&
		slices.EqualFunc(r.files, o.files, func(a, b rules.File) bool {
			return a.Name == b.Name && bytes.Equal(a.Content, b.Content)
		})
}
