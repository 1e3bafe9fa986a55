package envoylimit

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/envoylimit/rules"
)

// DefaultEvery is how often a Source is looked at.
const DefaultEvery = time.Second

// Source is where a configuration is, and how often it is looked at.
type Source struct {
	// Path of a YAML file, or of a folder whose files *.yaml and *.yml are read, but those whose
	// name begins with a dot.
	Path string
	// Rules are the options of the parser.
	Rules rules.Options
	// Every is how often Follow looks for changes; 0 means DefaultEvery, less than 0 never.
	Every time.Duration
}

// Read reads the files of the source. The error is of the operating system, or a *rules.Error if a
// folder has no such file. A file that goes meanwhile is one, too.
func (src Source) Read() ([]rules.File, error) {
	paths, err := src.paths()
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

// paths are the files of the source.
func (src Source) paths() (paths []string, err error) {
	info, err := os.Stat(src.Path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{src.Path}, nil
	}
	entries, err := os.ReadDir(src.Path) // sorted by name
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path, ext := filepath.Join(src.Path, e.Name()), filepath.Ext(e.Name())
		if ext != ".yaml" && ext != ".yml" || e.Name()[0] == '.' {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() { // it may be a link to one
			continue
		}
		paths = append(paths, path)
	}
	if len(paths) == 0 {
		return nil, &rules.Error{File: src.Path, What: "the folder has no file *.yaml", Do: "put one there"}
	}
	return paths, nil
}

// Load reads a configuration and applies it. If it cannot be read or is wrong, the former one stays
// in force, and the error says why: of the operating system, or a *rules.Error. It is not an error
// if limits could not be changed on Redis yet, see Apply.
func (s *Service) Load(ctx context.Context, src Source) error { return s.use(ctx, src, look(src)) }

// use applies what was found, and remembers it.
func (s *Service) use(ctx context.Context, src Source, found *reading) error {
	s.seen.Store(found)
	config, err := (*rules.Config)(nil), found.err
	if err == nil {
		config, err = rules.Parse(found.files, src.Rules)
	}
	if err != nil {
		s.meters.loaded(ctx, loadFailed, 1)
		s.o.Logger.Error("the configuration is not used; the former one stays in force", "path", src.Path, "err", err)
		return err
	}
	s.meters.loaded(ctx, loadOK, 1)
	within, cancel := context.WithTimeout(ctx, enforceTime)
	defer cancel()
	if err := s.Apply(within, config); err != nil {
		s.o.Logger.Warn("limits could not be changed yet; each is when it is used", "path", src.Path, "err", err)
	}
	s.o.Logger.Info("configuration in force", "path", src.Path, "domains", config.Domains(),
		"rules", len(config.Rules()))
	return nil
}

// Follow applies the configuration whenever it changes, until ctx ends. It looks at the content of
// the files, so it does not matter how they are replaced. A configuration that cannot be used is
// reported once, in log and metrics, and the former one stays in force.
func (s *Service) Follow(ctx context.Context, src Source) {
	if src.Every < 0 {
		return
	}
	ticker := time.NewTicker(cmp.Or(src.Every, DefaultEvery))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if found := look(src); !found.same(s.seen.Load()) {
			_ = s.use(ctx, src, found) // log and metrics have the error
		}
	}
}

// reading is what was there when a source was looked at.
type reading struct {
	files []rules.File
	err   error
}

func look(src Source) *reading {
	files, err := src.Read()
	return &reading{files, err}
}

// same reports whether two readings found the same; nil is none.
func (r *reading) same(o *reading) bool {
	return o != nil && fmt.Sprint(r.err) == fmt.Sprint(o.err) &&
		slices.EqualFunc(r.files, o.files, func(a, b rules.File) bool {
			return a.Name == b.Name && bytes.Equal(a.Content, b.Content)
		})
}
